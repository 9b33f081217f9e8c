//! How much work a JSON Schema makes. A short one can ask for more steps than a machine ever does, because each reference is
//! followed wherever it stands. A schema is measured with its references unfolded before it is compiled, and a value by the
//! steps to check it before it is checked.

use std::collections::HashMap;

use agent::limits;
use jsonschema::Draft;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// Which values a part of a schema is for.
enum PartOf<'a> {
    /// The value of the schema itself.
    Here,
    /// The field of that name.
    Field(&'a str),
    /// Each field.
    Fields,
    /// The name of each field.
    Names,
    /// The item at that index.
    Item(usize),
    /// Each item.
    Items,
}

/// The draft by which a schema is judged: its own, if it names one that is known.
pub(crate) fn draft(schema: &Value) -> Draft {
    match Draft::default().detect(schema) {
        Draft::Unknown => Draft::default(),
        known => known,
    }
}

/// Refuses a schema that is too large with its references unfolded, or has one that cannot be followed.
pub(crate) fn check_size(schema: &Value) -> Result<(), String> {
    let mut measuring = Measuring { root: schema, known: HashMap::new(), open: 0, patterns: 0 };
    let Measure { size, depth, .. } = measuring.measure(schema, 0)?;
    let most = limits::SCHEMA_SIZE_MAX;
    if size > most {
        return Err(format!(
            "wanted at most {most} schemas in it, each `$ref` counted with all to which it leads, got {size}; ask for less"
        ));
    }
    if depth > limits::SCHEMA_DEPTH_MAX {
        return Err(too_deep());
    }
    let most = limits::SCHEMA_PATTERNS_MAX;
    if measuring.patterns > most {
        return Err(format!("wanted at most {most} patterns, got {}", measuring.patterns));
    }
    Ok(())
}

fn too_deep() -> String {
    format!(
        "wanted at most {} schemas inside each other, with those to which a `$ref` leads",
        limits::SCHEMA_DEPTH_MAX
    )
}

/// Refuses a schema that people cannot be asked to fill in: they need no references, and no more than a page of fields.
pub(crate) fn check_form(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" {
        return Err("wanted `\"type\": \"object\"`: what people fill in has named fields".to_owned());
    }
    form_part(schema, schema, 1, &mut 0)
}

fn form_part(root: &Value, schema: &Value, depth: usize, seen: &mut usize) -> Result<(), String> {
    let (most, deepest) = (limits::FORM_SIZE_MAX, limits::FORM_DEPTH_MAX);
    *seen += 1;
    if *seen > most {
        return Err(format!("wanted at most {most} schemas in a form; ask for less"));
    }
    if depth > deepest {
        return Err(format!("wanted at most {deepest} schemas inside each other in a form"));
    }
    if schema.get("$ref").is_some() {
        return Err("a form's schema has no `$ref`; write each field out where it belongs, or ask for less"
            .to_owned());
    }
    parts(root, schema)?.into_iter().try_for_each(|(_, part)| form_part(root, part, depth + 1, seen))
}

/// Refuses a value for which the schema asks for too many steps.
pub(crate) fn check_steps(schema: &Value, value: &Value) -> Result<(), String> {
    Steps { root: schema, left: limits::SCHEMA_STEPS_MAX }.take(schema, value, 0)
}

/// The parts of a schema, with the values that they are for.
fn parts<'a>(root: &'a Value, schema: &'a Value) -> Result<Vec<(PartOf<'a>, &'a Value)>, String> {
    let Some(map) = schema.as_object() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("$ref", Value::String(reference)) => found.push((PartOf::Here, followed(root, reference)?)),
            ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                return Err(format!("`{key}` is not followed; write `$ref`"));
            }
            ("$id" | "id", Value::String(_))
                if !std::ptr::eq(root, schema) && (key == "$id" || draft(root) == Draft::Draft4) =>
            {
                return Err(format!("only the whole schema may have an `{key}`; leave it out"));
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                found.extend(list.iter().map(|part| (PartOf::Here, part)));
            }
            ("not" | "if" | "then" | "else", part) => found.push((PartOf::Here, part)),
            ("dependentSchemas" | "dependencies", Value::Object(map)) => {
                found.extend(map.values().map(|part| (PartOf::Here, part)));
            }
            ("properties", Value::Object(map)) => {
                found.extend(map.iter().map(|(name, part)| (PartOf::Field(name), part)));
            }
            ("patternProperties", Value::Object(map)) => {
                found.extend(map.values().map(|part| (PartOf::Fields, part)));
            }
            ("additionalProperties" | "unevaluatedProperties", part) => found.push((PartOf::Fields, part)),
            ("propertyNames", part) => found.push((PartOf::Names, part)),
            ("prefixItems" | "items", Value::Array(list)) => {
                found.extend(list.iter().enumerate().map(|(at, part)| (PartOf::Item(at), part)));
            }
            ("items" | "contains" | "additionalItems" | "unevaluatedItems", part) => {
                found.push((PartOf::Items, part));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Where a reference leads.
fn followed<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, String> {
    let pointer = reference.strip_prefix('#').and_then(|path| percent_decode_str(path).decode_utf8().ok());
    let found = pointer.and_then(|pointer| root.pointer(&pointer));
    found.ok_or_else(|| {
        let reference = crate::arguments::cut(reference);
        format!("the `$ref` `{reference}` leads nowhere; wanted a place in this schema, as `#/$defs/name`")
    })
}

/// What a schema is with its references unfolded.
#[derive(Clone, Copy, Default)]
struct Measure {
    size: usize,
    depth: usize,
    /// Whether its parts are measured; until then a reference to it is a circle.
    known: bool,
}

struct Measuring<'a> {
    root: &'a Value,
    /// By the address of a schema in `root`, with how many steps into fields and items lead to it.
    known: HashMap<*const Value, (Measure, usize)>,
    /// How many schemas are being measured, each inside the one before.
    open: usize,
    patterns: usize,
}

impl<'a> Measuring<'a> {
    /// `inside`: how many fields and items the schema is in.
    fn measure(&mut self, schema: &'a Value, inside: usize) -> Result<Measure, String> {
        let address = std::ptr::from_ref(schema);
        match self.known.get(&address) {
            Some((known, _)) if known.known => return Ok(*known),
            Some((_, first)) if *first == inside => {
                return Err("a `$ref` leads to itself without any field or item between".to_owned());
            }
            // A circle through the values: those end somewhere.
            Some(_) => return Ok(Measure::default()),
            None => {}
        }
        if self.open == limits::SCHEMA_DEPTH_MAX {
            return Err(too_deep());
        }
        self.open += 1;
        self.known.insert(address, (Measure::default(), inside));
        let (mut size, mut depth) = (1_usize, 0);
        self.patterns += usize::from(schema["pattern"].is_string());
        self.patterns += schema["patternProperties"].as_object().map_or(0, Map::len);
        for (place, part) in parts(self.root, schema)? {
            let deeper = usize::from(!matches!(place, PartOf::Here));
            let part = self.measure(part, inside + deeper)?;
            (size, depth) = (size.saturating_add(part.size), depth.max(part.depth));
        }
        let measure = Measure { size, depth: depth + 1, known: true };
        self.known.insert(address, (measure, inside));
        self.open -= 1;
        Ok(measure)
    }
}

/// Counts what a check of a value would do, at least.
struct Steps<'a> {
    root: &'a Value,
    left: usize,
}

impl<'a> Steps<'a> {
    fn take(&mut self, schema: &'a Value, value: &Value, depth: usize) -> Result<(), String> {
        if depth > limits::SCHEMA_STEPS_DEPTH_MAX {
            let most = limits::SCHEMA_STEPS_DEPTH_MAX;
            return Err(format!(
                "its schema needs more than {most} steps inside each other to check this value"
            ));
        }
        let left = self.left.checked_sub(steps(schema, value));
        self.left = left.ok_or_else(|| {
            let most = limits::SCHEMA_STEPS_MAX;
            format!("its schema needs more than {most} steps to check this value; make it smaller")
        })?;
        let parts = parts(self.root, schema)?;
        // What was not looked at is found by looking at everything again.
        let again = schema.get("unevaluatedProperties").or_else(|| schema.get("unevaluatedItems"));
        for _ in 0..if again.is_some() { 3 } else { 1 } {
            for (place, part) in &parts {
                match (place, value) {
                    (PartOf::Here, _) => self.take(part, value, depth + 1)?,
                    (PartOf::Field(name), Value::Object(map)) => {
                        map.get(*name).map_or(Ok(()), |field| self.take(part, field, depth + 1))?;
                    }
                    (PartOf::Fields, Value::Object(map)) => {
                        map.values().try_for_each(|field| self.take(part, field, depth + 1))?;
                    }
                    (PartOf::Names, Value::Object(map)) => map
                        .keys()
                        .try_for_each(|name| self.take(part, &Value::String(name.clone()), depth + 1))?,
                    (PartOf::Item(at), Value::Array(items)) => {
                        items.get(*at).map_or(Ok(()), |item| self.take(part, item, depth + 1))?;
                    }
                    (PartOf::Items, Value::Array(items)) => {
                        items.iter().try_for_each(|item| self.take(part, item, depth + 1))?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Steps to check a value by the keywords of the schema itself.
fn steps(schema: &Value, value: &Value) -> usize {
    let pattern = limits::SCHEMA_PATTERN_STEPS;
    let listed = schema["enum"].as_array().map_or(0, Vec::len);
    let own = match value {
        Value::String(text) if schema["pattern"].is_string() => pattern + text.len() / 16,
        Value::String(text) => text.len() / 256,
        Value::Array(items) => items.len(),
        Value::Object(map) => {
            let patterns = schema["patternProperties"].as_object().map_or(0, Map::len);
            map.len() + map.len() * patterns * pattern
        }
        _ => 0,
    };
    1 + listed + own
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::arguments::Checker;

    /// `$defs` each of which contains the next one twice.
    fn doubling(levels: usize) -> Value {
        let mut defs = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            defs.insert(format!("a{level}"), json!({"allOf": [next, next]}));
        }
        defs.insert(format!("a{levels}"), json!({"type": "integer"}));
        json!({"type": "object", "$defs": defs, "properties": {"n": {"$ref": "#/$defs/a0"}}})
    }

    fn refused(schema: &Value) -> String {
        Checker::new("try", schema).map(drop).expect_err("refused")
    }

    #[test]
    fn a_schema_that_doubles_with_each_reference_is_refused_before_it_is_compiled() {
        let why = refused(&doubling(35));
        assert!(why.contains("wanted at most 20000 schemas in it"), "{why}");
        assert!(Checker::new("try", &doubling(8)).is_ok());
    }

    #[test]
    fn references_that_lead_nowhere_to_themselves_or_too_deep_are_refused() {
        let with = |part: Value| json!({"type": "object", "$defs": {"a": part}, "$ref": "#/$defs/a"});
        let check = |part: Value, wanted: &str| {
            let why = refused(&with(part));
            assert!(why.contains(wanted), "{why}");
        };
        check(json!({"$ref": "#/$defs/a"}), "leads to itself");
        check(json!({"anyOf": [{"type": "null"}, {"$ref": "#"}]}), "leads to itself");
        check(json!({"$ref": "#/$defs/none"}), "leads nowhere");
        check(json!({"$ref": "https://example.org/schema"}), "leads nowhere");
        check(json!({"$dynamicRef": "#/$defs/a"}), "write `$ref`");
        check(json!({"properties": {"x": {"$id": "https://example.org/x"}}}), "`$id`");
        let chain = (0..3_000).map(|n| {
            // The last ones come first, so that each is measured before the one that leads to it.
            let next = json!({"not": {"$ref": format!("#/$defs/{}", n - 1)}});
            (n.to_string(), if n == 0 { json!({}) } else { next })
        });
        let defs: Map<String, Value> = chain.collect();
        let fields: Map<String, Value> =
            defs.keys().map(|n| (n.clone(), json!({"$ref": format!("#/$defs/{n}")}))).collect();
        let why = refused(&json!({"type": "object", "$defs": defs, "properties": fields}));
        assert!(why.contains("inside each other") || why.contains("wanted at most 20000"), "{why}");
    }

    #[test]
    fn a_recursive_schema_is_taken_and_a_value_that_would_take_for_ever_is_refused() {
        let part = json!({"properties": {"x": {"$ref": "#"}}});
        let schema = json!({"type": "object", "anyOf": [part, part]});
        let checker = Checker::new("try", &schema).expect("a circle through the fields");
        assert!(checker.check(r#"{"x": {"x": {"x": {}}}}"#).is_ok());
        let deep = format!("{}{}", r#"{"x":"#.repeat(50) + "{}", "}".repeat(50));
        let why = checker.check(&deep).expect_err("2^50 steps");
        assert!(why.contains("steps to check this value"), "{why}");
        let tree = json!({"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}});
        let checker = Checker::new("try", &tree).expect("a tree");
        assert!(checker.check(&deep.replace('x', "l")).is_ok());
        let inside =
            (0..6).fold(json!({"properties": {"x": {"$ref": "#"}}}), |part, _| json!({"allOf": [part]}));
        let checker = Checker::new("try", &json!({"type": "object", "allOf": [inside]})).expect("a circle");
        assert!(checker.check(&deep).is_ok(), "the stack is enough for 450 steps");
    }

    #[test]
    fn a_large_value_against_a_large_schema_is_refused_and_few_faults_are_kept_of_many() {
        let many = json!({"type": "object", "properties": {"x": {"items": {"type": "integer"}}}});
        let checker = Checker::new("try", &many).expect("a schema");
        let texts = |count: usize| json!({"x": vec!["a"; count]}).to_string();
        let why = checker.check(&texts(20_000)).expect_err("20 000 faults");
        assert!(why.len() < 1_000 && why.ends_with("; and more"), "{why}");
        let options: Vec<usize> = (0..5_000).collect();
        let listed = json!({"type": "object", "properties": {"x": {"items": {"enum": options}}}});
        let why =
            Checker::new("try", &listed).expect("a schema").check(&texts(5_000)).expect_err("25 000 000");
        assert!(why.contains("steps to check this value"), "{why}");
    }

    #[test]
    fn patterns_are_bounded_in_number_size_and_work() {
        let with = |pattern: &str| json!({"type": "object", "properties": {"x": {"pattern": pattern}}});
        let fields: Map<String, Value> =
            (0..200).map(|n| (n.to_string(), json!({"pattern": "^a$"}))).collect();
        assert!(refused(&json!({"type": "object", "properties": fields})).contains("patterns"));
        let why = refused(&with(r"^(\w{1,500}){1,50}$"));
        assert!(why.contains("regex"), "{why}");
        let slow = Checker::new("try", &with(r"^(?=(a+)+$)(a|aa)+b\1$")).expect("a pattern that looks back");
        let text = json!({"x": "a".repeat(200)}).to_string();
        assert!(slow.check(&text).is_err());
    }
}
