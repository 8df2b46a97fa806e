//! Keys of `benchmark` but those of phases.

use super::super::super::schema::{
    ARTIFACTS, DATASET, DISCOVERY, ENDPOINT, GPU_TELEMETRY, LOGGING, MODEL, MODELS, NETWORK_LATENCY, PHASE,
    PREFIX_PROMPTS, PROMPTS, RANKINGS, RESET_KV_CACHE, RUNTIME, SERVER_METRICS, SERVER_PROFILER, SYNTHESIS, TEMPLATE,
    TOKENIZER,
};
use super::super::shape::Limits;
use super::super::shape::Shape::{self, *};
use super::Key;
use super::lengths::{DELAY, PAIRS, TOKENS};

const NOT_NEGATIVE: Limits = Limits::NOT_NEGATIVE;
const POSITIVE: Limits = Limits::POSITIVE;
const NAMES: Shape = OneOf(&[Text, List(&Text), Section(&MODELS)]);
const TYPES: Shape = Words(&[
    "chat",
    "completions",
    "responses",
    "messages",
    "embeddings",
    "cohere_rankings",
    "hf_tei_rankings",
    "nim_rankings",
    "template",
]);
const URLS: Shape = OneOf(&[Text, List(&Text)]);
/// A path on a server.
const PATH: Shape = Matching("^/");

pub(super) const IN_BENCHMARK: &[Key] = &[
    (
        "model",
        NAMES,
        "The name that the server knows the model by; several as a list.",
    ),
    ("models", NAMES, "The long form of `model`."),
    (
        "endpoint",
        Section(&ENDPOINT),
        "The server and how requests are sent to it.",
    ),
    ("dataset", Section(&DATASET), "Where prompts come from."),
    (
        "datasets",
        List(&Section(&DATASET)),
        "The long form of `dataset`: a list of one, with a name.",
    ),
    (
        "phases",
        OneOf(&[List(&Section(&PHASE)), Section(&PHASE)]),
        "The workflow: phases in the order of running, or a single one.",
    ),
    ("profiling", Section(&PHASE), "Short form: the one measured phase."),
    ("warmup", Section(&PHASE), "Short form: the phase before `profiling`."),
    ("artifacts", Section(&ARTIFACTS), "What is written, and where."),
    (
        "slos",
        OneOf(&[FreeMap, EmptyList]),
        "Thresholds by metric that make a request good, as in {request_latency: 1500}.",
    ),
    ("runtime", Section(&RUNTIME), "How the run shows itself."),
    (
        "tokenizer",
        OneOf(&[Exactly(&["builtin"]), Section(&TOKENIZER)]),
        "The tokenizer: builtin.",
    ),
    ("logging", Section(&LOGGING), "What is logged."),
    (
        "server_metrics",
        OneOf(&[Switch, Text, Section(&SERVER_METRICS)]),
        "The server's own metrics, read while the load runs: on unless false; a URL is a further address.",
    ),
    (
        "gpu_telemetry",
        OneOf(&[Switch, Text, Section(&GPU_TELEMETRY)]),
        "Figures of the server's GPUs: on unless false; a URL is the address of a DCGM exporter.",
    ),
    (
        "network_latency",
        OneOf(&[Off, Section(&NETWORK_LATENCY)]),
        "Probes of the network; off so far.",
    ),
];

pub(super) const IN_MODELS: &[Key] = &[
    ("items", List(&Section(&MODEL)), "The models."),
    (
        "strategy",
        Words(&["round_robin", "random", "weighted"]),
        "How conversations get their model: round_robin in turn (the default), random all alike, weighted by weight.",
    ),
];

pub(super) const IN_MODEL: &[Key] = &[
    ("name", Text, "The name that the server knows the model by."),
    (
        "weight",
        Number(NOT_NEGATIVE.up_to(1.0)),
        "The share of the model with strategy weighted; all of them add up to 1.",
    ),
];

pub(super) const IN_ENDPOINT: &[Key] = &[
    (
        "url",
        URLS,
        "Address of the server, as in http://localhost:8000; several as a list. Sessions take them in turn.",
    ),
    ("urls", URLS, "The long form of `url`."),
    ("type", TYPES, "The API that requests speak; chat by default."),
    ("path", PATH, "Path of requests, in place of the one of the API."),
    (
        "api_key",
        Text,
        "Key for `Authorization: Bearer`. Best as ${NAME} from the environment; it is never shown.",
    ),
    (
        "timeout",
        Duration(NOT_NEGATIVE.or_infinity()),
        "Longest life of a request: seconds, or 5m. 0 is without limit; 6h by default.",
    ),
    (
        "streaming",
        Boolean,
        "Ask for an event stream. Without it there is no time to first token.",
    ),
    ("transport", Words(&["http"]), "How requests travel: http."),
    (
        "connection_reuse",
        Words(&["pooled", "never", "sticky-user-sessions"]),
        "What becomes of a connection whose request has ended.",
    ),
    ("headers", TextMap, "Further headers of requests and control calls."),
    (
        "extra",
        FreeMap,
        "Keys merged into every request body, as in {temperature: 0, ignore_eos: true}.",
    ),
    (
        "template",
        Section(&TEMPLATE),
        "What bodies are made of and where answers are, for an API of your own; sets type: template.",
    ),
    ("session_header", Text, "Name that replaces X-Correlation-ID."),
    (
        "use_legacy_max_tokens",
        Boolean,
        "Send max_tokens instead of max_completion_tokens.",
    ),
    (
        "use_server_token_count",
        Boolean,
        "Accepted for compatibility: output tokens are the server's count in any case.",
    ),
    (
        "url_strategy",
        Words(&["round_robin"]),
        "How sessions choose among several URLs.",
    ),
    (
        "wait_for_model_timeout",
        Duration(NOT_NEGATIVE),
        "Before anything else, wait so long for the model to be served. 0 does not wait.",
    ),
    (
        "wait_for_model_interval",
        Duration(POSITIVE),
        "From one probe to the next; 5s by default.",
    ),
    (
        "wait_for_model_mode",
        Exactly(&["inference", "models", "both"]),
        "What makes a server ready: a request for one token, its list of models, or both.",
    ),
    (
        "reset_kv_cache",
        OneOf(&[Switch, Section(&RESET_KV_CACHE)]),
        "A POST that empties the server's cache before anything else is sent.",
    ),
    (
        "server_profiler",
        OneOf(&[Switch, Section(&SERVER_PROFILER)]),
        "POSTs that start and stop the server's profiler around each profiling phase.",
    ),
];

pub(super) const IN_TEMPLATE: &[Key] = &[
    (
        "body",
        Text,
        "A Jinja template of a JSON object, as in {\"prompt\": {{ text|tojson }}}; nv-embedqa; or the path of a file.",
    ),
    (
        "response_field",
        Text,
        "JMESPath to the answer, as in data[0].text. Without it the answer is looked for where APIs keep theirs.",
    ),
];

pub(super) const IN_RESET_KV_CACHE: &[Key] = &[
    ("path", PATH, "Path at each origin; /reset_prefix_cache by default."),
    (
        "timeout_seconds",
        Duration(POSITIVE),
        "Longest life of one call; 30 s by default.",
    ),
    (
        "max_retry_seconds",
        Duration(NOT_NEGATIVE),
        "A busy server is asked again for so long; 60 s by default.",
    ),
];

pub(super) const IN_SERVER_PROFILER: &[Key] = &[
    (
        "start_path",
        PATH,
        "Path that starts the profiler; /start_profile by default.",
    ),
    ("stop_path", PATH, "Path that stops it; /stop_profile by default."),
    (
        "timeout_seconds",
        Duration(POSITIVE),
        "Longest life of one call; 30 s by default.",
    ),
];

pub(super) const IN_DATASET: &[Key] = &[
    ("name", Text, "Name for artifacts."),
    (
        "type",
        Exactly(&["synthetic", "file"]),
        "synthetic: prompts of given lengths. file: prompts that you bring.",
    ),
    (
        "entries",
        Whole(1),
        "Different prompts; 100 by default. Of a file, how many of its conversations are taken.",
    ),
    (
        "prompts",
        Section(&PROMPTS),
        "Lengths of synthetic prompts and answers.",
    ),
    ("isl", TOKENS, "Tokens of a prompt; short for prompts.isl."),
    (
        "osl",
        TOKENS,
        "Tokens that a request asks for; short for prompts.osl. Of a file, where a record does not say.",
    ),
    ("turns", TOKENS, "Requests of a conversation; 1 by default."),
    (
        "turn_delay",
        DELAY,
        "Milliseconds between the return of a turn and the next one.",
    ),
    (
        "turn_delay_ratio",
        Number(NOT_NEGATIVE),
        "What every such time is multiplied with.",
    ),
    (
        "random_seed",
        Whole(i64::MIN),
        "Seed of the prompts and their order alone.",
    ),
    (
        "sampling",
        Words(&["sequential", "shuffle", "random"]),
        "In which order entries are taken.",
    ),
    (
        "path",
        Text,
        "A JSONL file. A relative path starts at the current directory. For type file.",
    ),
    ("records", List(&Free), "The records themselves, in place of a file."),
    (
        "format",
        Words(&["single_turn", "multi_turn", "mooncake_trace", "random_pool"]),
        "What a record looks like.",
    ),
    ("block_size", Whole(1), "Tokens of a block of a mooncake_trace."),
    (
        "ignore_trace_delays",
        Boolean,
        "Whether timestamps and delays of a file count for nothing, so that turns follow at once.",
    ),
    (
        "inter_turn_delay_cap_seconds",
        Duration(NOT_NEGATIVE),
        "Longest wait between two turns of a file; longer delays become this.",
    ),
    (
        "synthesis",
        Section(&SYNTHESIS),
        "What is changed of a trace before it is sent: times, lengths, what prompts share.",
    ),
    (
        "rankings",
        Section(&RANKINGS),
        "Queries and passages, for endpoints that rank.",
    ),
    (
        "system_prompt",
        Text,
        "What the system says in front of every conversation.",
    ),
    (
        "system_prompt_file",
        Text,
        "A text file that says it. A relative path starts at the current directory.",
    ),
    (
        "prefix_prompts",
        Section(&PREFIX_PROMPTS),
        "What synthetic conversations share: beginnings from a pool, or messages in front of them.",
    ),
];

pub(super) const IN_PREFIX_PROMPTS: &[Key] = &[
    (
        "pool_size",
        Whole(1),
        "Different texts, of which each conversation begins with one. With length.",
    ),
    ("length", Whole(1), "Tokens of each text of the pool."),
    (
        "shared_system_length",
        Whole(1),
        "Tokens of a system message that all conversations have.",
    ),
    (
        "user_context_length",
        Whole(1),
        "Tokens of a message in front of the first turn, of which each conversation has its own.",
    ),
];

pub(super) const IN_SYNTHESIS: &[Key] = &[
    (
        "speedup_ratio",
        Number(POSITIVE),
        "What timestamps and delays are divided by: 2 is twice as fast.",
    ),
    (
        "prefix_len_multiplier",
        Number(POSITIVE),
        "What the length of shared beginnings of prompts is multiplied with.",
    ),
    (
        "prefix_root_multiplier",
        Whole(1),
        "Over how many sets that share nothing sessions are spread.",
    ),
    (
        "prompt_len_multiplier",
        Number(POSITIVE),
        "What the length of the rest of a prompt is multiplied with.",
    ),
    (
        "output_len_multiplier",
        Number(NOT_NEGATIVE),
        "What the tokens that a record asks for are multiplied with.",
    ),
    ("max_isl", Whole(1), "Records with a longer prompt are left out."),
    (
        "max_osl",
        Whole(1),
        "Most tokens that a record asks for; more become this.",
    ),
];

pub(super) const IN_PROMPTS: &[Key] = &[
    (
        "isl",
        TOKENS,
        "Tokens of a prompt: a number, or {mean: 512, stddev: 64}.",
    ),
    (
        "osl",
        TOKENS,
        "Tokens that a request asks for: a number, or {mean: 128, stddev: 16}.",
    ),
    ("batch_size", Whole(1), "Prompts of a request; 1 by default."),
    (
        "sequence_distribution",
        PAIRS,
        "Pairs of isl and osl that are drawn together, in place of both.",
    ),
    (
        "random_range_ratio",
        Number(NOT_NEGATIVE.up_to(1.0)),
        "How far lengths lie from isl and osl, evenly spread, as a share of them.",
    ),
    (
        "random_corpus_style",
        Words(&["vllm", "sglang"]),
        "Whose rule the share follows: vllm around the length, sglang below it.",
    ),
];

pub(super) const IN_RANKINGS: &[Key] = &[
    ("passages", TOKENS, "Passages of a request."),
    ("passage_tokens", TOKENS, "Tokens of a passage."),
    ("query_tokens", TOKENS, "Tokens of the query."),
];

pub(super) const IN_ARTIFACTS: &[Key] = &[
    (
        "dir",
        Text,
        "Directory of the results; a relative path starts at the current directory.",
    ),
    ("prefix", Text, "Base name of the exports."),
    (
        "summary",
        OneOf(&[Boolean, List(&Words(&["json"]))]),
        "The summary: [json], or false for none.",
    ),
    (
        "records",
        OneOf(&[Boolean, List(&Words(&["jsonl"]))]),
        "A line for each request: [jsonl], or false for none.",
    ),
    (
        "slice_duration",
        Duration(POSITIVE),
        "Length of the slices of the run that have figures of their own.",
    ),
    (
        "raw",
        Boolean,
        "Whether requests and answers are written byte by byte, for looking at a server and not for measuring it.",
    ),
    (
        "export_outputs_json",
        Boolean,
        "Whether outputs.json has the text of each answer; as raw by default.",
    ),
    (
        "trace",
        Boolean,
        "Whether each line of the records says how its request went over the wire.",
    ),
    (
        "show_trace_timing",
        Boolean,
        "Whether the console shows the times of requests on the wire, in tables of their own.",
    ),
];

pub(super) const IN_RUNTIME: &[Key] = &[("ui", Words(&["none", "simple"]), "What is shown while the load runs.")];

pub(super) const IN_TOKENIZER: &[Key] = &[("name", Exactly(&["builtin"]), "The tokenizer: builtin.")];

pub(super) const IN_LOGGING: &[Key] = &[("level", Words(&["info"]), "The level: info.")];

pub(super) const IN_SERVER_METRICS: &[Key] = &[
    ("enabled", Boolean, "Whether metrics are read; true by default."),
    ("url", Text, "An address beside those of the endpoint."),
    ("urls", List(&Text), "Addresses beside those of the endpoint."),
    (
        "formats",
        List(&Words(&["json", "csv", "jsonl", "parquet"])),
        "The files that are written; json and csv by default.",
    ),
    (
        "discovery",
        Section(&DISCOVERY),
        "How further addresses are found: not at all.",
    ),
];

pub(super) const IN_DISCOVERY: &[Key] = &[("mode", Words(&["auto", "disabled"]), "Both find nothing.")];

pub(super) const IN_GPU_TELEMETRY: &[Key] = &[
    ("enabled", Boolean, "Whether figures are read; true by default."),
    ("url", Text, "The address of a DCGM exporter."),
    ("urls", List(&Text), "Addresses of DCGM exporters."),
    ("collector", Words(&["dcgm"]), "Where figures come from: dcgm."),
    ("mode", Words(&["summary"]), "How figures are shown: summary."),
];

pub(super) const IN_NETWORK_LATENCY: &[Key] = &[
    ("enabled", Boolean, "Must be false so far."),
    ("ping_interval", Free, "From one probe to the next."),
    ("mean_ms", Free, "A latency that is known."),
];
