//! After the load: requests and answers byte by byte, and the texts of answers, where the plan wants them. One pass over the journal on one thread: a
//! run that keeps every answer is not one of millions of requests.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::artifact::{ArtifactDirectory, ArtifactError, AtomicFile, OutputEntries, RawLines, RecordIds};
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
    let told = |error: ArtifactError| error.to_string();
    let mut raw = match plan.artifacts.raw {
        true => Some(Raw {
            file: directory.create_raw().map_err(told)?,
            lines: RawLines::new(plan, anchor),
            line: Vec::new(),
        }),
        false => None,
    };
    let mut outputs = match plan.artifacts.outputs {
        true => Some(Outputs::start(plan, directory.create_outputs().map_err(told)?, anchor)?),
        false => None,
    };
    if raw.is_none() && outputs.is_none() {
        return Ok(Vec::new());
    }
    let ids = RequestIds::new(&plan.benchmark_id);
    let text = |(high, low)| format_uuid(high, low);
    for record in journal.map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        let errors = texts.get(record.core.index()).map_or(&[][..], Vec::as_slice);
        let request = text(ids.request(record.phase, record.sequence));
        let session = text(ids.session(record.phase, record.session));
        if let Some(raw) = &mut raw {
            raw.take(&record, errors, (&request, &session))?;
        }
        if let Some(outputs) = &mut outputs {
            outputs.take(plan, &record, (&request, &session))?;
        }
    }
    let files = [
        raw.map(Raw::finish).transpose()?,
        outputs.map(Outputs::finish).transpose()?,
    ];
    Ok(files.into_iter().flatten().collect())
}

/// `profile_export_raw.jsonl` in the making.
struct Raw {
    file: AtomicFile,
    lines: RawLines,
    line: Vec<u8>,
}

impl Raw {
    fn take(&mut self, record: &RequestRecord, errors: &[ErrorDetail], ids: RecordIds<'_>) -> Result<(), String> {
        self.line.clear();
        self.lines.append(record, errors, ids, &mut self.line);
        self.file.write_all(&self.line).map_err(raw_failed)
    }

    fn finish(mut self) -> Result<PathBuf, String> {
        self.file.flush().map_err(raw_failed)?;
        self.file.commit().map_err(|error| error.to_string())
    }
}

fn raw_failed(error: io::Error) -> String {
    format!("raw records: {error}")
}

/// `outputs.json` in the making. Entries of warmups stand behind the others.
struct Outputs {
    file: AtomicFile,
    entries: OutputEntries,
    answers: Answers,
    entry: Vec<u8>,
    warmup: Vec<u8>,
    comma: &'static [u8],
}

impl Outputs {
    fn start(plan: &Plan, mut file: AtomicFile, anchor: WallAnchor) -> Result<Self, String> {
        file.write_all(br#"{"schema_version":"1.1","data":["#)
            .map_err(outputs_failed)?;
        Ok(Self {
            file,
            entries: OutputEntries::new(plan, anchor),
            answers: Answers::new(plan),
            entry: Vec::new(),
            warmup: Vec::new(),
            comma: b"",
        })
    }

    fn take(&mut self, plan: &Plan, record: &RequestRecord, ids: RecordIds<'_>) -> Result<(), String> {
        self.entry.clear();
        self.entries
            .append(record, ids, self.answers.text(record), &mut self.entry);
        if plan.phases[record.phase.index()].kind == PhaseKind::Warmup {
            self.warmup
                .extend_from_slice(if self.warmup.is_empty() { b"" } else { b"," });
            self.warmup.append(&mut self.entry);
            return Ok(());
        }
        self.file
            .write_all(std::mem::replace(&mut self.comma, b","))
            .and_then(|()| self.file.write_all(&self.entry))
            .map_err(outputs_failed)
    }

    fn finish(mut self) -> Result<PathBuf, String> {
        let mut end = br#"],"warmup":["#.to_vec();
        end.append(&mut self.warmup);
        end.extend_from_slice(b"]}\n");
        self.file
            .write_all(&end)
            .and_then(|()| self.file.flush())
            .map_err(outputs_failed)?;
        self.file.commit().map_err(|error| error.to_string())
    }
}

fn outputs_failed(error: io::Error) -> String {
    format!("texts of answers: {error}")
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
