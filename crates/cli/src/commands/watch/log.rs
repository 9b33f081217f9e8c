//! Renders a live log or a conversation: takes updates, returns finished rows and those that still change. Pure; must
//! not know the terminal or the server, so every order of updates can be tested.

use std::collections::{BTreeMap, HashMap, VecDeque};

use agent::call::OutcomeStatus;
use agent::event::EventProgress;
use agent::id::{AgentId, CallId, CycleId, EntityId, MessageId, SpaceId};
use agent::life::IdleUntil;
use agent::run::{Ending, Spent};
use agent::update::{AgentState, Update};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::moment::{backing_off_text, clock, money, took};
use super::names::Names;
use crate::commands::chat::flow::flow;
use crate::commands::dead;
use crate::output::{Screen, Style, char_columns, columns, short_count, shortened};
use client::{AgentWork, Feed, FeedDraft, Snapshot};

/// Maximum number of items of each kind that are remembered, so that they are not shown twice.
const REMEMBERED: usize = 1_024;
/// Maximum number of open calls that are remembered.
const IN_FLIGHT: usize = 4_096;
/// Maximum number of bytes of a thought that are kept until it is shown.
const THOUGHT_BYTES: usize = 64 * 1024;
/// Columns of a call's arguments.
const ARGUMENTS: usize = 60;
/// If fewer columns are left for a text, what stands before it is shortened.
const TEXT_MIN: usize = 8;
/// A call that takes longer is also shown when it starts.
const LONG_CALL_MS: i64 = 400;
/// Tools that are not shown: their effect is visible as a message or as the end of the cycle.
const HIDDEN_TOOLS: [&str; 3] = ["send_message", "done", "skip"];
/// Tools whose only effect is how the cycle ends.
const ENDING_TOOLS: [&str; 2] = ["done", "skip"];

/// What a log shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStyle {
    /// Everything that agents do, with times and spaces.
    Full,
    /// One line per item: no tools, no intermediate states.
    Brief,
    /// A conversation in one space: messages, and in parentheses what else a person has to know.
    Chat,
}

/// The last ids of a kind.
#[derive(Debug)]
struct Recent<T>(VecDeque<T>);

impl<T: PartialEq> Recent<T> {
    /// Adds an id; `false` if it is known.
    fn add(&mut self, id: T) -> bool {
        if self.0.contains(&id) {
            return false;
        }
        self.0.push_back(id);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
        true
    }
}

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
    style: LogStyle,
    pub(crate) names: Names,
    feed: Feed,
    calls: HashMap<CallId, Call>,
    thoughts: HashMap<AgentId, ThoughtLine>,
    /// Agents that woke but did nothing visible yet: when, and their state. If three agents receive a message and one
    /// replies, the log shows that one in full and of the others only their ending.
    woke: HashMap<AgentId, (Timestamp, AgentState)>,
    /// Cycles that did something visible, whether it is shown or not.
    visible: Recent<CycleId>,
    /// With their revisions: the message of a tool changes.
    messages: Recent<(MessageId, u64)>,
    endings: Recent<CycleId>,
    rows: Vec<String>,
}

impl Log {
    /// An empty log.
    pub(crate) fn new(screen: Screen, zone: TimeZone, style: LogStyle) -> Self {
        Self {
            screen,
            zone,
            style,
            names: Names::new(style == LogStyle::Chat),
            feed: Feed::default(),
            calls: HashMap::new(),
            thoughts: HashMap::new(),
            woke: HashMap::new(),
            visible: Recent(VecDeque::new()),
            messages: Recent(VecDeque::new()),
            endings: Recent(VecDeque::new()),
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

    /// Agents at work, and what is known about their cycles.
    pub(crate) fn working(&self) -> &BTreeMap<AgentId, AgentWork> {
        self.feed.working()
    }

    /// Handles the loss of the connection.
    pub(crate) fn lost(&mut self) {
        self.feed.lost();
    }

    /// Whether it was shown before; marks it as shown.
    pub(crate) fn shown_before(&mut self, update: &Update) -> bool {
        match update {
            Update::Message { message } => {
                // A message makes its cycle visible, even one that is older than everything shown.
                message.cycle.into_iter().for_each(|cycle| self.mark_visible(cycle));
                !self.messages.add((message.id, message.rev))
            }
            Update::CycleEnded { cycle, .. } => !self.endings.add(*cycle),
            _ => false,
        }
    }

    /// The cycle posted a message, whether it is shown or not.
    pub(crate) fn mark_visible(&mut self, cycle: CycleId) {
        self.visible.add(cycle);
    }

    /// Handles an update that happened at `at`.
    pub(crate) fn update(&mut self, at: Timestamp, update: &Update) {
        if !matches!(update, Update::Thought { .. }) {
            self.end_thought(at, update.agent());
        }
        let change = self.feed.update(update);
        match update {
            Update::Message { message } => {
                let style = if message.cycle.is_some() { Style::Cyan } else { Style::Bold };
                if let Some(cycle) = message.cycle {
                    self.act(AgentId(message.sender.0), Some(cycle));
                }
                self.entry(at, (message.sender, style), Some(message.space), &message.text, None);
            }
            Update::Member { space, entity, joined, .. } => {
                let how = if *joined { "joined" } else { "left" };
                let text = format!("{how} {}", self.names.of_space(*space));
                self.entry(at, (*entity, Style::Cyan), None, &text, Some(Style::Dim));
            }
            Update::Draft { agent, .. } => self.act(*agent, None),
            Update::DraftReset { agent, .. } => {
                if change.discarded && self.style != LogStyle::Brief {
                    self.row(at, *agent, "discarded its draft", Style::Dim);
                }
            }
            Update::State { agent, reason, idle: Some(idle), .. } => {
                if change.backs_off {
                    self.back_off(at, *agent, *idle, reason.as_deref());
                }
            }
            Update::State { agent, state, cycle, reason, .. } => {
                self.state(at, *agent, (*state, *cycle), change.new_cycle, reason.as_deref());
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
            Update::EventProgress { agent, event, progress: EventProgress::Dead, reason, .. } => {
                let why = reason.as_deref().map(|why| format!(" because: {why}")).unwrap_or_default();
                let advice = dead::advice(event, &self.names.of(agent.entity()));
                let text = format!("marked the event {} as dead{why}; {advice}", event.0);
                self.row(at, *agent, &text, Style::Dim);
            }
            // A call is shown when it starts.
            Update::Commit { .. } | Update::EventProgress { .. } | Update::ToolInput { .. } => {}
            Update::CycleEnded { agent, cycle, ending, reason, spent } => {
                self.woke.remove(agent);
                // A cycle that did nothing visible gets one short row.
                let idle =
                    matches!(ending, Ending::Completed | Ending::Skipped) && !self.visible.0.contains(cycle);
                let spent = spent.as_ref().filter(|_| !idle);
                self.ended(at, *agent, *ending, reason.as_deref(), spent);
            }
        }
    }

    /// Handles the snapshot of a new connection.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        let new = self.feed.snapshot(snapshot);
        for now in snapshot.idle.iter().filter(|now| new.contains(&now.agent)) {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.back_off(Timestamp::now(), now.agent, rest, now.why.as_deref());
        }
        self.woke.retain(|agent, _| self.feed.working().contains_key(agent));
        self.calls.clear();
    }

    /// Shows calls that have been running for long.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        let long = |call: &Call| now.as_millisecond() - call.since.as_millisecond() > LONG_CALL_MS;
        let mut due = Vec::new();
        for (id, call) in self.calls.iter_mut().filter(|(_, call)| !call.shown && long(call)) {
            call.shown = true;
            due.push((
                id.clone(),
                call.since,
                call.agent,
                call_text(&format!("{} ...", call.tool), Some(call)),
            ));
        }
        due.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, since, agent, text) in due {
            self.row(since, agent, &text, Style::Dim);
        }
    }

    /// Adds a note about the log itself.
    pub(crate) fn note(&mut self, at: Timestamp, text: &str) {
        match self.style {
            LogStyle::Chat => self.remark(&format!("({text})")),
            _ => self.plain(&format!("{} ({text})", clock(at, &self.zone)), Style::Yellow),
        }
    }

    /// Adds text that nobody in the space wrote.
    pub(crate) fn remark(&mut self, text: &str) {
        self.plain(text, Style::Dim);
    }

    fn plain(&mut self, text: &str, style: Style) {
        let rows = flow(&self.screen.clean(text), 0, self.width());
        self.rows.extend(rows.iter().map(|row| self.screen.paint(style, row)));
    }

    /// Adds a row unchanged.
    pub(crate) fn print(&mut self, row: String) {
        self.rows.push(row);
    }

    /// What is written and done now, in at most `max` rows: each draft has rows of its own, and if one is left it says
    /// what the agents do. No row reaches the last column, where it would leave a line behind with every piece of a
    /// draft.
    pub(crate) fn live(&self, now: Timestamp, max: usize) -> Vec<String> {
        let drafts = self.feed.drafts();
        let room = max.saturating_sub(1).max(1);
        let shown = drafts.len().min(if self.style == LogStyle::Brief { 0 } else { room });
        let mut rows = Vec::new();
        for (i, draft) in drafts.values().take(shown).enumerate() {
            let hidden = if i + 1 == shown { drafts.len() - shown } else { 0 };
            let more = if hidden > 0 { format!(" (+{hidden} writing)") } else { String::new() };
            rows.extend(self.draft(now, draft, room / shown, &more));
        }
        if rows.len() < max {
            rows.extend(self.status());
        }
        rows
    }

    /// A draft in at most `max` rows, with `more` behind it. Its newest words are shown if it is longer.
    fn draft(&self, now: Timestamp, draft: &FeedDraft, max: usize, more: &str) -> Vec<String> {
        let width = self.width();
        let who = self.names.of(draft.agent.entity());
        let lead = self.lead(now, &who, Some(draft.space), width);
        let fits = |lead: &str, more: &str| columns(lead) + columns(more) + TEXT_MIN <= width;
        let lead = if fits(&lead.concat(), "") { lead } else { Default::default() };
        let more = if fits(&lead.concat(), more) { more } else { "" };
        let taken = columns(&lead.concat());
        let mut rows = flow(&self.screen.clean(&draft.text), taken, width.saturating_sub(columns(more)));
        if rows.len() > max {
            let newest = rows.split_off(rows.len() - (max - 1));
            let earlier = rows.iter().map(|row| row.trim_start()).collect::<Vec<_>>().join(" ");
            rows = vec![tail_of(&earlier, width.saturating_sub(taken + columns(more)))];
            rows.extend(newest);
        }
        let [time, name, place] = lead;
        let lead = self.screen.paint(Style::Dim, &time) + &self.screen.paint(Style::Cyan, &name) + &place;
        rows[0].insert_str(0, &lead);
        if let Some(last) = rows.last_mut() {
            last.push_str(more);
        }
        rows
    }

    /// What the agents do now.
    fn status(&self) -> Option<String> {
        let working: Vec<String> = self
            .feed
            .working()
            .iter()
            .map(|(agent, work)| {
                let name = self.names.of(agent.entity());
                let tool = work.tool.as_deref().filter(|tool| !HIDDEN_TOOLS.contains(tool));
                match (tool, work.state) {
                    (Some(tool), _) => format!("{name} uses {}", self.screen.clean_line(tool)),
                    (None, AgentState::Paused) => format!("{name} waits for a person"),
                    (None, _) => format!("{name} is thinking"),
                }
            })
            .collect();
        let text = match working.len() {
            0 => return None,
            1..=3 => working.join(", "),
            n => format!("{} and {} more", working[..2].join(", "), n - 2),
        };
        let end = if self.style == LogStyle::Chat { "; Ctrl-C cancels" } else { "" };
        Some(self.screen.paint(Style::Dim, &shortened(&format!("({text}{end})"), self.width())))
    }

    fn width(&self) -> usize {
        self.screen.width.map_or(usize::MAX, |width| width.saturating_sub(1))
    }

    /// What stands before a text: the time, who says or does it, and in which space. If little room is left for the
    /// text, the time is omitted, then the space, then the end of the name.
    fn lead(&self, at: Timestamp, who: &str, space: Option<SpaceId>, width: usize) -> [String; 3] {
        let end = if space.is_some() { ": " } else { " " };
        let arrow = self.screen.pick(" → ", " > ");
        let place = space.map_or_else(String::new, |space| format!("{arrow}{}", self.names.of_space(space)));
        let place = place + end;
        let time = format!("{} ", clock(at, &self.zone));
        let fits = |lead: &[String; 3]| columns(&lead.concat()) + TEXT_MIN <= width;
        let whole = [time, who.to_owned(), place.clone()];
        let timeless = [String::new(), who.to_owned(), place];
        let shortest = || {
            let who = shortened(who, width.saturating_sub(TEXT_MIN + end.len()).max(4));
            [String::new(), who, end.to_owned()]
        };
        // A conversation is in one space.
        let leads = if self.style == LogStyle::Chat { Vec::new() } else { vec![whole, timeless] };
        leads.into_iter().find(fits).unwrap_or_else(shortest)
    }

    /// Handles a visible action of an agent: first shows that it woke, if that was not shown yet.
    fn act(&mut self, agent: AgentId, cycle: Option<CycleId>) {
        let Some(cycle) = cycle.or_else(|| self.feed.working().get(&agent)?.cycle) else { return };
        self.mark_visible(cycle);
        if let Some((since, state)) = self.woke.remove(&agent) {
            self.row(since, agent, state.as_str(), Style::Dim);
        }
    }

    fn back_off(&mut self, at: Timestamp, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        let text = backing_off_text(rest, why, &self.zone);
        self.row(at, agent, &text, Style::Yellow);
    }

    fn state(
        &mut self,
        at: Timestamp,
        agent: AgentId,
        (state, cycle): (AgentState, Option<CycleId>),
        new_cycle: bool,
        reason: Option<&str>,
    ) {
        match (state, reason) {
            (AgentState::Sleeping | AgentState::Retired, Some(reason)) => {
                self.row(at, agent, &format!("sleeps: {reason}"), Style::Yellow);
            }
            (AgentState::Sleeping | AgentState::Retired, None) => {}
            (_, Some(reason)) => {
                self.act(agent, cycle);
                self.row(at, agent, reason, Style::Yellow);
            }
            (AgentState::Paused, None) => {
                self.act(agent, cycle);
                self.row(at, agent, "waits for a person", Style::Yellow);
            }
            (_, None) => {
                if new_cycle && self.style == LogStyle::Full {
                    self.woke.insert(agent, (at, state));
                }
            }
        }
    }

    fn begin_call(&mut self, at: Timestamp, agent: AgentId, call: &CallId, tool: &str, arguments: &str) {
        if self.style == LogStyle::Brief || self.calls.len() >= IN_FLIGHT {
            return;
        }
        let (tool, arguments) = (tool.to_owned(), self.screen.clean_line(arguments));
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
        let (how, style) = match status {
            OutcomeStatus::Ok if self.style == LogStyle::Brief || HIDDEN_TOOLS.contains(&tool) => return,
            OutcomeStatus::Ok => ("ok", Style::Dim),
            OutcomeStatus::Error => ("failed", Style::Red),
            OutcomeStatus::Pending => ("result comes later", Style::Yellow),
            OutcomeStatus::Unknown => ("unknown whether it happened", Style::Red),
            OutcomeStatus::Canceled => ("canceled", Style::Yellow),
        };
        let time = ms.map(|ms| format!(", {}", took(ms))).unwrap_or_default();
        // The status comes before the arguments, which may be cut off.
        let what = call_text(&format!("{tool}: {how}{time}"), started.filter(|call| !call.shown).as_ref());
        self.row(at, agent, &what, style);
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
        if !thought.text.trim().is_empty() {
            let how = if thought.reasoning { "reasons" } else { "notes" };
            self.row(at, agent, &format!("{how}: {}", thought.text.trim()), Style::Dim);
        }
    }

    fn ended(
        &mut self,
        at: Timestamp,
        agent: AgentId,
        ending: Ending,
        reason: Option<&str>,
        spent: Option<&Spent>,
    ) {
        let mut text = match (self.style, ending) {
            (LogStyle::Chat, Ending::Completed) => return,
            (LogStyle::Chat, Ending::Skipped) => "skipped it".to_owned(),
            (LogStyle::Chat, Ending::Exhausted) => "was cut off".to_owned(),
            (LogStyle::Chat, Ending::Canceled) => "stopped: canceled".to_owned(),
            _ => ending.as_str().to_owned(),
        };
        if let Some(spent) = spent.filter(|_| self.style != LogStyle::Chat) {
            text.push_str(&format!(": {}", summary(spent)));
        }
        // Who chats canceled it.
        if let Some(reason) = reason.filter(|_| (self.style, ending) != (LogStyle::Chat, Ending::Canceled)) {
            text.push_str(&format!(" ({reason})"));
        }
        let style = match ending {
            Ending::Completed => Style::Green,
            Ending::Skipped => Style::Dim,
            Ending::Exhausted | Ending::Canceled => Style::Yellow,
            Ending::Failed => Style::Red,
        };
        self.row(at, agent, &text, style);
    }

    /// Adds what an agent does.
    fn row(&mut self, at: Timestamp, agent: AgentId, text: &str, style: Style) {
        match self.style {
            LogStyle::Chat => self.remark(&format!("({} {text})", self.names.of(agent.entity()))),
            _ => self.entry(at, (agent.entity(), Style::Cyan), None, text, Some(style)),
        }
    }

    /// Adds text by or about somebody: one row if the log is brief, else as many as needed.
    fn entry(
        &mut self,
        at: Timestamp,
        (who, name_style): (EntityId, Style),
        space: Option<SpaceId>,
        text: &str,
        style: Option<Style>,
    ) {
        let width = self.width();
        let lead = self.lead(at, &self.names.of(who), space, width);
        let taken = columns(&lead.concat());
        let rows = if self.style == LogStyle::Brief {
            vec![shortened(self.screen.clean_line(text).trim(), width.saturating_sub(taken))]
        } else {
            flow(&self.screen.clean(text), taken, width)
        };
        let [time, name, place] = lead;
        let mut lead = self.screen.paint(Style::Dim, &time) + &self.screen.paint(name_style, &name) + &place;
        for row in rows {
            let row = style.map_or_else(|| row.clone(), |style| self.screen.paint(style, &row));
            self.rows.push(std::mem::take(&mut lead) + &row);
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
    let mut used = 3;
    let mut begin = text.len();
    for (at, c) in text.char_indices().rev() {
        used += char_columns(c);
        if used > max {
            break;
        }
        begin = at;
    }
    format!("...{}", &text[begin..])
}

#[cfg(test)]
mod tests;
