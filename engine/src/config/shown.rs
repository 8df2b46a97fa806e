//! JSON as it may be shown, written on as it is read: a dataset has too many bodies to make a value of each.

use std::fmt::{Formatter, Result as FormatResult};

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Secrets;
use super::secret::{REDACTED, is_credential_name};

impl Secrets {
    /// Appends the body of a request as compact JSON without credentials, those of its keys included.
    ///
    /// # Errors
    /// The body is not JSON; what was appended before that was found out stays.
    pub fn push_body(&self, body: &[u8], out: &mut Vec<u8>) -> serde_json::Result<()> {
        let mut body = serde_json::Deserializer::from_slice(body);
        Shown { secrets: self, out }.deserialize(&mut body)?;
        body.end()
    }
}

/// Where a value goes.
struct Shown<'a> {
    secrets: &'a Secrets,
    out: &'a mut Vec<u8>,
}

impl Shown<'_> {
    fn push<E: Error>(self, value: &(impl Serialize + ?Sized)) -> Result<(), E> {
        serde_json::to_writer(self.out, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Shown<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shown<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut Formatter<'_>) -> FormatResult {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.push(&())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push(&value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.push(&value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.push(&value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.push(&value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let shown = self.secrets.redact(text);
        self.push(&*shown)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { secrets, out } = self;
        out.push(b'[');
        let start = out.len();
        loop {
            let end = out.len();
            if end > start {
                out.push(b',');
            }
            let item = Shown {
                secrets,
                out: &mut *out,
            };
            if items.next_element_seed(item)?.is_none() {
                out.truncate(end);
                break;
            }
        }
        out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { secrets, out } = self;
        out.push(b'{');
        let start = out.len();
        loop {
            let end = out.len();
            if end > start {
                out.push(b',');
            }
            let Some(holds_credential) = members.next_key_seed(Key(out))? else {
                out.truncate(end);
                break;
            };
            let value = Shown {
                secrets,
                out: &mut *out,
            };
            if !holds_credential {
                members.next_value_seed(value)?;
            } else if members.next_value::<Option<IgnoredAny>>()?.is_some() {
                value.visit_str(REDACTED)?;
            } else {
                value.visit_unit()?;
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Writes a key and its colon, and answers whether what follows is a credential.
struct Key<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> FormatResult {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        serde_json::to_writer(&mut *self.0, key).map_err(E::custom)?;
        self.0.push(b':');
        Ok(is_credential_name(key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::super::secret::masked;
    use super::*;

    fn shown(secrets: &Secrets, body: &[u8]) -> serde_json::Result<String> {
        let mut out = b"before".to_vec();
        secrets.push_body(body, &mut out)?;
        Ok(String::from_utf8(out.split_off(6)).expect("JSON is UTF-8"))
    }

    fn secrets() -> Secrets {
        Secrets::from_outside(vec!["swordfish".to_owned()])
    }

    #[test]
    fn credentials_are_masked_by_key_and_by_value_and_nothing_else_changes() {
        let body = r#" {"model": "m", "api_key": {"a": 1}, "auth": null, "n": [1, -2, 0.5, 1e300, true, null, [], {}],
            "text": "say swordfish \u00e9\n", "swordfish": ""} "#;
        let expected = r#"{"model":"m","api_key":"<redacted>","auth":null,"n":[1,-2,0.5,1e+300,true,null,[],{}],"text":"say <redacted> é\n","swordfish":""}"#;
        assert_eq!(shown(&secrets(), body.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        for body in ["", "{oops", "{} {}", "{\"a\":}", "[1,]", "\"a"] {
            assert!(shown(&secrets(), body.as_bytes()).is_err(), "{body}");
        }
        assert!(shown(&secrets(), b"\"\xff\"").is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            Just(json!("a swordfish, swordfish")),
        ];
        let key = prop_oneof![
            any::<String>(),
            prop::sample::select(vec!["token", "max_tokens", "time_to_first_token", "X-Api-Key"])
                .prop_map(str::to_owned),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_on_is_what_a_value_would_show(body in any_json(), pretty in any::<bool>()) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&body).unwrap(),
                false => body.to_string(),
            };
            let mut expected = masked(body);
            secrets().redact_json(&mut expected);
            prop_assert_eq!(shown(&secrets(), text.as_bytes()).unwrap(), expected.to_string());
        }
    }
}
