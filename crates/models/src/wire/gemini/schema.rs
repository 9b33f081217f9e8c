//! A tool's schema in the form that Gemini accepts: JSON Schema without the keywords that it refuses.

use serde_json::Value;

/// The formats of strings and numbers that Gemini knows; it refuses any other.
const FORMATS: [&str; 8] = ["int32", "int64", "float", "double", "date-time", "date", "time", "enum"];

/// The schema without `$schema` and unknown formats.
pub(super) fn accepted(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            // `format` may also be the name of a property; then its value is a schema, not a string.
            let refused = |key: &str, value: &Value| match key {
                "$schema" => value.is_string(),
                "format" => value.as_str().is_some_and(|format| !FORMATS.contains(&format)),
                _ => false,
            };
            let kept = fields.iter().filter(|(key, value)| !refused(key, value));
            kept.map(|(key, value)| (key.clone(), accepted(value))).collect()
        }
        Value::Array(items) => items.iter().map(accepted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_refused_keywords_are_removed_and_the_order_is_kept() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "n": {"type": "integer", "format": "uint32", "minimum": 0},
                "format": {"type": "string", "format": "date-time"},
                "b": {"$ref": "#/$defs/B"},
            },
            "$defs": {"B": {"anyOf": [{"type": "null"}, {"type": "number", "format": "double"}]}},
        });
        let expected = r##"{"type":"object","properties":{"n":{"type":"integer","minimum":0},"format":{"type":"string","format":"date-time"},"b":{"$ref":"#/$defs/B"}},"$defs":{"B":{"anyOf":[{"type":"null"},{"type":"number","format":"double"}]}}}"##;
        assert_eq!(accepted(&schema).to_string(), expected);
    }
}
