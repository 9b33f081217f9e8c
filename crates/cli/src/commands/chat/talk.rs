//! Renders a conversation: takes updates, returns finished rows and one unfinished row. Pure; must not know
//! the terminal or the server, so every order of updates can be tested.

use std::collections::{BTreeMap, HashMap};

use agent::call::OutcomeStatus;
use agent::id::{AgentId, CycleId, EntityId, MessageId};
use agent::life::IdleUntil;
use agent::run::Ending;
use agent::space::{Message, MessageKind};
use agent::update::{AgentState, Update};

use jiff::tz::TimeZone;

use super::flow::Flow;
use crate::commands::watch::moment::backing_off_text;
use crate::output::{Screen, Style};
use client::{AgentWork, Feed, Snapshot};

/// Tools that are not shown: their effect is visible as a message or as the end of the cycle.
const HIDDEN_TOOLS: [&str; 3] = ["send_message", "done", "skip"];

/// The draft that is currently shown.
#[derive(Debug)]
struct ShownDraft {
    message: MessageId,
    agent: AgentId,
    /// The part of its text that is already shown, as generated.
    text: String,
    flow: Flow,
}

/// A conversation on one screen.
pub(crate) struct Talk {
    screen: Screen,
    width: usize,
    me: Option<EntityId>,
    names: HashMap<EntityId, String>,
    last_seq: u64,
    early: BTreeMap<u64, Message>,
    feed: Feed,
    shown_draft: Option<ShownDraft>,
    zone: TimeZone,
    /// The last cycle of each agent that touched this space: work in other spaces is not shown.
    cycles: HashMap<AgentId, CycleId>,
    lost: bool,
    /// Missed messages are being read: drafts wait, so that they are shown below them.
    catching_up: bool,
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
            shown_draft: None,
            zone,
            cycles: HashMap::new(),
            lost: false,
            catching_up: false,
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

    /// The row that is still being written.
    pub(crate) fn unfinished(&self) -> Option<String> {
        self.shown_draft.as_ref().map(|shown_draft| self.painted(shown_draft.flow.row()))
    }

    /// What the agents currently do, in one row.
    pub(crate) fn status(&self) -> Option<String> {
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
        self.interrupt();
        let mut flow = Flow::new("", self.width);
        let mut rows = flow.feed(&self.screen.clean(text));
        rows.extend(flow.end());
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
        self.catching_up = false;
        self.show_drafts();
    }

    /// Handles the snapshot of a new connection; returns `true` if messages were missed.
    pub(crate) fn snapshot(&mut self, snapshot: Snapshot) -> bool {
        if std::mem::take(&mut self.lost) {
            self.note("(reconnected)");
        }
        let new = self.feed.snapshot(&snapshot);
        for now in snapshot.idle.iter().filter(|now| new.contains(&now.agent)) {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.back_off(now.agent, rest, now.why.as_deref());
        }
        self.cycles.extend(snapshot.agents.iter().map(|agent| (agent.agent, agent.cycle)));
        // A draft that ended during the interruption was either committed, and catching up shows it, or
        // discarded.
        let missed = snapshot.head_seq > self.last_seq;
        self.catching_up |= missed;
        let continues = self.shown_draft.as_ref().is_none_or(|shown| {
            let draft = self.feed.drafts().get(&shown.message);
            draft.map_or(missed, |draft| draft.text.starts_with(&shown.text))
        });
        if !continues {
            self.discard_shown();
        }
        self.show_drafts();
        missed
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
                let missed = message.seq > self.last_seq + 1;
                self.catching_up |= missed;
                if !self.knows(message.sender) {
                    self.name(message.sender, &message.sender_name);
                }
                self.message(message.message);
                return missed;
            }
            Update::Draft { .. } => self.show_drafts(),
            Update::DraftReset { message, .. } => {
                if self.shown_draft.as_ref().is_some_and(|shown| shown.message == message) {
                    self.discard_shown();
                }
            }
            Update::State { agent, reason, idle: Some(idle), .. } => {
                if change.backs_off {
                    self.back_off(agent, idle, reason.as_deref());
                }
            }
            Update::State { agent, state, cycle, reason, .. } => self.state(agent, state, cycle, reason),
            Update::ToolDone { agent, cycle, tool, status, .. } => {
                if self.cycles.get(&agent) == Some(&cycle) {
                    self.tool_done(agent, &tool, status);
                }
            }
            Update::ToolError { agent, cycle, tool, .. } => {
                if self.cycles.get(&agent) == Some(&cycle) {
                    self.tool_done(agent, &tool, OutcomeStatus::Error);
                }
            }
            Update::CycleEnded { agent, ending, reason, .. } => self.ended(agent, ending, reason),
            Update::ToolStarted { .. }
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
            if message.kind == MessageKind::Tool {
                self.show(&message);
            }
            return;
        }
        self.last_seq = message.seq;
        self.show(&message);
        if let Some(next) = self.early.remove(&(self.last_seq + 1)) {
            self.message(next);
        }
        self.early.retain(|seq, _| *seq > self.last_seq);
    }

    fn show(&mut self, message: &Message) {
        match self.shown_draft.take_if(|shown_draft| shown_draft.message == message.id) {
            Some(shown_draft) => self.complete(shown_draft, message),
            None => {
                self.interrupt();
                self.print(message.sender, &message.text);
            }
        }
        self.show_drafts();
    }

    /// Replaces a draft by its committed message: text that is already shown is not repeated.
    fn complete(&mut self, mut shown_draft: ShownDraft, message: &Message) {
        let rest = message.text.strip_prefix(&shown_draft.text);
        if let Some(rest) = rest {
            let rows = shown_draft.flow.feed(&self.screen.clean(rest));
            self.push(rows);
        }
        let last = shown_draft.flow.end();
        self.push(last.into_iter().collect());
        if rest.is_none() {
            self.note("(the final message is different:)");
            self.print(message.sender, &message.text);
        }
    }

    fn print(&mut self, sender: EntityId, text: &str) {
        let mut flow = Flow::new(&format!("{}: ", self.name_of(sender)), self.width);
        let mut rows = flow.feed(&self.screen.clean(text));
        rows.extend(flow.end());
        self.push(rows);
    }

    /// Shows the new text of the shown draft, or begins the oldest draft if none is shown.
    fn show_drafts(&mut self) {
        if self.shown_draft.is_none() && !self.catching_up {
            let Some((message, draft)) = self.feed.drafts().first_key_value() else { return };
            let flow = Flow::new(&format!("{}: ", self.name_of(draft.agent.entity())), self.width);
            let (message, agent) = (*message, draft.agent);
            self.shown_draft = Some(ShownDraft { message, agent, text: String::new(), flow });
        }
        let Some(shown) = &mut self.shown_draft else { return };
        let Some(draft) = self.feed.drafts().get(&shown.message) else { return };
        let Some(new) = draft.text.strip_prefix(&shown.text) else { return };
        let rows = shown.flow.feed(&self.screen.clean(new));
        shown.text.push_str(new);
        self.push(rows);
    }

    /// Makes space for another row: finishes the current row as it is; the draft continues below, under its
    /// name.
    fn interrupt(&mut self) {
        let Some(mut shown) = self.shown_draft.take() else { return };
        let last = shown.flow.end();
        shown.flow = Flow::new(&format!("{} ... ", self.name_of(shown.agent.entity())), self.width);
        self.shown_draft = Some(shown);
        self.push(last.into_iter().collect());
    }

    /// Ends the row of the shown draft, which will not be posted.
    fn discard_shown(&mut self) {
        let Some(mut shown) = self.shown_draft.take() else { return };
        self.push(shown.flow.end().into_iter().collect());
        self.note(&format!("({} discarded that)", self.name_of(shown.agent.entity())));
        self.show_drafts();
    }

    fn back_off(&mut self, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        let name = self.name_of(agent.entity());
        self.note(&format!("({name} {})", backing_off_text(rest, why, &self.zone)));
    }

    fn state(&mut self, agent: AgentId, state: AgentState, cycle: Option<CycleId>, reason: Option<String>) {
        if matches!(state, AgentState::Sleeping | AgentState::Retired) {
            if let Some(reason) = reason {
                let name = self.name_of(agent.entity());
                self.note(&format!("({name} sleeps: {reason})"));
            }
            return;
        }
        self.cycles.extend(cycle.map(|cycle| (agent, cycle)));
    }

    fn tool_done(&mut self, agent: AgentId, tool: &str, status: OutcomeStatus) {
        let end = match status {
            OutcomeStatus::Ok if !is_shown(tool) => return,
            OutcomeStatus::Ok => "",
            OutcomeStatus::Error => ": failed",
            OutcomeStatus::Pending => ": result comes later",
            OutcomeStatus::Unknown => ": unknown whether it happened",
            OutcomeStatus::Canceled => ": canceled",
        };
        let name = self.name_of(agent.entity());
        self.note(&format!("  * {name} used {tool}{end}"));
    }

    fn ended(&mut self, agent: AgentId, ending: Ending, reason: Option<String>) {
        let name = self.name_of(agent.entity());
        let details = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        match ending {
            Ending::Completed => {}
            Ending::Skipped => self.note(&format!("({name} skipped it)")),
            Ending::Exhausted => self.note(&format!("({name} was cut off{details})")),
            Ending::Canceled => self.note(&format!("({name} stopped: canceled)")),
            Ending::Failed => self.note(&format!("({name} failed{details})")),
        }
    }

    fn push(&mut self, rows: Vec<String>) {
        let painted: Vec<String> = rows.iter().map(|row| self.painted(row)).collect();
        self.rows.extend(painted);
    }

    /// A row with its leading name, if any, highlighted.
    fn painted(&self, row: &str) -> String {
        if row.starts_with(' ') {
            return row.to_owned();
        }
        let end = [": ", " ... "].iter().filter_map(|mark| row.find(mark)).min().unwrap_or(0);
        let (name, rest) = row.split_at(end);
        let mine = self.me.and_then(|me| self.names.get(&me)).is_some_and(|me| me == name);
        format!("{}{rest}", self.screen.paint(if mine { Style::Bold } else { Style::Cyan }, name))
    }

    fn name_of(&self, id: EntityId) -> String {
        self.names.get(&id).cloned().unwrap_or_else(|| id.to_string().chars().take(8).collect())
    }
}

fn is_shown(tool: &str) -> bool {
    !HIDDEN_TOOLS.contains(&tool)
}

#[cfg(test)]
mod tests;
