//! A tool's schema as this vendor takes it: JSON Schema, without the few words that it refuses.

use serde_json::Value;

/// Formats that are known for strings and numbers; any other is refused.
const FORMATS: [&str; 8] = ["int32", "int64", "float", "double", "date-time", "date", "time", "enum"];

/// The schema without `$schema` and formats that the vendor does not know.
pub(super) fn accepted(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            // A property may be called `format`; then what it holds is a schema and not a word.
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
    fn only_refused_words_are_left_out_and_the_order_stays() {
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
