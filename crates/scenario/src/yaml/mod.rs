//! YAML as a tree in which every value has its position in the file, so that errors can name it. This module
//! must not know the meaning of the text.

mod errors;

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

use crate::bounds;
use crate::flaw::{FileFlaw, FilePosition, shown};

/// A value and its position.
#[derive(Clone, Debug)]
pub struct YamlNode {
    /// The position.
    pub place: FilePosition,
    /// The value.
    pub is: Is,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Is {
    /// Nothing, or `null`.
    Nothing,
    /// A text, number or boolean.
    Scalar {
        /// The text in the file.
        written: String,
        /// The value that YAML gives it.
        value: Value,
    },
    /// Items, in order.
    List(Vec<YamlNode>),
    /// Keys and their values, in order.
    Map(Vec<(YamlKey, YamlNode)>),
}

/// A key of a mapping and its position.
#[derive(Clone, Debug)]
pub struct YamlKey {
    /// The position.
    pub place: FilePosition,
    /// The key.
    pub text: String,
}

impl YamlNode {
    /// A description for errors.
    pub(crate) fn kind(&self) -> String {
        match &self.is {
            Is::Nothing => "nothing".to_owned(),
            Is::Scalar { written, .. } => format!("`{}`", shown(written)),
            Is::List(_) => "a list".to_owned(),
            Is::Map(_) => "a mapping".to_owned(),
        }
    }

    /// A scalar as it is written in the file. Where a text is wanted, `4` and `yes` are texts too.
    pub(crate) fn words(&self) -> Option<&str> {
        match &self.is {
            Is::Scalar { written, .. } => Some(written),
            _ => None,
        }
    }

    /// The value as JSON.
    pub fn json(&self) -> Value {
        match &self.is {
            Is::Nothing => Value::Null,
            Is::Scalar { value, .. } => value.clone(),
            Is::List(items) => Value::Array(items.iter().map(Self::json).collect()),
            Is::Map(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| (key.text.clone(), value.json()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// The position of a key by its path (`limits.max_steps`), also within lists. If the key is missing, the
    /// position of the nearest key above it.
    pub fn place_of(&self, path: &str) -> Option<FilePosition> {
        match &self.is {
            Is::Map(pairs) => pairs.iter().find_map(|(key, value)| {
                let rest = path.strip_prefix(&key.text)?;
                match rest.strip_prefix('.') {
                    Some(below) => value.place_of(below).or(Some(key.place)),
                    None => rest.is_empty().then_some(key.place),
                }
            }),
            Is::List(items) => items.iter().find_map(|item| item.place_of(path)),
            Is::Nothing | Is::Scalar { .. } => None,
        }
    }

    /// Stores the original text of numbers and booleans.
    fn spell(&mut self, source: &str, span: Option<(usize, usize)>) {
        if let (Is::Scalar { written, value }, Some((from, length))) = (&mut self.is, span)
            && !value.is_string()
            && let Some(text) = source.get(from..from + length)
        {
            text.trim().clone_into(written);
        }
    }
}

/// Reads one YAML document. The error says where and why it is invalid.
pub fn read(text: &str) -> Result<YamlNode, FileFlaw> {
    let budget = serde_saphyr::budget! {
        max_nodes: bounds::NODES_MAX,
        max_depth: bounds::DEPTH_MAX,
    };
    let options = serde_saphyr::options! {
        with_snippet: false,
        // As in YAML 1.2, `no` is a text, not a boolean.
        strict_booleans: true,
        reject_unsupported_tags: true,
        budget: budget
    };
    let raw: Raw =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| errors::flaw(&error))?;
    Ok(raw.into_node(text))
}

fn place_of(location: Location) -> FilePosition {
    FilePosition { line: location.line(), column: location.column() }
}

/// A value as the library returns it.
struct Raw(Spanned<RawIs>);

enum RawIs {
    Nothing,
    Scalar(Value),
    List(Vec<Raw>),
    Map(Vec<(Spanned<String>, Raw)>),
}

impl Raw {
    fn into_node(self, source: &str) -> YamlNode {
        let Spanned { value, referenced, .. } = self.0;
        let span = referenced.span();
        let bytes = span
            .byte_offset()
            .zip(span.byte_len())
            .and_then(|(from, length)| Some((usize::try_from(from).ok()?, usize::try_from(length).ok()?)));
        let is = match value {
            RawIs::Nothing => Is::Nothing,
            RawIs::Scalar(value) => {
                let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                Is::Scalar { written, value }
            }
            RawIs::List(items) => Is::List(items.into_iter().map(|item| item.into_node(source)).collect()),
            RawIs::Map(pairs) => Is::Map(
                pairs
                    .into_iter()
                    .map(|(key, value)| {
                        let key = YamlKey { place: place_of(key.referenced), text: key.value };
                        (key, value.into_node(source))
                    })
                    .collect(),
            ),
        };
        let mut node = YamlNode { place: place_of(referenced), is };
        node.spell(source, bytes);
        node
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawIs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = RawIs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawIs, E> {
        Ok(RawIs::Nothing)
    }

    fn visit_none<E>(self) -> Result<RawIs, E> {
        Ok(RawIs::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawIs, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawIs, E> {
        Ok(RawIs::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawIs, E> {
        Ok(RawIs::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawIs, E> {
        Ok(RawIs::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawIs, E> {
        let number = Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number);
        Ok(RawIs::Scalar(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawIs, E> {
        Ok(RawIs::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawIs, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(RawIs::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<RawIs, A::Error> {
        let mut all = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            all.push(pair);
        }
        Ok(RawIs::Map(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_value_and_key_has_its_position() {
        let node = read("a: 1\nb:\n  - two words\n  - {c: yes}\n").unwrap();
        let Is::Map(pairs) = &node.is else { panic!("{node:?}") };
        assert_eq!((pairs[1].0.place.line, pairs[1].0.place.column), (2, 1));
        let Is::List(items) = &pairs[1].1.is else { panic!("{node:?}") };
        assert_eq!((items[0].place.line, items[0].place.column), (3, 5));
        assert_eq!(items[0].words(), Some("two words"));
        let Is::Map(inner) = &items[1].is else { panic!("{node:?}") };
        assert_eq!((inner[0].0.place.column, inner[0].1.place.column), (6, 9));
        assert_eq!(node.json().to_string(), r#"{"a":1,"b":["two words",{"c":"yes"}]}"#);
    }

    #[test]
    fn a_key_is_found_by_its_path() {
        let node = read("name: ada\nlimits:\n  max_steps: 5\nfallback:\n- model: x\n").unwrap();
        let line = |path: &str| node.place_of(path).map(|place| place.line);
        assert_eq!((line("name"), line("limits"), line("limits.max_steps")), (Some(1), Some(2), Some(3)));
        assert_eq!(
            (line("fallback.model"), line("limits.inbox_max"), line("limit")),
            (Some(5), Some(2), None)
        );
    }

    #[test]
    fn scalars_are_read_as_in_yaml_1_2() {
        let of = |text: &str| read(&format!("k: {text}")).unwrap().json()["k"].clone();
        assert_eq!(of("no"), json!("no"));
        assert_eq!(of("true"), json!(true));
        assert_eq!(of("null"), json!(null));
        assert_eq!(of("\"5\""), json!("5"));
        assert_eq!(of("-1.5"), json!(-1.5));
        assert_eq!(of("|\n  a\n  b"), json!("a\nb\n"));
    }

    #[test]
    fn numbers_are_read_as_written_where_a_text_is_wanted() {
        let Is::List(items) = read("[0755, 1.50, true, 007, \"4\"]").unwrap().is else { panic!() };
        let words: Vec<_> = items.iter().map(|item| item.words().unwrap()).collect();
        assert_eq!(words, ["0755", "1.50", "true", "007", "4"]);
    }

    #[test]
    fn an_error_in_yaml_has_its_position() {
        let flaw = read("a: 1\nb: [1,\nc: }\n").unwrap_err();
        assert!(flaw.place.line >= 2, "{flaw:?}");
        let flaw = read("a: x\na: y\n").unwrap_err();
        assert_eq!(flaw.place.line, 2, "{flaw:?}");
        let deep = "[".repeat(500);
        read(&deep).unwrap_err();
        read("a: &x [1]\nb: *x\n").unwrap();
    }
}
