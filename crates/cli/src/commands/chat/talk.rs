//! What a conversation looks like: updates in, finished rows and one unfinished row out. Pure; knows
//! neither terminal nor server, so every order of updates can be tried.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use agent::call::OutcomeStatus;
use agent::id::{AgentId, CycleId, EntityId, MessageId};
use agent::life::IdleUntil;
use agent::run::Ending;
use agent::space::{Message, MessageKind};
use agent::update::{AgentState, Update};

use jiff::tz::TimeZone;

use super::flow::Flow;
use crate::commands::watch::moment::cannot_think;
use crate::output::{Screen, Style};
use crate::sse::Snapshot;

/// Messages that are remembered as printed, so that a late piece of their draft is not.
const PRINTED: usize = 64;
/// Tools whose work is seen as a message or as the end of the cycle.
const SEEN_OTHERWISE: [&str; 3] = ["send_message", "done", "skip"];

/// A message being written.
#[derive(Debug)]
struct MessageDraft {
    agent: AgentId,
    /// As generated, not cleaned.
    text: String,
    /// Pieces were lost: what follows cannot be placed; the committed message fills it in.
    torn: bool,
}

/// The draft that is shown growing.
#[derive(Debug)]
struct Growing {
    message: MessageId,
    /// Bytes of its text that are shown.
    shown: usize,
    flow: Flow,
}

/// An agent at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Busy {
    /// In which cycle.
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
    growing: Option<Growing>,
    printed: VecDeque<MessageId>,
    busy: BTreeMap<AgentId, Busy>,
    zone: TimeZone,
    /// Agents of which it is told that they cannot think, until they do something.
    resting: BTreeSet<AgentId>,
    /// The last cycle of each agent that touched this space: work in others is not shown here.
    cycles: HashMap<AgentId, CycleId>,
    lost: bool,
    /// Missed messages are on their way: what is written now waits, to stand below them.
    behind: bool,
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
            growing: None,
            printed: VecDeque::new(),
            busy: BTreeMap::new(),
            zone,
            resting: BTreeSet::new(),
            cycles: HashMap::new(),
            lost: false,
            behind: false,
            rows: Vec::new(),
        }
    }

    /// Learns a name.
    pub(crate) fn name(&mut self, id: EntityId, name: &str) {
        self.names.insert(id, self.screen.clean_line(name));
    }

    /// Whether the name of an entity is known.
    pub(crate) fn knows(&self, id: EntityId) -> bool {
        self.names.contains_key(&id)
    }

    /// Everything up to that seq counts as shown.
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

    /// Agents at work, with what is known of their cycles.
    pub(crate) fn busy(&self) -> &BTreeMap<AgentId, Busy> {
        &self.busy
    }

    /// Rows that are finished since the last call.
    pub(crate) fn take_rows(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rows)
    }

    /// The row that is still being written.
    pub(crate) fn unfinished(&self) -> Option<String> {
        self.growing.as_ref().map(|growing| self.painted(growing.flow.row()))
    }

    /// What the agents do just now, in one row.
    pub(crate) fn status(&self) -> Option<String> {
        if self.lost {
            return Some("(no server; looking for it)".to_owned());
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

    /// A remark of ours, between the messages.
    pub(crate) fn remark(&mut self, text: &str) {
        self.interrupt();
        let mut flow = Flow::new("", self.width);
        let mut rows = flow.feed(&self.screen.clean(text));
        rows.extend(flow.end());
        self.rows.extend(rows.iter().map(|row| self.screen.paint(Style::Dim, row)));
    }

    /// Takes messages read from the server's history, oldest first. Where more were missed than
    /// were read, says so and goes on behind them.
    pub(crate) fn catch_up(&mut self, messages: Vec<Message>) {
        if let Some(first) = messages.first().filter(|first| first.seq > self.last_seq + 1) {
            let missed = first.seq - 1 - self.last_seq;
            self.last_seq = first.seq - 1;
            self.remark(&format!("({missed} older messages are not shown)"));
        }
        for message in messages {
            self.message(message);
        }
        self.behind = false;
        self.grow_next();
    }

    /// Takes the snapshot of a new connection; `true` where messages were missed.
    pub(crate) fn snapshot(&mut self, snapshot: Snapshot) -> bool {
        if std::mem::take(&mut self.lost) {
            self.remark("(the server is back)");
        }
        self.busy = snapshot
            .agents
            .iter()
            .filter(|agent| agent.state != AgentState::Sleeping)
            .map(|agent| (agent.agent, Busy { cycle: Some(agent.cycle), state: agent.state, tool: None }))
            .collect();
        for now in &snapshot.idle {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.rests(now.agent, rest, now.why.as_deref());
        }
        self.cycles.extend(snapshot.agents.iter().map(|agent| (agent.agent, agent.cycle)));
        let gone: Vec<MessageId> = self
            .drafts
            .keys()
            .filter(|id| snapshot.drafts.iter().all(|d| d.message != **id))
            .copied()
            .collect();
        // A draft that ended while nobody looked is committed, and caught up with, or void.
        let missed = snapshot.head_seq > self.last_seq;
        self.behind |= missed;
        if !missed {
            gone.into_iter().for_each(|message| self.void(message));
        }
        for draft in snapshot.drafts.into_iter().filter(|draft| draft.tool.is_none()) {
            self.resume(draft.message, draft.agent, draft.text);
        }
        missed
    }

    /// The line to the server is lost.
    pub(crate) fn lose(&mut self) {
        if !self.lost {
            self.lost = true;
            self.busy.clear();
            self.remark("(the server is gone; what you send waits a moment for it)");
        }
    }

    /// Takes an update; `true` where messages before it were missed.
    pub(crate) fn update(&mut self, update: Update) -> bool {
        match update {
            Update::Message { message } => {
                let missed = message.seq > self.last_seq + 1;
                self.behind |= missed;
                if !self.knows(message.sender) {
                    self.name(message.sender, &message.sender_name);
                }
                self.message(message.message);
                return missed;
            }
            Update::Draft { message, agent, delta, chars, .. } => self.draft(message, agent, &delta, chars),
            Update::DraftReset { message, .. } => self.void(message),
            Update::State { agent, reason, idle: Some(idle), .. } => {
                self.rests(agent, idle, reason.as_deref())
            }
            Update::State { agent, state, cycle, reason, .. } => self.state(agent, state, cycle, reason),
            Update::ToolStarted { agent, cycle, tool, .. } => {
                let here = self.cycles.get(&agent) == Some(&cycle);
                if let Some(busy) = self.busy.get_mut(&agent).filter(|_| here && shows(&tool)) {
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
        self.resting.remove(&message.sender.agent());
        let draft = self.drafts.remove(&message.id);
        self.printed.push_back(message.id);
        if self.printed.len() > PRINTED {
            self.printed.pop_front();
        }
        match self.growing.take_if(|growing| growing.message == message.id) {
            Some(growing) => {
                self.complete(growing, &draft.map(|draft| draft.text).unwrap_or_default(), message)
            }
            None => {
                self.interrupt();
                self.print(message.sender, &message.text);
            }
        }
        self.grow_next();
    }

    /// The committed message replaces its draft: what of it is shown already is not shown again.
    fn complete(&mut self, mut growing: Growing, shown: &str, message: &Message) {
        let rest = message.text.strip_prefix(shown);
        if let Some(rest) = rest {
            let rows = growing.flow.feed(&self.screen.clean(rest));
            self.push(rows);
        }
        let last = growing.flow.end();
        self.push(last.into_iter().collect());
        if rest.is_none() {
            self.remark("(it was said differently in the end:)");
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
            torn: false,
        });
        let before = draft.text.chars().count() + delta.chars().count();
        draft.torn |= before as u64 != chars;
        if !draft.torn {
            draft.text.push_str(delta);
        }
        self.grow(message);
    }

    /// A snapshot tells a draft whole.
    fn resume(&mut self, message: MessageId, agent: AgentId, text: String) {
        if self.printed.contains(&message) {
            return;
        }
        let fits = self.drafts.get(&message).is_none_or(|draft| text.starts_with(&draft.text));
        if !fits {
            self.void(message);
        }
        self.drafts.insert(message, MessageDraft { agent, text, torn: false });
        self.grow(message);
    }

    /// Shows what is new of a draft, if it is the one that is shown growing or none is.
    fn grow(&mut self, message: MessageId) {
        if self.growing.is_none() && !self.behind {
            let Some(draft) = self.drafts.get(&message) else { return };
            let lead = format!("{}: ", self.name_of(draft.agent.entity()));
            self.growing = Some(Growing { message, shown: 0, flow: Flow::new(&lead, self.width) });
        }
        let Some(growing) = self.growing.as_mut().filter(|growing| growing.message == message) else {
            return;
        };
        let Some(draft) = self.drafts.get(&message) else { return };
        let new = self.screen.clean(&draft.text[growing.shown..]);
        growing.shown = draft.text.len();
        let rows = growing.flow.feed(&new);
        self.push(rows);
    }

    fn grow_next(&mut self) {
        if self.growing.is_none()
            && !self.behind
            && let Some(message) = self.drafts.keys().min().copied()
        {
            self.grow(message);
        }
    }

    /// Makes room for something else: the row in progress is finished as it is, and the draft goes on
    /// below under its name.
    fn interrupt(&mut self) {
        let Some(growing) = &mut self.growing else { return };
        let agent = self.drafts.get(&growing.message).map(|draft| draft.agent);
        let last = growing.flow.end();
        let name = agent.map(|agent| self.name_of(agent.entity())).unwrap_or_default();
        let width = self.width;
        if let Some(growing) = &mut self.growing {
            growing.flow = Flow::new(&format!("{name} ... "), width);
        }
        self.push(last.into_iter().collect());
    }

    fn void(&mut self, message: MessageId) {
        let Some(draft) = self.drafts.remove(&message) else { return };
        if let Some(mut growing) = self.growing.take_if(|growing| growing.message == message) {
            let last = growing.flow.end();
            self.push(last.into_iter().collect());
            self.remark(&format!("({} took that back)", self.name_of(draft.agent.entity())));
        }
        self.grow_next();
    }

    /// Told once, however often it tries.
    fn rests(&mut self, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        self.busy.remove(&agent);
        if self.resting.insert(agent) {
            let name = self.name_of(agent.entity());
            self.remark(&format!("({name} {})", cannot_think(rest, why, &self.zone)));
        }
    }

    fn state(&mut self, agent: AgentId, state: AgentState, cycle: Option<CycleId>, reason: Option<String>) {
        if matches!(state, AgentState::Sleeping | AgentState::Retired) {
            self.busy.remove(&agent);
            if let Some(reason) = reason {
                let name = self.name_of(agent.entity());
                self.remark(&format!("({name} sleeps: {reason})"));
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
            OutcomeStatus::Ok if !shows(tool) => return,
            OutcomeStatus::Ok => "",
            OutcomeStatus::Error => ": failed",
            OutcomeStatus::Pending => ": answer comes later",
            OutcomeStatus::Unknown => ": unknown whether it happened",
            OutcomeStatus::Canceled => ": canceled",
        };
        let name = self.name_of(agent.entity());
        self.remark(&format!("  * {name} used {tool}{end}"));
    }

    fn ended(&mut self, agent: AgentId, ending: Ending, reason: Option<String>) {
        self.busy.remove(&agent);
        self.resting.remove(&agent);
        let name = self.name_of(agent.entity());
        let because = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        match ending {
            Ending::Completed => {}
            Ending::Skipped => self.remark(&format!("({name} let it pass)")),
            Ending::Exhausted => self.remark(&format!("({name} was cut off{because})")),
            Ending::Canceled => self.remark(&format!("({name} stopped: canceled)")),
            Ending::Failed => self.remark(&format!("({name} failed{because})")),
        }
    }

    fn push(&mut self, rows: Vec<String>) {
        let painted: Vec<String> = rows.iter().map(|row| self.painted(row)).collect();
        self.rows.extend(painted);
    }

    /// A row with the name in front of it, if there is one, made to stand out.
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

fn shows(tool: &str) -> bool {
    !SEEN_OTHERWISE.contains(&tool)
}

#[cfg(test)]
mod tests;
