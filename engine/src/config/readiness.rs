//! `wait_for_model_*`: whether and how a run waits for its server before anything else, as written.

use super::decode::{Bounds, Section};

/// Seconds between two probes when the file does not say.
const DEFAULT_INTERVAL_S: f64 = 5.0;

/// What makes a server ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadinessMode {
    /// It answers a request for one token.
    #[default]
    Inference,
    /// It lists the model.
    Models,
    /// Both, the list first.
    Both,
}

impl ReadinessMode {
    const ALL: [Self; 3] = [Self::Inference, Self::Models, Self::Both];

    /// The word in configs and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Models => "models",
            Self::Both => "both",
        }
    }

    /// The mode of that word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// How a run waits for its server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WaitForModel {
    /// Seconds for each server and model; 0 does not wait.
    pub timeout_s: Option<f64>,
    /// Seconds from one probe to the next.
    pub interval_s: Option<f64>,
    /// What makes it ready.
    pub mode: Option<ReadinessMode>,
}

impl WaitForModel {
    /// Whether the run waits at all.
    pub fn is_on(&self) -> bool {
        self.timeout_s.is_some_and(|timeout| timeout > 0.0)
    }

    /// Seconds from one probe to the next.
    pub(crate) fn interval_s(&self) -> f64 {
        self.interval_s.unwrap_or(DEFAULT_INTERVAL_S)
    }
}

pub(super) fn decode(section: &Section<'_>) -> WaitForModel {
    let timeout = section.field("wait_for_model_timeout");
    let is_absent = timeout.is_none();
    let timeout_s = timeout.and_then(|field| field.duration(Bounds::NOT_NEGATIVE));
    let interval_s = section
        .field("wait_for_model_interval")
        .and_then(|field| field.duration(Bounds::POSITIVE));
    let mode = section
        .field("wait_for_model_mode")
        .and_then(|field| field.exact_word(&ReadinessMode::ALL.map(|mode| (mode.as_str(), mode)), &[]));
    let wait = WaitForModel {
        timeout_s,
        interval_s,
        mode,
    };
    // A timeout with a mistake was meant to be one.
    if !wait.is_on() && (timeout_s.is_some() || is_absent) {
        let unused = "this has no effect while `wait_for_model_timeout` is 0; set a timeout, or remove this key";
        if interval_s.is_some_and(|interval| interval != DEFAULT_INTERVAL_S) {
            section.report("wait_for_model_interval", unused);
        }
        if mode.is_some_and(|mode| mode != ReadinessMode::default()) {
            section.report("wait_for_model_mode", unused);
        }
    }
    wait
}
