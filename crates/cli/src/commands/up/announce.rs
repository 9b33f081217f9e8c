//! What a server prints once it is up.

use std::path::Path;

use agent::life::Standing;
use agent::port::AgentCard;
use serde::Deserialize;
use serde_json::{Value, json};

use super::report;
use crate::model::Chosen;
use crate::output::{Screen, Style, wrap};
use crate::settings::Settings;
use crate::world;
use client::ApiKey;
use project::agent_file::shown;
use project::live::AgentFolder;
use project::reconcile::ReconcileReport;

/// Agents that are listed by name; more are counted.
pub(super) const NAMED: usize = 6;

pub(super) struct Announcement<'a> {
    pub(super) settings: &'a Settings,
    pub(super) url: &'a str,
    pub(super) chosen: &'a Chosen,
    pub(super) files: &'a AgentFolder,
    /// Agents that existed before this start.
    pub(super) existing: &'a [AgentCard],
    pub(super) lost_frames: u64,
    pub(super) no_space: bool,
}

impl Announcement<'_> {
    /// All that is announced, also for scripts. `report` is what became of the agent files.
    pub(super) fn to_json(&self, admin_key: Option<&ApiKey>, report: Option<&ReconcileReport>) -> Value {
        let dir = (!self.files.agents.is_empty()).then(|| shown(self.settings.agents_dir()));
        let agents = self.agents(report);
        json!({
            "ready": true,
            "url": self.url,
            "admin_key": admin_key.map(ApiKey::open),
            "data_dir": self.settings.data_dir(),
            "model": self.chosen.info.name,
            "model_why": self.chosen.why,
            "demo": self.chosen.info.demo,
            "lost_frames": self.lost_frames,
            "no_space": self.no_space,
            "options": self.options(),
            "chat": self.chat(dir.as_ref().and_then(|_| agents.first().copied())),
            "agents": agents,
            "agents_dir": dir,
            "files": report.filter(|_| self.files.folder_exists).map(|report| json!(report)),
        })
    }

    /// The agents of the files, else those that exist, else the one that the first start creates.
    fn agents(&self, report: Option<&ReconcileReport>) -> Vec<&str> {
        let retired = |name: &&str| report.is_none_or(|report| !report.left_retired(name));
        let lives = self.existing.iter().filter(|card| card.standing != Standing::Retired);
        match self.files.agents.is_empty() {
            false => self.files.names().filter(retired).collect(),
            true if self.existing.is_empty() => vec![world::AGENT],
            true => lives.map(|card| card.entity.name.as_str()).collect(),
        }
    }

    fn chat(&self, agent: Option<&str>) -> String {
        let whom = agent.map(|name| format!(" --agent {name}")).unwrap_or_default();
        format!("viv chat{whom}{}", self.options())
    }

    /// What a command that is run here needs to find this server.
    fn options(&self) -> String {
        let place = |option: &str, path: &Path| format!(" --{option} {}", path.display());
        match &self.settings.file {
            _ if self.settings.found_by_clients => String::new(),
            Some(file) if self.settings.data_dir_is_from_the_file() => place("config", file),
            _ => place("data-dir", self.settings.data_dir()),
        }
    }
}

/// Prints the announcement of a server, in this terminal or in the background.
pub(super) fn print(screen: &Screen, ready: &Value) {
    let text = |name: &str| screen.clean_line(ready[name].as_str().unwrap_or_default());
    screen.wrapped(&format!("{} is up at {}", screen.paint(Style::Bold, "Vivarium"), text("url")), 2);
    screen.line("");
    let names = Vec::<&str>::deserialize(&ready["agents"]).unwrap_or_default();
    let from = ready["agents_dir"].as_str().map(|dir| format!(" (from `{dir}`)"));
    let agents = match names.as_slice() {
        [world::AGENT] if from.is_none() => format!("{} in the space `{}`", world::AGENT, world::SPACE),
        [] => "none".to_owned(),
        all if all.len() > NAMED => format!("{} and more", all[..NAMED].join(", ")),
        all => all.join(", "),
    };
    let agents = screen.clean_line(&(agents + from.as_deref().unwrap_or_default()));
    let mut pairs = vec![
        (if names.len() == 1 { "agent" } else { "agents" }, agents),
        ("model", format!("{} ({})", text("model"), text("model_why"))),
        ("data", text("data_dir")),
    ];
    let options = text("options");
    let log = ready["log"].as_str();
    let log = log.map(|log| format!("{} (`viv logs -f{options}` follows it)", screen.clean_line(log)));
    let in_background = log.is_some();
    pairs.extend(log.map(|log| ("log", log)));
    screen.pairs(&pairs);
    let report = ReconcileReport::deserialize(&ready["files"]).unwrap_or_default();
    if !report.is_empty() || !report.warnings.is_empty() {
        screen.line("");
        report::print(&report, screen);
    }
    print_notes(screen, ready);
    let chat = screen.paint(Style::Bold, &text("chat"));
    let or_make = if ready["chat"] == "viv chat" && in_checkout() { "   (or `make chat`)" } else { "" };
    let (talk, stop) = match in_background {
        true => (format!("`{chat}` talks to it"), format!("It runs in the background; `viv stop{options}`")),
        false => (format!("In a second terminal: {chat}{or_make}"), "Ctrl-C".to_owned()),
    };
    screen.line("");
    screen.wrapped(&talk, 2);
    if from.is_some() {
        let dir = text("agents_dir");
        screen.wrapped(&format!("A changed file in `{dir}` is {}.", project::live::IN_USE), 2);
    }
    screen.wrapped(&format!("{stop} stops the server; accepted events are not lost."), 2);
}

/// Prints what needs attention after a start, and the admin key of a first one.
fn print_notes(screen: &Screen, ready: &Value) {
    let warning = |text: &str| {
        screen.line("");
        let rows = text.lines().flat_map(|line| wrap(line, screen.width, 2));
        rows.for_each(|row| screen.line(&screen.paint(Style::Yellow, &row)));
    };
    if ready["no_space"] == true {
        warning(
            "The disk is full: the server accepts nothing until there is space; everything can be read.\n\
             Commands on this machine may not find a key for this server before the next start.",
        );
    }
    if let Some(lost_frames) = ready["lost_frames"].as_u64().filter(|lost| *lost > 0) {
        warning(&damaged_log(lost_frames));
    }
    if ready["demo"] == true {
        let how = real_model();
        warning(&format!(
            "This is the demo model: scripted replies, no language model. For a real one\n{how}."
        ));
    }
    if let Some(key) = ready["admin_key"].as_str() {
        screen.line("");
        screen.wrapped("Admin key, shown only this once and stored as a hash:", 2);
        screen.line(&format!("  {key}"));
    }
}

/// How to get a real model; `make` helps only in a checkout of Vivarium.
pub(crate) fn real_model() -> String {
    let local = if in_checkout() { "start Ollama, or try `make run-local`" } else { "or start Ollama" };
    format!("set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, {local}")
}

fn in_checkout() -> bool {
    Path::new("scripts/run-local.sh").is_file()
}

/// States that accepted data was lost with the log, and what can be done.
pub(super) fn damaged_log(lost_frames: u64) -> String {
    format!(
        "the store's log was damaged: {lost_frames} frames followed a broken one, and their content is lost; \
         `viv restore` restores a backup"
    )
}
