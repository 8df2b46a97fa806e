//! What a journal keeps of its plan: all that figures and artifacts are made from, so that a run whose process died can be written out without its
//! config, its dataset and its server.
//!
//! What a plan needs to be run is not kept, credentials least of all.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::schedule::{Schedule, Window};
use super::{
    AnswerFrame, Arrival, ArtifactPlan, CellIdentity, ConnectionReuse, Conversations, DatasetFile, DrainRule,
    EndpointKind, EndpointPlan, HookPlan, IdBlock, LimitPlan, OnCap, PhaseKind, PhasePlan, Plan, REDACTED,
    RequestImage, RequestImages, SLO_METRICS, Sampler, Secrets, Slo, StopRule, TelemetryPlan, is_credential_header,
};
use crate::id::PhaseId;
use crate::units::Nanos;

/// A plan as far as its artifacts need it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedPlan {
    benchmark_id: String,
    trial: u32,
    cell: Option<SavedCell>,
    seed: u64,
    models: Vec<String>,
    /// Path and digest of the data set's file.
    dataset_file: Option<(String, String)>,
    streaming: bool,
    phases: Vec<SavedPhase>,
    /// Identity and number of turns.
    conversations: Vec<(String, u32)>,
    images: Vec<SavedImage>,
    /// Metric and threshold.
    slos: Vec<(String, f64)>,
    summary_json: bool,
    records: bool,
    raw: bool,
    trace: bool,
    bodies: Option<SavedBodies>,
    prefix: Option<String>,
    slice_ns: Option<u64>,
    input_config: Value,
    command: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedCell {
    sweep_id: String,
    run_label: String,
    variation_index: usize,
    variation_label: String,
    variation_values: Map<String, Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedPhase {
    name: String,
    is_warmup: bool,
    profiling_index: Option<u16>,
    replays: bool,
}

/// Input tokens, output tokens asked for, bytes of the body. A list of numbers, because a dataset may have a million of them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SavedImage(Option<u32>, Option<u32>, u32);

/// What was sent, as far as it is the same for all requests with one image: what raw records show beside the answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedBodies {
    kind: String,
    /// The lines of the head, without the values of headers that hold a credential.
    head: String,
    id_template: String,
    request_id_at: usize,
    /// The body of each image, and where in it the turn's own message stands.
    bodies: Vec<(String, u32, u32)>,
}

impl SavedBodies {
    /// `None` where raw records are not wanted, or would have to be searched for credentials, which nobody keeps.
    fn of(plan: &Plan) -> Option<Self> {
        if !plan.artifacts.raw || !plan.secrets.is_empty() {
            return None;
        }
        let requests = &plan.requests;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let head = text(&requests.heads[0]);
        let lines = head.split_inclusive("\r\n").map(|line| match line.split_once(": ") {
            Some((name, _)) if is_credential_header(name) => format!("{name}: {REDACTED}\r\n"),
            _ => line.to_owned(),
        });
        let body = |image: &RequestImage| (text(image.body()), image.message.start, image.message.end);
        Some(Self {
            kind: plan.endpoint.kind.as_str().to_owned(),
            head: lines.collect(),
            id_template: text(&requests.ids.template),
            request_id_at: requests.ids.request_id_at,
            bodies: requests.entries.iter().map(body).collect(),
        })
    }

    fn restore(self, plan: &mut Plan) -> Option<()> {
        let known = |kind: &EndpointKind| kind.as_str() == self.kind;
        plan.endpoint.kind = EndpointKind::ALL.into_iter().find(known)?;
        plan.requests.heads = Arc::from([Arc::from(self.head.into_bytes())]);
        plan.requests.ids = Arc::new(IdBlock {
            template: self.id_template.into_bytes().into(),
            request_id_at: self.request_id_at,
            correlation_id_at: Vec::new(),
        });
        if self.bodies.len() != plan.requests.entries.len() {
            return None;
        }
        let with_body = |(image, (body, start, end)): (&RequestImage, (String, u32, u32))| {
            let fits = start <= end && end as usize <= body.len();
            fits.then(|| RequestImage {
                body_len: body.len() as u32,
                tail: Arc::from(body.into_bytes()),
                message: start..end,
                ..image.clone()
            })
        };
        let images: Option<Vec<_>> = plan.requests.entries.iter().zip(self.bodies).map(with_body).collect();
        plan.requests.entries = images?.into();
        Some(())
    }
}

impl SavedPlan {
    /// What is to be kept of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let conversations = &plan.requests.conversations;
        let phase = |phase: &PhasePlan| SavedPhase {
            name: phase.name.clone(),
            is_warmup: phase.kind == PhaseKind::Warmup,
            profiling_index: phase.profiling_index,
            replays: matches!(phase.arrival, Arrival::FixedSchedule(_)),
        };
        let image =
            |image: &RequestImage| SavedImage(image.input_tokens, image.requested_output_tokens, image.body_len);
        Self {
            benchmark_id: plan.benchmark_id.clone(),
            trial: plan.trial,
            cell: plan.cell.as_ref().map(|cell| SavedCell {
                sweep_id: cell.sweep_id.clone(),
                run_label: cell.run_label.clone(),
                variation_index: cell.variation_index,
                variation_label: cell.variation_label.clone(),
                variation_values: cell.variation_values.clone(),
            }),
            seed: plan.seed,
            models: plan.models.clone(),
            dataset_file: plan
                .dataset_file
                .as_ref()
                .map(|file| (file.path.clone(), file.sha256.clone())),
            streaming: plan.endpoint.streaming,
            phases: plan.phases.iter().map(phase).collect(),
            conversations: (0..conversations.count())
                .map(|number| (conversations.id(number).into_owned(), conversations.turns(number)))
                .collect(),
            images: plan.requests.entries.iter().map(image).collect(),
            slos: plan
                .slos
                .iter()
                .map(|slo| (slo.metric.to_owned(), slo.threshold))
                .collect(),
            summary_json: plan.artifacts.summary_json,
            records: plan.artifacts.records,
            raw: plan.artifacts.raw,
            trace: plan.artifacts.trace,
            bodies: SavedBodies::of(plan),
            prefix: plan.artifacts.prefix.clone(),
            slice_ns: plan.artifacts.slice.map(|slice| slice.0),
            input_config: plan.input_config.clone(),
            command: plan.command.clone(),
        }
    }

    /// The plan again, for artifacts in `directory`. It can be reported on; what only a run needs is empty.
    ///
    /// `None` if the parts do not fit together.
    pub(crate) fn restore(self, directory: PathBuf) -> Option<Plan> {
        let turns: u64 = self.conversations.iter().map(|&(_, turns)| u64::from(turns)).sum();
        let count = NonZeroU32::new(u32::try_from(self.conversations.len()).ok()?)?;
        let fits = turns == self.images.len() as u64 && self.conversations.iter().all(|&(_, turns)| turns > 0);
        if !fits || self.phases.is_empty() {
            return None;
        }
        let phases: Option<Vec<PhasePlan>> = (0..).zip(self.phases).map(|(id, phase)| phase.restore(id)).collect();
        let slos: Option<Vec<Slo>> = self.slos.into_iter().map(slo).collect();
        let mut plan = Plan {
            benchmark_id: self.benchmark_id,
            trial: self.trial,
            cell: self.cell.map(|cell| CellIdentity {
                sweep_id: cell.sweep_id,
                run_label: cell.run_label,
                variation_index: cell.variation_index,
                variation_label: cell.variation_label,
                variation_values: cell.variation_values,
            }),
            seed: self.seed,
            models: self.models,
            dataset_file: self.dataset_file.map(|(path, sha256)| DatasetFile { path, sha256 }),
            endpoint: EndpointPlan {
                kind: EndpointKind::default(),
                targets: Vec::new(),
                streaming: self.streaming,
                connection_reuse: ConnectionReuse::default(),
                request_timeout: None,
                tls: None,
                control_headers: Vec::new(),
            },
            requests: RequestImages {
                heads: Arc::from([]),
                ids: Arc::new(IdBlock {
                    template: Box::default(),
                    request_id_at: 0,
                    correlation_id_at: Vec::new(),
                }),
                entries: images(&self.conversations, &self.images),
                conversations: Arc::new(Conversations::of_turns(
                    self.conversations.into_iter().map(|(id, turns)| (id, turns as usize)),
                )),
                order: Sampler::sequential(count),
                answer_frame: AnswerFrame::PLAIN,
            },
            phases: phases?,
            readiness: None,
            hooks: HookPlan::default(),
            telemetry: TelemetryPlan::default(),
            slos: slos?,
            artifacts: ArtifactPlan {
                directory,
                overwrite: false,
                summary_json: self.summary_json,
                records: self.records,
                raw: self.raw,
                trace: self.trace,
                prefix: self.prefix,
                slice: self.slice_ns.map(Nanos),
            },
            input_config: self.input_config,
            secrets: Secrets::default(),
            command: self.command,
            warnings: Vec::new(),
        };
        if let Some(bodies) = self.bodies {
            bodies.restore(&mut plan)?;
        }
        Some(plan)
    }

    /// Whether it has all that raw records are made of.
    pub(crate) fn has_bodies(&self) -> bool {
        self.bodies.is_some()
    }
}

fn images(conversations: &[(String, u32)], saved: &[SavedImage]) -> Arc<[RequestImage]> {
    let places = (0..)
        .zip(conversations)
        .flat_map(|(conversation, &(_, turns))| (0..turns).map(move |turn| (conversation, turn)));
    let image = |((conversation, turn), &SavedImage(input_tokens, requested_output_tokens, body_len))| RequestImage {
        tail: Arc::from([]),
        body_len,
        message: 0..0,
        input_tokens,
        requested_output_tokens,
        conversation,
        turn,
        delay: Nanos::ZERO,
        timestamp: None,
    };
    places.zip(saved).map(image).collect()
}

/// Metrics of levels are those of a table.
fn slo((metric, threshold): (String, f64)) -> Option<Slo> {
    let &(metric, _) = SLO_METRICS.iter().find(|(known, _)| *known == metric)?;
    Some(Slo { metric, threshold })
}

impl SavedPhase {
    fn restore(self, id: u16) -> Option<PhasePlan> {
        let arrival = match self.replays {
            // A schedule of one start stands for the one that was.
            true => {
                Arrival::FixedSchedule(Schedule::new([(Some(Nanos::ZERO), 1)].into_iter(), Window::default()).ok()?)
            }
            false => Arrival::ClosedLoop,
        };
        Some(PhasePlan {
            id: PhaseId(id),
            profiling_index: self.profiling_index,
            name: self.name,
            kind: match self.is_warmup {
                true => PhaseKind::Warmup,
                false => PhaseKind::Profiling,
            },
            arrival,
            concurrency: None,
            on_cap: OnCap::Wait,
            stop: StopRule::default(),
            drain: DrainRule::WhileProgressing,
            seamless: false,
            cancellation: None,
            limits: LimitPlan::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_suite;
    use crate::plan::{BuildOptions, build};

    fn plan(artifacts: &str, endpoint: &str) -> Plan {
        let text = format!(
            "benchmark:\n  models: m\n  endpoint: {{url: \"http://h:8000\", streaming: true{endpoint}}}\n  dataset: {{type: synthetic, entries: 5, \
             turns: {{mean: 2, stddev: 1}}, prompts: {{isl: 8, osl: 4}}}}\n  artifacts: {{dir: ./x{artifacts}}}\n  slos: {{request_latency: 5}}\n  \
             phases:\n    - {{name: a, kind: warmup, type: concurrency, requests: 2}}\n    - {{name: b, kind: profiling, type: poisson, rate: 3, \
             duration: 5}}\n"
        );
        let suite = parse_suite("test.yaml", text.as_bytes(), &|_| None).expect("a config");
        build(&suite.into_single().expect("one run"), &BuildOptions::default()).expect("a plan")
    }

    fn again(plan: &Plan) -> Plan {
        let text = serde_json::to_string(&SavedPlan::of(plan)).expect("JSON");
        let saved: SavedPlan = serde_json::from_str(&text).expect("the same");
        saved.restore(plan.artifacts.directory.clone()).expect("a plan")
    }

    #[test]
    fn all_that_artifacts_show_of_a_plan_comes_back() {
        let plan = plan(", prefix: p", "");
        let back = again(&plan);
        assert_eq!(back.artifacts, plan.artifacts);
        assert_eq!(back.fingerprint(), plan.fingerprint());
        assert_eq!(back.requests.conversations, plan.requests.conversations);
        assert_eq!(back.slos, plan.slos);
        let image = |image: &RequestImage| {
            let RequestImage {
                input_tokens,
                requested_output_tokens,
                conversation,
                turn,
                body_len,
                ..
            } = *image;
            (input_tokens, requested_output_tokens, conversation, turn, body_len)
        };
        let images = |plan: &Plan| plan.requests.entries.iter().map(image).collect::<Vec<_>>();
        assert_eq!(images(&back), images(&plan));
        let phase = |phase: &PhasePlan| (phase.id, phase.profiling_index, phase.name.clone(), phase.kind);
        let phases = |plan: &Plan| plan.phases.iter().map(phase).collect::<Vec<_>>();
        assert_eq!(phases(&back), phases(&plan));
    }

    #[test]
    fn bodies_are_kept_for_raw_records_alone_and_only_where_there_is_nothing_to_hide() {
        assert!(!SavedPlan::of(&plan("", "")).has_bodies());
        assert!(!SavedPlan::of(&plan(", raw: true", ", api_key: zq1-secret")).has_bodies());
        let plan = plan(", raw: true", ", headers: {X-Key: ab, X-Other: cd}");
        let text = serde_json::to_string(&SavedPlan::of(&plan)).expect("JSON");
        assert!(
            text.contains("X-Key: <redacted>") && text.contains("X-Other: cd"),
            "{text}"
        );
        let back = again(&plan);
        for (image, before) in back.requests.entries.iter().zip(plan.requests.entries.iter()) {
            assert_eq!((image.body(), &image.message), (before.body(), &before.message));
        }
    }

    #[test]
    fn parts_that_do_not_fit_together_are_no_plan() {
        let mut saved = SavedPlan::of(&plan("", ""));
        saved.images.pop();
        assert!(saved.restore(PathBuf::new()).is_none());
        let mut saved = SavedPlan::of(&plan("", ""));
        saved.conversations.clear();
        assert!(saved.restore(PathBuf::new()).is_none());
        let mut saved = SavedPlan::of(&plan("", ""));
        saved.slos[0].0 = "no metric".to_owned();
        assert!(saved.restore(PathBuf::new()).is_none());
    }
}
