//! JSON objects whose values keep their bytes, and the repairs of names, ids and arguments that all wires
//! share.

use std::fmt;

use agent::port::ModelError;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::text::Pieces;
use crate::bounds::{REPLY_PARTS_MAX, UNKNOWN_FIELDS_MAX};

/// An error if a reply with so many parts can have no more. Asked before each part that begins.
pub(crate) fn room_for_part(parts: usize) -> Result<(), ModelError> {
    match parts < REPLY_PARTS_MAX {
        true => Ok(()),
        false => Err(ModelError::Garbage(format!("the reply has more than {REPLY_PARTS_MAX} parts"))),
    }
}

/// An object that keeps the order of its fields and the bytes of each value.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawObject(pub(crate) Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// Parses an object; `None` if the text is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The raw text of a value.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    /// The value, if it is a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// The value, if it is an unsigned integer.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Sets a value from its JSON text. A known key keeps its position.
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

    /// Appends the object's JSON to `out`.
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

/// Unknown fields of deltas, merged as they arrive: text is appended to text, lists to lists, any other
/// value replaces the old one. The cost of appending does not grow with the length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged(Vec<(String, MergedValue)>);

#[derive(Clone, Debug)]
enum MergedValue {
    Text(String, Pieces),
    /// The inside of a list.
    List(String),
    Other(String),
}

impl Merged {
    /// Adds a piece of a field; `first` is the field's value before all deltas.
    pub(crate) fn merge(&mut self, key: &str, json: &str, first: Option<&str>) -> Result<(), ModelError> {
        let at = match self.0.iter().position(|(name, _)| name == key) {
            Some(at) => at,
            None if self.0.len() >= UNKNOWN_FIELDS_MAX => {
                return Err(ModelError::Garbage(format!("a part has more than {UNKNOWN_FIELDS_MAX} fields")));
            }
            None => {
                self.0.push((key.to_owned(), MergedValue::read(first.unwrap_or("null"))?));
                self.0.len() - 1
            }
        };
        let held = &mut self.0[at].1;
        match held {
            _ if json == "null" => {}
            MergedValue::Text(old, pieces) if json.starts_with('"') => {
                old.push_str(&pieces.take(Some(json))?)
            }
            held => match (held, MergedValue::read(json)?) {
                (MergedValue::List(old), MergedValue::List(new)) => {
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

    /// An error if any text is incomplete.
    pub(crate) fn whole(&self) -> Result<(), ModelError> {
        self.0.iter().try_for_each(|(_, held)| match held {
            MergedValue::Text(_, pieces) => pieces.whole(),
            MergedValue::List(_) | MergedValue::Other(_) => Ok(()),
        })
    }

    /// Writes every field into an object.
    pub(crate) fn write_into(&self, object: &mut RawObject) {
        for (key, held) in &self.0 {
            let json = match held {
                MergedValue::Text(text, _) => string(text),
                MergedValue::List(inner) => format!("[{inner}]"),
                MergedValue::Other(json) => json.clone(),
            };
            object.set(key, json);
        }
    }
}

impl MergedValue {
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

/// A JSON string literal without its quotes, which the glue adds.
pub(crate) fn unquoted(text: &str) -> String {
    let mut literal = string(text);
    literal.pop();
    literal.remove(0);
    literal
}

/// Whether `text` is one JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    // Most texts that are checked are cut, which the first and last character show without parsing.
    let ends = text.trim_start().starts_with('{') && text.trim_end().ends_with('}');
    ends && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Arguments in a form that a vendor accepts: unchanged if they are an object, `{}` if there are none,
/// else wrapped. A vendor or chat template that parses old arguments would otherwise refuse every later
/// request with this transcript.
pub(crate) fn valid_arguments(raw: &str) -> String {
    if raw.trim().is_empty() {
        return "{}".to_owned();
    }
    // Parsed into a `Value`, because vendors also refuse numbers out of range and lone surrogates.
    let sound = raw.trim_start().starts_with('{') && serde_json::from_str::<serde_json::Value>(raw).is_ok();
    if sound { raw.to_owned() } else { format!("{{\"INVALID_JSON\":{}}}", string(raw)) }
}

/// A tool name that every vendor accepts, whatever the model wrote.
pub(crate) fn valid_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// An id for a call whose id is missing or used twice: a function of `seed` and the call's position.
pub(crate) fn generated_id(seed: &str, position: usize) -> String {
    format!("call_{}_{position}", base62(fnv(seed.as_bytes()), 10))
}

/// A short hash of a text, which does not reveal the text.
pub(crate) fn fingerprint(text: &str) -> String {
    base62(fnv(text.as_bytes()), 11)
}

/// An id of nine letters and digits, the only form that Mistral accepts.
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
    fn arguments_are_kept_or_wrapped_and_never_rewritten() {
        assert_eq!(valid_arguments("{ \"a\":1.0 }"), "{ \"a\":1.0 }");
        assert_eq!(valid_arguments(" "), "{}");
        assert_eq!(valid_arguments("{\"a\":"), r#"{"INVALID_JSON":"{\"a\":"}"#);
    }

    #[test]
    fn names_and_ids_have_a_form_that_vendors_accept() {
        assert_eq!(valid_name("functions.send message"), "functions_send_message");
        assert_eq!(valid_name(""), "unknown");
        assert_eq!(short_id("gSIMJiOkT"), "gSIMJiOkT");
        assert_eq!(short_id("call_abc").len(), 9);
        assert_ne!(generated_id("a", 0), generated_id("a", 1));
    }
}
