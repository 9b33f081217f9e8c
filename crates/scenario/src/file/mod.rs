//! Reads scenario files: YAML whose keys are sentences. All flaws of a file are found at once, each with its
//! position. This module must not know how a scenario is run.

mod cast;
mod expect;
mod hooks;
mod script;
mod story;
mod tools;
mod value;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agent::port::{Hooks, NoHooks};
use serde_json::{Map, Value};

use crate::bounds;
use crate::flaw::{FileFlaw, FilePosition, Flaws, shown};
use crate::scene::Scenario;
use crate::yaml::{self, Is, YamlKey, YamlNode};
use cast::Cast;
use value::Reader;

/// The sections of a file, in their usual order.
const SECTIONS: &[&str] =
    &["scenario", "about", "people", "tools", "agents", "spaces", "hooks", "story", "expect"];

/// Reads agent files that a scenario names: from the path in the scenario and the names of all its tools to the keys of
/// the config, or the flaws of that file, each with its position there.
pub type AgentFiles<'a> = dyn Fn(&str, &[String]) -> Result<Map<String, Value>, Vec<String>> + 'a;

/// The scenario files in a folder, by name.
pub fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.path();
        let is_yaml = file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if is_yaml && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the file at a path; see [`read_with`]. The error says that there is no such file, or why it cannot be
/// read.
pub fn read_path(
    path: &Path,
    tools: &[String],
    agent_files: &AgentFiles<'_>,
    hooks: &dyn Hooks,
) -> io::Result<Result<Scenario, Vec<FileFlaw>>> {
    // One byte more than the limit is enough to detect that it is too long.
    let most = u64::try_from(bounds::FILE_MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(read_with(&bytes, tools, agent_files, hooks))
}

/// Reads one file without agent files and hooks. `tools` are the names of all tools.
pub fn read(bytes: &[u8], tools: &[String]) -> Result<Scenario, Vec<FileFlaw>> {
    read_with(bytes, tools, &|_, _| Err(vec!["no agent files can be read here".to_owned()]), &NoHooks)
}

/// Reads one file whose agents may be defined in agent files, and whose hooks are declared as `hooks` reads them.
pub fn read_with(
    bytes: &[u8],
    tools: &[String],
    agent_files: &AgentFiles<'_>,
    hooks: &dyn Hooks,
) -> Result<Scenario, Vec<FileFlaw>> {
    let whole = |message: String| vec![FileFlaw::new(FilePosition::default(), message)];
    if bytes.len() > bounds::FILE_MAX_BYTES {
        let most = bounds::FILE_MAX_BYTES;
        return Err(whole(format!("wanted a file of at most {most} bytes, got {}", bytes.len())));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = &bytes[..error.valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        vec![FileFlaw::new(FilePosition { line, column: 1 }, "wanted UTF-8 text, got other bytes")]
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let node = yaml::read(text).map_err(|flaw| vec![flaw])?;
    let mut reader =
        Reader { flaws: Flaws::default(), tools: tools.to_vec(), agent_files, known_hooks: hooks };
    let scenario = reader.scenario(&node);
    reader.flaws.into_result(scenario)
}

impl Reader<'_> {
    fn scenario(&mut self, node: &YamlNode) -> Scenario {
        let mut scenario = Scenario::default();
        if matches!(node.is, Is::Nothing) {
            let message = format!("the file is empty; a scenario has the keys {}", listed(SECTIONS));
            self.wrong(FilePosition::default(), message);
            return scenario;
        }
        let pairs = self.map(node, &format!("a mapping with the keys {}", listed(SECTIONS)));
        for (key, value) in pairs {
            match key.text.as_str() {
                "scenario" => scenario.name = self.text(value, "a sentence").unwrap_or_default(),
                "about" => scenario.about = self.text(value, "a text").unwrap_or_default(),
                known if SECTIONS.contains(&known) => {}
                _ => self.unknown(key, SECTIONS),
            }
        }
        if pairs.is_empty() {
            return scenario;
        }
        if scenario.name.is_empty() && section(pairs, "scenario").is_none() {
            self.wrong(node.place, "`scenario` is missing: say in a sentence what it shows");
        }
        if let Some(value) = section(pairs, "people") {
            scenario.people = self.people(value);
        }
        let mut cast = Cast::of(&scenario.people);
        if let Some(value) = section(pairs, "tools") {
            scenario.tools = self.own_tools(value);
            cast.tools.extend(scenario.tools.iter().map(|tool| tool.name.clone()));
        }
        if let Some(value) = section(pairs, "agents") {
            scenario.agents = self.agents(value, &mut cast);
        }
        if let Some(value) = section(pairs, "spaces") {
            scenario.spaces = self.spaces(value, &mut cast);
        }
        if let Some(value) = section(pairs, "hooks") {
            scenario.hooks = self.hooks(value, &mut cast);
        }
        // Scripts name spaces, which are defined below them.
        self.scripts(section(pairs, "agents"), &mut scenario.agents, &cast);
        match section(pairs, "story") {
            Some(value) => scenario.story = self.story(value, &mut cast, &scenario.spaces),
            None => self.wrong(node.place, "`story` is missing: a list of what happens"),
        }
        match section(pairs, "expect") {
            Some(value) => scenario.expect = self.expect(value, &cast),
            None => self.wrong(node.place, "`expect` is missing: a list of what must be true at the end"),
        }
        scenario
    }
}

fn section<'n>(pairs: &'n [(YamlKey, YamlNode)], name: &str) -> Option<&'n YamlNode> {
    pairs.iter().find(|(key, _)| key.text == name).map(|(_, value)| value)
}

/// Names in backticks.
fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The hint for a sentence that is quoted as a whole, so that YAML reads it as one text.
fn quoted_whole(key: &YamlKey) -> Option<String> {
    let (sentence, text) = key.text.split_once(": ").or_else(|| key.text.split_once(':'))?;
    if sentence.split_whitespace().count() < 2 {
        return None;
    }
    let (sentence, text) = (shown(sentence), shown(text.trim()));
    Some(format!(
        "put no quotes around the whole sentence, only around the text after it: `- {sentence}: \"{text}\"`"
    ))
}

#[cfg(test)]
mod tests;
