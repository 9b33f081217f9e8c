//! Failures as people and scripts meet them: a stable code, what was wanted and what stood in the
//! way, at most one hint, and the family that the process exits with. Knows no transport.

use std::fmt;

use agent::config::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::{Value, json};

/// The families of exit codes. Scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Answered = 0,
    /// Unexpected failure.
    Failed = 1,
    /// The command line, a name in it or a setting is wrong.
    Usage = 2,
    /// The request is refused.
    Refused = 3,
    /// Nothing with that name exists.
    NotFound = 4,
    /// No server answers.
    Unreachable = 5,
    /// It took longer than `--timeout`.
    TimedOut = 6,
    /// The cycle ended without a reply.
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

    /// A command line that does not parse.
    pub(crate) fn misread(error: &clap::Error) -> Self {
        let text = error.render().to_string().replace('\'', "`");
        let mut parts = text.split("\n\n");
        // What is missing, or what there is to choose from, stands in lines below the first.
        let said: Vec<&str> = parts.next().unwrap_or_default().split_whitespace().collect();
        let said = match error.kind() {
            // This kind renders the whole page.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "wanted a command".to_owned(),
            _ => said.join(" "),
        };
        let message = said.strip_prefix("error: ").unwrap_or(&said);
        let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        let usage = text.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or("viv");
        let path: Vec<&str> =
            usage.split(' ').take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
        let help = format!("`{} --help`", path.join(" "));
        if let Some(there) = habit(error, &path) {
            return Self::usage(message).hint(there);
        }
        Self::usage(message).hint(match (tip, meant(error, &path)) {
            (Some(tip), _) => format!("{tip}; {help} explains"),
            (None, Some(meant)) => {
                format!("did you mean `{} {meant}`? {help} lists what there is", path.join(" "))
            }
            (None, None) => format!("see {help}"),
        })
    }

    /// The same failure with what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do: the hint given, else what helps with such a refusal, else with most failures of its
    /// family. So every failure has one.
    pub(crate) fn advice(&self) -> &str {
        self.hint.as_deref().or_else(|| usual(&self.code)).unwrap_or(match self.exit {
            Exit::Answered | Exit::Failed => "`viv doctor` finds out what is wrong",
            Exit::Usage => "`viv --help` lists all commands, `viv COMMAND --help` explains one",
            Exit::Refused => "`viv agents`, `viv spaces` and `viv entities` show how things stand",
            Exit::NotFound => "`viv agents`, `viv spaces` and `viv entities` list what there is",
            Exit::Unreachable => "start a server with `viv up`, or check `VIV_URL`",
            Exit::TimedOut => "`viv ps` shows who is busy; wait longer with --timeout",
            Exit::NoReply => "`viv show run` shows what the cycle did",
        })
    }

    /// The form for `--json`, one line on standard error.
    pub(crate) fn to_json(&self) -> Value {
        json!({"error": {"code": self.code, "message": self.message, "hint": self.advice()}})
    }
}

/// What other programs call what is here, and where it is.
fn habit(error: &clap::Error, path: &[&str]) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    if path != ["viv"] {
        return None;
    }
    Some(match word.as_str() {
        "start" | "run" | "serve" => "`viv up` starts the server; `viv scenario run` plays scenarios",
        "status" => "`viv ps` lists agents and what they do; `viv doctor` looks at everything",
        "stop" | "down" => "Ctrl-C stops `viv up`; `viv agents cancel` ends a cycle",
        "logs" | "log" => "`viv watch` follows everything; `viv tail` prints what happened last",
        "new" | "create" => "`viv init` writes a project; `viv agents create` makes one agent",
        _ => return None,
    })
}

/// The command that somebody meant who wrote one that is none. The parser finds only long words: two
/// letters changed about are half of `say`.
fn meant(error: &clap::Error, path: &[&str]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let root = crate::args::command();
    let at = path.iter().skip(1).try_fold(&root, |command, name| command.find_subcommand(name))?;
    let names = at.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    // Nearly every word is near to a short one: one with another beginning is meant by nobody.
    let alike =
        names.filter(|name| name.chars().next() == word.chars().next() || letters(name) == letters(word));
    nearest(word, alike).map(str::to_owned)
}

/// What helps with a refusal of the server that brings no hint of its own.
fn usual(code: &str) -> Option<&'static str> {
    Some(match code {
        "agent_retired" => "a retired agent stays so; make another with `viv agents create`",
        "bad_config" => "`viv show agent NAME --json` shows every key with its value",
        "bad_handle" => "handles are a-z, 0-9, `_` and `-`, at most 40 characters",
        "event_state" | "event_taken" => "`viv show inbox NAME` shows each event and how far it has come",
        "forbidden" => {
            "this needs an admin key: set `VIV_KEY`, or run it where the server runs; \
             a lost one is replaced with `viv keys admin --reset`"
        }
        "inbox_full" => "let it work off what waits: `viv show inbox NAME --state waiting`",
        "name_taken" => "choose another name; `viv entities` and `viv spaces` list those in use",
        "no_open_cycle" => "`viv ps` shows who is awake",
        "no_space" => "make room on the server's disk; `viv doctor` looks",
        "not_human" => "name a person: `viv entities --kind human` lists them",
        "not_member" => "add it with `viv spaces add SPACE NAME`",
        "overloaded" | "closing" => "ask again in a moment",
        "space_closed" => "a closed space can only be read; open another with `viv spaces open`",
        _ => return None,
    })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\nhint: {}", self.message, self.advice())
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

    #[test]
    fn a_command_with_two_letters_changed_about_is_told_what_was_meant() {
        let hint = |line: &str| {
            let error = crate::args::command().try_get_matches_from(line.split(' ')).unwrap_err();
            Failure::misread(&error).advice().to_owned()
        };
        assert_eq!(hint("viv sya"), "did you mean `viv say`? `viv --help` lists what there is");
        assert!(hint("viv pss").contains("`ps`"));
        assert_eq!(
            hint("viv show rnu"),
            "did you mean `viv show run`? `viv show --help` lists what there is"
        );
        assert!(hint("viv xx").starts_with("see `viv --help`"));
    }

    #[test]
    fn words_of_other_programs_are_answered_with_ours() {
        for (word, ours) in [
            ("start", "`viv up`"),
            ("run", "`viv up`"),
            ("status", "`viv ps`"),
            ("stop", "Ctrl-C"),
            ("logs", "`viv watch`"),
            ("new", "`viv init`"),
        ] {
            let error = crate::args::command().try_get_matches_from(["viv", word]).unwrap_err();
            let failure = Failure::misread(&error);
            assert!(failure.advice().contains(ours), "{word}: {failure}");
        }
    }

    #[test]
    fn a_failure_of_any_family_has_one_hint_even_where_nobody_gave_one() {
        use Exit::{Answered, Failed, NoReply, NotFound, Refused, TimedOut, Unreachable, Usage};
        for exit in [Answered, Failed, Usage, Refused, NotFound, Unreachable, TimedOut, NoReply] {
            let failure = Failure::new(exit, "code", "it did not");
            let text = failure.to_string();
            assert_eq!(text.matches("\nhint: ").count(), 1, "{text}");
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(failure.to_json()["error"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()));
        }
    }
}
