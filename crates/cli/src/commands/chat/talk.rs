//! Renders a conversation: takes updates, returns finished rows and one unfinished row. Pure; must not know
//! the terminal or the server, so every order of updates can be tested.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

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
use crate::sse::Snapshot;

/// Number of printed messages that are remembered, so that a late piece of a draft is ignored.
const PRINTED: usize = 64;
/// Tools that are not shown: their effect is visible as a message or as the end of the cycle.
const HIDDEN_TOOLS: [&str; 3] = ["send_message", "done", "skip"];

/// A message being written.
#[derive(Debug)]
struct MessageDraft {
    agent: AgentId,
    /// As generated, not cleaned.
    text: String,
    /// Pieces were lost: later pieces are ignored, and the committed message completes it.
    incomplete: bool,
}

/// The draft that is currently shown.
#[derive(Debug)]
struct ShownDraft {
    message: MessageId,
    /// Bytes of its text that are already shown.
    shown: usize,
    flow: Flow,
}

/// An agent at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Busy {
    /// Its current cycle.
    pub(crate) cycle: Option<CycleId>,
    state: AgentState,
    tool: Option<String>,
}

/// A conversation on one screen.
pub(crate) struct Talk {
    screen: Screen,
    width: usize,
    me: Option<EntityId>,
    names: HashMap<EntityId, String>,
    last_seq: u64,
    early: BTreeMap<u64, Message>,
    drafts: HashMap<MessageId, MessageDraft>,
    shown_draft: Option<ShownDraft>,
    printed: VecDeque<MessageId>,
    busy: BTreeMap<AgentId, Busy>,
    zone: TimeZone,
    /// Agents already reported as backing off; removed when they do something.
    backing_off: BTreeSet<AgentId>,
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
            drafts: HashMap::new(),
            shown_draft: None,
            printed: VecDeque::new(),
            busy: BTreeMap::new(),
            zone,
            backing_off: BTreeSet::new(),
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
    pub(crate) fn busy(&self) -> &BTreeMap<AgentId, Busy> {
        &self.busy
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
            .busy
            .iter()
            .map(|(agent, busy)| {
                let name = self.name_of(agent.entity());
                match (&busy.tool, busy.state) {
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
        self.show_next_draft();
    }

    /// Handles the snapshot of a new connection; returns `true` if messages were missed.
    pub(crate) fn snapshot(&mut self, snapshot: Snapshot) -> bool {
        if std::mem::take(&mut self.lost) {
            self.note("(reconnected)");
        }
        self.busy = snapshot
            .agents
            .iter()
            .filter(|agent| agent.state != AgentState::Sleeping)
            .map(|agent| (agent.agent, Busy { cycle: Some(agent.cycle), state: agent.state, tool: None }))
            .collect();
        for now in &snapshot.idle {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.back_off(now.agent, rest, now.why.as_deref());
        }
        self.cycles.extend(snapshot.agents.iter().map(|agent| (agent.agent, agent.cycle)));
        let gone: Vec<MessageId> = self
            .drafts
            .keys()
            .filter(|id| snapshot.drafts.iter().all(|d| d.message != **id))
            .copied()
            .collect();
        // A draft that ended during the interruption was either committed, and catching up is_shown it, or
        // discarded.
        let missed = snapshot.head_seq > self.last_seq;
        self.catching_up |= missed;
        if !missed {
            gone.into_iter().for_each(|message| self.discard(message));
        }
        for draft in snapshot.drafts.into_iter().filter(|draft| draft.tool.is_none()) {
            self.resume(draft.message, draft.agent, draft.text);
        }
        missed
    }

    /// Handles the loss of the connection.
    pub(crate) fn connection_lost(&mut self) {
        if !self.lost {
            self.lost = true;
            self.busy.clear();
            self.note("(connection lost; sending is retried for a moment)");
        }
    }

    /// Handles an update; returns `true` if messages before it were missed.
    pub(crate) fn update(&mut self, update: Update) -> bool {
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
            Update::Draft { message, agent, delta, chars, .. } => self.draft(message, agent, &delta, chars),
            Update::DraftReset { message, .. } => self.discard(message),
            Update::State { agent, reason, idle: Some(idle), .. } => {
                self.back_off(agent, idle, reason.as_deref())
            }
            Update::State { agent, state, cycle, reason, .. } => self.state(agent, state, cycle, reason),
            Update::ToolStarted { agent, cycle, tool, .. } => {
                let here = self.cycles.get(&agent) == Some(&cycle);
                if let Some(busy) = self.busy.get_mut(&agent).filter(|_| here && is_shown(&tool)) {
                    busy.tool = Some(tool);
                }
            }
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
            Update::ToolInput { .. }
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
        self.backing_off.remove(&message.sender.agent());
        let draft = self.drafts.remove(&message.id);
        self.printed.push_back(message.id);
        if self.printed.len() > PRINTED {
            self.printed.pop_front();
        }
        match self.shown_draft.take_if(|shown_draft| shown_draft.message == message.id) {
            Some(shown_draft) => {
                self.complete(shown_draft, &draft.map(|draft| draft.text).unwrap_or_default(), message)
            }
            None => {
                self.interrupt();
                self.print(message.sender, &message.text);
            }
        }
        self.show_next_draft();
    }

    /// Replaces a draft by its committed message: text that is already shown is not repeated.
    fn complete(&mut self, mut shown_draft: ShownDraft, shown: &str, message: &Message) {
        let rest = message.text.strip_prefix(shown);
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

    fn draft(&mut self, message: MessageId, agent: AgentId, delta: &str, chars: u64) {
        if self.printed.contains(&message) {
            return;
        }
        let draft = self.drafts.entry(message).or_insert_with(|| MessageDraft {
            agent,
            text: String::new(),
            incomplete: false,
        });
        let before = draft.text.chars().count() + delta.chars().count();
        draft.incomplete |= before as u64 != chars;
        if !draft.incomplete {
            draft.text.push_str(delta);
        }
        self.show_draft(message);
    }

    /// Restores a draft from a snapshot, which contains it in full.
    fn resume(&mut self, message: MessageId, agent: AgentId, text: String) {
        if self.printed.contains(&message) {
            return;
        }
        let fits = self.drafts.get(&message).is_none_or(|draft| text.starts_with(&draft.text));
        if !fits {
            self.discard(message);
        }
        self.drafts.insert(message, MessageDraft { agent, text, incomplete: false });
        self.show_draft(message);
    }

    /// Shows the new text of a draft, if it is the one currently shown or no other is.
    fn show_draft(&mut self, message: MessageId) {
        if self.shown_draft.is_none() && !self.catching_up {
            let Some(draft) = self.drafts.get(&message) else { return };
            let lead = format!("{}: ", self.name_of(draft.agent.entity()));
            self.shown_draft = Some(ShownDraft { message, shown: 0, flow: Flow::new(&lead, self.width) });
        }
        let Some(shown_draft) =
            self.shown_draft.as_mut().filter(|shown_draft| shown_draft.message == message)
        else {
            return;
        };
        let Some(draft) = self.drafts.get(&message) else { return };
        let new = self.screen.clean(&draft.text[shown_draft.shown..]);
        shown_draft.shown = draft.text.len();
        let rows = shown_draft.flow.feed(&new);
        self.push(rows);
    }

    fn show_next_draft(&mut self) {
        if self.shown_draft.is_none()
            && !self.catching_up
            && let Some(message) = self.drafts.keys().min().copied()
        {
            self.show_draft(message);
        }
    }

    /// Makes space for another row: finishes the current row as it is; the draft continues below, under its
    /// name.
    fn interrupt(&mut self) {
        let Some(shown_draft) = &mut self.shown_draft else { return };
        let agent = self.drafts.get(&shown_draft.message).map(|draft| draft.agent);
        let last = shown_draft.flow.end();
        let name = agent.map(|agent| self.name_of(agent.entity())).unwrap_or_default();
        let width = self.width;
        if let Some(shown_draft) = &mut self.shown_draft {
            shown_draft.flow = Flow::new(&format!("{name} ... "), width);
        }
        self.push(last.into_iter().collect());
    }

    fn discard(&mut self, message: MessageId) {
        let Some(draft) = self.drafts.remove(&message) else { return };
        if let Some(mut shown_draft) = self.shown_draft.take_if(|shown_draft| shown_draft.message == message)
        {
            let last = shown_draft.flow.end();
            self.push(last.into_iter().collect());
            self.note(&format!("({} discarded that)", self.name_of(draft.agent.entity())));
        }
        self.show_next_draft();
    }

    /// Reports once that an agent backs off, however often it retries.
    fn back_off(&mut self, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        self.busy.remove(&agent);
        if self.backing_off.insert(agent) {
            let name = self.name_of(agent.entity());
            self.note(&format!("({name} {})", backing_off_text(rest, why, &self.zone)));
        }
    }

    fn state(&mut self, agent: AgentId, state: AgentState, cycle: Option<CycleId>, reason: Option<String>) {
        if matches!(state, AgentState::Sleeping | AgentState::Retired) {
            self.busy.remove(&agent);
            if let Some(reason) = reason {
                let name = self.name_of(agent.entity());
                self.note(&format!("({name} sleeps: {reason})"));
            }
            return;
        }
        self.cycles.extend(cycle.map(|cycle| (agent, cycle)));
        let busy = self.busy.entry(agent).or_insert(Busy { cycle, state, tool: None });
        busy.cycle = cycle.or(busy.cycle);
        busy.state = state;
    }

    fn tool_done(&mut self, agent: AgentId, tool: &str, status: OutcomeStatus) {
        if let Some(busy) = self.busy.get_mut(&agent) {
            busy.tool = None;
        }
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
        self.busy.remove(&agent);
        self.backing_off.remove(&agent);
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
