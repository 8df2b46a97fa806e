//! What a journal keeps of its plan: all that figures and artifacts are made from, so that a run whose process died can be written out without its
//! config, its dataset and its server.
//!
//! What a plan needs to be run is not kept, credentials least of all. The dataset stands apart from the rest, in few bytes: the load waits until they
//! are written.

mod dataset;
mod heads;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::schedule::{Schedule, Window};
use super::{
    AnswerFrame, Arrival, ArtifactPlan, CellIdentity, ConnectionReuse, DatasetFile, DrainRule, EndpointKind,
    EndpointPlan, HookPlan, LimitPlan, ModelPlan, OnCap, PhaseKind, PhasePlan, Plan, RequestImages, SLO_METRICS,
    Sampler, Secrets, Slo, StopRule, TelemetryPlan,
};
use crate::dataset::ConversationIds;
use crate::id::PhaseId;
use crate::units::Nanos;

use dataset::Bodies;
use heads::SavedHeads;

/// A plan as far as its artifacts need it, but for the dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedPlan {
    benchmark_id: String,
    trial: u32,
    cell: Option<SavedCell>,
    seed: u64,
    models: Vec<String>,
    /// Path and digest of the data set's file.
    dataset_file: Option<(String, String)>,
    /// The same of the file of the system's message.
    system_prompt_file: Option<(String, String)>,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_field: Option<String>,
    streaming: bool,
    phases: Vec<SavedPhase>,
    /// What identities are made from that the dataset does not bring.
    made_ids: u64,
    /// Metric and threshold.
    slos: Vec<(String, f64)>,
    summary_json: bool,
    records: bool,
    raw: bool,
    outputs: bool,
    /// What servers said can be shown as it is: there are no credentials that it would have to be searched for.
    is_without_secrets: bool,
    trace: bool,
    /// Journals of the same format from before it was there have none.
    #[serde(default)]
    show_trace_timing: bool,
    /// `None` where no artifact shows them, or where they would have to be searched for credentials, which nobody keeps.
    heads: Option<SavedHeads>,
    bodies: Bodies,
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

impl SavedPlan {
    /// What is to be kept of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let phase = |phase: &PhasePlan| SavedPhase {
            name: phase.name.clone(),
            is_warmup: phase.kind == PhaseKind::Warmup,
            profiling_index: phase.profiling_index,
            replays: matches!(phase.arrival, Arrival::FixedSchedule(_)),
        };
        let file = |file: &DatasetFile| (file.path.clone(), file.sha256.clone());
        let shows_requests = |asked: bool| asked && plan.secrets.is_empty();
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
            models: plan.models.names.clone(),
            dataset_file: plan.dataset_file.as_ref().map(file),
            system_prompt_file: plan.system_prompt_file.as_ref().map(file),
            kind: plan.endpoint.kind.as_str().to_owned(),
            response_field: plan.endpoint.response_field.clone(),
            streaming: plan.endpoint.streaming,
            phases: plan.phases.iter().map(phase).collect(),
            made_ids: plan.requests.conversations.made_ids().root(),
            slos: plan
                .slos
                .iter()
                .map(|slo| (slo.metric.to_owned(), slo.threshold))
                .collect(),
            summary_json: plan.artifacts.summary_json,
            records: plan.artifacts.records,
            raw: plan.artifacts.raw,
            outputs: plan.artifacts.outputs,
            is_without_secrets: plan.secrets.is_empty(),
            trace: plan.artifacts.trace,
            show_trace_timing: plan.artifacts.show_trace_timing,
            heads: shows_requests(plan.artifacts.raw || plan.artifacts.trace).then(|| SavedHeads::of(&plan.requests)),
            bodies: match shows_requests(plan.artifacts.raw) {
                true => Bodies::Kept,
                false => Bodies::LeftOut,
            },
            prefix: plan.artifacts.prefix.clone(),
            slice_ns: plan.artifacts.slice.map(|slice| slice.0),
            input_config: plan.input_config.clone(),
            command: plan.command.clone(),
        }
    }

    /// Appends the dataset of the plan that this was made of.
    pub(crate) fn push_dataset(&self, plan: &Plan, out: &mut Vec<u8>) {
        dataset::push(&plan.requests, self.bodies, out);
    }

    /// The plan again, for artifacts in `directory`. It can be reported on; what only a run needs is empty.
    ///
    /// `None` if the parts do not fit together.
    pub(crate) fn restore(self, dataset: &[u8], directory: PathBuf) -> Option<Plan> {
        let known = |kind: &EndpointKind| kind.as_str() == self.kind;
        let kind = EndpointKind::ALL.into_iter().find(known)?;
        let (conversations, entries) = dataset::read(dataset, self.bodies, ConversationIds::of_root(self.made_ids))?;
        let count = NonZeroU32::new(conversations.count())?;
        if self.phases.is_empty() || self.models.is_empty() {
            return None;
        }
        let file = |(path, sha256)| DatasetFile { path, sha256 };
        let SavedHeads { heads, ids } = self.heads.unwrap_or_default();
        let phases: Option<Vec<PhasePlan>> = (0..).zip(self.phases).map(|(id, phase)| phase.restore(id)).collect();
        let slos: Option<Vec<Slo>> = self.slos.into_iter().map(slo).collect();
        Some(Plan {
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
            models: ModelPlan::in_turn(self.models),
            dataset_file: self.dataset_file.map(file),
            system_prompt_file: self.system_prompt_file.map(file),
            endpoint: EndpointPlan {
                kind,
                response_field: self.response_field,
                targets: Vec::new(),
                streaming: self.streaming,
                connection_reuse: ConnectionReuse::default(),
                request_timeout: None,
                tls: None,
                control_headers: Vec::new(),
            },
            requests: RequestImages {
                heads: heads.into_iter().map(|head| head.into_bytes().into()).collect(),
                ids: Arc::new(ids.into()),
                entries: entries.into(),
                conversations: Arc::new(conversations),
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
                outputs: self.outputs,
                trace: self.trace,
                show_trace_timing: self.show_trace_timing,
                prefix: self.prefix,
                slice: self.slice_ns.map(Nanos),
            },
            input_config: self.input_config,
            secrets: Secrets::default(),
            command: self.command,
            warnings: Vec::new(),
        })
    }

    /// Whether it has the heads of requests, which traces show.
    pub(crate) fn has_heads(&self) -> bool {
        self.heads.is_some()
    }

    /// Whether texts of answers may be shown.
    pub(crate) fn is_without_secrets(&self) -> bool {
        self.is_without_secrets
    }

    /// Whether it has all that raw records are made of.
    pub(crate) fn has_bodies(&self) -> bool {
        self.has_heads() && self.bodies == Bodies::Kept
    }
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
    use crate::plan::{BuildOptions, RequestImage, build};

    fn plan(artifacts: &str, endpoint: &str) -> Plan {
        let text = format!(
            "benchmark:\n  models: [m, n]\n  endpoint: {{url: \"http://h:8000\", streaming: true{endpoint}}}\n  dataset: {{type: synthetic, entries: 5, \
             turns: {{mean: 2, stddev: 1}}, prompts: {{isl: 8, osl: 4}}}}\n  artifacts: {{dir: ./x{artifacts}}}\n  slos: {{request_latency: 5}}\n  \
             phases:\n    - {{name: a, kind: warmup, type: concurrency, requests: 2}}\n    - {{name: b, kind: profiling, type: poisson, rate: 3, \
             duration: 5}}\n"
        );
        let suite = parse_suite("test.yaml", text.as_bytes(), &|_| None).expect("a config");
        build(&suite.into_single().expect("one run"), &BuildOptions::default()).expect("a plan")
    }

    fn again(plan: &Plan) -> Plan {
        let saved = SavedPlan::of(plan);
        let text = serde_json::to_string(&saved).expect("JSON");
        let mut dataset = Vec::new();
        saved.push_dataset(plan, &mut dataset);
        let saved: SavedPlan = serde_json::from_str(&text).expect("the same");
        saved
            .restore(&dataset, plan.artifacts.directory.clone())
            .expect("a plan")
    }

    #[test]
    fn all_that_artifacts_show_of_a_plan_comes_back() {
        let mut plan = plan(", prefix: p", "");
        let file = |path: &str| DatasetFile {
            path: path.to_owned(),
            sha256: format!("digest of {path}"),
        };
        (plan.dataset_file, plan.system_prompt_file) = (Some(file("a")), Some(file("b")));
        let back = again(&plan);
        assert_eq!(
            (&back.dataset_file, &back.system_prompt_file),
            (&plan.dataset_file, &plan.system_prompt_file)
        );
        assert_eq!(back.artifacts, plan.artifacts);
        assert_eq!(back.fingerprint(), plan.fingerprint());
        assert_eq!(back.requests.conversations, plan.requests.conversations);
        assert_eq!(back.slos, plan.slos);
        assert_eq!(
            (&back.models.names, &back.input_config),
            (&plan.models.names, &plan.input_config)
        );
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
    fn requests_are_kept_for_what_shows_them_and_only_where_there_is_nothing_to_hide() {
        let kept = |artifacts: &str, endpoint: &str| {
            let saved = SavedPlan::of(&plan(artifacts, endpoint));
            (saved.has_heads(), saved.has_bodies())
        };
        assert_eq!(kept("", ""), (false, false));
        assert_eq!(kept(", trace: true", ""), (true, false));
        assert_eq!(kept(", raw: true", ""), (true, true));
        assert_eq!(
            kept(", raw: true, trace: true", ", api_key: zq1-secret"),
            (false, false)
        );
    }

    #[test]
    fn what_raw_records_and_traces_show_comes_back_with_masks_of_the_same_length() {
        let mut plan = plan(", raw: true", ", headers: {X-Key: ab, X-Other: cd}");
        let other = b"POST / HTTP/1.1\r\nHost: other\r\n";
        plan.requests.heads = Arc::from([Arc::clone(&plan.requests.heads[0]), Arc::from(&other[..])]);
        let back = again(&plan);
        let heads = |plan: &Plan| -> Vec<String> {
            let heads = plan.requests.heads.iter();
            heads.map(|head| String::from_utf8_lossy(head).into_owned()).collect()
        };
        let shown: Vec<String> = heads(&plan)
            .iter()
            .map(|head| head.replace("X-Key: ab", "X-Key: **"))
            .collect();
        assert!(shown[0].contains("X-Key: **\r\n") && shown[0].contains("X-Other: cd\r\n"));
        assert_eq!(heads(&back), shown);
        let ids = |plan: &Plan| (plan.requests.ids.template.clone(), plan.requests.ids.request_id_at);
        assert_eq!(ids(&back), ids(&plan));
        for (image, before) in back.requests.entries.iter().zip(plan.requests.entries.iter()) {
            assert_eq!((image.body(), &image.message), (before.body(), &before.message));
        }
    }

    #[test]
    fn parts_that_do_not_fit_together_are_no_plan() {
        let plan = plan("", "");
        let mut dataset = Vec::new();
        SavedPlan::of(&plan).push_dataset(&plan, &mut dataset);
        let refuses = |change: &dyn Fn(&mut SavedPlan), dataset: &[u8]| {
            let mut saved = SavedPlan::of(&plan);
            change(&mut saved);
            saved.restore(dataset, PathBuf::new()).is_none()
        };
        assert!(!refuses(&|_| {}, &dataset));
        assert!(refuses(&|_| {}, &dataset[..dataset.len() - 1]));
        assert!(refuses(&|_| {}, b"\0\0"), "a dataset of nothing");
        assert!(refuses(&|saved| saved.phases.clear(), &dataset));
        assert!(refuses(&|saved| saved.models.clear(), &dataset));
        assert!(refuses(&|saved| saved.kind = "no API".to_owned(), &dataset));
        assert!(refuses(&|saved| saved.slos[0].0 = "no metric".to_owned(), &dataset));
    }
}
