//! `input_config` as AIPerf's readers take it: they refuse a file with a key or a value of a phase that their own config could not have.
//!
//! What is ringload's alone therefore stands under `ringload.input_config`, by the name of its phase. `resolved_config.yaml` and `run_config.json`,
//! from which a run can be repeated, have the config in one piece.

use serde_json::{Map, Value, json};

/// Keys of a phase that AIPerf does not have.
const OWN_KEYS: [&str; 1] = ["on_cap"];
/// Keys of a phase whose values AIPerf has as whole numbers only.
const WHOLE_NUMBERS: [&str; 1] = ["adaptive_scale_base_step"];

/// The config without what is ringload's alone, and that; `None` if there is nothing of it.
pub(super) fn split(config: &Value) -> (Value, Option<Value>) {
    let mut shared = config.clone();
    let mut own = Map::new();
    let phases = shared.get_mut("phases").and_then(Value::as_array_mut);
    for phase in phases.into_iter().flatten().filter_map(Value::as_object_mut) {
        let (of_phase, rest): (Map<_, _>, Map<_, _>) = std::mem::take(phase)
            .into_iter()
            .partition(|(key, value)| is_own(key, value));
        *phase = rest;
        if let (false, Some(Value::String(name))) = (of_phase.is_empty(), phase.get("name")) {
            own.insert(name.clone(), Value::Object(of_phase));
        }
    }
    let own = (!own.is_empty()).then(|| json!({ "phases": own }));
    (shared, own)
}

fn is_own(key: &str, value: &Value) -> bool {
    let is_fraction = || value.as_f64().is_some_and(|number| number.fract() != 0.0);
    OWN_KEYS.contains(&key) || WHOLE_NUMBERS.contains(&key) && is_fraction()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_of_the_peer_refuse_stands_by_itself() {
        let shared =
            json!({"models": 1, "phases": [{"name": "a", "rate": 0.5}, {"name": "b", "adaptive_scale_base_step": 2}]});
        assert_eq!(split(&shared), (shared.clone(), None));
        let mut config = shared.clone();
        config["phases"][0]["on_cap"] = json!("drop");
        config["phases"][0]["adaptive_scale_base_step"] = json!(0.5);
        let own = json!({"phases": {"a": {"on_cap": "drop", "adaptive_scale_base_step": 0.5}}});
        assert_eq!(split(&config), (shared, Some(own)));
    }
}
