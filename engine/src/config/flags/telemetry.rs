//! Flags of what is read from the server and its GPUs.

use std::rc::Rc;

use super::super::tree::{Node, Value};
use super::given::{Given, collection};
use super::overlay::{Overlay, keys, quoted};

impl Overlay<'_> {
    pub(super) fn write_telemetry(&mut self) {
        for (on, off, key) in [
            ("server-metrics", "no-server-metrics", "server_metrics"),
            ("server-metrics-formats", "no-server-metrics", "server_metrics"),
            ("gpu-telemetry", "no-gpu-telemetry", "gpu_telemetry"),
        ] {
            if self.exclude(on, off, "one asks for it and the other turns it off") {
                return;
            }
            // A word or an address that stands for the section makes way for it.
            let is_section = matches!(self.at(&keys(key)).map(|node| &node.value), Some(Value::Mapping(_)));
            if self.get(on).is_some() && !is_section {
                self.remove(&keys(key));
            }
        }
        if let Some(given) = self.get("server-metrics") {
            self.remove(&keys("server_metrics.url"));
            self.put(
                &keys("server_metrics.urls"),
                &list(given, given.words.iter().map(String::as_str)),
                given.at,
            );
        }
        if let Some(given) = self.get("server-metrics-formats") {
            let words = given.words.iter().flat_map(|words| words.split(',')).map(str::trim);
            self.put(&keys("server_metrics.formats"), &list(given, words), given.at);
        }
        if let Some(given) = self.get("gpu-telemetry") {
            self.write_gpu_telemetry(given);
        }
        for (name, key) in [
            ("no-server-metrics", "server_metrics"),
            ("no-gpu-telemetry", "gpu_telemetry"),
        ] {
            let Some(given) = self.get(name) else { continue };
            match given.is_on() {
                Some(true) => self.put(&keys(key), &given.scalar("false"), given.at),
                _ => self.mistake(given.at, format!("found {}; allowed: the flag alone", quoted(given))),
            }
        }
    }

    /// Addresses, and the peer's words for what the file has keys for.
    fn write_gpu_telemetry(&mut self, given: &Given) {
        let mut urls = Vec::new();
        for word in given.words.iter().map(String::as_str) {
            match word {
                "dashboard" => self.mistake(
                    given.at,
                    "not supported by ringload yet: `dashboard`; leave the word out; figures of GPUs are in the artifacts",
                ),
                "dcgm" | "pynvml" | "amdsmi" => {
                    self.put(&keys("gpu_telemetry.collector"), &given.scalar(word), given.at);
                }
                file if file.ends_with(".csv") => {
                    self.put(&keys("gpu_telemetry.metrics_file"), &given.text(file), given.at);
                }
                url => urls.push(url),
            }
        }
        if !urls.is_empty() {
            self.remove(&keys("gpu_telemetry.url"));
            self.put(&keys("gpu_telemetry.urls"), &list(given, urls.into_iter()), given.at);
        }
    }
}

fn list<'w>(given: &Given, words: impl Iterator<Item = &'w str>) -> Rc<Node> {
    collection(Value::Sequence(words.map(|word| given.text(word)).collect()), given.at)
}
