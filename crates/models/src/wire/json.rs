//! JSON whose values keep their bytes, and the few repairs that every wire needs.

use std::fmt;

use agent::port::ModelError;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::text::Pieces;

/// An object in its order, with the bytes of each value as received.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawObject(pub(crate) Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// Reads an object; `None` where the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The raw text of a value.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    /// A value that is a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// A value that is a whole number.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Sets a value from its JSON text, in place where the key is known.
    pub(crate) fn set(&mut self, key: &str, json: String) {
        let Ok(value) = RawValue::from_string(json) else { return };
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Sets a string.
    pub(crate) fn set_text(&mut self, key: &str, text: &str) {
        self.set(key, string(text));
    }

    /// The object's text.
    pub(crate) fn write(&self, out: &mut String) {
        out.push('{');
        for (index, (key, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&string(key));
            out.push(':');
            out.push_str(value.get());
        }
        out.push('}');
    }
}

/// Fields that deltas bring and that we do not know, merged as they come: text is appended to text,
/// lists to lists, anything else replaces. Appending is cheap however long it goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged(Vec<(String, Held)>);

#[derive(Clone, Debug)]
enum Held {
    Text(String, Pieces),
    /// The inside of a list.
    List(String),
    Other(String),
}

impl Merged {
    /// Takes one more piece of a field; `first` is what stood there before all deltas.
    pub(crate) fn merge(&mut self, key: &str, json: &str, first: Option<&str>) -> Result<(), ModelError> {
        let at = match self.0.iter().position(|(name, _)| name == key) {
            Some(at) => at,
            None => {
                self.0.push((key.to_owned(), Held::read(first.unwrap_or("null"))?));
                self.0.len() - 1
            }
        };
        let held = &mut self.0[at].1;
        match held {
            _ if json == "null" => {}
            Held::Text(old, pieces) if json.starts_with('"') => old.push_str(&pieces.take(Some(json))?),
            held => match (held, Held::read(json)?) {
                (Held::List(old), Held::List(new)) => {
                    if !old.is_empty() && !new.is_empty() {
                        old.push(',');
                    }
                    old.push_str(&new);
                }
                (held, new) => *held = new,
            },
        }
        Ok(())
    }

    /// Whether every text of it came whole.
    pub(crate) fn whole(&self) -> Result<(), ModelError> {
        self.0.iter().try_for_each(|(_, held)| match held {
            Held::Text(_, pieces) => pieces.whole(),
            Held::List(_) | Held::Other(_) => Ok(()),
        })
    }

    /// Writes every field into an object.
    pub(crate) fn write_into(&self, object: &mut RawObject) {
        for (key, held) in &self.0 {
            let json = match held {
                Held::Text(text, _) => string(text),
                Held::List(inner) => format!("[{inner}]"),
                Held::Other(json) => json.clone(),
            };
            object.set(key, json);
        }
    }
}

impl Held {
    fn read(json: &str) -> Result<Self, ModelError> {
        if json.starts_with('"') {
            let mut pieces = Pieces::default();
            return Ok(Self::Text(pieces.take(Some(json))?, pieces));
        }
        Ok(match json.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => Self::List(inner.trim().to_owned()),
            None => Self::Other(json.to_owned()),
        })
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(RawObject(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A JSON string literal.
pub(crate) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A JSON string literal without its quotes: to be framed by the glue.
pub(crate) fn bare(text: &str) -> String {
    let mut literal = string(text);
    literal.pop();
    literal.remove(0);
    literal
}

/// Whether `text` is one JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    // Most of what is asked about is cut: its ends tell without reading what is between.
    let ends = text.trim_start().starts_with('{') && text.trim_end().ends_with('}');
    ends && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Arguments in a form that goes into a request: as generated where they are an object, `{}` where
/// there are none, else wrapped. A vendor (or a chat template) that parses old arguments would
/// refuse the whole transcript for ever after.
pub(crate) fn sound_arguments(raw: &str) -> String {
    if raw.trim().is_empty() {
        return "{}".to_owned();
    }
    // Read as a vendor would: a number or a half of a pair that no type can hold is no JSON to them.
    let sound = raw.trim_start().starts_with('{') && serde_json::from_str::<serde_json::Value>(raw).is_ok();
    if sound { raw.to_owned() } else { format!("{{\"INVALID_JSON\":{}}}", string(raw)) }
}

/// A tool name that every vendor takes back, however the model spelled it.
pub(crate) fn sound_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// An id where the vendor gave none (or one twice): a function of `seed`, different for each place.
pub(crate) fn made_up_id(seed: &str, place: usize) -> String {
    format!("call_{}_{place}", base62(fnv(seed.as_bytes()), 10))
}

/// A short name for a text: the same for the same text, and telling nothing of it.
pub(crate) fn fingerprint(text: &str) -> String {
    base62(fnv(text.as_bytes()), 11)
}

/// Nine letters and digits: the only ids that Mistral's checks accept.
pub(crate) fn short_id(id: &str) -> String {
    if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    base62(fnv(id.as_bytes()), 9)
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn base62(mut number: u64, digits: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(digits);
    for _ in 0..digits {
        text.push(char::from(DIGITS[(number % 62) as usize]));
        number /= 62;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_bytes() {
        let text = r#"{"a":1.50,"b":"\u00e9","c":[1, 2]}"#;
        let mut out = String::new();
        RawObject::parse(text).unwrap().write(&mut out);
        assert_eq!(out, text);
    }

    #[test]
    fn unknown_fields_of_deltas_are_merged() {
        let mut object = RawObject::parse(r#"{"a":"x","l":[1],"n":null}"#).unwrap();
        let mut merged = Merged::default();
        for (key, json) in [("a", r#""y""#), ("l", "[2]"), ("n", "3"), ("a", "null"), ("z", "{}")] {
            merged.merge(key, json, object.get(key)).unwrap();
        }
        merged.write_into(&mut object);
        let mut out = String::new();
        object.write(&mut out);
        assert_eq!(out, r#"{"a":"xy","l":[1,2],"n":3,"z":{}}"#);
    }

    #[test]
    fn arguments_are_kept_or_wrapped_never_rewritten() {
        assert_eq!(sound_arguments("{ \"a\":1.0 }"), "{ \"a\":1.0 }");
        assert_eq!(sound_arguments(" "), "{}");
        assert_eq!(sound_arguments("{\"a\":"), r#"{"INVALID_JSON":"{\"a\":"}"#);
    }

    #[test]
    fn names_and_ids_fit_what_vendors_take() {
        assert_eq!(sound_name("functions.send message"), "functions_send_message");
        assert_eq!(sound_name(""), "unknown");
        assert_eq!(short_id("gSIMJiOkT"), "gSIMJiOkT");
        assert_eq!(short_id("call_abc").len(), 9);
        assert_ne!(made_up_id("a", 0), made_up_id("a", 1));
    }
}
