//! What a server prints once it is up.

use std::path::Path;

use agent::life::Standing;
use agent::port::AgentCard;
use serde_json::json;

use super::report;
use crate::model::Chosen;
use crate::output::{Screen, Style};
use crate::settings::Settings;
use crate::world;
use client::ApiKey;
use project::agent_file::shown;
use project::live::AgentFolder;
use project::reconcile::ReconcileReport;

/// Agents that are listed by name; more are counted.
pub(super) const NAMED: usize = 6;

/// The content of the announcement.
pub(super) struct Announcement<'a> {
    pub(super) settings: &'a Settings,
    pub(super) url: &'a str,
    pub(super) chosen: &'a Chosen,
    pub(super) files: &'a AgentFolder,
    /// Agents that existed before this start.
    pub(super) existing: &'a [AgentCard],
    /// Lost frames of the store's log.
    pub(super) lost_frames: u64,
    /// Whether the disk is full.
    pub(super) no_space: bool,
}

impl Announcement<'_> {
    /// Prints the announcement.
    pub(super) fn print(
        &self,
        screen: &Screen,
        admin_key: Option<&ApiKey>,
        report: Option<&ReconcileReport>,
    ) {
        let chosen = self.chosen;
        let data_dir = self.settings.data_dir();
        if screen.json {
            screen.json_line(&json!({
                "ready": true,
                "url": self.url,
                "admin_key": admin_key.map(ApiKey::open),
                "data_dir": data_dir,
                "model": chosen.info.name,
                "demo": chosen.info.demo,
                "lost_frames": self.lost_frames,
                "no_space": self.no_space,
                "files": report.filter(|_| self.files.folder_exists).map(ReconcileReport::to_json),
            }));
            return;
        }
        screen.line(&format!("{} is up at {}\n", screen.paint(Style::Bold, "Vivarium"), self.url));
        let agents = if self.files.agents.is_empty() && self.existing.len() < 2 { "agent" } else { "agents" };
        screen.pairs(&[
            (agents, screen.clean_line(&self.agents())),
            ("model", screen.clean_line(&format!("{} ({})", chosen.info.name, chosen.why))),
            ("data", screen.clean_line(&data_dir.display().to_string())),
        ]);
        if let Some(report) = report.filter(|report| !report.is_empty()) {
            screen.line("");
            report::print(report, screen);
        }
        print_notes(screen, self.no_space, self.lost_frames, chosen.info.demo, admin_key.map(ApiKey::open));
        screen.line(&format!("\nIn a second terminal: {}", self.chat(screen)));
        if !self.files.agents.is_empty() {
            let dir = shown(self.settings.agents_dir());
            screen
                .line(&screen.clean_line(&format!("Changes of agent files in `{dir}` are applied at once.")));
        }
        screen.line("Ctrl-C stops the server; accepted events are not lost.");
    }

    /// The agents of the files, else those that exist, else the one that the first start creates.
    fn agents(&self) -> String {
        let lives = self.existing.iter().filter(|card| card.standing != Standing::Retired);
        let (names, from): (Vec<&str>, _) = match self.files.agents.is_empty() {
            true => (lives.map(|card| card.entity.name.as_str()).collect(), String::new()),
            false => {
                (self.files.names().collect(), format!(" (from `{}`)", shown(self.settings.agents_dir())))
            }
        };
        match names.as_slice() {
            [] | [world::AGENT] if from.is_empty() => {
                format!("{} in the space `{}`", world::AGENT, world::SPACE)
            }
            all if all.len() > NAMED => format!("{} and more{from}", all[..NAMED].join(", ")),
            all => format!("{}{from}", all.join(", ")),
        }
    }

    /// The command that talks to this server.
    fn chat(&self, screen: &Screen) -> String {
        let whom = self.files.names().next().map(|name| format!(" --agent {name}")).unwrap_or_default();
        let place = |option: &str, path: &Path| {
            format!(" --{option} {}", screen.clean_line(&path.display().to_string()))
        };
        let where_else = match &self.settings.file {
            _ if self.settings.found_by_clients => String::new(),
            Some(file) if self.settings.data_dir_is_from_the_file() => place("config", file),
            _ => place("data-dir", self.settings.data_dir()),
        };
        let plain = whom.is_empty() && where_else.is_empty() && self.settings.file.is_none();
        let command = screen.paint(Style::Bold, &format!("viv chat{whom}{where_else}"));
        if plain { format!("{command}   (or `make chat`)") } else { command }
    }
}

/// Prints what needs attention after a start, and the admin key of a first one.
pub(super) fn print_notes(
    screen: &Screen,
    no_space: bool,
    lost_frames: u64,
    demo: bool,
    admin_key: Option<&str>,
) {
    let warning = |text: &str| screen.line(&screen.paint(Style::Yellow, &format!("\n{text}")));
    if no_space {
        warning(
            "The disk is full: the server accepts nothing until there is space; everything can be read.\n\
             Commands on this machine may not find a key for this server before the next start.",
        );
    }
    if lost_frames > 0 {
        warning(&damaged_log(lost_frames));
    }
    if demo {
        warning(
            "This is the demo model: scripted replies, no language model. For a real one set\n\
             OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama, or try\n\
             `make run-local`.",
        );
    }
    if let Some(key) = admin_key {
        screen.line(&format!("\nAdmin key, shown only this once and stored as a hash:\n  {key}"));
    }
}

/// States that accepted data was lost with the log, and what can be done.
pub(super) fn damaged_log(lost_frames: u64) -> String {
    format!(
        "the store's log was damaged: {lost_frames} frames followed a broken one, and their content is lost; \
         `viv restore` restores a backup"
    )
}
