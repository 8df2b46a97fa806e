//! After the load: requests and answers byte by byte, where the plan wants them. One pass over the journal on one thread: a run that keeps every
//! byte is not one of millions of requests.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::artifact::{ArtifactDirectory, ArtifactError, RawLines};
use crate::clock::WallAnchor;
use crate::credit::RequestIds;
use crate::http::{Extractor, ResponseReader, ScratchPool, format_uuid};
use crate::journal::{JournalError, Reader};
use crate::plan::{PhaseKind, Plan};
use crate::reactor::protocol_of;
use crate::record::{ErrorDetail, RequestRecord, Transcript};

/// Writes the raw records and the outputs.
///
/// # Errors
/// What could not be read or written. No figure depends on it.
pub(super) fn export(
    plan: &Plan,
    directory: &ArtifactDirectory,
    anchor: WallAnchor,
    journal: Result<Reader, JournalError>,
    texts: &[Vec<ErrorDetail>],
) -> Result<Vec<PathBuf>, String> {
    if !plan.artifacts.raw {
        return Ok(Vec::new());
    }
    let told = |error: ArtifactError| error.to_string();
    let failed = |error: io::Error| format!("raw records: {error}");
    let mut raw = directory.create_raw().map_err(told)?;
    let mut outputs = directory.create_outputs().map_err(told)?;
    let lines = RawLines::new(plan, anchor);
    let ids = RequestIds::new(&plan.benchmark_id);
    let mut answers = Answers::new(plan);
    // Outputs of warmups stand behind the others.
    let (mut line, mut warmup) = (Vec::new(), Vec::new());
    outputs
        .write_all(br#"{"schema_version":"1.1","data":["#)
        .map_err(failed)?;
    let mut comma: &[u8] = b"";
    for record in journal.map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        let errors = texts.get(record.core.index()).map_or(&[][..], Vec::as_slice);
        let text = |(high, low)| format_uuid(high, low);
        let request = text(ids.request(record.phase, record.sequence));
        let session = text(ids.session(record.phase, record.session));
        line.clear();
        lines.append(&record, errors, (&request, &session), &mut line);
        raw.write_all(&line).map_err(failed)?;
        line.clear();
        lines.append_output(&record, (&request, &session), answers.text(&record), &mut line);
        if plan.phases[record.phase.index()].kind == PhaseKind::Warmup {
            warmup.extend_from_slice(if warmup.is_empty() { b"" } else { b"," });
            warmup.append(&mut line);
        } else {
            outputs
                .write_all(comma)
                .and_then(|()| outputs.write_all(&line))
                .map_err(failed)?;
            comma = b",";
        }
    }
    let mut end = br#"],"warmup":["#.to_vec();
    end.append(&mut warmup);
    end.extend_from_slice(b"]}\n");
    outputs.write_all(&end).and_then(|()| outputs.flush()).map_err(failed)?;
    raw.flush().map_err(failed)?;
    Ok(vec![raw.commit().map_err(told)?, outputs.commit().map_err(told)?])
}

/// Reads the text of answers again, by the reader of the load.
struct Answers {
    reader: ResponseReader,
    pool: ScratchPool,
}

impl Answers {
    fn new(plan: &Plan) -> Self {
        let extractor = plan.endpoint.response_field.as_deref().map(Extractor::new);
        // A plan that comes from a journal may say anything; then the answer is looked for.
        let extractor = extractor.and_then(Result::ok).unwrap_or_default();
        Self {
            reader: ResponseReader::new(protocol_of(plan.endpoint.kind)),
            pool: ScratchPool::new(2, 4096).with_extractor(extractor),
        }
    }

    /// Raw JSON without the quotes; empty if there is none.
    fn text(&mut self, record: &RequestRecord) -> &[u8] {
        self.reader.begin_keeping_text(&mut self.pool);
        let Some(Transcript { is_stream, body, .. }) = record.transcript.as_deref() else {
            return &[];
        };
        let kind = if *is_stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n");
        let whole = self.reader.feed(head.as_bytes(), &mut self.pool);
        let whole = whole.and_then(|_| self.reader.feed(body, &mut self.pool));
        let whole = whole.and_then(|_| self.reader.end_of_input(&mut self.pool));
        match whole {
            Ok(_) => self.reader.text(),
            // A body that broke off has no text worth showing; its bytes are in the raw record.
            Err(_) => &[],
        }
    }
}
