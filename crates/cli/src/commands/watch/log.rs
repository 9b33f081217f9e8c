//! Renders a live log: takes updates, returns finished rows and one unfinished row. Pure; must not know the
//! terminal or the server, so every order of updates can be tested.

use std::collections::{HashMap, VecDeque};

use agent::call::OutcomeStatus;
use agent::event::EventProgress;
use agent::id::{AgentId, CallId, CycleId, EventId, MessageId, SpaceId};
use agent::life::IdleUntil;
use agent::run::{Ending, Spent};
use agent::update::{AgentState, Update};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::cycles::Cycles;
use super::moment::{backing_off_text, clock, money, took};
use super::names::Names;
use crate::commands::chat::flow::Flow;
use crate::commands::dead;
use crate::output::{Screen, Style, columns, short_count, shortened};
use client::{Feed, FeedDraft, Snapshot};

/// Maximum number of items that are remembered as shown, so that they are not shown twice.
const SHOWN: usize = 1_024;
/// Maximum number of open calls that are remembered.
const IN_FLIGHT: usize = 4_096;
/// Maximum number of bytes of a thought that are tail until it is shown.
const THOUGHT_BYTES: usize = 64 * 1024;
/// Columns of a call's arguments.
const ARGUMENTS: usize = 60;
/// If fewer columns are left for a draft's text, its lead is shortened.
const TEXT_MIN: usize = 8;
/// A call that takes longer is also shown when it starts.
const LONG_CALL_MS: i64 = 400;
/// Tools that are not shown: their effect is visible as a message or as the end of the cycle.
const HIDDEN_TOOLS: [&str; 3] = ["send_message", "done", "skip"];

/// Tools whose only effect is how the cycle end.
const ENDING_TOOLS: [&str; 2] = ["done", "skip"];

/// An open call.
struct Call {
    agent: AgentId,
    tool: String,
    arguments: String,
    since: Timestamp,
    shown: bool,
}

/// A model's private text.
struct ThoughtLine {
    step: u32,
    reasoning: bool,
    text: String,
}

/// A live log.
pub(crate) struct Log {
    screen: Screen,
    zone: TimeZone,
    /// One line per item: no tools, no intermediate states.
    brief: bool,
    pub(crate) names: Names,
    feed: Feed,
    calls: HashMap<CallId, Call>,
    thoughts: HashMap<AgentId, ThoughtLine>,
    cycles: Cycles,
    messages: VecDeque<MessageId>,
    endings: VecDeque<CycleId>,
    rows: Vec<String>,
}

impl Log {
    /// An empty log.
    pub(crate) fn new(screen: Screen, zone: TimeZone, brief: bool) -> Self {
        Self {
            screen,
            zone,
            brief,
            names: Names::default(),
            feed: Feed::default(),
            calls: HashMap::new(),
            thoughts: HashMap::new(),
            cycles: Cycles::default(),
            messages: VecDeque::new(),
            endings: VecDeque::new(),
            rows: Vec::new(),
        }
    }

    /// The terminal's width changed.
    pub(crate) fn resize(&mut self, width: usize) {
        self.screen.width = self.screen.width.map(|_| width);
    }

    /// Rows that were finished since the last call.
    pub(crate) fn take_rows(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rows)
    }

    /// Whether it was shown before; marks it as shown.
    pub(crate) fn shown_before(&mut self, update: &Update) -> bool {
        fn remember<T: PartialEq>(seen: &mut VecDeque<T>, id: T) -> bool {
            let before = seen.contains(&id);
            if !before {
                seen.push_back(id);
            }
            if seen.len() > SHOWN {
                seen.pop_front();
            }
            before
        }
        match update {
            Update::Message { message } => {
                // A message makes its cycle visible, even one that is older than everything shown.
                if let Some(cycle) = message.cycle {
                    self.cycles.mark_visible(cycle);
                }
                remember(&mut self.messages, message.id)
            }
            Update::CycleEnded { cycle, .. } => remember(&mut self.endings, *cycle),
            _ => false,
        }
    }

    /// The cycle posted a message, whether it is shown or not.
    pub(crate) fn mark_visible(&mut self, cycle: CycleId) {
        self.cycles.mark_visible(cycle);
    }

    /// Handles an update that happened at `at`.
    pub(crate) fn update(&mut self, at: Timestamp, update: &Update) {
        if !matches!(update, Update::Thought { .. }) {
            self.end_thought(at, update.agent());
        }
        let change = self.feed.update(update);
        match update {
            Update::Message { message } => {
                let who = self.names.of(message.sender);
                let of_agent = message.cycle.is_some();
                if let Some(cycle) = message.cycle {
                    self.act(AgentId(message.sender.0), Some(cycle));
                }
                self.message_rows(at, &who, message.space, &message.text, of_agent);
            }
            Update::Member { space, entity, joined, .. } => {
                let who = self.names.of(*entity);
                let space_name = self.names.of_space(*space);
                self.dim_row(at, &who, &format!("{} {space_name}", if *joined { "joined" } else { "left" }));
            }
            Update::Draft { agent, .. } => self.act(*agent, None),
            Update::DraftReset { agent, .. } => {
                if change.ended_draft.is_some() && !self.brief {
                    self.dim_row(at, &self.names.of(agent.entity()), "discarded its draft");
                }
            }
            Update::State { agent, reason, idle: Some(idle), .. } => {
                if change.backs_off {
                    self.back_off(at, *agent, *idle, reason.as_deref());
                }
            }
            Update::State { agent, state, cycle, reason, .. } => {
                self.state(at, *agent, *state, *cycle, change.new_cycle, reason.as_deref());
            }
            Update::ToolStarted { agent, cycle, call, tool, arguments } => {
                if !ENDING_TOOLS.contains(&tool.as_str()) {
                    self.act(*agent, Some(*cycle));
                }
                self.begin_call(at, *agent, call, tool, arguments);
            }
            Update::ToolDone { agent, cycle, call, tool, status, ms } => {
                if *status != OutcomeStatus::Ok {
                    self.act(*agent, Some(*cycle));
                }
                self.end_call(at, *agent, call, tool, *status, *ms);
            }
            Update::ToolError { agent, cycle, call, tool, ms, .. } => {
                self.act(*agent, Some(*cycle));
                self.end_call(at, *agent, call, tool, OutcomeStatus::Error, *ms);
            }
            Update::Thought { agent, cycle, step, reasoning, delta } => {
                self.act(*agent, Some(*cycle));
                self.think(at, *agent, *step, *reasoning, delta);
            }
            // The call itself is shown when it starts.
            Update::EventProgress { agent, event, progress: EventProgress::Dead, reason, .. } => {
                self.event_died(at, *agent, event, reason.as_deref());
            }
            Update::Commit { .. } | Update::EventProgress { .. } | Update::ToolInput { .. } => {}
            Update::CycleEnded { agent, cycle, ending, reason, spent } => {
                // A cycle that did nothing visible gets one short row.
                let idle =
                    matches!(ending, Ending::Completed | Ending::Skipped) && self.cycles.end(*agent, *cycle);
                let spent = spent.as_ref().filter(|_| !idle);
                self.ended(at, *agent, *ending, reason.as_deref(), spent);
            }
        }
    }

    fn event_died(&mut self, at: Timestamp, agent: AgentId, event: &EventId, reason: Option<&str>) {
        let who = self.names.of(agent.entity());
        let why = reason.map(|reason| format!(" because: {reason}")).unwrap_or_default();
        let text = format!("marked the event {event} as dead{why}; {}", dead::advice(event, &who));
        self.dim_row(at, &who, &self.screen.clean_line(&text));
    }

    /// Handles the snapshot of a new connection.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        let new = self.feed.snapshot(snapshot);
        for now in snapshot.idle.iter().filter(|now| new.contains(&now.agent)) {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.back_off(Timestamp::now(), now.agent, rest, now.why.as_deref());
        }
        self.cycles.keep(|agent| self.feed.working().contains_key(&agent));
        self.calls.clear();
    }

    /// Shows calls that have been running for long.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        let long = |call: &Call| now.as_millisecond() - call.since.as_millisecond() > LONG_CALL_MS;
        let mut due: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| !call.shown && long(call))
            .map(|(id, _)| id.clone())
            .collect();
        due.sort();
        for id in due {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.shown = true;
            let since = call.since;
            let who = self.names.of(call.agent.entity());
            let text = call_text(&format!("{} ...", call.tool), Some(call));
            self.row(since, &who, &text, Style::Dim);
        }
    }

    /// Adds a note about the log itself.
    pub(crate) fn note(&mut self, at: Timestamp, text: &str) {
        let row = format!("{} ({text})", clock(at, &self.zone));
        self.rows.push(self.screen.paint(Style::Yellow, &row));
    }

    /// Adds a row unchanged.
    pub(crate) fn print(&mut self, row: String) {
        self.rows.push(row);
    }

    /// What is happening now, in one row of at most `width` columns.
    pub(crate) fn unfinished(&self, now: Timestamp, width: usize) -> Option<String> {
        if let Some((_, draft)) = self.feed.drafts().first_key_value().filter(|_| !self.brief) {
            return Some(self.draft_row(now, draft, width));
        }
        let working: Vec<String> = self
            .feed
            .working()
            .iter()
            .map(|(agent, work)| format!("{} is {}", self.names.of(agent.entity()), work.state.as_str()))
            .collect();
        let text = match working.len() {
            0 => return None,
            1..=3 => working.join(", "),
            n => format!("{} and {} more", working[..2].join(", "), n - 2),
        };
        Some(self.screen.paint(Style::Dim, &shortened(&format!("({text})"), width)))
    }

    /// A draft in one row. If space is short, omits first the other writers, then the time, then the space.
    /// The row must not reach the last column: it would leave a line behind with every piece.
    fn draft_row(&self, now: Timestamp, draft: &FeedDraft, width: usize) -> String {
        let who = self.names.of(draft.agent.entity());
        let both = format!("{who}{}{}: ", self.arrow(), self.names.of_space(draft.space));
        let others = self.feed.drafts().len() - 1;
        let more = if others > 0 { format!(" (+{others} writing)") } else { String::new() };
        let time = clock(now, &self.zone);
        let variants = [(format!("{time} {both}"), more), (format!("{time} {both}"), String::new())];
        let variants =
            variants.into_iter().chain([(both, String::new()), (format!("{who}: "), String::new())]);
        let text = self.screen.clean_line(&draft.text);
        for (lead, more) in variants {
            let room = width.saturating_sub(columns(&lead) + columns(&more));
            if room >= TEXT_MIN {
                return shortened(&format!("{lead}{}{more}", tail_of(&text, room)), width);
            }
        }
        tail_of(&text, width)
    }

    /// Handles a visible action of an agent: first shows its activation, if not yet shown.
    fn act(&mut self, agent: AgentId, cycle: Option<CycleId>) {
        let cycle = cycle.or_else(|| self.feed.working().get(&agent)?.cycle);
        if let Some(cycle) = cycle
            && let Some((since, state)) = self.cycles.act(agent, cycle)
        {
            self.row(since, &self.names.of(agent.entity()), state.as_str(), Style::Dim);
        }
    }

    fn arrow(&self) -> &'static str {
        if self.screen.utf8 { " → " } else { " > " }
    }

    fn message_rows(&mut self, at: Timestamp, who: &str, space: SpaceId, text: &str, of_agent: bool) {
        let space_name = self.names.of_space(space);
        let time = clock(at, &self.zone);
        let lead = format!("{time} {who}{}{space_name}: ", self.arrow());
        let rows = if self.brief {
            let line = format!("{lead}{}", self.screen.clean_line(text).trim());
            vec![self.screen.width.map_or_else(|| line.clone(), |width| shortened(&line, width))]
        } else {
            let width = self.screen.width.map_or(usize::MAX, |width| width.saturating_sub(1));
            let mut flow = Flow::new(&lead, width);
            let mut rows = flow.feed(&self.screen.clean(text));
            rows.extend(flow.end());
            rows
        };
        let style = if of_agent { Style::Cyan } else { Style::Bold };
        let painted = format!(
            "{} {}{}{}: ",
            self.screen.paint(Style::Dim, &time),
            self.screen.paint(style, who),
            self.arrow(),
            space_name
        );
        for row in rows {
            self.rows.push(match row.strip_prefix(&lead) {
                Some(rest) => format!("{painted}{rest}"),
                None => row,
            });
        }
    }

    fn back_off(&mut self, at: Timestamp, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        let why = why.map(|why| self.screen.clean_line(why));
        let text = backing_off_text(rest, why.as_deref(), &self.zone);
        self.row(at, &self.names.of(agent.entity()), &text, Style::Yellow);
    }

    fn state(
        &mut self,
        at: Timestamp,
        agent: AgentId,
        state: AgentState,
        cycle: Option<CycleId>,
        new_cycle: bool,
        reason: Option<&str>,
    ) {
        let who = self.names.of(agent.entity());
        let reason = reason.map(|reason| self.screen.clean_line(reason));
        if matches!(state, AgentState::Sleeping | AgentState::Retired) {
            if let Some(reason) = reason {
                self.row(at, &who, &format!("sleeps: {reason}"), Style::Yellow);
            }
            return;
        }
        if let Some(reason) = reason {
            self.act(agent, cycle);
            return self.row(at, &who, &reason, Style::Yellow);
        }
        if state == AgentState::Paused {
            self.act(agent, cycle);
            self.row(at, &who, "waits for a person", Style::Yellow);
        } else if new_cycle && !self.brief {
            self.cycles.woke(agent, at, state);
        }
    }

    fn begin_call(&mut self, at: Timestamp, agent: AgentId, call: &CallId, tool: &str, arguments: &str) {
        if self.brief || self.calls.len() >= IN_FLIGHT {
            return;
        }
        let (tool, arguments) = (self.screen.clean_line(tool), self.screen.clean_line(arguments));
        let shown = HIDDEN_TOOLS.contains(&tool.as_str());
        self.calls.insert(call.clone(), Call { agent, tool, arguments, since: at, shown });
    }

    fn end_call(
        &mut self,
        at: Timestamp,
        agent: AgentId,
        call: &CallId,
        tool: &str,
        status: OutcomeStatus,
        ms: Option<u64>,
    ) {
        let started = self.calls.remove(call);
        let tool = self.screen.clean_line(tool);
        let hidden = status == OutcomeStatus::Ok && (self.brief || HIDDEN_TOOLS.contains(&tool.as_str()));
        if hidden {
            return;
        }
        let (how, style) = match status {
            OutcomeStatus::Ok => ("ok", Style::Dim),
            OutcomeStatus::Error => ("failed", Style::Red),
            OutcomeStatus::Pending => ("result comes later", Style::Yellow),
            OutcomeStatus::Unknown => ("unknown whether it happened", Style::Red),
            OutcomeStatus::Canceled => ("canceled", Style::Yellow),
        };
        let time = ms.map(|ms| format!(", {}", took(ms))).unwrap_or_default();
        // The status comes before the arguments, which may be cut off.
        let what = call_text(&format!("{tool}: {how}{time}"), started.filter(|call| !call.shown).as_ref());
        self.row(at, &self.names.of(agent.entity()), &what, style);
    }

    fn think(&mut self, at: Timestamp, agent: AgentId, step: u32, reasoning: bool, delta: &str) {
        let other = |thought: &ThoughtLine| (thought.step, thought.reasoning) != (step, reasoning);
        if self.thoughts.get(&agent).is_some_and(other) {
            self.end_thought(at, Some(agent));
        }
        let new = || ThoughtLine { step, reasoning, text: String::new() };
        let thought = self.thoughts.entry(agent).or_insert_with(new);
        if thought.text.len() + delta.len() <= THOUGHT_BYTES {
            thought.text.push_str(delta);
        }
    }

    fn end_thought(&mut self, at: Timestamp, agent: Option<AgentId>) {
        let Some(agent) = agent else { return };
        let Some(thought) = self.thoughts.remove(&agent) else { return };
        let text = self.screen.clean(thought.text.trim());
        if text.is_empty() {
            return;
        }
        let who = self.names.of(agent.entity());
        let how = if thought.reasoning { "reasons" } else { "notes" };
        let width = self.screen.width.map_or(usize::MAX, |width| width.saturating_sub(1));
        let mut flow = Flow::new(&format!("{} {who} {how}: ", clock(at, &self.zone)), width);
        let mut rows = flow.feed(&text);
        rows.extend(flow.end());
        self.rows.extend(rows.iter().map(|row| self.screen.paint(Style::Dim, row)));
    }

    fn ended(
        &mut self,
        at: Timestamp,
        agent: AgentId,
        ending: Ending,
        reason: Option<&str>,
        spent: Option<&Spent>,
    ) {
        let mut text = ending.as_str().to_owned();
        if let Some(spent) = spent {
            text.push_str(&format!(": {}", summary(spent)));
        }
        if let Some(reason) = reason {
            text.push_str(&format!(" ({})", self.screen.clean_line(reason)));
        }
        let style = match ending {
            Ending::Completed => Style::Green,
            Ending::Skipped => Style::Dim,
            Ending::Exhausted | Ending::Canceled => Style::Yellow,
            Ending::Failed => Style::Red,
        };
        self.row(at, &self.names.of(agent.entity()), &text, style);
    }

    fn dim_row(&mut self, at: Timestamp, who: &str, text: &str) {
        self.row(at, who, text, Style::Dim);
    }

    /// Adds text about an agent or person: one row if the log is brief, else as many as needed.
    fn row(&mut self, at: Timestamp, who: &str, text: &str, style: Style) {
        let time = clock(at, &self.zone);
        let lead = format!("{time} {who} ");
        let width = self.screen.width.map_or(usize::MAX, |width| width.saturating_sub(1));
        let rows = if self.brief {
            vec![shortened(&format!("{lead}{text}"), width)]
        } else {
            let mut flow = Flow::new(&lead, width);
            let mut rows = flow.feed(text);
            rows.extend(flow.end());
            rows
        };
        let painted =
            format!("{} {} ", self.screen.paint(Style::Dim, &time), self.screen.paint(Style::Cyan, who));
        for row in rows {
            self.rows.push(match row.strip_prefix(&lead) {
                Some(rest) => format!("{painted}{}", self.screen.paint(style, rest)),
                None => self.screen.paint(style, &row),
            });
        }
    }
}

/// What a cycle consumed; unknown values are not shown as 0.
pub(crate) fn summary(spent: &Spent) -> String {
    let mut parts = vec![
        if spent.steps == 1 { "1 step".to_owned() } else { format!("{} steps", spent.steps) },
        took(spent.ms),
    ];
    let count = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), short_count);
    let cached = spent.usage.cached.filter(|n| *n > 0);
    let cached = cached.map(|n| format!(" ({} cached)", short_count(n))).unwrap_or_default();
    if spent.usage.input.is_none() && spent.usage.output.is_none() {
        parts.push("tokens unknown".to_owned());
    } else {
        parts.push(format!("{} in{cached}", count(spent.usage.input)));
        parts.push(format!("{} out", count(spent.usage.output)));
    }
    parts.extend(spent.cost_micros.map(money));
    parts.join(", ")
}

/// A call with the beginning of its arguments.
fn call_text(what: &str, call: Option<&Call>) -> String {
    match call.map(|call| call.arguments.trim()) {
        None | Some("" | "{}") => what.to_owned(),
        Some(arguments) => format!("{what} {}", shortened(arguments, ARGUMENTS)),
    }
}

/// The end of a text, in at most `max` columns.
fn tail_of(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let mut tail: Vec<char> = Vec::new();
    let mut used = 3;
    for c in text.chars().rev() {
        used += crate::output::char_columns(c);
        if used > max {
            break;
        }
        tail.push(c);
    }
    format!("...{}", tail.iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests;
