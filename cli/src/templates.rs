//! Configs to start from: the files in `examples/` that `config init` prints.

/// A config to start from.
#[derive(Debug)]
pub(crate) struct Template {
    /// What users call it.
    pub(crate) name: &'static str,
    /// What it is for, in one line.
    pub(crate) about: &'static str,
    /// The commented file.
    pub(crate) text: &'static str,
}

/// The one that comes without being asked for.
pub(crate) const DEFAULT: &str = "quickstart";

/// All of them, the simplest first. Each is a file of its name in `examples/`.
pub(crate) static ALL: [Template; 7] = [
    Template {
        name: DEFAULT,
        about: "the smallest useful benchmark: so many requests, so many at a time",
        text: include_str!("../../examples/quickstart.yaml"),
    },
    Template {
        name: "multi-phase",
        about: "warmup, baseline, a storm of cancelled requests, recovery",
        text: include_str!("../../examples/multi-phase.yaml"),
    },
    Template {
        name: "hooks",
        about: "reset the server's KV cache first and profile it around the load",
        text: include_str!("../../examples/hooks.yaml"),
    },
    Template {
        name: "sweep",
        about: "the same workflow at several loads, each several times",
        text: include_str!("../../examples/sweep.yaml"),
    },
    Template {
        name: "poisson",
        about: "an open loop: requests arrive at a rate of their own, as users do",
        text: include_str!("../../examples/poisson.yaml"),
    },
    Template {
        name: "trace",
        about: "replay of a recorded trace, with its records in the file",
        text: include_str!("../../examples/trace.yaml"),
    },
    Template {
        name: "adaptive",
        about: "how many requests at once before a service level breaks",
        text: include_str!("../../examples/adaptive.yaml"),
    },
];

/// The names in order.
pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(|template| template.name).collect()
}

impl Template {
    /// The template of a name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|template| template.name == name)
    }

    /// The file for a user: its own name in the comments, and what they said in place of the template's model and URL.
    pub(crate) fn filled(&self, file: &str, model: Option<&str>, url: Option<&str>) -> String {
        let own = format!("examples/{}.yaml", self.name);
        let lines = self.text.lines().map(|line| match (model, url) {
            (Some(model), _) if line.starts_with("  model: ") => format!("  model: {}", scalar(model)),
            (_, Some(url)) if line.starts_with("    url: ") => format!("    url: {}", scalar(url)),
            _ => line.replace(&own, file),
        });
        lines.map(|line| line + "\n").collect()
    }
}

/// A text as a YAML value: as it is if nothing in it means anything to YAML, else in quotes, as JSON has them.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@".contains(c))
        && !text.ends_with(':');
    if is_plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;

    #[test]
    fn every_template_says_what_it_is_and_has_one_line_for_each_answer() {
        for template in &ALL {
            let count = |start: &str| template.text.lines().filter(|line| line.starts_with(start)).count();
            assert_eq!((count("  model: "), count("    url: ")), (1, 1), "{}", template.name);
            assert!(template.text.starts_with("# "), "{}", template.name);
            let command = format!("ringload profile --config examples/{}.yaml", template.name);
            assert!(template.text.contains(&command), "{}", template.name);
        }
        assert!(Template::named(DEFAULT).is_some());
    }

    #[test]
    fn answers_take_their_place_and_every_template_stays_a_config() {
        for template in &ALL {
            for (model, url) in [
                ("org/name-8B", "https://host:8443/v1"),
                ("it's: a \"model\" #1", "[::1]:80"),
            ] {
                let text = template.filled("my config.yaml", Some(model), Some(url));
                assert!(!text.contains("examples/"), "{}", template.name);
                assert!(text.contains("--config my config.yaml"), "{}", template.name);
                if let Err(mistakes) = engine::check_text("init", &text) {
                    panic!("{}: {mistakes}\n{text}", template.name);
                }
                assert!(text.contains(&format!("  model: {}\n", scalar(model))), "{text}");
                assert!(text.contains(&format!("    url: {}\n", scalar(url))), "{text}");
            }
        }
    }

    #[test]
    fn unfilled_templates_are_the_examples() {
        for template in &ALL {
            let own = format!("examples/{}.yaml", template.name);
            assert_eq!(template.filled(&own, None, None), template.text);
        }
    }
}
