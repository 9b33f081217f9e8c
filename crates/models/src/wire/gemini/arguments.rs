//! Arguments that arrive in pieces, each with the path of its value. The pieces are joined to one object
//! in the order of arrival.

use agent::port::ModelError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::bounds::ARGUMENT_PATH_MAX;
use crate::wire::text::Pieces;

/// One piece.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece {
    json_path: Option<String>,
    string_value: Option<Box<RawValue>>,
    number_value: Option<Box<RawValue>>,
    bool_value: Option<bool>,
}

#[derive(Debug, PartialEq, Eq)]
enum PathStep {
    Key(String),
    Index(usize),
}

/// The arguments received so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    whole: Value,
    /// The path and the pieces of the string that the next piece may continue.
    path: String,
    pieces: Pieces,
}

impl Arguments {
    /// Adds a piece.
    pub(super) fn add(&mut self, piece: Piece) -> Result<(), ModelError> {
        let path = piece.json_path.unwrap_or_default();
        if path != self.path {
            self.pieces.whole()?;
            self.path.clone_from(&path);
        }
        let text = self.pieces.take(piece.string_value.as_deref().map(RawValue::get))?;
        let slot = steps(&path).and_then(|path| path.into_iter().try_fold(&mut self.whole, descend));
        let slot = slot.ok_or_else(|| garbage("a piece of a call's arguments has an invalid path"))?;
        match (slot, piece.string_value) {
            // The piece continues the string.
            (Value::String(so_far), Some(_)) => so_far.push_str(&text),
            (slot, Some(_)) => *slot = Value::String(text),
            (slot, None) => {
                *slot = match (piece.number_value, piece.bool_value) {
                    (Some(number), _) => serde_json::from_str(number.get())
                        .map_err(|_| garbage("a number in a call's arguments is not valid"))?,
                    (None, Some(truth)) => Value::Bool(truth),
                    (None, None) => Value::Null,
                }
            }
        }
        Ok(())
    }

    /// The arguments as JSON; `None` if there were no pieces.
    pub(super) fn whole(&self) -> Result<Option<String>, ModelError> {
        self.pieces.whole()?;
        Ok((!self.whole.is_null()).then(|| self.whole.to_string()))
    }
}

fn garbage(what: &str) -> ModelError {
    ModelError::Garbage(what.to_owned())
}

/// The value after one step of a path, created if missing. A list grows only by one, so that a large
/// index cannot allocate memory.
fn descend(value: &mut Value, step: PathStep) -> Option<&mut Value> {
    match step {
        PathStep::Key(key) => {
            if value.is_null() {
                *value = Value::Object(Map::new());
            }
            Some(value.as_object_mut()?.entry(key).or_insert(Value::Null))
        }
        PathStep::Index(index) => {
            if value.is_null() {
                *value = Value::Array(Vec::new());
            }
            let items = value.as_array_mut()?;
            if index == items.len() {
                items.push(Value::Null);
            }
            items.get_mut(index)
        }
    }
}

/// The steps of `$.key`, `$.list[0].key`, `$['any key']`.
fn steps(path: &str) -> Option<Vec<PathStep>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == ARGUMENT_PATH_MAX {
            return None;
        }
        let step;
        (step, rest) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            (PathStep::Key(after[..end].to_owned()), &after[end..])
        } else if let Some(after) = rest.strip_prefix("['") {
            let end = after.find("']")?;
            (PathStep::Key(after[..end].to_owned()), &after[end + 2..])
        } else {
            let after = rest.strip_prefix('[')?;
            let end = after.find(']')?;
            (PathStep::Index(after[..end].parse().ok()?), &after[end + 1..])
        };
        steps.push(step);
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&str]) -> Option<String> {
        let mut arguments = Arguments::default();
        for piece in pieces {
            arguments.add(serde_json::from_str(piece).unwrap()).ok()?;
        }
        arguments.whole().unwrap()
    }

    #[test]
    fn pieces_are_joined_to_one_object_in_their_order() {
        let whole = all(&[
            r#"{"jsonPath":"$.z","stringValue":"Bos","willContinue":true}"#,
            r#"{"jsonPath":"$.z","stringValue":"ton"}"#,
            r#"{"jsonPath":"$.list[0].n","numberValue":1.50}"#,
            r#"{"jsonPath":"$.list[1]['a key']","boolValue":true}"#,
            r#"{"jsonPath":"$.none","nullValue":"NULL_VALUE"}"#,
        ]);
        assert_eq!(whole.unwrap(), r#"{"z":"Boston","list":[{"n":1.5},{"a key":true}],"none":null}"#);
    }

    #[test]
    fn an_invalid_path_is_refused_and_allocates_no_memory() {
        for path in ["z", "$.a[4000000000]", "$.a[x]", "$['a", "$.a.b[", &format!("${}", ".a".repeat(999))] {
            assert_eq!(all(&[&format!(r#"{{"jsonPath":"{path}","stringValue":"x"}}"#)]), None, "{path}");
        }
        assert_eq!(
            all(&[r#"{"jsonPath":"$.a","stringValue":"x"}"#, r#"{"jsonPath":"$.a.b","stringValue":"y"}"#]),
            None
        );
    }
}
