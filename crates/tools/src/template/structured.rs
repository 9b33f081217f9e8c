//! JSON whose texts are templates: each is written by itself, so that no value can break out of the place where it stands. Must
//! not know what the JSON is for.

use std::collections::BTreeSet;

use agent::limits;
use minijinja::Value;
use serde_json::{Map, Value as Json};

use super::{Slot, check, value};

/// Checks each text as a template; the error names the place of the first one that is none.
pub(crate) fn check_structured(source: &Json, slot: Slot, known: &BTreeSet<&str>) -> Result<(), String> {
    match source {
        Json::String(text) => check(text, slot, known),
        Json::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            check_structured(item, slot, known).map_err(|why| format!("in item {index}: {why}"))
        }),
        Json::Object(map) => map.iter().try_for_each(|(key, item)| {
            check_structured(item, slot, known).map_err(|why| format!("in `{key}`: {why}"))
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
    }
}

/// JSON with its texts written; `None` for a text that is a single value that is absent.
pub(crate) fn structured(source: &Json, slot: Slot, context: &Value) -> Result<Option<Json>, String> {
    let mut room = limits::TEMPLATE_OUTPUT_MAX_BYTES;
    written(source, slot, context, &mut room)
}

/// `room` is what the texts may still take.
fn written(source: &Json, slot: Slot, context: &Value, room: &mut usize) -> Result<Option<Json>, String> {
    Ok(Some(match source {
        Json::String(text) => {
            let Some(value) = value(text, slot, context)? else { return Ok(None) };
            let written = serde_json::to_value(value).map_err(|error| error.to_string())?;
            let left = room.checked_sub(written.to_string().len());
            *room =
                left.ok_or_else(|| format!("wanted at most {} bytes", limits::TEMPLATE_OUTPUT_MAX_BYTES))?;
            written
        }
        Json::Array(items) => {
            let items: Result<Vec<_>, _> =
                items.iter().map(|item| written(item, slot, context, room)).collect();
            Json::Array(items?.into_iter().flatten().collect())
        }
        Json::Object(map) => {
            let mut fields = Map::new();
            for (key, value) in map {
                if let Some(value) = written(value, slot, context, room)? {
                    fields.insert(key.clone(), value);
                }
            }
            Json::Object(fields)
        }
        other => other.clone(),
    }))
}
