//! `ask_person`: an agent asks a person for a yes or no, a choice, a form or a text. Nothing runs: the call waits until a
//! person answers it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::approval::PersonQuestion;
use agent::call::Effect;
use agent::limits;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use agent::tool::{ToolLabel, names};
use serde_json::{Value, json};

use crate::arguments::Checker;
use crate::schema_work;

const DESCRIPTION: &str = "Ask a person and wait for the answer (`defer`: go on; it comes as an event).";

/// `ask_person`.
pub(crate) struct AskPerson {
    spec: ToolSpec,
    checker: Checker,
}

/// The tool.
pub(crate) fn ask_person() -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "kind": {"enum": ["approval", "choice", "form", "text"]},
            "question": {"type": "string"},
            "options": {"type": "array", "items": {"type": "string"}, "description": "Of a choice."},
            "schema": {"type": "object", "description": "JSON Schema of a form."},
            "space": {"type": "string"},
            "people": {"type": "array", "items": {"type": "string"}, "description": "Only they may answer."},
            "wait": {"enum": ["pause", "defer"]},
            "expires_in": {"type": "string", "description": "As `2h`; default 7d."}
        },
        "required": ["kind", "question"],
        "additionalProperties": false
    });
    let checker = Checker::new(names::ASK_PERSON, &schema).expect("a constant schema compiles");
    let spec = ToolSpec {
        name: names::ASK_PERSON.to_owned(),
        description: DESCRIPTION.to_owned(),
        schema: Arc::new(schema),
        effect: Effect::ReadOnly,
        visible: false,
        timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
        asynchronous: false,
        version: "1".to_owned(),
        labels: [ToolLabel::Private].into_iter().collect(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    };
    Arc::new(AskPerson { spec, checker })
}

impl Tool for AskPerson {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        let value = self.checker.check(arguments)?;
        let question = PersonQuestion::read(&value.to_string())?;
        if let Some(schema) = &question.schema {
            schema_work::check_form(schema).map_err(|why| format!("`schema`: {why}"))?;
            Checker::new("the form", schema).map_err(|why| format!("`schema` is no JSON Schema: {why}"))?;
        }
        Ok(value)
    }

    fn call<'a>(&'a self, _: Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async { Err(ToolError::new("only a person answers this call; nothing runs it")) })
    }
}

/// Whether a value fits a form's schema; the error names each fault.
pub(crate) fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let checker =
        Checker::new("the form", schema).map_err(|why| format!("the form has no valid schema: {why}"))?;
    checker
        .check(&value.to_string())
        .map(drop)
        .map_err(|why| why.replacen("the arguments of `the form` do", "the answer does", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_checked_by_its_kind() {
        let tool = ask_person();
        let form = |schema: Value| json!({"kind": "form", "question": "Fill in", "schema": schema});
        for (arguments, fault) in [
            (json!({"kind": "text", "question": "Why?"}), None),
            (json!({"kind": "choice", "question": "Which?", "options": ["a", "b"]}), None),
            (json!({"kind": "choice", "question": "Which?"}), Some("`options`")),
            (json!({"kind": "choice", "question": "Which?", "options": ["a", "a"]}), Some("only once")),
            (json!({"kind": "text", "question": "Why?", "options": ["a", "b"]}), Some("only `choice`")),
            (json!({"kind": "form", "question": "Fill in"}), Some("`schema`")),
            (
                json!({"kind": "form", "question": "Fill in", "schema": {"type": "object", "required": 1}}),
                Some("no JSON Schema"),
            ),
            (form(json!({"type": "integer"})), Some("has named fields")),
            (form(json!({"properties": {}})), Some("has named fields")),
            (form(json!({"type": "object", "properties": {"a": {"$ref": "#"}}})), Some("has no `$ref`")),
            (
                form(json!({"type": "object", "properties": {"a": {"$dynamicRef": "#"}}})),
                Some("not followed"),
            ),
            (form(json!({"type": "object", "allOf": vec![json!({}); 600]})), Some("at most 500")),
            (
                form(
                    (0..20)
                        .fold(json!({"type": "object"}), |inner, _| json!({"type": "object", "not": inner})),
                ),
                Some("at most 16"),
            ),
            (json!({"kind": "form", "question": "Fill in", "schema": {"type": "object"}}), None),
            (json!({"kind": "text", "question": " "}), Some("`question`")),
            (json!({"kind": "text", "question": "x".repeat(9_000)}), Some("`question`")),
            (json!({"kind": "text", "question": "Why?", "expires_in": "1s"}), Some("`expires_in`")),
            (json!({"kind": "text", "question": "Why?", "expires_in": "soon"}), Some("expires_in")),
            (json!({"kind": "text", "question": "Why?", "expires_in": "2h", "wait": "defer"}), None),
            (json!({"kind": "guess", "question": "Why?"}), Some("kind")),
        ] {
            let checked = tool.check(&arguments.to_string());
            match fault {
                None => assert!(checked.is_ok(), "{arguments}: {checked:?}"),
                Some(fault) => {
                    assert!(checked.as_ref().unwrap_err().contains(fault), "{arguments}: {checked:?}")
                }
            }
        }
    }

    #[test]
    fn a_form_is_answered_by_a_value_that_fits_its_schema() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        assert_eq!(fits(&schema, &json!({"n": 1})), Ok(()));
        let wrong = fits(&schema, &json!({"n": "one"})).unwrap_err();
        assert!(wrong.starts_with("the answer does not fit") && wrong.contains("/n"), "{wrong}");
    }

    #[test]
    fn an_answer_to_a_form_that_was_asked_before_forms_were_bounded_is_refused_at_once() {
        let mut defs = serde_json::Map::new();
        for level in 0..34 {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            defs.insert(format!("a{level}"), json!({"allOf": [next, next]}));
        }
        defs.insert("a34".to_owned(), json!({"type": "integer"}));
        let wrong = fits(&json!({"$defs": defs, "$ref": "#/$defs/a0"}), &json!({})).unwrap_err();
        assert!(wrong.contains("no valid schema") && wrong.contains("at most 20000"), "{wrong}");
    }
}
