//! The vendors' rules for requests, as pure functions over the JSON. Each error names the path that the
//! vendor would name.

mod anthropic;
mod gemini;
mod openai;
mod responses;

use serde_json::Value;

pub use anthropic::{Signer, check_anthropic, dropped_by_binding, extends_anthropic};
pub use gemini::{check_gemini, extends_gemini, gemini_error, sign_gemini};
pub use openai::{Demands, check_openai, check_openai_demands, extends_openai};
pub use responses::{ItemIds, check_responses, extends_responses};

/// The result of checking a rule.
pub type RuleVerdict = Result<(), String>;

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("{what}: wanted a list"))
}

fn text<'a>(value: &'a Value, what: &str) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{what}: wanted a string"))
}

fn tool_name(name: &str, what: &str) -> RuleVerdict {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(format!("{what}: `{name}` does not match `^[a-zA-Z0-9_-]{{1,64}}$`"))
}

/// Checks that `after` begins with all of `before`.
fn extends(before: &[String], after: &[String]) -> RuleVerdict {
    for (index, block) in before.iter().enumerate() {
        match after.get(index) {
            Some(same) if same == block => {}
            Some(other) => return Err(format!("block {index} was `{block}` and is `{other}`")),
            None => return Err(format!("block {index} is gone: `{block}`")),
        }
    }
    Ok(())
}
