//! YAML as JSON whose keys know their lines. Knows no key.

use std::fmt;

use scenario::file::Flaw;
use scenario::yaml;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

/// A value and where it stands.
enum Node {
    Plain(Value),
    List(Vec<Spanned<Node>>),
    Table(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a list or a table")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = all.next_element()? {
            list.push(value);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Node, A::Error> {
        let mut table = Vec::new();
        while let Some(entry) = all.next_entry()? {
            table.push(entry);
        }
        Ok(Node::Table(table))
    }
}

/// A value, and the line of each key by its path; lines count from 1.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) value: Value,
    pub(super) lines: Vec<(String, usize)>,
}

/// Reads YAML, or says where it is none, and why.
pub(super) fn read(text: &str) -> Result<Read, Flaw> {
    let options = serde_saphyr::options! {
        // As YAML 1.2 has it: `no` is a word, not a switch.
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false
    };
    match serde_saphyr::from_str_with_options::<Option<Spanned<Node>>>(text, options) {
        Ok(None) => Ok(Read { value: Value::Object(Map::new()), lines: Vec::new() }),
        Ok(Some(node)) => {
            let mut lines = Vec::new();
            let value = plain(node.value, "", &mut lines);
            Ok(Read { value, lines })
        }
        Err(error) => Err(yaml::flaw(&error)),
    }
}

fn plain(node: Node, path: &str, lines: &mut Vec<(String, usize)>) -> Value {
    match node {
        Node::Plain(value) => value,
        Node::List(all) => all.into_iter().map(|node| plain(node.value, path, lines)).collect(),
        Node::Table(all) => {
            let mut table = Map::new();
            for (key, node) in all {
                let name = key.value;
                let here = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                lines.push((here.clone(), usize::try_from(key.referenced.line()).unwrap_or(1)));
                table.insert(name, plain(node.value, &here, lines));
            }
            Value::Object(table)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_know_their_lines_also_below_others() {
        let read = read("name: ada\nlimits:\n  max_steps: 5\n  inbox_max: 20\ntools: [a, b]\n").unwrap();
        let expected =
            json!({"name": "ada", "limits": {"max_steps": 5, "inbox_max": 20}, "tools": ["a", "b"]});
        assert_eq!(read.value, expected);
        let lines: Vec<_> = read.lines.iter().map(|(key, line)| (key.as_str(), *line)).collect();
        let places =
            [("name", 1), ("limits", 2), ("limits.max_steps", 3), ("limits.inbox_max", 4), ("tools", 5)];
        assert_eq!(lines, places);
    }

    #[test]
    fn scalars_are_what_yaml_1_2_says() {
        let of = |text: &str| read(&format!("k: {text}")).unwrap().value["k"].clone();
        assert_eq!(of("no"), json!("no"));
        assert_eq!(of("true"), json!(true));
        assert_eq!(of("null"), json!(null));
        assert_eq!(of("\"5\""), json!("5"));
        assert_eq!(of("-1.5"), json!(-1.5));
        assert_eq!(of("|\n  a\n  b"), json!("a\nb\n"));
    }

    #[test]
    fn nothing_is_an_empty_table() {
        for text in ["", "\n", "# only a comment\n"] {
            assert_eq!(read(text).unwrap().value, json!({}), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_yaml_names_its_line() {
        for (text, line) in [("a: 1\na: 2", 2), ("a: [1", 1), ("a: 1\n b: 2", 2), ("a: *x", 1)] {
            let flaw = read(text).unwrap_err();
            let (at, why) = (flaw.place.line, &flaw.message);
            assert!(at >= line && flaw.place.column > 0, "{text:?}: {:?}", flaw.place);
            assert!(!why.contains('\n') && why.starts_with(['`', 'e']), "{text:?}: {why}");
        }
    }
}
