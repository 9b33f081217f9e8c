//! What a server prints once it is up.

use agent::life::Standing;
use agent::port::AgentCard;
use serde_json::json;

use super::files::Files;
use super::report;
use crate::model::Chosen;
use crate::output::{Screen, Style};
use crate::settings::Settings;
use crate::world;
use client::ApiKey;
use project::agent_file::shown;
use project::reconcile::ReconcileReport;

/// Agents that are listed by name; more are counted.
pub(super) const NAMED: usize = 6;

/// The content of the announcement.
pub(super) struct Announcement<'a> {
    pub(super) settings: &'a Settings,
    pub(super) url: &'a str,
    pub(super) chosen: &'a Chosen,
    pub(super) files: &'a Files,
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
                "files": report.filter(|_| !self.files.is_unused()).map(ReconcileReport::to_json),
            }));
            return;
        }
        screen.line(&format!("{} is up at {}\n", screen.paint(Style::Bold, "Vivarium"), self.url));
        let agents = if self.files.is_empty() && self.existing.len() < 2 { "agent" } else { "agents" };
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
        if !self.files.is_empty() {
            let dir = shown(self.settings.agents_dir());
            screen
                .line(&screen.clean_line(&format!("Changes of agent files in `{dir}` are applied at once.")));
        }
        screen.line("Ctrl-C stops the server; accepted events are not lost.");
    }

    fn agents(&self) -> String {
        let mut names: Vec<&str> = self.files.names().collect();
        if names.is_empty() {
            return self.without_files();
        }
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more} (from `{}`)", names.join(", "), shown(self.settings.agents_dir()))
    }

    fn without_files(&self) -> String {
        let lives = self.existing.iter().filter(|card| card.standing != Standing::Retired);
        let names: Vec<&str> = lives.map(|card| card.entity.name.as_str()).collect();
        match names[..] {
            [] | [world::AGENT] => format!("{} in the space `{}`", world::AGENT, world::SPACE),
            [..] if names.len() > NAMED => format!("{} and more", names[..NAMED].join(", ")),
            [..] => names.join(", "),
        }
    }

    /// The command that talks to this server.
    fn chat(&self, screen: &Screen) -> String {
        let whom = self.files.names().next().map(|name| format!(" --agent {name}")).unwrap_or_default();
        let where_else = match &self.settings.file {
            _ if self.settings.found_by_clients => String::new(),
            Some(file) if self.settings.data_dir_is_from_the_file() => {
                format!(" --config {}", screen.clean_line(&file.display().to_string()))
            }
            _ => {
                format!(" --data-dir {}", screen.clean_line(&self.settings.data_dir().display().to_string()))
            }
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
    if no_space {
        let label = "\nThe disk is full: the server accepts nothing until there is space; everything can be read.\n\
                     Commands on this machine may not find a key for this server before the next start.";
        screen.line(&screen.paint(Style::Yellow, label));
    }
    if lost_frames > 0 {
        let label = format!("\n{}", damaged_log(lost_frames));
        screen.line(&screen.paint(Style::Yellow, &label));
    }
    if demo {
        let label = "\nThis is the demo model: scripted replies, no language model. For a real one set\n\
                     OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama, or try\n\
                     `make run-local`.";
        screen.line(&screen.paint(Style::Yellow, label));
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
