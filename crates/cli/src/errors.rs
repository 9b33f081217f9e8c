//! Failures as people and scripts see them: a stable code, what was wanted and what stood in the way, at
//! most one hint, and the exit code of the process. Must not know the transport.

use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;

use agent::config::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use client::ErrorClass;
use serde_json::{Value, json};

use crate::args::Global;

/// The exit codes. Scripts rely on the numbers.
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
    /// It took longer than `--timeout`, or the model did not answer in time.
    TimedOut = 6,
    /// The cycle ended without a reply.
    NoReply = 7,
}

/// The options that every command of this project needs, because this one was given them.
static OPTIONS: OnceLock<String> = OnceLock::new();

/// Notes which server this command is about, for the commands that it advises.
pub(crate) fn advise_for(global: &Global) {
    let mut options = String::new();
    for (name, path) in [("data-dir", &global.data_dir), ("config", &global.config)] {
        if let Some(path) = path {
            options.push_str(&format!(" --{name} {}", path.display()));
        }
    }
    let _ = OPTIONS.set(options);
}

/// Advice whose commands of `viv` reach the server that this command is about.
pub(crate) fn advice_with(options: &str, advice: &str) -> String {
    let part = |(index, part): (usize, &str)| match part.strip_prefix("viv ") {
        Some(_) if index % 2 == 1 && !part.contains(" --data-dir ") && !part.contains(" --help") => {
            format!("{part}{options}")
        }
        _ => part.to_owned(),
    };
    advice.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Stable, in lower snake case; the server's own code if the server answered.
    pub(crate) code: String,
    /// What was wanted and what stood in the way.
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// What the server says is missing, and the command that lists what there is.
const LISTED: [(&str, &str); 7] = [
    ("no hook ", "hooks"),
    ("no target ", "targets"),
    ("no tool ", "tools"),
    ("no MCP server ", "mcp"),
    ("no plan ", "plans"),
    ("no call ", "approvals --all"),
    ("no space ", "spaces"),
];

impl Failure {
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), hint: None }
    }

    /// A wrong command line or setting.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    pub(crate) fn bad_command_line(error: &clap::Error, line: &[OsString]) -> Self {
        let text = error.render().to_string().replace('\'', "`");
        let mut parts = text.split("\n\n");
        // The first paragraph may have several lines: what is missing or which values are possible is below
        // the first.
        let first_lines: Vec<&str> = parts.next().unwrap_or_default().split_whitespace().collect();
        let first_lines = match error.kind() {
            // For this kind, clap renders the whole help page.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "wanted a command".to_owned(),
            _ => first_lines.join(" "),
        };
        let message = first_lines.strip_prefix("error: ").unwrap_or(&first_lines);
        let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        let path = command_path(line);
        let (command, help) = (path.join(" "), format!("`{} --help`", path.join(" ")));
        Self::usage(message).hint(match (similar(error, &path), tip) {
            (Some(similar), None) => format!("did you mean `{command} {similar}`? {help} lists all commands"),
            (_, tip) => match (foreign(error, &path), tip) {
                (Some(hint), _) => hint,
                (None, Some(tip)) => format!("{tip}; {help} explains"),
                (None, None) => format!("see {help}"),
            },
        })
    }

    /// The same failure with a hint that fits the command, if it has none of its own.
    pub(crate) fn of_command(self, line: &[OsString]) -> Self {
        let path = command_path(line).join(" ");
        if self.hint.is_some() || default_hint(&self.code).is_some() {
            return self;
        }
        match (path.as_str(), self.exit) {
            ("viv keys rotate" | "viv keys revoke", Exit::NotFound) => {
                self.hint("`viv keys` lists the keys with their ids")
            }
            ("viv tools try", _) if self.code == "bad_value" => {
                self.hint("`viv tools show NAME` shows which arguments it takes")
            }
            (_, Exit::Usage) => self.hint(format!("`{path} --help` explains it")),
            (_, Exit::NotFound)
                if let Some((_, noun)) = LISTED.iter().find(|(is, _)| self.message.starts_with(is)) =>
            {
                self.hint(format!("`viv {noun}` lists all"))
            }
            ("viv hooks send", Exit::Refused) => self.hint(
                "`viv hooks show NAME` shows what the hook wants, `viv hooks log NAME` what it refused",
            ),
            (of, Exit::Refused) if of.starts_with("viv hooks") || of.starts_with("viv targets") => {
                self.hint(format!("`{path} --help` explains it"))
            }
            _ if self.code == "bad_value" => self.hint(format!("`{path} --help` explains it")),
            _ => self,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do: the hint given, else the default for the code, else the default for the exit code. So
    /// every failure has a hint.
    pub(crate) fn advice(&self) -> String {
        advice_with(OPTIONS.get().map_or("", String::as_str), self.general_advice())
    }

    fn general_advice(&self) -> &str {
        self.hint.as_deref().or_else(|| default_hint(&self.code)).unwrap_or(match self.exit {
            Exit::Answered | Exit::Failed => "`viv doctor` finds out what is wrong",
            Exit::Usage => "`viv --help` lists all commands, `viv COMMAND --help` explains one",
            Exit::Refused => "`viv agents`, `viv spaces` and `viv entities` show the current state",
            Exit::NotFound => "`viv agents`, `viv spaces` and `viv entities` list what exists",
            Exit::Unreachable => "start a server with `viv up`, or check `VIV_URL`",
            Exit::TimedOut => "`viv ps` shows who is busy; wait longer with --timeout",
            Exit::NoReply => "`viv runs show` shows what the cycle did",
        })
    }

    /// The form for `--json`, one line on standard error.
    pub(crate) fn to_json(&self) -> Value {
        json!({"error": {"code": self.code, "message": self.message, "hint": self.advice()}})
    }
}

impl From<client::ClientError> for Failure {
    fn from(error: client::ClientError) -> Self {
        let exit = match error.class {
            ErrorClass::Unreachable => Exit::Unreachable,
            ErrorClass::TimedOut => Exit::TimedOut,
            ErrorClass::NotFound => Exit::NotFound,
            ErrorClass::Refused | ErrorClass::KeyReplaced => Exit::Refused,
            ErrorClass::Usage => Exit::Usage,
            ErrorClass::Failed => Exit::Failed,
        };
        // What the server advises over HTTP, its commands do here.
        let over_http = |hint: &String| hint.contains(" /v1/");
        let hint = match (error.hint, default_hint(&error.code)) {
            (Some(hint), Some(_)) if over_http(&hint) => None,
            (Some(hint), Some(own)) if error.code == "damaged" => Some(format!("{hint}; {own}")),
            (hint, _) => hint,
        };
        Self { exit, code: error.code, message: error.message, hint }
    }
}

impl From<project::ProjectError> for Failure {
    fn from(error: project::ProjectError) -> Self {
        Self::new(Exit::Failed, error.code, error.message).hint(error.hint)
    }
}

/// The command that a line names, as far as it exists, such as `["viv", "keys", "add"]`.
fn command_path(line: &[OsString]) -> Vec<String> {
    let root = crate::args::command();
    let (mut at, mut path, mut before) = (&root, vec!["viv".to_owned()], "");
    for word in line.iter().skip(1).filter_map(|word| word.to_str()) {
        let is_value = matches!(std::mem::replace(&mut before, word), "--data-dir" | "--config");
        if let Some(command) = at.find_subcommand(word).filter(|_| !is_value) {
            path.push(command.get_name().to_owned());
            at = command;
        }
    }
    path
}

/// What to use here for a command name that is common in other programs, or for a word that is a name.
fn foreign(error: &clap::Error, path: &[String]) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::InvalidValue => return None,
        _ => ContextKind::InvalidArg,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    let path: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
    let hint = match (path.as_slice(), word.as_str()) {
        ([], "start" | "run" | "serve") => {
            "`viv up` starts the server; `viv scenario run` runs scenarios".to_owned()
        }
        ([], "status") => "`viv ps` lists agents and what they do; `viv doctor` checks everything".to_owned(),
        ([], "down") => "`viv stop` stops the server; `viv agents cancel` ends a cycle".to_owned(),
        ([], "log") => {
            "`viv logs` prints the server's log; `viv watch --lines` prints what the agents did last"
                .to_owned()
        }
        ([], "new" | "create") => {
            "`viv init` writes a project; `viv agents create` creates one agent".to_owned()
        }
        ([group @ ("keys" | "entities")], "new" | "create") => format!("did you mean `viv {group} add`?"),
        (["spaces"], "new" | "create" | "add") => "did you mean `viv spaces open`?".to_owned(),
        (["agents"], "new" | "add") => "did you mean `viv agents create`?".to_owned(),
        (["chat"], name) if !name.starts_with('-') => {
            format!("name the space with `--space {name}`, or the agent with `--agent {name}`")
        }
        _ => return None,
    };
    Some(hint)
}

/// The existing command that resembles the unknown one. Clap finds only similar long words: two swapped
/// characters are already half of `say`.
fn similar(error: &clap::Error, path: &[String]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let root = crate::args::command();
    let at = path.iter().skip(1).try_fold(&root, |command, name| command.find_subcommand(name))?;
    let names = at.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    // Nearly every word resembles a short name: only names with the same first character or the same
    // characters count.
    let candidates =
        names.filter(|name| name.chars().next() == word.chars().next() || letters(name) == letters(word));
    nearest(word, candidates).map(str::to_owned)
}

/// The hint for a refusal of the server that has no hint of its own.
fn default_hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "answered_already" | "call_over" => {
            "`viv approvals show CALL` shows what became of it; `viv approvals` lists what still waits"
        }
        "not_asked" => "`viv approvals` lists the calls that wait for a person",
        "bad_answer" => "`viv approvals show CALL` shows what is asked and how to answer",
        "key_expired" => "ask an administrator for a new one: `viv keys add`",
        "damaged" => "`viv verify` lists what is wrong, `viv restore` restores a backup",
        "hook_unready" => "`viv secrets set NAME` sets a secret of the hook",
        "agent_retired" => {
            "it never runs again; `viv agents create` creates another, and `viv ps` lists those that run"
        }
        "bad_config" => "`viv agents show NAME --json` shows every key with its value",
        "bad_handle" => "handles are a-z, 0-9, `_` and `-`, at most 40 characters",
        "event_state" | "event_taken" => "`viv events list NAME` shows each event and its state",
        "forbidden" => {
            "set `VIV_KEY` to a key that may do this, or run it where the server runs; \
             a lost admin key is replaced with `viv keys admin --reset`"
        }
        "inbox_full" => {
            "wait until the agent has processed its events: `viv events list NAME --state waiting`"
        }
        "handle_taken" => "choose another name; `viv entities` and `viv spaces` list those in use",
        "no_open_cycle" => "`viv ps` shows who is awake",
        "no_space" => "free space on the server's disk; `viv doctor` checks it",
        "not_human" => "name a person: `viv entities --kind human` lists them",
        "not_member" => "add it with `viv spaces add SPACE NAME`",
        "overloaded" | "closing" => "try again in a moment",
        "space_closed" => "a closed space can only be read; `viv spaces reopen NAME` opens it again",
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
    fn a_failure_prints_one_error_and_one_hint() {
        let failure = Failure::usage("wanted a name").hint("say --agent NAME");
        assert_eq!(failure.to_string(), "error: wanted a name\nhint: say --agent NAME");
        assert_eq!(
            failure.to_json().to_string(),
            r#"{"error":{"code":"usage","message":"wanted a name","hint":"say --agent NAME"}}"#
        );
        assert_eq!(failure.exit as i32, 2);
    }

    fn hint(line: &str) -> String {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = crate::args::command().try_get_matches_from(&line).unwrap_err();
        Failure::bad_command_line(&error, &line).advice()
    }

    #[test]
    fn a_mistyped_command_gets_a_hint_with_the_right_one() {
        assert_eq!(hint("viv sya"), "did you mean `viv say`? `viv --help` lists all commands");
        assert!(hint("viv pss").contains("`ps`"));
        assert!(hint("viv targets rtry").contains("`retry`; `viv targets --help`"));
        assert!(hint("viv xx").starts_with("see `viv --help`"));
    }

    #[test]
    fn command_names_of_other_programs_get_a_hint_with_ours() {
        for (line, ours) in [
            ("start", "`viv up`"),
            ("run", "`viv up`"),
            ("status", "`viv ps`"),
            ("down", "`viv stop`"),
            ("log", "`viv logs`"),
            ("new", "`viv init`"),
            ("keys create", "`viv keys add`"),
            ("spaces create", "`viv spaces open`"),
            ("chat kitchen", "`--space kitchen`"),
        ] {
            let hint = hint(&format!("viv {line}"));
            assert!(hint.contains(ours), "{line}: {hint}");
        }
    }

    #[test]
    fn a_wrong_value_gets_a_hint_with_the_help_of_its_command() {
        for (line, help) in [
            ("say hi --wait --timeout 0", "`viv say --help`"),
            ("--data-dir say ps --state awake", "`viv ps --help`"),
            ("watch -n abc", "`viv watch --help`"),
            ("keys add service:bad --expires tomorrow", "`viv keys add --help`"),
        ] {
            let hint = hint(&format!("viv {line}"));
            assert!(hint.contains(help), "{line}: {hint}");
        }
    }

    #[test]
    fn a_refused_hook_or_target_gets_a_hint_about_these() {
        let hint = |line: &str, exit, code, message: &str| {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Failure::new(exit, code, message).of_command(&line).advice()
        };
        for (line, exit, message, words) in [
            ("viv hooks add ci --kind github", Exit::Refused, "no", "`viv hooks add --help`"),
            ("viv hooks send ci", Exit::Refused, "no", "`viv hooks show NAME`"),
            ("viv hooks remove ci", Exit::NotFound, "no hook is called `ci`", "`viv hooks` lists"),
            ("viv targets add a b --space c", Exit::Refused, "no", "`viv targets add --help`"),
            ("viv targets remove a", Exit::NotFound, "no target is called `a`", "`viv targets` lists"),
            ("viv hooks add ci --to bob", Exit::NotFound, "no agent is called `bob`", "`viv agents`"),
        ] {
            let hint = hint(line, exit, "bad", message);
            assert!(hint.contains(words), "{line}: {hint}");
        }
    }

    #[test]
    fn advised_commands_are_about_the_same_server() {
        let options = " --data-dir d";
        for (advice, wanted) in [
            ("`viv stop` stops it", "`viv stop --data-dir d` stops it"),
            ("see `viv ps` or `viv ps --help`", "see `viv ps --data-dir d` or `viv ps --help`"),
            ("set `x`, then `viv up`", "set `x`, then `viv up --data-dir d`"),
            ("viv alone, `vivarium.toml`", "viv alone, `vivarium.toml`"),
            ("`viv restore B --data-dir e`", "`viv restore B --data-dir e`"),
        ] {
            assert_eq!(advice_with(options, advice), wanted);
            assert_eq!(advice_with("", advice), advice);
        }
    }

    #[test]
    fn every_failure_has_one_hint() {
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
