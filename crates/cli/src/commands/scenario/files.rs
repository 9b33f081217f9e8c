//! Finds and reads scenario files. All files are read before a scenario is run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::config::AgentConfig;
use agent::port::{Hooks, Toolbox};
use runtime::clock::SystemClock;
use scenario::file;
use scenario::flaw::FileFlaw;
use scenario::scene::Scenario;
use serde_json::{Map, Value, json};

use super::runner::hooks;
use crate::args::Global;
use crate::errors::{Exit, Failure, Result};
use crate::settings;
use project::agent_file::{self, Remark};

const FILES_MAX: usize = 1_000;
/// Flaws that one failure lists; `viv scenario check` lists them all.
const LISTED: usize = 10;

pub(super) struct File {
    pub(super) path: String,
    pub(super) scenario: std::result::Result<Scenario, Vec<FileFlaw>>,
}

impl File {
    pub(super) fn to_json(&self) -> Value {
        let flaws = self.scenario.as_ref().err().map(Vec::as_slice).unwrap_or_default();
        let name = self.scenario.as_ref().ok().map(|scenario| &scenario.name);
        json!({"file": self.path, "scenario": name, "ok": self.scenario.is_ok(), "flaws": flaws})
    }
}

/// Reads the files, and those in directories sorted by name; without any, those of the project.
pub(super) fn read_all(global: &Global, paths: &[PathBuf]) -> Result<Vec<File>> {
    let (mut files, project) = (Vec::new(), settings::scenarios(global)?);
    if paths.is_empty() && !project.is_dir() {
        let message = format!("wanted scenario files, and there is no folder `{}`", project.display());
        return Err(
            Failure::usage(message).hint("name a file or a folder, or write a project with `viv init`")
        );
    }
    for path in if paths.is_empty() { std::slice::from_ref(&project) } else { paths } {
        if path.is_dir() {
            let inside = file::in_folder(path).map_err(|error| unreadable(path, &error))?;
            if inside.is_empty() {
                let dir = path.display();
                let failure =
                    Failure::new(Exit::NotFound, "no_scenario", format!("there is no scenario in `{dir}`"));
                return Err(failure.hint("scenarios are files that end in `.yaml`"));
            }
            files.extend(inside);
        } else {
            files.push(path.clone());
        }
    }
    if files.len() > FILES_MAX {
        let message = format!("wanted at most {FILES_MAX} scenarios, got {}", files.len());
        return Err(Failure::usage(message).hint("name fewer directories"));
    }
    let tools = tools::prebuilt().names();
    let hooks = hooks(Arc::new(SystemClock::new()));
    files.iter().map(|path| read(path, &tools, &*hooks)).collect()
}

fn read(path: &Path, tools: &[String], hooks: &dyn Hooks) -> Result<File> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let agent_files = |file: &str, tools: &[String]| agent_file(&folder.join(file), tools);
    let scenario = file::read_path(path, tools, &agent_files, hooks);
    let scenario = scenario.map_err(|error| unreadable(path, &error))?;
    Ok(File { path: path.display().to_string(), scenario })
}

const OWN_TOOLS: &str =
    "a tool of your server has to be in the scenario, too: name it under `tools`, with an `outcome`";

/// The config in an agent file. Names and spaces are defined by the scenario, and the model by the command.
fn agent_file(path: &Path, tools: &[String]) -> std::result::Result<Map<String, Value>, Vec<String>> {
    let here = |remark: Remark| Remark { what: format!("{}; {OWN_TOOLS}", remark.what), ..remark };
    let vet = |config: &AgentConfig| {
        agent_file::unknown_tools(config, tools).into_iter().map(here).collect::<Vec<_>>()
    };
    let agent = agent_file::read_one(path, &vet)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let Value::Object(mut keys) = agent.config.to_json() else { return Ok(Map::new()) };
    keys.remove("model");
    Ok(keys)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot read `{}`: {error}", path.display());
    let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
    Failure::new(exit, "unreadable", message).hint("name a scenario file, or a directory of them")
}

pub(super) fn valid(files: Vec<File>) -> Result<Vec<(String, Scenario)>> {
    let mut valid = Vec::new();
    let mut wrong = Vec::new();
    for File { path, scenario } in files {
        match scenario {
            Ok(scenario) => valid.push((path, scenario)),
            Err(flaws) => wrong.extend(flaws.iter().map(|flaw| {
                let hint = flaw.hint.as_ref().map(|hint| format!("\n    ({hint})")).unwrap_or_default();
                format!("{}{hint}", flaw.located(&path))
            })),
        }
    }
    if wrong.is_empty() {
        return Ok(valid);
    }
    let more = wrong.len().saturating_sub(LISTED);
    wrong.truncate(LISTED);
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    let message = format!("not a valid scenario:\n  {}", wrong.join("\n  "));
    let hint = match more {
        0 => "nothing was run; correct what is listed",
        _ => "nothing was run; `viv scenario check` lists everything",
    };
    Err(Failure::new(Exit::Usage, "bad_scenario", message).hint(hint))
}
