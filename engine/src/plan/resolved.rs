//! The config as it runs, as a file of its own: what `config expand` prints and what a run leaves among its artifacts.

use serde_json::{Map, Value, json};

use super::{Plan, yaml};

/// Whether a resolved config fixes the root of the random streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeedChoice {
    /// The seed of this plan: the file gives the same run again.
    Fixed,
    /// None: each run of the file draws one, as with the file that it was made from.
    Drawn,
}

impl Plan {
    /// A config that gives this plan again, secrets masked.
    pub fn resolved_config(&self, seed: SeedChoice) -> Value {
        let mut file = Map::new();
        file.insert("schema_version".to_owned(), json!("2.0"));
        if seed == SeedChoice::Fixed {
            file.insert("random_seed".to_owned(), json!(self.seed));
        }
        file.insert("benchmark".to_owned(), self.input_config.clone());
        Value::Object(file)
    }

    /// The same as YAML.
    pub fn resolved_yaml(&self, seed: SeedChoice) -> String {
        let mut text = String::new();
        yaml::write(&self.resolved_config(seed), &mut text);
        text
    }
}
