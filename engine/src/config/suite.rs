//! A file as all the runs that it describes: one config for each variation of its sweep, and how often each runs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::convergence;
use super::decode::{Field, Section};
use super::diagnostic::{Diagnostic, Diagnostics, Sink, Source, quote};
use super::flags::{COMMAND_LINE, Flags, Overlaid, credentials, document};
use super::multi_run::{self, FailurePolicy, MultiRun};
use super::schema::BENCHMARK;
use super::secrets::Secrets;
use super::server_preset::ServerPreset;
use super::substitute::Environment;
use super::sweep::{self, Draft, Sweep};
use super::tree::{Node, Position};
use super::{Body, Config, Input, parse, secret, template};

use crate::units::counted;

/// A whole file, free of mistakes.
#[derive(Debug, Clone)]
pub struct Suite {
    /// One config for each variation, in their order; the only one of a file without a sweep. Never empty.
    pub variations: Vec<Variation>,
    /// What the sweep says beside its variations; `None` without one.
    pub sweep: Option<Sweep>,
    /// How often each variation runs.
    pub multi_run: MultiRun,
    /// When the cells that are left are not run any more.
    pub failure_policy: FailurePolicy,
    /// Whether each finished cell is shown on the console.
    pub shows_table: bool,
    source: Arc<Source>,
    /// Where the file asks for several runs.
    several_at: Option<Position>,
}

/// One set of values of a sweep, and the config that they make.
#[derive(Debug, Clone)]
pub struct Variation {
    /// `path=value, path=value`, the name of a scenario, or `base`. Secrets masked.
    pub label: String,
    /// The name of its directory, unique ignoring case; empty without a sweep.
    pub directory: String,
    /// Its parameters by path, secrets masked.
    pub values: Vec<(String, Json)>,
    /// The variables of its templates, secrets masked.
    pub variables: Map<String, Json>,
    /// What it runs.
    pub config: Config,
}

impl Suite {
    /// Whether this is one run as ever, with its artifacts directly in the artifact directory.
    pub fn is_single(&self) -> bool {
        self.sweep.is_none() && self.multi_run.num_runs == 1
    }

    /// The config of a file that describes one run.
    ///
    /// # Errors
    /// If it describes several.
    pub fn into_single(mut self) -> Result<Config, Diagnostics> {
        if self.is_single() {
            return Ok(self.variations.swap_remove(0).config);
        }
        let message = format!(
            "found {} of {} each; allowed here: one run",
            counted(self.variations.len(), "variation"),
            counted(self.multi_run.num_runs, "run")
        );
        let at = self.several_at.unwrap_or(Position::START);
        Err(Diagnostics::new(self.source, vec![diagnostic(at, "", message)]))
    }

    /// Fills the paths of control hooks that nobody gave.
    ///
    /// # Errors
    /// If no hook is on.
    pub fn apply_preset(&mut self, preset: ServerPreset) -> Result<(), Diagnostics> {
        self.variations
            .iter_mut()
            .try_for_each(|variation| variation.config.apply_preset(preset))
    }

    /// The credentials of all variations.
    pub fn secrets(&self) -> Secrets {
        let all = self.variations.iter().map(|variation| &variation.config.secrets);
        all.fold(self.source.secrets().clone(), |all, more| all.union(more))
    }

    /// The first swept path that begins so.
    pub(crate) fn swept(&self, prefix: &str) -> Option<String> {
        let mut paths = self.variations.iter().flat_map(|variation| &variation.values);
        let found = paths.find(|(path, _)| path.starts_with(prefix));
        found.map(|(path, _)| path.clone())
    }

    /// A mistake of the file as a whole.
    pub(crate) fn mistake(&self, message: String) -> Diagnostics {
        Diagnostics::new(
            Arc::clone(&self.source),
            vec![diagnostic(Position { line: 0, column: 0 }, "", message)],
        )
    }
}

fn diagnostic(at: Position, path: &str, message: String) -> Diagnostic {
    Diagnostic {
        line: at.line,
        column: at.column,
        path: path.to_owned(),
        message,
    }
}

/// Reads a file, with the environment of the process for `${NAME}`.
///
/// # Errors
/// All mistakes of the file, or why it could not be read.
pub fn load_suite(path: &Path) -> Result<Suite, Diagnostics> {
    load_suite_with(path, &Flags::default())
}

/// Reads a file and puts flags over it.
///
/// # Errors
/// All mistakes of the file and the flags, or why the file could not be read.
pub fn load_suite_with(path: &Path, flags: &Flags) -> Result<Suite, Diagnostics> {
    let file = path.display().to_string();
    let unreadable = |reason: String| Diagnostics::unreadable(&file, reason);
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(format!("cannot read the file: {error}")))?;
    if !metadata.is_file() {
        return Err(unreadable("cannot read the file: it is not a regular file".to_owned()));
    }
    // Checked before reading, so that a wrong path to a huge file costs nothing.
    if metadata.len() > parse::MAX_BYTES as u64 {
        let limit = parse::MAX_BYTES;
        return Err(unreadable(format!(
            "found {} bytes; allowed: at most {limit}",
            metadata.len()
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(format!("cannot read the file: {error}")))?;
    parse_suite_with(&file, &bytes, &|name| std::env::var(name).ok(), flags)
}

/// Reads a command line that says everything.
///
/// # Errors
/// All mistakes of the flags.
pub fn suite_of_flags(flags: &Flags) -> Result<Suite, Diagnostics> {
    let secrets = Secrets::of(&credentials(flags), []);
    let source = Arc::new(Source::new(COMMAND_LINE, "", None, secrets));
    let root = document(flags);
    let input = Input {
        root: &root,
        flags,
        has_file: false,
    };
    finish(Some(input), &source, Sink::default())
}

/// Reads the bytes of a file that messages call `file`.
///
/// # Errors
/// All mistakes of the file, sorted by place. A mistake that only some variations make names one of them.
pub fn parse_suite(file: &str, bytes: &[u8], environment: &Environment<'_>) -> Result<Suite, Diagnostics> {
    parse_suite_with(file, bytes, environment, &Flags::default())
}

/// Reads the bytes of a file that messages call `file`, and puts flags over it.
///
/// # Errors
/// All mistakes of the flags, then those of the file.
pub fn parse_suite_with(
    file: &str,
    bytes: &[u8],
    environment: &Environment<'_>,
    flags: &Flags,
) -> Result<Suite, Diagnostics> {
    let sink = Sink::default();
    let text = parse::decode_text(bytes, &sink);
    // What a variable with the name of a credential holds is one wherever the file puts it.
    let from_outside = RefCell::new(Vec::new());
    let noted = |name: &str| {
        let value = environment(name)?;
        if secret::is_credential_header(name) {
            from_outside.borrow_mut().push(value.clone());
        }
        Some(value)
    };
    let root = text.and_then(|text| parse::parse(text, &noted, &sink));
    let masks = root.as_deref().map(secret::find_masks).unwrap_or_default();
    if !masks.is_empty() {
        sink.warn(format!(
            "{} holds {} and would be sent so: a saved config has no secrets; put the secrets back",
            masks.join(", "),
            secret::REDACTED
        ));
    }
    let places = root.as_deref().map(|root| {
        let mut places = secret::find_secrets(root);
        places.append(&mut sink.take_hidden());
        places
    });
    let from_outside = from_outside.into_inner();
    let secrets = match &root {
        Some(root) => Secrets::of(root, from_outside),
        None => Secrets::from_outside(from_outside),
    };
    let secrets = secrets.and(&credentials(flags));
    let source = Arc::new(Source::new(file, text.unwrap_or(""), places, secrets));
    let input = root.as_ref().map(|root| Input {
        root,
        flags,
        has_file: true,
    });
    finish(input, &source, sink)
}

fn finish(input: Option<Input<'_>>, source: &Arc<Source>, sink: Sink) -> Result<Suite, Diagnostics> {
    let suite = input.and_then(|input| super::envelope(&input, source, &sink));
    let (mistakes, warnings) = sink.into_parts();
    match suite {
        Some(mut suite) if mistakes.is_empty() => {
            for variation in &mut suite.variations {
                variation.config.warnings.splice(0..0, warnings.iter().cloned());
            }
            Ok(suite)
        }
        _ => {
            assert!(!mistakes.is_empty(), "a reader gave up without a report");
            Err(Diagnostics::new(Arc::clone(source), mistakes))
        }
    }
}

/// Reads everything beside `version`: the envelope's rules of runs, then `body` once for each variation.
pub(super) fn read(
    envelope: &Section<'_>,
    overlaid: Option<&Overlaid>,
    body_path: &str,
    source: &Arc<Source>,
    sink: &Sink,
) -> Option<Suite> {
    let random_seed = envelope
        .field("random_seed")
        .and_then(|field| field.integer(0, u64::MAX.into()));
    let (multi_run, trial_policy) = multi_run::decode(envelope);
    let shows_table = envelope
        .field("no_sweep_table")
        .and_then(|field| field.boolean())
        .is_none_or(|hidden| !hidden);
    let variables = envelope.field("variables").and_then(|field| {
        let is_mapping = field.free_entries("a mapping from names to values").is_some();
        is_mapping.then(|| envelope.node("variables")).flatten()
    });
    let overlaid = overlaid?;
    let body = &overlaid.body;
    let swept = envelope.field("sweep");
    let (rules, policy, mut drafts) = match &swept {
        None => (None, None, vec![Draft::base(body.start)]),
        Some(field) => {
            let (rules, policy, drafts) = sweep::decode(field, body)?;
            (Some(rules), policy, drafts)
        }
    };
    if let (Some(_), Some(_), Some(field)) = (policy, trial_policy, envelope.field("multi_run")) {
        field.report("`failure_policy` stands under `sweep` already; keep one");
    }
    for (index, draft) in drafts.iter_mut().enumerate() {
        draft.values.extend(overlaid.of_variation(index).values.iter().cloned());
    }
    let mut names = Map::new();
    names.extend(random_seed.map(|seed: u64| ("random_seed".to_owned(), Json::from(seed))));
    let mut reader = Reader {
        body_path,
        overlaid,
        source,
        names,
        random_seed,
        reports: Reports::default(),
        seen: HashMap::new(),
    };
    let variations: Vec<Variation> = drafts
        .iter()
        .enumerate()
        .filter_map(|(index, draft)| {
            reader.overlaid = overlaid.of_variation(index);
            reader.variation(draft, variables, swept.as_ref())
        })
        .collect();
    let count = drafts.len();
    let sweep_path = swept.as_ref().map(|field| field.path.as_str());
    reader.reports.hand_over(count, sweep_path.is_some(), sink);
    if let (Some(rule), Some(section)) = (&multi_run.convergence, envelope.field("multi_run")) {
        convergence::check(rule, &section, &variations);
    }
    let is_whole = variations.len() == count;
    is_whole.then(|| Suite {
        variations,
        sweep: rules,
        multi_run,
        failure_policy: policy.or(trial_policy).unwrap_or_default(),
        shows_table,
        source: Arc::clone(source),
        several_at: envelope.key_at("sweep").or(envelope.key_at("multi_run")),
    })
}

struct Reader<'a> {
    body_path: &'a str,
    /// The document that the next variation is applied to.
    overlaid: &'a Overlaid,
    source: &'a Arc<Source>,
    /// What templates may use of the top level.
    names: Map<String, Json>,
    random_seed: Option<u64>,
    reports: Reports,
    /// Variations so far, by what they run.
    seen: HashMap<String, (String, Position)>,
}

impl Reader<'_> {
    fn variation(
        &mut self,
        draft: &Draft,
        variables: Option<&Rc<Node>>,
        swept: Option<&Field<'_>>,
    ) -> Option<Variation> {
        let sink = Sink::default();
        let (body, variables) = draft.apply(&self.overlaid.body, variables);
        if let Some(field) = swept {
            self.check_flags(draft, &body, field, &sink);
        }
        let body = self.overlaid.follow(body);
        let (body, variables) = template::render(&body, variables.as_ref(), &self.names, self.body_path, &sink);
        let field = Field {
            node: &body,
            path: self.body_path.to_owned(),
            sink: &sink,
        };
        let read = field.section(&BENCHMARK).and_then(|section| super::benchmark(&section));
        let (mistakes, warnings) = sink.into_parts();
        let is_good = mistakes.is_empty();
        self.reports.add(&draft.label, mistakes);
        let read = read.filter(|_| is_good)?;
        if let Some(field) = swept {
            self.note(draft, body.to_json().to_string(), field);
        }
        let secrets = self.source.secrets().and(&body);
        // The template may have come from a file of its own.
        let secrets = match &read.endpoint.template {
            Some(template) => secrets.and_of_template(&template.body),
            None => secrets,
        };
        let shown = |mut value: Json| {
            secrets.redact_json(&mut value);
            value
        };
        let variables = match variables.map(|variables| without_secrets(variables.to_json())) {
            Some(Json::Object(object)) => object.into_iter().map(|(name, value)| (name, shown(value))).collect(),
            _ => Map::new(),
        };
        let values = draft.values.iter().cloned();
        Some(Variation {
            label: secrets.redact(&draft.label).into_owned(),
            directory: draft.directory.clone(),
            values: values.map(|(path, value)| (path, shown(value))).collect(),
            variables,
            config: config(read, Arc::clone(self.source), self.random_seed, warnings, secrets),
        })
    }
}

impl Reader<'_> {
    /// A flag for a value that the sweep varies leaves open what was meant.
    fn check_flags(&self, draft: &Draft, varied: &Rc<Node>, swept: &Field<'_>, sink: &Sink) {
        for (flag, steps) in self.overlaid.overridden(varied) {
            let (path, at) = draft.path_to(steps).unwrap_or(("the same value", swept.node.start));
            let message = format!(
                "decides what the sweep varies with {path} ({}); remove the flag, or the value from the sweep",
                at.told()
            );
            sink.report(flag, "", message);
        }
    }

    /// Reports a variation that runs the same as an earlier one.
    fn note(&mut self, draft: &Draft, runs: String, swept: &Field<'_>) {
        match self.seen.get(&runs) {
            Some((label, at)) => {
                // Flags that make variations have one name for all of them.
                let place = match at.flag() {
                    Some(_) => String::new(),
                    None => format!(" (line {}, column {})", at.line, at.column),
                };
                let message = format!(
                    "the variation {} is the same as {}{place}; remove one of them",
                    quote(&draft.label),
                    quote(label),
                );
                swept.sink.report(draft.at, &swept.path, message);
            }
            None => {
                self.seen.insert(runs, (draft.label.clone(), draft.at));
            }
        }
    }
}

fn config(
    body: Body,
    source: Arc<Source>,
    random_seed: Option<u64>,
    warnings: Vec<String>,
    secrets: Secrets,
) -> Config {
    Config {
        source,
        random_seed,
        models: body.models,
        endpoint: body.endpoint,
        dataset: body.dataset,
        phases: body.phases,
        artifacts: body.artifacts,
        slos: body.slos,
        ui: body.ui,
        telemetry: body.telemetry,
        tokenizer: body.tokenizer,
        warnings,
        secrets,
    }
}

/// A value without credentials in its keys and its URLs.
fn without_secrets(value: Json) -> Json {
    match secret::masked(value) {
        Json::String(text) => Json::from(secret::redact_url(&text)),
        Json::Object(object) => {
            let shown = object.into_iter().map(|(name, value)| (name, without_secrets(value)));
            Json::Object(shown.collect())
        }
        Json::Array(items) => items.into_iter().map(without_secrets).collect(),
        other => other,
    }
}

/// The mistakes of all variations: each told once, with a variation that makes it unless all do.
#[derive(Default)]
struct Reports {
    found: Vec<(Diagnostic, String, usize)>,
    /// Positions in `found` by what is said and where.
    index: HashMap<(u32, u32, String, String), usize>,
}

impl Reports {
    fn add(&mut self, label: &str, mistakes: Vec<Diagnostic>) {
        for mistake in mistakes {
            let key = (
                mistake.line,
                mistake.column,
                mistake.path.clone(),
                mistake.message.clone(),
            );
            match self.index.get(&key) {
                Some(&at) => self.found[at].2 += 1,
                None => {
                    self.index.insert(key, self.found.len());
                    self.found.push((mistake, label.to_owned(), 1));
                }
            }
        }
    }

    fn hand_over(self, variations: usize, is_sweep: bool, sink: &Sink) {
        for (mistake, label, count) in self.found {
            let at = Position {
                line: mistake.line,
                column: mistake.column,
            };
            let message = if !is_sweep || count == variations {
                mistake.message
            } else {
                let others = match count - 1 {
                    0 => String::new(),
                    others => format!(" and {others} more"),
                };
                format!("{} (in the variation {}{others})", mistake.message, quote(&label))
            };
            sink.report(at, &mistake.path, message);
        }
    }
}
