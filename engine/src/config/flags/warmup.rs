//! Flags of the warmup phase.

use std::rc::Rc;

use super::super::address::{Step, phases};
use super::super::tree::{Node, Position, Style, Value};
use super::document::mapping;
use super::given::{Given, scalar};
use super::overlay::{Overlay, below, keys};
use super::phase::Home;
use super::table::{Flag, Group, Writes};

use Group::Warmup;
use Writes::{Special, Warmup as Phase};

/// The flags that make a warmup phase where there is none: each says when it ends.
const TRIGGERS: [&str; 3] = ["warmup-request-count", "num-warmup-sessions", "warmup-duration"];

pub(super) static FLAGS: &[Flag] = &[
    Flag::value("warmup-request-count", "N", Warmup, Phase("requests"), "Requests to send before the load that is measured")
        .aka(&["num-warmup-requests"])
        .more("One of --warmup-request-count, --num-warmup-sessions and --warmup-duration makes a phase `warmup` before the others, with the load of \
               the profiling phase where no flag says otherwise. With a config file that has a warmup phase, the flags change its first one."),
    Flag::value("num-warmup-sessions", "N", Warmup, Phase("sessions"), "Conversations to run before the load that is measured")
        .aka(&["warmup-num-sessions"]),
    Flag::value("warmup-duration", "TIME", Warmup, Phase("duration"), "Time in which requests start before the load that is measured"),
    Flag::value("warmup-concurrency", "N", Warmup, Phase("concurrency"), "Requests in flight [default: --concurrency]"),
    Flag::value("warmup-prefill-concurrency", "N", Warmup, Phase("prefill_concurrency"), "Requests before their first token [default: --prefill-concurrency]"),
    Flag::value("warmup-request-rate", "N", Warmup, Phase("rate"), "Requests per second [default: --request-rate]"),
    Flag::value("warmup-arrival-pattern", "WORD", Warmup, Special, "Gaps between arrivals [default: --arrival-pattern]"),
    Flag::value("warmup-grace-period", "TIME", Warmup, Phase("grace_period"), "Longest wait after --warmup-duration, or inf [default: until all have ended]"),
    Flag::value("warmup-concurrency-ramp-duration", "TIME", Warmup, Phase("concurrency_ramp"), "Time in which the concurrency rises [default: --concurrency-ramp-duration]"),
    Flag::value("warmup-prefill-concurrency-ramp-duration", "TIME", Warmup, Phase("prefill_ramp"), "Time in which the prefill limit rises [default: --prefill-concurrency-ramp-duration]"),
    Flag::value("warmup-request-rate-ramp-duration", "TIME", Warmup, Phase("rate_ramp"), "Time in which the rate rises [default: --request-rate-ramp-duration]"),
];

/// What a new warmup phase takes over from the profiling phase: how it sends, but not when it ends, what it cancels or what it must hold.
const INHERITED: [&str; 9] = [
    "concurrency",
    "prefill_concurrency",
    "concurrency_ramp",
    "prefill_ramp",
    "rate",
    "rate_series",
    "rate_ramp",
    "smoothness",
    "on_cap",
];
/// The part of it that every type has.
const CLOSED: usize = 4;

impl Overlay<'_> {
    /// The first warmup phase, made if need be.
    pub(super) fn write_warmup(&mut self) {
        let given: Vec<&Given> = self
            .flags
            .iter()
            .filter(|given| given.flag.group == Group::Warmup)
            .collect();
        let Some(first) = given.first() else { return };
        if !self.check_counts(&given) {
            return;
        }
        let Some(home) = self.warmup_home().or_else(|| self.insert(&given)) else {
            if TRIGGERS.iter().all(|name| self.get(name).is_none()) {
                let flags = TRIGGERS.map(|name| format!("--{name}")).join(", ");
                self.mistake(
                    first.at,
                    format!("there is no warmup phase for it; add one of {flags}, or remove the flag"),
                );
            }
            return;
        };
        self.retype_open(
            &home,
            self.get("warmup-request-rate"),
            self.get("warmup-arrival-pattern"),
            None,
        );
        for given in given {
            if let Writes::Warmup(key) = given.flag.writes {
                self.write_phase(&home, key, given);
            }
        }
    }

    /// A count of zero means no warmup to some; it is the absence of the flag.
    fn check_counts(&self, given: &[&Given]) -> bool {
        let zeros: Vec<_> = given
            .iter()
            .filter(|given| TRIGGERS.contains(&given.flag.name) && given.word().parse() == Ok(0.0))
            .collect();
        for zero in &zeros {
            self.mistake(
                zero.at,
                "found `0`; allowed: more than 0; leave the flag out for a run without warmup",
            );
        }
        zeros.is_empty()
    }

    fn warmup_home(&self) -> Option<Home> {
        let known = phases(&self.body);
        let phase = known.into_iter().find(|phase| phase.kind == Some("warmup"))?;
        Some(Home {
            name: phase.name.unwrap_or("warmup").to_owned(),
            steps: phase.steps,
        })
    }

    /// Puts a phase before all others, with the load of the first profiling phase.
    fn insert(&mut self, given: &[&Given]) -> Option<Home> {
        let trigger = given.iter().find(|given| TRIGGERS.contains(&given.flag.name))?;
        let (steps, name, model) = {
            let known = phases(&self.body);
            let phase = known.iter().find(|phase| phase.is_profiling)?;
            (
                phase.steps.clone(),
                phase.name.unwrap_or("profiling").to_owned(),
                Rc::clone(phase.node),
            )
        };
        let (phase, followed) = self.successor(&steps, &name, &model);
        // The short form has a place of its own for it.
        if steps == keys("profiling") {
            self.place(&keys("warmup"), &phase, trigger.at);
            return Some(self.linked(keys("warmup"), &steps, &followed));
        }
        if let Some(path) = self.get_index_path() {
            let message = format!(
                "puts a phase before the others, and the sweep counts phases ({}); name the phase there instead of its position",
                path.told()
            );
            self.mistake(trigger.at, message);
        }
        let list = self.at(&keys("phases"))?;
        let mut items = vec![phase];
        match &list.value {
            Value::Sequence(phases) => items.extend(phases.iter().cloned()),
            _ => items.push(named(list)),
        }
        let list = Node::made(list, Value::Sequence(items));
        let place = |index| vec![Step::Key("phases".into()), Step::Item(index)];
        let model = place(match steps.get(1) {
            Some(Step::Item(index)) => index + 1,
            _ => 1,
        });
        self.shift(&list);
        Some(self.linked(place(0), &model, &followed))
    }

    /// The new phase. What varies from cell to cell in the one that it follows varies in both.
    fn linked(&mut self, steps: Vec<Step>, model: &[Step], followed: &[&str]) -> Home {
        for key in followed {
            self.links.push((below(model, key), below(&steps, key)));
        }
        Home {
            steps,
            name: "warmup".to_owned(),
        }
    }

    /// A warmup phase that sends as another phase does, and which of its keys follow a list.
    fn successor(&self, steps: &[Step], name: &str, model: &Rc<Node>) -> (Rc<Node>, Vec<&'static str>) {
        let kind = model
            .get("type")
            .and_then(|node| node.scalar())
            .map_or("", |kind| kind.text.as_str());
        // Schedules and users come from the dataset, and are not for preparing a server.
        let (kind, inherited) = match kind {
            "fixed_schedule" | "user_centric" => (None, &INHERITED[..CLOSED]),
            _ => (model.get("type").cloned(), &INHERITED[..]),
        };
        let text = |text: &str| scalar(text, Style::Substituted, Position::NOWHERE);
        let mut entries = vec![
            ("name", text("warmup")),
            ("kind", text("warmup")),
            ("type", kind.unwrap_or_else(|| text("concurrency"))),
        ];
        let values = inherited.iter().map(|key| (*key, self.at(&below(steps, key)).cloned()));
        entries.extend(values.filter_map(|(key, value)| Some((key, value?))));
        let is_listed = |key: &&&'static str| {
            let path = format!("phases.{name}.{key}");
            // A flag of the warmup's own says otherwise.
            let is_own = self.flags.iter().any(|given| given.flag.writes == Writes::Warmup(key));
            !is_own && self.lists.iter().any(|(_, listed, _)| *listed == path)
        };
        let followed = inherited.iter().filter(is_listed).copied().collect();
        (mapping(&entries), followed)
    }

    /// Where a sweep of the file names a phase by its position.
    fn get_index_path(&self) -> Option<Position> {
        fn search(node: &Node) -> Option<Position> {
            match &node.value {
                Value::Mapping(entries) => entries.iter().find_map(|entry| {
                    let index = entry
                        .key
                        .strip_prefix("phases.")
                        .and_then(|rest| rest.split('.').next());
                    let is_index = index.is_some_and(|index| index.parse::<usize>().is_ok());
                    if is_index {
                        Some(entry.key_at)
                    } else {
                        search(&entry.value)
                    }
                }),
                Value::Sequence(items) => items.iter().find_map(|item| search(item)),
                Value::Scalar(_) | Value::Faulty => None,
            }
        }
        search(self.envelope.get("sweep")?)
    }
}

/// The flat form of a single phase as an item of a list, where nothing is filled in any more.
fn named(phase: &Rc<Node>) -> Rc<Node> {
    let Value::Mapping(entries) = &phase.value else {
        return Rc::clone(phase);
    };
    let mut entries = entries.clone();
    for key in ["name", "kind"] {
        if phase.get(key).is_none()
            && let Value::Mapping(made) = &mapping(&[(key, scalar("profiling", Style::Substituted, phase.start))]).value
        {
            entries.extend(made.iter().cloned());
        }
    }
    Node::made(phase, Value::Mapping(entries))
}
