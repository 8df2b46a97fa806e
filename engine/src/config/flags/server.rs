//! Flags of the model, the server, control hooks, and what comes out of a run.

use std::rc::Rc;

use serde_json::Value as Json;

use super::super::address::Step;
use super::super::diagnostic::quote;
use super::super::endpoint_type::EndpointType;
use super::super::scalar::{self, Fault};
use super::super::tree::{Entry, Node, Position, Style, Value};
use super::document::mapping_at;
use super::given::{Given, collection};
use super::overlay::{Overlay, keys, quoted};
use super::table::{Flag, Group, Writes};

use Group::{Endpoint, Hooks, Input, Output, Unlisted};
use Writes::{Benchmark, Envelope, Special};

pub(super) static FLAGS: &[Flag] = &[
    Flag::values("model", "NAME", Input, Special, "Model to ask for, as the server knows it, repeatable. Needed without --config and --mock")
        .short('m')
        .aka(&["model-names"])
        .more("Several names, also with commas between them, are no sweep: conversations take the models in turn. Replaces the models of the config file. \
               Without a config file the whole workflow is made of flags."),
    Flag::value("random-seed", "N", Input, Envelope("random_seed"), "Root of every random draw: prompts, arrivals, cancellations [default: drawn and recorded]")
        .more("Replaces random_seed of the config file."),
    Flag::value("model-selection-strategy", "WORD", Input, Special, "How conversations get one of several models: round_robin or random [default: round_robin]")
        .more("weighted needs the weights of a config file."),
    Flag::values("url", "URL", Endpoint, Special, "Address of the server, repeatable [default: http://localhost:8000]")
        .short('u')
        .more("The path of the API is appended to it. Several addresses take sessions in turn. Replaces the addresses of the config file."),
    Flag::value("url-strategy", "WORD", Endpoint, Benchmark("endpoint.url_strategy"), "How several addresses are chosen: round_robin"),
    Flag::value("endpoint-type", "TYPE", Endpoint, Benchmark("endpoint.type"), "API of the server [default: chat]")
        .more("chat, completions, responses, messages, embeddings, cohere_rankings, hf_tei_rankings, nim_rankings, or template, whose body and answer are told with --extra-inputs."),
    Flag::value("endpoint", "PATH", Endpoint, Benchmark("endpoint.path"), "Path of the API on the server [default: that of the type]")
        .aka(&["custom-endpoint"]),
    Flag::switch("streaming", Endpoint, Benchmark("endpoint.streaming"), "Ask for a stream of tokens, which gives a time to first token [default: off]"),
    Flag::value("api-key", "KEY", Endpoint, Benchmark("endpoint.api_key"), "Key for `Authorization: Bearer`, or `x-api-key` with type messages. Masked in all output"),
    Flag::values("header", "NAME:VALUE", Endpoint, Special, "Header of every request, repeatable")
        .short('H')
        .more("Joins the headers of the config file. The value is text, also `1`. In the artifacts, values with the name of a \
               credential are masked, and all values in the recorded command."),
    Flag::values("extra-inputs", "KEY:VALUE", Endpoint, Special, "Keys for every request body, or one JSON object, repeatable")
        .more("true, false, null and numbers get their JSON type, everything else is text; a value in JSON (a list, an object, a quoted text) is taken \
               as such. Joins `extra` of the config file. With type template, payload_template:TEXT is the template of the body (a Jinja template of a JSON \
               object, nv-embedqa, or the path of a file), and response_field:JMESPATH says where the answer is."),
    Flag::value("request-timeout-seconds", "TIME", Endpoint, Benchmark("endpoint.timeout"), "Longest request, 0 for no limit [default: 6h]"),
    Flag::value("connection-reuse-strategy", "WORD", Endpoint, Benchmark("endpoint.connection_reuse"), "pooled, never or sticky-user-sessions [default: pooled]"),
    Flag::value("session-header", "NAME", Endpoint, Benchmark("endpoint.session_header"), "Header with the session's id [default: X-Correlation-ID]"),
    Flag::value("transport", "WORD", Endpoint, Benchmark("endpoint.transport"), "Transport of requests: http").aka(&["transport-type"]),
    Flag::switch("use-legacy-max-tokens", Endpoint, Benchmark("endpoint.use_legacy_max_tokens"), "Send max_tokens instead of max_completion_tokens"),
    Flag::switch("use-server-token-count", Endpoint, Benchmark("endpoint.use_server_token_count"), "Ask the server for its token counts"),
    Flag::switch("per-chunk-usage", Unlisted, Benchmark("endpoint.per_chunk_usage"), "Usage in every chunk"),
    Flag::value("request-content-type", "TYPE", Unlisted, Benchmark("endpoint.request_content_type"), "Content type of requests"),
    Flag::switch("download-video-content", Unlisted, Benchmark("endpoint.download_video_content"), "Fetch videos"),
    Flag::switch("reset-kv-cache", Hooks, Benchmark("endpoint.reset_kv_cache"), "Reset the server's KV cache once, before anything else: POST /reset_prefix_cache")
        .more("A server that is busy (409, 423, 429, 503) or does not answer is asked again within the retry budget; if it cannot be reset, nothing is \
               measured. `--reset-kv-cache=false` turns a reset of the config file off."),
    Flag::value("reset-kv-cache-path", "PATH", Hooks, Benchmark("endpoint.reset_kv_cache.path"), "Path of the reset [default: /reset_prefix_cache]. Turns the reset on"),
    Flag::value("reset-kv-cache-timeout-seconds", "TIME", Hooks, Benchmark("endpoint.reset_kv_cache.timeout_seconds"), "Longest reset call [default: 30]. Turns the reset on"),
    Flag::value("reset-kv-cache-max-retry-seconds", "TIME", Hooks, Benchmark("endpoint.reset_kv_cache.max_retry_seconds"), "Time in which further reset calls may start, 0 for one call [default: 60]. Turns the reset on"),
    Flag::switch("server-profiler", Hooks, Benchmark("endpoint.server_profiler"), "Profile the server around each profiling phase: POST /start_profile, /stop_profile")
        .more("Warmup phases are not profiled; a chain of seamless phases is profiled as one. A failed start ends the run, a failed stop is a warning. \
               `--server-profiler=false` turns a profiler of the config file off."),
    Flag::value("server-profiler-start-path", "PATH", Hooks, Benchmark("endpoint.server_profiler.start_path"), "Path that starts the profiler [default: /start_profile]. Turns the profiler on"),
    Flag::value("server-profiler-stop-path", "PATH", Hooks, Benchmark("endpoint.server_profiler.stop_path"), "Path that stops the profiler [default: /stop_profile]. Turns the profiler on"),
    Flag::value("server-profiler-timeout-seconds", "TIME", Hooks, Benchmark("endpoint.server_profiler.timeout_seconds"), "Longest profiler call [default: 30]. Turns the profiler on")
        .more("A stop may have to write a large trace first."),
    Flag::value("wait-for-model-timeout", "TIME", Hooks, Benchmark("endpoint.wait_for_model_timeout"), "Wait so long for each server and model to be ready, 0 for not at all [default: 0]")
        .more("A server that is not ready by then ends the run with one line that says what the last probe came to."),
    Flag::value("wait-for-model-interval", "TIME", Hooks, Benchmark("endpoint.wait_for_model_interval"), "Time from one probe to the next [default: 5]"),
    Flag::value("wait-for-model-mode", "WORD", Hooks, Benchmark("endpoint.wait_for_model_mode"), "What makes a server ready: inference, models or both [default: inference]")
        .more("inference: it answers a request for one token with any status below 500. models: GET /v1/models lists the model; without such a route, \
               the server answers at all."),
    Flag::value("profile-export-prefix", "NAME", Output, Benchmark("artifacts.prefix"), "Base name of the exports [default: profile_export]")
        .aka(&["profile-export-file"]),
    Flag::value("export-level", "WORD", Output, Special, "summary, records: also a line for each request, or raw: also every byte of every answer [default: records]")
        .aka(&["profile-export-level"]),
    Flag::switch("export-http-trace", Output, Benchmark("artifacts.trace"), "Say in each line of the records how its request went over the wire"),
    Flag::value("ui", "WORD", Output, Special, "Progress on standard error: simple or none; dashboard is shown as simple [default: simple]")
        .aka(&["ui-type"]),
    Flag::values("goodput", "METRIC:LIMIT", Output, Special, "Thresholds of a good request, such as time_to_first_token:200 (milliseconds)")
        .more("Joins `slos` of the config file. Several stand in one quoted text, in several words, or in several flags."),
    Flag::value("log-level", "WORD", Unlisted, Benchmark("logging.level"), "How much is logged"),
    Flag::values("server-metrics", "URL", Output, Special, "Address of metrics beside those of the server itself, repeatable")
        .more("Prometheus text, as at http://localhost:8000/metrics. The server's own /metrics is read anyway. Replaces the addresses of the config file."),
    Flag::values("server-metrics-formats", "WORD", Output, Special, "Files of server metrics: json, csv, jsonl, parquet [default: json,csv]"),
    Flag::values("gpu-telemetry", "URL", Output, Special, "Address of a DCGM exporter, repeatable [default: ports 9400 and 9401 of localhost]"),
    Flag::switch("no-server-metrics", Output, Special, "Do not read the server's metrics, also if the config file asks for it"),
    Flag::switch("no-gpu-telemetry", Output, Special, "Do not read metrics of GPUs, also if the config file asks for it"),
    Flag::value("slice-duration", "TIME", Output, Benchmark("artifacts.slice_duration"), "Length of the slices of the run that have figures of their own [default: none]"),
    Flag::switch("show-trace-timing", Output, Benchmark("artifacts.show_trace_timing"), "Show how long requests connected, were sent, waited and received, in tables of their own"),
    Flag::switch("export-outputs-json", Output, Benchmark("artifacts.export_outputs_json"), "Write the text of each answer to outputs.json [default: with --export-level raw]"),
    Flag::switch("auto-plot", Unlisted, Benchmark("artifacts.auto_plot"), "Plots"),
    Flag::switch("plot-required", Unlisted, Benchmark("artifacts.plot_required"), "Plots or failure"),
    Flag::value("workers-max", "N", Unlisted, Benchmark("runtime.workers"), "Workers").aka(&["max-workers"]),
    Flag::value("record-processors", "N", Unlisted, Benchmark("runtime.record_processors"), "Processors of records")
        .aka(&["record-processor-service-count"]),
    Flag::value("stats-interval", "TIME", Unlisted, Benchmark("runtime.stats_interval"), "Time between figures"),
    Flag::value("api-port", "N", Unlisted, Benchmark("runtime.api_port"), "Port of an API"),
    Flag::value("api-host", "HOST", Unlisted, Benchmark("runtime.api_host"), "Host of an API"),
];

impl Overlay<'_> {
    /// Everything but the prompts and the phases.
    pub(super) fn write_server(&mut self) {
        self.write_model();
        self.write_urls();
        self.write_headers();
        self.write_extra();
        self.write_outputs();
        self.write_telemetry();
    }

    fn write_model(&mut self) {
        let Some(given) = self.get("model") else {
            if !self.has_file {
                self.sink.report(
                    Position::NOWHERE,
                    "",
                    "--model is required; write the name that the server knows, or name a config file with --config",
                );
                let told = Rc::new(Node::placeholder(Position::NOWHERE));
                self.put(&keys("model"), &told, Position::NOWHERE);
                return;
            }
            return self.write_strategy();
        };
        self.remove(&keys("models"));
        let names = given.words.iter().flat_map(|word| word.split(','));
        let names: Vec<Rc<Node>> = names.map(|name| given.text(name.trim())).collect();
        let value = match &names[..] {
            [only] => Rc::clone(only),
            _ => collection(Value::Sequence(names), given.at),
        };
        self.put(&keys("model"), &value, given.at);
        self.write_strategy();
    }

    /// The strategy stands in the long form, so short ones become long.
    fn write_strategy(&mut self) {
        let Some(strategy) = self.get("model-selection-strategy") else {
            return;
        };
        let key = if self.at(&keys("models")).is_some() {
            "models"
        } else {
            "model"
        };
        let steps = keys(key);
        let names = self
            .at(&steps)
            .cloned()
            .and_then(|written| Some((names_of(&written)?, written)));
        if let Some((names, written)) = names {
            if strategy.word().eq_ignore_ascii_case("weighted") {
                let message = "found `weighted`, and names alone have no weights; allowed: round_robin, random; weights stand in a config file, as in \
                               models: {strategy: weighted, items: [{name: a, weight: 0.7}, {name: b, weight: 0.3}]}";
                return self.mistake(strategy.at, message);
            }
            let item = |name: Rc<Node>| mapping_at(&[("name", Rc::clone(&name))], name.start);
            let items = Node::made(&written, Value::Sequence(names.into_iter().map(item).collect()));
            self.place(&steps, &mapping_at(&[("items", items)], written.start), written.start);
        }
        self.put(&keys(&format!("{key}.strategy")), &strategy.node(), strategy.at);
    }

    fn write_urls(&mut self) {
        let Some(given) = self.get("url") else { return };
        self.remove(&keys("endpoint.urls"));
        let urls: Vec<Rc<Node>> = given.words.iter().map(|url| given.text(url)).collect();
        let value = match &urls[..] {
            [only] => Rc::clone(only),
            _ => collection(Value::Sequence(urls), given.at),
        };
        self.put(&keys("endpoint.url"), &value, given.at);
    }

    fn write_headers(&mut self) {
        let Some(given) = self.get("header") else { return };
        let mut seen: Vec<String> = Vec::new();
        for word in &given.words {
            // The word may be a credential, so the message does not show it.
            let Some((name, value)) = word.split_once(':') else {
                self.mistake(
                    given.at,
                    "found a header without `:`; allowed: NAME:VALUE, as in X-Tier:gold",
                );
                continue;
            };
            let name = name.trim();
            if seen.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                self.mistake(
                    given.at,
                    format!("found the header `{}` twice; remove one", name.escape_debug()),
                );
                continue;
            }
            seen.push(name.to_owned());
            self.put_named("headers", name, &given.text(value.trim()), given.at);
        }
    }

    /// A key of the user's under `endpoint`. Names of headers do not depend on their case, so the spelling of the file stays.
    fn put_named(&mut self, section: &str, name: &str, value: &Rc<Node>, at: Position) {
        let mut steps = keys("endpoint");
        steps.push(Step::Key(section.to_owned()));
        let known = match self.at(&steps).map(|node| &node.value) {
            Some(Value::Mapping(entries)) if section == "headers" => entries
                .iter()
                .find(|entry| entry.key.eq_ignore_ascii_case(name))
                .map(|entry| entry.key.clone()),
            _ => None,
        };
        steps.push(Step::Key(known.unwrap_or_else(|| name.to_owned())));
        self.put(&steps, value, at);
    }

    /// Whether requests are made of a template: the flag says it, or the file.
    fn has_template(&self) -> bool {
        let kind = self.at(&keys("endpoint.type")).and_then(|node| node.scalar());
        match kind {
            Some(kind) => kind.text.eq_ignore_ascii_case(EndpointType::Template.as_str()),
            None => self.at(&keys("endpoint.template")).is_some(),
        }
    }

    /// A key of bodies; or, with type template, what the peer's command line gives as one.
    fn put_extra(&mut self, name: &str, value: &Rc<Node>, text: Option<&str>, given: &Given) {
        let place = match name {
            "payload_template" if self.has_template() => "endpoint.template.body",
            "response_field" if self.has_template() => "endpoint.template.response_field",
            _ => return self.put_named("extra", name, value, given.at),
        };
        // A template looks like JSON, and is the text that was typed.
        let value = text.map_or_else(|| Rc::clone(value), |text| given.text(text));
        self.put(&keys(place), &value, given.at);
    }

    fn write_extra(&mut self) {
        let Some(given) = self.get("extra-inputs") else { return };
        let mut seen: Vec<String> = Vec::new();
        for word in &given.words {
            if word.trim_start().starts_with('{') {
                match serde_json::from_str(word) {
                    Ok(Json::Object(object)) => {
                        for (name, value) in &object {
                            if self.is_new("key", name, &mut seen, given.at) {
                                self.put_extra(name, &json_node(value, given.at), None, given);
                            }
                        }
                    }
                    _ => self.mistake(
                        given.at,
                        "found text in braces that is no JSON object; allowed: KEY:VALUE, or one JSON object",
                    ),
                }
                continue;
            }
            match word.split_once(':') {
                Some((name, value)) if !name.is_empty() => {
                    if self.is_new("key", name, &mut seen, given.at) {
                        self.put_extra(name, &extra_value(given, value), Some(value), given);
                    }
                }
                _ => self.mistake(
                    given.at,
                    "found a word without a key and `:`; allowed: KEY:VALUE, as in temperature:0.5, or one JSON object",
                ),
            }
        }
    }

    /// Whether a flag that may be repeated names this for the first time; of two values one would be passed over.
    fn is_new(&mut self, what: &str, name: &str, seen: &mut Vec<String>, at: Position) -> bool {
        let is_new = !seen.iter().any(|other| other == name);
        if is_new {
            seen.push(name.to_owned());
        } else {
            let name = name.escape_debug();
            self.mistake(at, format!("found the {what} `{name}` twice; remove one"));
        }
        is_new
    }

    fn write_outputs(&mut self) {
        if let Some(given) = self.get("export-level") {
            let level = given.word().to_ascii_lowercase();
            let records = match level.as_str() {
                "summary" => "false",
                "records" | "raw" => "true",
                _ => {
                    return self.mistake(
                        given.at,
                        format!("found {}; allowed: summary, records, raw", quoted(given)),
                    );
                }
            };
            let traced = self.get("export-http-trace").and_then(Given::is_on) == Some(true);
            let why = "traces stand in the lines of requests, which level summary has none of";
            let has_outputs = self.get("export-outputs-json").and_then(Given::is_on) == Some(true);
            let why_texts = "texts of answers are kept with the records of requests, which level summary has none of";
            let is_excluded = records == "false"
                && (traced && self.exclude("export-http-trace", "export-level", why)
                    || has_outputs && self.exclude("export-outputs-json", "export-level", why_texts));
            if !is_excluded {
                self.put(&keys("artifacts.records"), &given.scalar(records), given.at);
            }
            if level == "raw" {
                self.put(&keys("artifacts.raw"), &given.scalar("true"), given.at);
            }
        }
        if let Some(given) = self.get("ui") {
            let is_dashboard = given.word().eq_ignore_ascii_case("dashboard");
            if is_dashboard {
                self.sink.warn(format!(
                    "{} dashboard: there is none, so progress is shown as with simple",
                    given.at.told()
                ));
            }
            let word = if is_dashboard { "simple" } else { given.word() };
            self.put(&keys("runtime.ui"), &given.scalar(word), given.at);
        }
        if let Some(given) = self.get("goodput") {
            let mut seen = Vec::new();
            for threshold in given.words.iter().flat_map(|word| word.split_whitespace()) {
                match threshold.split_once(':').filter(|(metric, _)| !metric.is_empty()) {
                    Some((metric, limit)) => {
                        if !self.is_new("metric", metric, &mut seen, given.at) {
                            continue;
                        }
                        let steps = [Step::Key("slos".into()), Step::Key(metric.to_owned())];
                        self.put(&steps, &given.scalar(limit), given.at);
                    }
                    None => {
                        let found = quote(threshold);
                        self.mistake(
                            given.at,
                            format!("found {found}; allowed: METRIC:LIMIT, as in time_to_first_token:200"),
                        );
                    }
                }
            }
        }
        if let Some(given) = self.get("tokenizer") {
            let is_section = matches!(
                self.at(&keys("tokenizer")).map(|node| &node.value),
                Some(Value::Mapping(_))
            );
            let path = if is_section { "tokenizer.name" } else { "tokenizer" };
            self.put(&keys(path), &given.text(given.word()), given.at);
        }
    }
}

/// The value of a `KEY:VALUE`: numbers, booleans and null by their looks, JSON as JSON, and text.
pub(super) fn extra_value(given: &Given, text: &str) -> Rc<Node> {
    let plain = |text: &str| super::given::scalar(text, Style::Plain, given.at);
    let word = text.to_ascii_lowercase();
    if matches!(word.as_str(), "true" | "false" | "null") {
        return plain(&word);
    }
    match scalar::number(text) {
        Ok(number) if number.value.is_finite() => return plain(text),
        // Refused with this advice where it is read.
        Err(Fault::Advice(_)) => return plain(text),
        _ => {}
    }
    match serde_json::from_str::<Json>(text) {
        Ok(value) => json_node(&value, given.at),
        Err(_) => given.text(text),
    }
}

/// The names of models in a short form; `None` for the long one, and for what is no form at all.
fn names_of(written: &Rc<Node>) -> Option<Vec<Rc<Node>>> {
    match &written.value {
        Value::Scalar(_) if !written.is_null() => Some(vec![Rc::clone(written)]),
        Value::Sequence(names) if !names.is_empty() && names.iter().all(|name| name.scalar().is_some()) => {
            Some(names.clone())
        }
        _ => None,
    }
}

/// A JSON value as if it had been written in the file.
pub(super) fn json_node(value: &Json, at: Position) -> Rc<Node> {
    match value {
        Json::String(text) => super::given::scalar(text, Style::Quoted, at),
        Json::Array(items) => collection(
            Value::Sequence(items.iter().map(|item| json_node(item, at)).collect()),
            at,
        ),
        Json::Object(object) => {
            let entry = |(key, value): (&String, &Json)| Entry {
                key: key.clone(),
                key_at: at,
                value: json_node(value, at),
                merged: false,
            };
            collection(Value::Mapping(object.iter().map(entry).collect()), at)
        }
        other => super::given::scalar(&other.to_string(), Style::Plain, at),
    }
}
