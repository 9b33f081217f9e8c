//! Parses and checks the raw argument string of a call: returns a value that fits the tool's schema, or an
//! error for the model that names each fault, what was wanted and what was given.
//!
//! Arguments are never repaired: invalid JSON is refused.

use std::fmt;

use agent::limits;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::schema_work;

/// Faults that one error names.
const FAULTS_NAMED: usize = 5;
/// Characters of a given value that an error repeats.
const GOT_SHOWN: usize = 80;

/// The compiled schema of one tool.
pub(crate) struct Checker {
    tool: String,
    known: Vec<String>,
    schema: Value,
    validator: Validator,
}

impl Checker {
    /// Compiles the schema; the error says why it is not valid, or too much work.
    pub(crate) fn new(tool: &str, schema: &Value) -> Result<Self, String> {
        schema_work::check_size(schema)?;
        let known = schema["properties"].as_object().map(|p| p.keys().cloned().collect()).unwrap_or_default();
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(limits::SCHEMA_PATTERN_TRIES)
            .size_limit(limits::SCHEMA_PATTERN_MAX_BYTES);
        // What a `format` is, the tool itself knows best.
        let options = jsonschema::options()
            .with_draft(schema_work::draft(schema))
            .should_validate_formats(false)
            .with_pattern_options(patterns);
        let validator = options.build(schema).map_err(|e| e.to_string())?;
        Ok(Self { tool: tool.to_owned(), known, schema: schema.clone(), validator })
    }

    /// Parses the arguments and checks them against the schema. The error is for the model.
    pub(crate) fn check(&self, arguments: &str) -> Result<Value, String> {
        let faults = match parse(arguments) {
            Err(fault) => vec![fault],
            Ok(value) => {
                let faults = self.faults(&value);
                if faults.is_empty() {
                    return Ok(value);
                }
                faults
            }
        };
        let named = faults.len().min(FAULTS_NAMED);
        let mut text = format!("the arguments of `{}` do not fit: ", self.tool);
        text.push_str(&faults[..named].join("; "));
        if named < faults.len() {
            text.push_str("; and more");
        }
        Err(text)
    }

    /// The first faults of the value: at most one more than are named.
    fn faults(&self, value: &Value) -> Vec<String> {
        if let Err(why) = schema_work::check_steps(&self.schema, value) {
            return vec![why];
        }
        self.validator.iter_errors(value).take(FAULTS_NAMED + 1).map(|e| self.fault(&e)).collect()
    }

    fn fault(&self, error: &ValidationError<'_>) -> String {
        let path = error.instance_path().as_str();
        let at = if path.is_empty() { "at the top".to_owned() } else { format!("at `{path}`") };
        let got = got(error.instance());
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                format!("{at}: wanted a property `{}`, got none", property.as_str().unwrap_or_default())
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let unexpected: Vec<_> = unexpected.iter().map(|name| cut(name)).collect();
                let wanted = if path.is_empty() && !self.known.is_empty() {
                    format!("only {}", quoted(&self.known))
                } else {
                    "no others".to_owned()
                };
                format!("{at}: wanted {wanted}, got {}", quoted(&unexpected))
            }
            ValidationErrorKind::Type { kind } => format!("{at}: wanted {}, got {got}", types(kind)),
            ValidationErrorKind::Minimum { limit } => format!("{at}: wanted at least {limit}, got {got}"),
            ValidationErrorKind::Maximum { limit } => format!("{at}: wanted at most {limit}, got {got}"),
            ValidationErrorKind::MinItems { limit } => {
                format!("{at}: wanted at least {limit} items, got {}", items(error.instance()))
            }
            ValidationErrorKind::MaxItems { limit } => {
                format!("{at}: wanted at most {limit} items, got {}", items(error.instance()))
            }
            ValidationErrorKind::MinLength { limit } => {
                format!("{at}: wanted at least {limit} characters, got {got}")
            }
            ValidationErrorKind::MaxLength { limit } => {
                format!("{at}: wanted at most {limit} characters, got {got}")
            }
            ValidationErrorKind::Enum { options } => format!("{at}: wanted one of {options}, got {got}"),
            // Other keywords of a custom tool's schema: the message of the validator.
            _ => format!("{at}: {}", cut(&error.masked_with("the value").to_string())),
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn items(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => {
            several.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn got(value: &Value) -> String {
    format!("`{}`", cut(&value.to_string()))
}

/// Cuts a text to [`GOT_SHOWN`] characters.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(GOT_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Parses JSON of limited size and depth. A key that is given twice is an error, because the stream would
/// have shown the first value and the tool would use the last.
fn parse(arguments: &str) -> Result<Value, String> {
    if arguments.len() > limits::ARGUMENTS_MAX_BYTES {
        let max = limits::ARGUMENTS_MAX_BYTES;
        return Err(format!("wanted at most {max} bytes, got {}", arguments.len()));
    }
    if arguments.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value = bounded_json(arguments).map_err(|e| format!("wanted one JSON object, but: {e}"))?;
    check_numbers(arguments)?;
    if value.is_object() { Ok(value) } else { Err(format!("wanted a JSON object, got {}", got(&value))) }
}

/// Refuses numbers that would not be sent as they were written: people approve what they read. The text is valid JSON.
fn check_numbers(json: &str) -> Result<(), String> {
    let mut rest = json;
    while let Some(at) = rest.find(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        rest = &rest[at..];
        if let Some(inside) = rest.strip_prefix('"') {
            rest = behind_text(inside);
            continue;
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let (number, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        let kept = serde_json::from_str::<Number>(number).map(|kept| kept.to_string()).unwrap_or_default();
        if kept == "-0.0" && !number.contains('.') {
            return Err(format!("wanted `0` or `-0.0`, got `{number}`: no integer is negative zero"));
        }
        if decimal(number) != decimal(&kept) {
            return Err(format!(
                "wanted numbers that can be kept exactly, got `{}`: an integer has at most 64 bits, another number about 16 \
                 digits; if the tool takes a text there, write it as one",
                cut(number)
            ));
        }
        rest = after;
    }
    Ok(())
}

/// What follows the quotation mark that ends a text.
fn behind_text(inside: &str) -> &str {
    let mut rest = inside;
    while let Some(at) = rest.find(['"', '\\']) {
        let (mark, after) = rest[at..].split_at(1);
        if mark == "\"" {
            return after;
        }
        rest = after.get(1..).unwrap_or_default();
    }
    ""
}

/// A number by its digits and the power of ten of the last one, however it is written; `None` if that cannot be said.
fn decimal(number: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (is_negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let exponent = exponent.trim_start_matches('+').parse::<i64>().ok()?;
    let power = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
    let significant = significant.trim_start_matches('0').to_owned();
    let power = if significant.is_empty() { 0 } else { power };
    Some((is_negative && !number.is_empty(), significant, power))
}

/// Reads JSON of limited depth in which no key is given twice.
pub(crate) fn bounded_json(text: &str) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Bounded { depth: limits::JSON_DEPTH_MAX }.deserialize(&mut reader)?;
    reader.end().map(|()| value)
}

/// Parses a value with at most `depth` levels of nesting.
#[derive(Clone, Copy)]
struct Bounded {
    depth: usize,
}

impl Bounded {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        depth
            .map(|depth| Self { depth })
            .ok_or_else(|| E::custom(format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX)))
    }
}

impl<'de> DeserializeSeed<'de> for Bounded {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // JSON Schema takes `20.0` for an integer, so the tool gets one.
        let is_negative_zero = value == 0.0 && value.is_sign_negative();
        let whole = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 && !is_negative_zero;
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        Ok(if whole {
            (value as i64).into()
        } else {
            Number::from_f64(value).map_or(Value::Null, Value::Number)
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{}` is given twice", cut(&key))));
            }
            fields.insert(key, map.next_value_seed(inner)?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checker() -> Checker {
        let schema = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 2, "maxLength": 4},
                "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
                "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
                "kind": {"enum": ["a", "b"]},
                "even": {"multipleOf": 2},
            },
            "required": ["text"],
            "additionalProperties": false,
        });
        Checker::new("try", &schema).unwrap()
    }

    #[test]
    fn every_fault_names_the_location_the_wanted_and_the_given_value() {
        let check = |arguments: &str, wanted: &str| {
            let error = checker().check(arguments).unwrap_err();
            assert!(error.starts_with("the arguments of `try` do not fit: "), "{error}");
            assert!(error.contains(wanted), "`{arguments}`: wanted `{wanted}` in `{error}`");
        };
        check("", "at the top: wanted a property `text`, got none");
        check(r#"{"text":5}"#, "at `/text`: wanted string, got `5`");
        check(r#"{"text":"abc","limit":"x"}"#, "at `/limit`: wanted ");
        check(r#"{"text":"abc","limit":0}"#, "at `/limit`: wanted at least 1, got `0`");
        check(r#"{"text":"abc","limit":10}"#, "at `/limit`: wanted at most 9, got `10`");
        check(r#"{"text":"a"}"#, "wanted at least 2 characters, got `\"a\"`");
        check(r#"{"text":"abcde"}"#, "wanted at most 4 characters");
        check(r#"{"text":"abc","list":[]}"#, "wanted at least 1 items, got 0");
        check(r#"{"text":"abc","list":["a","b","c"]}"#, "wanted at most 2 items, got 3");
        check(r#"{"text":"abc","list":[7]}"#, "at `/list/0`: wanted string, got `7`");
        check(r#"{"text":"abc","kind":"c"}"#, r#"wanted one of ["a","b"], got `"c"`"#);
        check(r#"{"text":"abc","even":3}"#, "at `/even`: the value is not a multiple of 2");
        check(
            r#"{"text":"abc","nope":1}"#,
            "wanted only `text`, `limit`, `list`, `kind`, `even`, got `nope`",
        );
        check("[]", "wanted a JSON object, got `[]`");
        check(r#""{}""#, "wanted a JSON object");
        check(r#"{"text":"ab"#, "wanted one JSON object, but: EOF");
        check(r#"{"text":"abc"} {}"#, "wanted one JSON object, but: trailing characters");
        check(r#"{"text":"abc","text":"abd"}"#, "the key `text` is given twice");
    }

    #[test]
    fn whole_numbers_become_integers_and_the_order_is_kept() {
        let value = checker().check(r#"{"limit":3.0,"text":"abc"}"#).unwrap();
        assert_eq!(value.to_string(), r#"{"limit":3,"text":"abc"}"#);
    }

    #[test]
    fn a_number_is_sent_as_it_was_written_or_refused() {
        let any = Checker::new("try", &json!({"type": "object"})).unwrap();
        for (written, sent) in [
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-0.0", "-0.0"),
            ("0.1", "0.1"),
            ("1.50", "1.5"),
            ("1e3", "1000"),
            ("12.5E-1", "1.25"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("0e7", "0"),
        ] {
            let value =
                any.check(&format!("{{\"x\":[{written}]}}")).unwrap_or_else(|why| panic!("{written}: {why}"));
            assert_eq!(value["x"][0].to_string(), sent, "{written}");
        }
        for refused in [
            "18446744073709551616",
            "-9223372036854775809",
            "12345678901234567890123",
            "0.10000000000000000001",
            "9007199254740993.0",
            "3.14159265358979323846",
        ] {
            let why = any.check(&format!("{{\"a\":\"\\\"1\\\\\",\"x\":{refused}}}")).unwrap_err();
            assert!(why.contains("kept exactly") && why.contains(refused), "{refused}: {why}");
        }
        for refused in ["-0", "-0e3"] {
            let why = any.check(&format!("{{\"x\":{refused}}}")).unwrap_err();
            assert!(why.contains(&format!("wanted `0` or `-0.0`, got `{refused}`")), "{why}");
        }
        let text = r#"{"x":"12345678901234567890123 \" 12345678901234567890123"}"#;
        assert!(any.check(text).is_ok(), "a text may have any digits");
    }

    #[test]
    fn a_schema_is_judged_by_the_draft_that_it_names() {
        let with = |draft: &str, x: Value| {
            let mut schema = json!({"type": "object", "properties": {"x": x}});
            if !draft.is_empty() {
                schema["$schema"] = json!(draft);
            }
            Checker::new("try", &schema)
        };
        let is_ok = |checker: &Checker, x: Value| checker.check(&json!({"x": x}).to_string()).is_ok();
        for draft in ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-04/schema"] {
            let bound =
                with(draft, json!({"type": "number", "minimum": 1, "exclusiveMinimum": true})).unwrap();
            assert!(is_ok(&bound, json!(2)) && !is_ok(&bound, json!(1)), "{draft}");
            assert!(
                with(draft, json!({"id": "https://a.example/x"})).is_err(),
                "its `$ref`s would lead elsewhere"
            );
        }
        let pair = || json!({"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": false});
        for draft in [
            "http://json-schema.org/draft-07/schema#",
            "http://json-schema.org/draft-06/schema#",
            "https://json-schema.org/draft/2019-09/schema",
        ] {
            let pair = with(draft, pair()).unwrap();
            assert!(
                is_ok(&pair, json!([1, "a"]))
                    && !is_ok(&pair, json!(["a", 1]))
                    && !is_ok(&pair, json!([1, "a", 2])),
                "{draft}"
            );
        }
        for draft in ["", "https://json-schema.org/draft/2020-12/schema", "https://a.example/mine"] {
            assert!(with(draft, pair()).is_err(), "{draft}: there, `items` is one schema");
            let pair = with(draft, json!({"prefixItems": [{"type": "integer"}], "items": false})).unwrap();
            assert!(is_ok(&pair, json!([1])) && !is_ok(&pair, json!([1, 2])), "{draft}");
            assert!(with(draft, json!({"id": "https://a.example/x"})).is_ok());
        }
        let named =
            with("http://json-schema.org/draft-07/schema#", json!({"type": "string", "format": "date"}))
                .unwrap();
        assert!(is_ok(&named, json!("tomorrow")), "a format is for the tool to check");
    }

    #[test]
    fn size_depth_and_the_number_of_named_faults_are_bounded() {
        let deep = format!(r#"{{"text":{}{}}}"#, "[".repeat(100), "]".repeat(100));
        assert!(checker().check(&deep).unwrap_err().contains("nested deeper than 64 levels"));
        let hostile = "[".repeat(500_000);
        assert!(checker().check(&hostile).unwrap_err().contains("nested deeper"));
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(limits::ARGUMENTS_MAX_BYTES));
        assert!(checker().check(&large).unwrap_err().contains("wanted at most 1048576 bytes"));
        let long = format!(r#"{{"text":{:?}}}"#, "y".repeat(10_000));
        assert!(checker().check(&long).unwrap_err().len() < 300);
    }
}
