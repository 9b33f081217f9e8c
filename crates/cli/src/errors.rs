//! Failures as people and scripts meet them: a stable code, what was wanted and what stood in the
//! way, at most one hint, and the family that the process exits with. Knows no transport.

use std::fmt;

use serde_json::{Value, json};

/// The families of exit codes. Scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, answered.
    Answered = 0,
    /// Something broke that is nobody's request.
    Failed = 1,
    /// The command line, a name in it or a setting is wrong.
    Usage = 2,
    /// The request was understood and may not be done.
    Refused = 3,
    /// Nothing is called that.
    NotFound = 4,
    /// No server answers.
    Unreachable = 5,
    /// It took longer than `--timeout`.
    TimedOut = 6,
    /// The cycle ended without a word.
    NoReply = 7,
}

/// Why a command did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The family.
    pub(crate) exit: Exit,
    /// Stable, lower snake case; the server's own code where it answered.
    pub(crate) code: String,
    /// What was wanted, what stood in the way.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

/// What commands return.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure without a hint.
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), hint: None }
    }

    /// A wrong command line or setting.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// The same failure with what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The form for `--json`, one line on standard error.
    pub(crate) fn to_json(&self) -> Value {
        json!({"error": {"code": self.code, "message": self.message, "hint": self.hint}})
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reads_as_one_error_and_one_hint() {
        let failure = Failure::usage("wanted a name").hint("say --agent NAME");
        assert_eq!(failure.to_string(), "error: wanted a name\nhint: say --agent NAME");
        assert_eq!(
            failure.to_json().to_string(),
            r#"{"error":{"code":"usage","message":"wanted a name","hint":"say --agent NAME"}}"#
        );
        assert_eq!(failure.exit as i32, 2);
    }
}
