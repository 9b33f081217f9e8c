//! Renders a conversation: takes updates, returns finished rows and the rows that still change. Pure; must not know the
//! terminal or the server, so every order of updates can be tested.

use std::collections::{BTreeMap, HashMap};

use agent::call::OutcomeStatus;
use agent::id::{AgentId, CycleId, EntityId};
use agent::life::IdleUntil;
use agent::run::Ending;
use agent::space::{Message, MessageKind};
use agent::update::{AgentState, Update};
use jiff::tz::TimeZone;

use super::flow::flow;
use crate::commands::watch::log::{HIDDEN_TOOLS, tail_of};
use crate::commands::watch::moment::backing_off_text;
use crate::output::{Screen, Style, columns, shortened};
use client::{AgentWork, Feed, FeedDraft, Snapshot};

/// A conversation on one screen.
pub(crate) struct Talk {
    screen: Screen,
    width: usize,
    me: Option<EntityId>,
    names: HashMap<EntityId, String>,
    last_seq: u64,
    /// Messages whose predecessors were missed.
    early: BTreeMap<u64, Message>,
    feed: Feed,
    zone: TimeZone,
    /// The last cycle of each agent that touched this space: work in other spaces is not shown.
    cycles: HashMap<AgentId, CycleId>,
    lost: bool,
    rows: Vec<String>,
}

impl Talk {
    /// An empty conversation, in rows of at most `width` columns.
    pub(crate) fn new(screen: Screen, width: usize, me: Option<EntityId>, zone: TimeZone) -> Self {
        Self {
            screen,
            width,
            me,
            names: HashMap::new(),
            last_seq: 0,
            early: BTreeMap::new(),
            feed: Feed::default(),
            zone,
            cycles: HashMap::new(),
            lost: false,
            rows: Vec::new(),
        }
    }

    /// Sets the name of an entity.
    pub(crate) fn name(&mut self, id: EntityId, name: &str) {
        self.names.insert(id, self.screen.clean_line(name));
    }

    /// Whether the name of an entity is known.
    pub(crate) fn knows(&self, id: EntityId) -> bool {
        self.names.contains_key(&id)
    }

    /// Marks everything up to `seq` as shown.
    pub(crate) fn begin_after(&mut self, seq: u64) {
        self.last_seq = seq;
    }

    /// The last message shown.
    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// The terminal's width changed.
    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// Agents at work, and what is known about their cycles.
    pub(crate) fn working(&self) -> &BTreeMap<AgentId, AgentWork> {
        self.feed.working()
    }

    /// Rows that were finished since the last call.
    pub(crate) fn take_rows(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rows)
    }

    /// What is written and done now, in at most `max` rows, at least two: each draft has its own rows, and the last row
    /// says what the agents do.
    pub(crate) fn live(&self, max: usize) -> Vec<String> {
        let room = max.saturating_sub(1).max(1);
        let drafts = self.feed.drafts();
        let each = (room / drafts.len().max(1)).max(1);
        let mut rows: Vec<String> =
            drafts.values().take(room).flat_map(|draft| self.draft(draft, each)).collect();
        rows.extend(self.status().map(|status| {
            let hidden = drafts.len().saturating_sub(room);
            let more = if hidden > 0 { format!("(+{hidden} writing) ") } else { String::new() };
            self.screen.paint(Style::Dim, &shortened(&(more + &status), self.width))
        }));
        rows
    }

    /// A draft in at most `max` rows. Its newest words are shown if it is longer.
    fn draft(&self, draft: &FeedDraft, max: usize) -> Vec<String> {
        let name = self.name_of(draft.agent.entity());
        let lead = columns(&name) + 2;
        let mut rows = flow(&self.screen.clean(&draft.text), lead, self.width);
        if rows.len() > max {
            let newest = rows.split_off(rows.len() - (max - 1));
            rows = vec![tail_of(&rows.join(" "), self.width.saturating_sub(lead))];
            rows.extend(newest);
        }
        self.named(draft.agent.entity(), rows)
    }

    fn status(&self) -> Option<String> {
        if self.lost {
            return Some("(not connected; reconnecting)".to_owned());
        }
        let words: Vec<String> = self
            .feed
            .working()
            .iter()
            .map(|(agent, work)| {
                let name = self.name_of(agent.entity());
                let here = self.cycles.get(agent).copied() == work.cycle;
                match (work.tool.as_ref().filter(|tool| here && is_shown(tool)), work.state) {
                    (Some(tool), _) => format!("{name} uses {}", self.screen.clean_line(tool)),
                    (None, AgentState::Paused) => format!("{name} waits for a person"),
                    (None, _) => format!("{name} is thinking"),
                }
            })
            .collect();
        (!words.is_empty()).then(|| format!("({}; Ctrl-C cancels)", words.join(", ")))
    }

    /// Adds a note of ours between the messages.
    pub(crate) fn note(&mut self, text: &str) {
        let rows = flow(&self.screen.clean(text), 0, self.width);
        self.rows.extend(rows.iter().map(|row| self.screen.paint(Style::Dim, row)));
    }

    /// Adds messages from the server's history, oldest first. If more were missed than were read, says how
    /// many and continues with these.
    pub(crate) fn catch_up(&mut self, messages: Vec<Message>) {
        if let Some(first) = messages.first().filter(|first| first.seq > self.last_seq + 1) {
            let missed = first.seq - 1 - self.last_seq;
            self.last_seq = first.seq - 1;
            self.note(&format!("({missed} older messages are not shown)"));
        }
        for message in messages {
            self.message(message);
        }
    }

    /// Handles the snapshot of a new connection; returns `true` if messages were missed.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) -> bool {
        if std::mem::take(&mut self.lost) {
            self.note("(reconnected)");
        }
        let new = self.feed.snapshot(snapshot);
        for now in snapshot.idle.iter().filter(|now| new.contains(&now.agent)) {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.back_off(now.agent, rest, now.why.as_deref());
        }
        self.cycles.extend(snapshot.agents.iter().map(|agent| (agent.agent, agent.cycle)));
        snapshot.head_seq > self.last_seq
    }

    /// Handles the loss of the connection.
    pub(crate) fn connection_lost(&mut self) {
        if !self.lost {
            self.lost = true;
            self.feed.lost();
            self.note("(connection lost; sending is retried for a moment)");
        }
    }

    /// Handles an update; returns `true` if messages before it were missed.
    pub(crate) fn update(&mut self, update: Update) -> bool {
        let change = self.feed.update(&update);
        match update {
            Update::Message { message } => {
                if !self.knows(message.sender) {
                    self.name(message.sender, &message.sender_name);
                }
                let missed = message.seq > self.last_seq + 1;
                self.message(message.message);
                return missed;
            }
            Update::DraftReset { agent, .. } if change.discarded => self.about(agent, "discarded its draft"),
            Update::State { agent, reason, idle: Some(idle), .. } if change.backs_off => {
                self.back_off(agent, idle, reason.as_deref());
            }
            Update::State { idle: Some(_), .. } => {}
            Update::State { agent, state, cycle, reason, .. } => match (state, reason) {
                (AgentState::Sleeping | AgentState::Retired, Some(reason)) => {
                    self.about(agent, &format!("sleeps: {reason}"));
                }
                (AgentState::Sleeping | AgentState::Retired, None) => {}
                _ => self.cycles.extend(cycle.map(|cycle| (agent, cycle))),
            },
            Update::ToolDone { agent, cycle, tool, status, .. } => {
                self.tool_done(agent, cycle, &tool, status)
            }
            Update::ToolError { agent, cycle, tool, .. } => {
                self.tool_done(agent, cycle, &tool, OutcomeStatus::Error);
            }
            Update::CycleEnded { agent, ending, reason, .. } => self.ended(agent, ending, reason),
            Update::Draft { .. }
            | Update::DraftReset { .. }
            | Update::ToolStarted { .. }
            | Update::ToolInput { .. }
            | Update::Member { .. }
            | Update::Thought { .. }
            | Update::Commit { .. }
            | Update::EventProgress { .. } => {}
        }
        false
    }

    fn message(&mut self, message: Message) {
        if message.seq > self.last_seq + 1 {
            self.early.insert(message.seq, message);
            return;
        }
        if message.seq <= self.last_seq {
            // The row of a tool changes; that of a text does not.
            if message.kind == MessageKind::Tool {
                self.print(message.sender, &message.text);
            }
            return;
        }
        self.last_seq = message.seq;
        self.print(message.sender, &message.text);
        if let Some(next) = self.early.remove(&(self.last_seq + 1)) {
            self.message(next);
        }
        self.early.retain(|seq, _| *seq > self.last_seq);
    }

    fn print(&mut self, sender: EntityId, text: &str) {
        let lead = columns(&self.name_of(sender)) + 2;
        let rows = flow(&self.screen.clean(text), lead, self.width);
        self.rows.extend(self.named(sender, rows));
    }

    fn about(&mut self, agent: AgentId, text: &str) {
        self.note(&format!("({} {text})", self.name_of(agent.entity())));
    }

    fn back_off(&mut self, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        let text = backing_off_text(rest, why, &self.zone);
        self.about(agent, &text);
    }

    fn tool_done(&mut self, agent: AgentId, cycle: CycleId, tool: &str, status: OutcomeStatus) {
        let end = match status {
            OutcomeStatus::Ok if !is_shown(tool) => return,
            OutcomeStatus::Ok => "",
            OutcomeStatus::Error => ": failed",
            OutcomeStatus::Pending => ": result comes later",
            OutcomeStatus::Unknown => ": unknown whether it happened",
            OutcomeStatus::Canceled => ": canceled",
        };
        if self.cycles.get(&agent) == Some(&cycle) {
            self.note(&format!("  * {} used {tool}{end}", self.name_of(agent.entity())));
        }
    }

    fn ended(&mut self, agent: AgentId, ending: Ending, reason: Option<String>) {
        let details = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        match ending {
            Ending::Completed => {}
            Ending::Skipped => self.about(agent, "skipped it"),
            Ending::Exhausted => self.about(agent, &format!("was cut off{details}")),
            Ending::Canceled => self.about(agent, "stopped: canceled"),
            Ending::Failed => self.about(agent, &format!("failed{details}")),
        }
    }

    /// The rows of a text with the name of who wrote it before the first.
    fn named(&self, who: EntityId, mut rows: Vec<String>) -> Vec<String> {
        let style = if self.me == Some(who) { Style::Bold } else { Style::Cyan };
        let name = self.screen.paint(style, &self.name_of(who));
        if let Some(first) = rows.first_mut() {
            *first = format!("{name}: {first}").trim_end().to_owned();
        }
        rows
    }

    /// The name; in a narrow terminal at most half of a row.
    fn name_of(&self, id: EntityId) -> String {
        let name = self.names.get(&id).cloned().unwrap_or_else(|| id.to_string().chars().take(8).collect());
        shortened(&name, (self.width / 2).max(4))
    }
}

fn is_shown(tool: &str) -> bool {
    !HIDDEN_TOOLS.contains(&tool)
}

#[cfg(test)]
mod tests;
