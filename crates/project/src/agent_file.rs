//! Agents as files: the keys of an agent's config between two `---` lines, its instructions below them.
//! Reads and checks files; what happens to an agent is decided elsewhere.

mod folder;
mod vet;

use std::collections::BTreeSet;

use crate::OWNER;
use agent::config::{AgentConfig, BadConfig, KEYS, nearest};
use agent::entity::handle;
use agent::id::ContentRef;
use agent::limits;
use scenario::yaml::{self, Is, YamlNode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use folder::{FoundFile, Stamp, load, read_one, scan, shown};
pub use vet::{Vetting, unknown_tools};

/// Keys of a file that are not keys of a config: name, type, default and description.
pub const FILE_KEYS: [(&str, &str, &str, &str); 3] = [
    ("name", "text", "the file's name", "The agent's handle; it never changes."),
    ("display_name", "text", "the handle", "The name that people see."),
    (
        "spaces",
        "list of names",
        "one space named like the agent",
        "Spaces that it is a member of; missing ones are opened, with `owner` in them.",
    ),
];

/// Maximum size of an agent file: the longest instructions, and space for its keys.
const FILE_MAX_BYTES: u64 = limits::INSTRUCTIONS_MAX_BYTES as u64 + 64 * 1024;
/// The line before and after the keys.
const FENCE: &str = "---";
/// An agent as its file defines it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFile {
    /// The file, as shown to people.
    pub file: String,
    /// The agent's handle.
    pub name: String,
    /// The name for people.
    pub display_name: String,
    /// Handles of its spaces.
    pub spaces: Vec<String>,
    /// All other keys.
    pub config: AgentConfig,
    /// What the file says, to notice that it changed.
    pub text: ContentRef,
    /// What is wrong with it although it can be used.
    pub warnings: Vec<FileProblem>,
}

/// A problem in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileProblem {
    /// The file, as shown to people.
    pub file: String,
    /// The line, if the problem is in one.
    pub line: Option<usize>,
    /// The column in it, if known.
    pub column: Option<usize>,
    /// What was wanted and what stood in the way.
    pub what: String,
    /// Whether it stops nothing: the file is used as far as it can be.
    #[serde(default)]
    pub warning: bool,
}

impl FileProblem {
    pub(crate) fn new(file: &str, line: Option<usize>, what: String) -> Self {
        Self { file: file.to_owned(), line, column: None, what, warning: false }
    }

    /// What it means for a running server, and what to do.
    pub fn while_running(&self) -> &'static str {
        match self.warning {
            true => "everything else is in use",
            false => "the earlier version stays in use, if there was one; correct the file and save it",
        }
    }
}

impl std::fmt::Display for FileProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.what),
            (Some(line), None) => write!(f, "{}:{line}: {}", self.file, self.what),
            (None, _) => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// The mistakes among these that stop nothing, since they are in files that are `in_use`; if others stop a start, all of them.
pub(crate) fn tolerated(
    problems: Vec<FileProblem>,
    in_use: &BTreeSet<String>,
) -> Result<Vec<FileProblem>, Vec<FileProblem>> {
    let (broken, refused): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| in_use.contains(&problem.file));
    if refused.is_empty() { Ok(broken) } else { Err(refused.into_iter().chain(broken).collect()) }
}

/// Problems that a summary lists; more are counted.
const LISTED_MAX: usize = 20;

/// All problems as one message: the only one, else one line for each.
pub fn summary(problems: &[FileProblem]) -> String {
    if let [one] = problems {
        return one.to_string();
    }
    let mut message = format!("the agent files have {} problems", problems.len());
    for problem in problems.iter().take(LISTED_MAX) {
        message.push_str(&format!("\n  {problem}"));
    }
    if problems.len() > LISTED_MAX {
        message.push_str(&format!("\n  and {} more", problems.len() - LISTED_MAX));
    }
    message
}

/// Something to say about a key of a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The key.
    pub key: &'static str,
    /// What is wrong with its value, and what to do.
    pub what: String,
    /// Whether the config can be used all the same.
    pub warning: bool,
}

/// Checks the models and tools that a config names.
pub type Vet<'a> = dyn Fn(&AgentConfig) -> Vec<Remark> + 'a;

/// Parses one file. `stem` is its name without `.md`.
fn parse(file: &str, stem: &str, bytes: &[u8], vet: &Vet<'_>) -> Result<AgentFile, Vec<FileProblem>> {
    let problem = |line, what: String| vec![FileProblem::new(file, line, what)];
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        problem(Some(line), "it is not UTF-8 from here on; save it as UTF-8".to_owned())
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let (keys, body) = parts(&text).map_err(|(line, what)| problem(line, what))?;
    let read = yaml::read(keys).map_err(|flaw| {
        let line = Some(line_of(flaw.place.line.max(1)));
        let column = usize::try_from(flaw.place.column.max(1)).ok();
        let what = flaw.hint.map_or(flaw.message.clone(), |hint| format!("{}; {hint}", flaw.message));
        vec![FileProblem { column, ..FileProblem::new(file, line, what) }]
    })?;
    let mut parser =
        FileParser { file, text: &text, read: &read, problems: Vec::new(), warnings: Vec::new() };
    let agent = parser.agent(stem, body.trim_matches('\n').trim_end(), vet);
    match agent {
        Some(agent) if parser.problems.is_empty() => Ok(AgentFile { warnings: parser.warnings, ..agent }),
        _ => {
            parser.problems.sort();
            Err(parser.problems)
        }
    }
}

/// The line of the file for a line of the keys: the file's first line is the fence.
fn line_of(line: u64) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX - 1) + 1
}

/// Splits the text into the keys and the body.
fn parts(text: &str) -> Result<(&str, &str), (Option<usize>, String)> {
    if text.trim().is_empty() {
        let what = format!("it is empty: wanted keys between two `{FENCE}` lines, then instructions");
        return Err((None, what));
    }
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if first.trim_end() != FENCE {
        let got: String = text.lines().next().unwrap_or_default().chars().take(40).collect();
        let what = format!(
            "wanted a first line `{FENCE}` before the agent's keys, got `{got}`; notes belong into `README.md` or \
             outside of this folder"
        );
        return Err((Some(1), what));
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return Ok((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    Err((Some(1), format!("the keys that begin here have no closing `{FENCE}` line")))
}

struct FileParser<'a> {
    file: &'a str,
    text: &'a str,
    read: &'a YamlNode,
    problems: Vec<FileProblem>,
    warnings: Vec<FileProblem>,
}

impl FileParser<'_> {
    /// The line of a key, else of its parent.
    fn line(&self, key: &str) -> Option<usize> {
        self.read.place_of(key).map(|place| line_of(place.line))
    }

    fn problem(&mut self, key: &str, what: String) {
        let line = self.line(key);
        self.problems.push(FileProblem::new(self.file, line, what));
    }

    fn agent(&mut self, stem: &str, body: &str, vet: &Vet<'_>) -> Option<AgentFile> {
        let keys = match self.read.is {
            Is::Nothing => Value::Object(Map::new()),
            _ => self.read.json(),
        };
        let Value::Object(mut keys) = keys else {
            let what =
                "wanted lines such as `description: keeps the workshop` between the `---` lines".to_owned();
            self.problems.push(FileProblem::new(self.file, Some(2), what));
            return None;
        };
        let name = self.name(keys.remove("name"), stem);
        let display_name = self.display_name(keys.remove("display_name"));
        let spaces = self.spaces(keys.remove("spaces"));
        self.instructions(&mut keys, body);
        let config = self.config(keys, vet);
        let name = name?;
        Some(AgentFile {
            file: self.file.to_owned(),
            display_name: display_name.unwrap_or_else(|| name.clone()),
            spaces: spaces.unwrap_or_else(|| vec![name.clone()]),
            name,
            config: config?,
            text: ContentRef::of(self.text.as_bytes()),
            warnings: Vec::new(),
        })
    }

    fn name(&mut self, given: Option<Value>, stem: &str) -> Option<String> {
        let (text, explicit) = match &given {
            None | Some(Value::Null) => (stem, false),
            Some(Value::String(text)) => (text.as_str(), true),
            Some(other) => {
                self.problem("name", format!("`name`: wanted a text, got {other}; put it in quotes"));
                return None;
            }
        };
        match handle(text) {
            Ok(name) if name == OWNER => {
                let what = "is the first person of the server; give the agent another `name`";
                self.problem("name", format!("`{OWNER}` {what}"));
                None
            }
            Ok(name) => Some(name),
            Err(error) => {
                let more = if explicit { "" } else { " as the file's name; set `name:` in it" };
                self.problem("name", format!("`name`: {error}{more}"));
                None
            }
        }
    }

    fn display_name(&mut self, given: Option<Value>) -> Option<String> {
        match given? {
            Value::Null => None,
            Value::String(text) if (1..=limits::DISPLAY_NAME_MAX_BYTES).contains(&text.trim().len()) => {
                Some(text.trim().to_owned())
            }
            other => {
                let max = limits::DISPLAY_NAME_MAX_BYTES;
                let got: String = other.to_string().chars().take(60).collect();
                let what = format!("`display_name`: wanted a text of 1 to {max} bytes, got {got}");
                self.problem("display_name", what);
                None
            }
        }
    }

    fn spaces(&mut self, given: Option<Value>) -> Option<Vec<String>> {
        let given = given.filter(|given| !given.is_null())?;
        let Some(all) = given.as_array() else {
            let what = format!("`spaces`: wanted a list of names such as `[home]`, got {given}");
            self.problem("spaces", what);
            return None;
        };
        let mut spaces = Vec::new();
        for one in all {
            match one.as_str().map(handle) {
                Some(Ok(space)) if spaces.contains(&space) => {}
                Some(Ok(space)) => spaces.push(space),
                Some(Err(error)) => self.problem("spaces", format!("`spaces`: {error}")),
                None => self.problem("spaces", format!("`spaces`: wanted names, got {one}")),
            }
        }
        Some(spaces)
    }

    fn instructions(&mut self, keys: &mut Map<String, Value>, body: &str) {
        if !body.is_empty() {
            if keys.contains_key("instructions") {
                let what = "the instructions are already below the keys; write them once".to_owned();
                self.problem("instructions", what);
            }
            keys.insert("instructions".to_owned(), Value::from(body));
        } else if !keys.contains_key("instructions") {
            let what = format!("no instructions: write below the second `{FENCE}` who the agent is");
            self.problems.push(FileProblem::new(self.file, None, what));
        }
    }

    fn config(&mut self, mut keys: Map<String, Value>, vet: &Vet<'_>) -> Option<AgentConfig> {
        let problems = match AgentConfig::read(&Value::Object(keys.clone())) {
            Ok(config) => {
                self.vetted(&config, vet);
                return Some(config);
            }
            Err(problems) => problems,
        };
        for problem in problems {
            let key = problem.key().unwrap_or_default().to_owned();
            self.problem(&key, with_file_keys(&problem));
            let whole = key.split('.').next().unwrap_or_default();
            let read_as_list = keys.remove(whole).as_ref().and_then(|value| listed(whole, value));
            keys.extend(read_as_list.map(|list| (whole.to_owned(), list)));
        }
        // Whoever corrects the file wants to know everything at once, as far as the rest can be read.
        if let Ok(config) = AgentConfig::read(&Value::Object(keys)) {
            self.vetted(&config, vet);
        }
        None
    }

    fn vetted(&mut self, config: &AgentConfig, vet: &Vet<'_>) {
        for Remark { key, what, warning } in vet(config) {
            let problem = FileProblem { warning, ..FileProblem::new(self.file, self.line(key), what) };
            if warning { &mut self.warnings } else { &mut self.problems }.push(problem);
        }
    }
}

/// Names in one text, as other programs write their tools, as a list.
fn listed(key: &str, value: &Value) -> Option<Value> {
    let text = value.as_str().filter(|_| key == "tools")?;
    Some(text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect())
}

/// A file has more keys than a config, and the nearest one may be among them.
fn with_file_keys(problem: &BadConfig) -> String {
    match problem {
        BadConfig::UnknownKey { key, nearest: found }
            if !key.contains('.') && found.as_ref().is_none_or(|found| !found.contains('.')) =>
        {
            let known = KEYS.iter().map(|known| known.name.split('.').next().unwrap_or(known.name));
            let known = known.chain(FILE_KEYS.iter().map(|(name, ..)| *name));
            BadConfig::UnknownKey { key: key.clone(), nearest: nearest(key, known).map(str::to_owned) }
                .to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AgentFile, Vec<FileProblem>> {
        parse("agents/ada.md", "ada", text.as_bytes(), &|_| Vec::new())
    }

    fn wrong(text: &str, expected: &[&str]) {
        let problems = read(text).unwrap_err();
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected, "{text:?}");
    }

    #[test]
    fn keys_and_body_define_an_agent() {
        let text = "---\nname: Ada_2\ndescription: a test\nspaces: [Home, ops, home]\nlimits:\n  max_steps: 5\n---\n\nYou are Ada.\n\nBe kind.\n\n";
        let agent = read(text).unwrap();
        assert_eq!((agent.name.as_str(), agent.display_name.as_str()), ("ada_2", "ada_2"));
        assert_eq!(agent.spaces, ["home", "ops"]);
        assert_eq!(agent.config.instructions, "You are Ada.\n\nBe kind.");
        assert_eq!((agent.config.limits.max_steps, agent.config.description.as_str()), (5, "a test"));
        let bare = read("---\n---\nYou are Ada.").unwrap();
        assert_eq!((bare.name.as_str(), bare.spaces), ("ada", vec!["ada".to_owned()]));
    }

    #[test]
    fn a_byte_order_mark_and_crlf_line_ends_change_nothing() {
        let plain = read("---\ndescription: x\n---\none\ntwo\n").unwrap();
        assert_eq!(read("\u{feff}---\r\ndescription: x\r\n---\r\none\r\ntwo\r\n").unwrap(), plain);
        let spaced = read("--- \ndescription: x\n---  \none\ntwo").unwrap();
        assert_eq!(spaced.config, plain.config);
    }

    #[test]
    fn file_keys_are_the_same_as_api_keys() {
        let body = serde_json::json!({"debounce": 50, "stop": {"on_tools": ["done"]}, "instructions": "x"});
        let of_api = AgentConfig::from_json(&body).unwrap();
        assert_eq!(read("---\ndebounce: 50\nstop: {on_tools: [done]}\n---\nx").unwrap().config, of_api);
        assert_eq!(
            read("---\ndebounce: 50\nstop:\n  on_tools:\n  - done\ninstructions: x\n---\n").unwrap().config,
            of_api
        );
    }

    #[test]
    fn the_error_of_a_misspelled_key_names_file_line_and_nearest_key() {
        wrong(
            "---\nmodle: x\nlimits:\n  max_step: 5\nspace: [a]\n---\nx",
            &[
                "agents/ada.md:2: unknown key `modle`; did you mean `model`?",
                "agents/ada.md:4: unknown key `limits.max_step`; did you mean `limits.max_steps`?",
                "agents/ada.md:5: unknown key `space`; did you mean `spaces`?",
            ],
        );
        wrong(
            "---\nmax_steps: 5\n---\nx",
            &["agents/ada.md:2: unknown key `max_steps`; did you mean `limits.max_steps`?"],
        );
    }

    #[test]
    fn the_error_of_a_wrong_value_names_what_was_wanted() {
        wrong(
            "---\ndebounce: soon\nname: 5\nspaces: home\n---\nx",
            &[
                "agents/ada.md:2: `debounce`: wanted a whole number from 0 to 60000, got \"soon\"",
                "agents/ada.md:3: `name`: wanted a text, got 5; put it in quotes",
                "agents/ada.md:4: `spaces`: wanted a list of names such as `[home]`, got \"home\"",
            ],
        );
        wrong(
            "---\nlimits: {max_steps: 0}\n---\nx",
            &["agents/ada.md:2: `limits.max_steps` must be 1 to 1000, got 0"],
        );
        wrong(
            "---\nname: owner\n---\nx",
            &["agents/ada.md:2: `owner` is the first person of the server; give the agent another `name`"],
        );
        assert!(read("---\nname: two words\n---\nx").is_err());
    }

    #[test]
    fn all_mistakes_of_a_file_of_another_program_are_named_at_once() {
        let vet = |config: &AgentConfig| {
            let known = ["read_messages", "done"].map(str::to_owned);
            let model = config.model.as_ref().map(|model| Remark {
                key: "model",
                what: format!("no model `{model}`"),
                warning: false,
            });
            model.into_iter().chain(unknown_tools(config, &known)).collect()
        };
        let text = "---\nname: Code Reviewer\ndescription: Reviews code\ntools: Read, Grep\nmodel: sonnet\ncolor: blue\n---\nx";
        let problems = parse("a.md", "a", text.as_bytes(), &vet).unwrap_err();
        let lines: Vec<(Option<usize>, &str)> =
            problems.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
        for (line, what) in [
            (2, "`name`"),
            (4, "`tools`: wanted a list"),
            (4, "there is no tool `Read`"),
            (4, "there is no tool `Grep`"),
            (5, "no model `sonnet`"),
            (6, "unknown key `color`"),
        ] {
            assert!(
                lines.iter().any(|(at, got)| *at == Some(line) && got.contains(what)),
                "{what}: {lines:#?}"
            );
        }
        assert_eq!(lines.len(), 6, "{lines:#?}");
    }

    #[test]
    fn a_config_that_could_never_end_a_cycle_is_refused() {
        let problems = read("---\ntools: [send_message]\nstop:\n  require_tool: true\n---\nx").unwrap_err();
        assert_eq!(problems[0].line, Some(4));
        assert!(problems[0].what.contains("could never end a cycle"), "{}", problems[0]);
    }

    #[test]
    fn the_error_of_an_incomplete_file_names_the_missing_part() {
        wrong("", &["agents/ada.md: it is empty: wanted keys between two `---` lines, then instructions"]);
        wrong(
            "You are Ada.",
            &[
                "agents/ada.md:1: wanted a first line `---` before the agent's keys, got `You are Ada.`; notes belong \
               into `README.md` or outside of this folder",
            ],
        );
        wrong("---\nmodel: x\n", &["agents/ada.md:1: the keys that begin here have no closing `---` line"]);
        wrong("---", &["agents/ada.md:1: the keys that begin here have no closing `---` line"]);
        wrong(
            "---\n---\n\n",
            &["agents/ada.md: no instructions: write below the second `---` who the agent is"],
        );
        wrong(
            "---\ninstructions: x\n---\ny",
            &["agents/ada.md:2: the instructions are already below the keys; write them once"],
        );
        wrong(
            "---\n- a\n---\ny",
            &[
                "agents/ada.md:2: wanted lines such as `description: keeps the workshop` between the `---` lines",
            ],
        );
    }

    #[test]
    fn the_error_of_invalid_utf8_names_the_line() {
        let problems = parse("a.md", "a", b"---\nname: \xff\n---\nx", &|_| Vec::new()).unwrap_err();
        assert_eq!(problems[0].to_string(), "a.md:2: it is not UTF-8 from here on; save it as UTF-8");
    }
}
