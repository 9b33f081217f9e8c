//! A question as an agent writes it in a call of `ask_person`, and every reason why it is refused.

use serde::Deserialize;
use serde_json::Value;

use super::AskKind;
use crate::limits;
use crate::plan::span_ms;

/// The arguments of `ask_person`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonQuestion {
    /// What kind of answer is wanted.
    pub kind: AskKind,
    /// What to ask.
    pub question: String,
    /// The options of a choice.
    #[serde(default)]
    pub options: Vec<String>,
    /// The JSON Schema of a form.
    #[serde(default)]
    pub schema: Option<Value>,
    /// The space to ask in.
    #[serde(default)]
    pub space: Option<String>,
    /// Handles of the only people who may answer.
    #[serde(default)]
    pub people: Vec<String>,
    /// `pause` or `defer`.
    #[serde(default)]
    wait: Option<String>,
    /// How long an answer may take.
    #[serde(default)]
    expires_in: Option<String>,
}

impl PersonQuestion {
    /// Reads and checks the arguments; the error is for the model.
    pub fn read(arguments: &str) -> Result<Self, String> {
        let question: Self =
            serde_json::from_str(arguments).map_err(|error| format!("not a question: {error}"))?;
        question.check()?;
        Ok(question)
    }

    /// Whether the cycle goes on at once.
    pub fn is_deferred(&self) -> bool {
        self.wait.as_deref() == Some("defer")
    }

    /// How long an answer may take, in milliseconds.
    pub fn expires_ms(&self) -> u64 {
        let given = self.expires_in.as_deref().and_then(|text| span_ms("expires_in", text).ok());
        given.unwrap_or(limits::APPROVAL_MS)
    }

    fn check(&self) -> Result<(), String> {
        let bytes = self.question.len();
        if self.question.trim().is_empty() || bytes > limits::APPROVAL_TEXT_MAX_BYTES {
            return Err(format!("`question`: 1 to {} bytes, got {bytes}", limits::APPROVAL_TEXT_MAX_BYTES));
        }
        if !matches!(self.wait.as_deref(), None | Some("pause" | "defer")) {
            return Err("`wait`: `pause` or `defer`".to_owned());
        }
        if self.people.len() > limits::APPROVAL_PEOPLE_MAX {
            return Err(format!("`people`: at most {}", limits::APPROVAL_PEOPLE_MAX));
        }
        self.check_options()?;
        match (self.kind, &self.schema) {
            (AskKind::Form, None) => return Err("`form` needs a `schema`".to_owned()),
            (AskKind::Form, Some(schema)) if !schema.is_object() => {
                return Err("`schema`: a JSON Schema, an object".to_owned());
            }
            (AskKind::Form, Some(schema)) if schema.to_string().len() > limits::APPROVAL_SCHEMA_MAX_BYTES => {
                return Err(format!("`schema`: at most {} bytes", limits::APPROVAL_SCHEMA_MAX_BYTES));
            }
            (AskKind::Approval | AskKind::Choice | AskKind::Text, Some(_)) => {
                return Err("only `form` has a `schema`".to_owned());
            }
            _ => {}
        }
        let Some(text) = &self.expires_in else { return Ok(()) };
        let ms = span_ms("expires_in", text).map_err(|wrong| wrong.to_string())?;
        if (limits::APPROVAL_MIN_MS..=limits::APPROVAL_MAX_MS).contains(&ms) {
            return Ok(());
        }
        Err("`expires_in`: from 1m to 90d".to_owned())
    }

    fn check_options(&self) -> Result<(), String> {
        let most = limits::APPROVAL_OPTIONS_MAX;
        if self.kind != AskKind::Choice {
            return if self.options.is_empty() {
                Ok(())
            } else {
                Err("only `choice` has `options`".to_owned())
            };
        }
        if !(2..=most).contains(&self.options.len()) {
            return Err(format!("`options`: `choice` needs 2 to {most}"));
        }
        let long =
            |option: &String| option.trim().is_empty() || option.len() > limits::APPROVAL_OPTION_MAX_BYTES;
        if self.options.iter().any(long) {
            return Err(format!("`options`: each 1 to {} bytes", limits::APPROVAL_OPTION_MAX_BYTES));
        }
        let twice = |(at, option): (usize, &String)| self.options[..at].contains(option);
        if self.options.iter().enumerate().any(twice) {
            return Err("`options`: each only once".to_owned());
        }
        Ok(())
    }
}
