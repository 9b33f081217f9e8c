//! What a live log looks like: updates in, finished rows and one unfinished row out. Pure; knows
//! neither terminal nor server, so every order of updates can be tried.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use agent::call::OutcomeStatus;
use agent::event::EventProgress;
use agent::id::{AgentId, CallId, CycleId, EventId, MessageId, SpaceId};
use agent::life::IdleUntil;
use agent::run::{Ending, Spent};
use agent::update::{AgentState, Update};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::cycles::Cycles;
use super::moment::{cannot_think, clock, money, took};
use super::names::Names;
use crate::commands::chat::flow::Flow;
use crate::output::{Screen, Style, columns, short_count, shortened};
use crate::sse::Snapshot;

/// Things that are remembered as shown, so that what is read again is not shown again.
const SHOWN: usize = 1_024;
/// Calls and drafts in flight that are remembered.
const IN_FLIGHT: usize = 4_096;
/// Bytes of a thought that are kept until it is shown.
const THOUGHT_BYTES: usize = 64 * 1024;
/// Columns of a call's arguments.
const ARGUMENTS: usize = 60;
/// Columns of a draft below which what stands before it is left out.
const TEXT_LEAST: usize = 8;
/// A call that takes longer is told when it begins, too.
const LONG_CALL_MS: i64 = 400;
/// Tools whose work is seen as a message or as the end of the cycle.
const SEEN_OTHERWISE: [&str; 3] = ["send_message", "done", "skip"];

/// Tools whose work is not seen but in what the cycle ends with.
const UNSEEN: [&str; 2] = ["done", "skip"];

/// A message being written.
struct LogDraft {
    agent: AgentId,
    space: SpaceId,
    text: String,
    /// Pieces were lost: what follows cannot be placed.
    torn: bool,
}

/// A call on its way.
struct Call {
    agent: AgentId,
    tool: String,
    arguments: String,
    since: Timestamp,
    told: bool,
}

/// What a model writes to itself.
struct ThoughtLine {
    step: u32,
    reasoning: bool,
    text: String,
}

/// A live log.
pub(crate) struct Log {
    screen: Screen,
    zone: TimeZone,
    /// One line each: no tools, no states that pass.
    brief: bool,
    pub(crate) names: Names,
    drafts: BTreeMap<MessageId, LogDraft>,
    calls: HashMap<CallId, Call>,
    thoughts: HashMap<AgentId, ThoughtLine>,
    busy: BTreeMap<AgentId, (CycleId, AgentState)>,
    /// Agents of which it is told that they cannot think, until they do something.
    resting: BTreeSet<AgentId>,
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
            drafts: BTreeMap::new(),
            calls: HashMap::new(),
            thoughts: HashMap::new(),
            busy: BTreeMap::new(),
            resting: BTreeSet::new(),
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

    /// Rows that are finished since the last call.
    pub(crate) fn take_rows(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rows)
    }

    /// Whether it was shown before; from now on it was.
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
                // Also one that is older than what is shown is a word of its cycle.
                if let Some(cycle) = message.cycle {
                    self.cycles.spoke(cycle);
                }
                remember(&mut self.messages, message.id)
            }
            Update::CycleEnded { cycle, .. } => remember(&mut self.endings, *cycle),
            _ => false,
        }
    }

    /// Something was said in the cycle, whether it is shown or not.
    pub(crate) fn spoke(&mut self, cycle: CycleId) {
        self.cycles.spoke(cycle);
    }

    /// Takes an update that happened then.
    pub(crate) fn update(&mut self, at: Timestamp, update: &Update) {
        if !matches!(update, Update::Thought { .. }) {
            self.end_thought(at, update.agent());
        }
        match update {
            Update::Message { message } => {
                self.drafts.remove(&message.id);
                let who = self.names.of(message.sender);
                let of_agent = message.cycle.is_some();
                if let Some(cycle) = message.cycle {
                    self.acts(AgentId(message.sender.0), Some(cycle));
                }
                self.said(at, &who, message.space, &message.text, of_agent);
            }
            Update::Member { space, entity, joined, .. } => {
                let who = self.names.of(*entity);
                let place = self.names.of_space(*space);
                self.remark(at, &who, &format!("{} {place}", if *joined { "joined" } else { "left" }));
            }
            Update::Draft { space, message, agent, delta, chars } => {
                self.acts(*agent, None);
                self.draft(*space, *message, *agent, delta, *chars);
            }
            Update::DraftReset { message, agent, .. } => {
                if self.drafts.remove(message).is_some() && !self.brief {
                    self.remark(at, &self.names.of(agent.entity()), "discarded its draft");
                }
            }
            Update::State { agent, reason, idle: Some(idle), .. } => {
                self.rests(at, *agent, *idle, reason.as_deref());
            }
            Update::State { agent, state, cycle, reason, .. } => {
                self.state(at, *agent, *state, *cycle, reason.as_deref());
            }
            Update::ToolStarted { agent, cycle, call, tool, arguments } => {
                if !UNSEEN.contains(&tool.as_str()) {
                    self.acts(*agent, Some(*cycle));
                }
                self.begin_call(at, *agent, call, tool, arguments);
            }
            Update::ToolDone { agent, cycle, call, tool, status, ms } => {
                if *status != OutcomeStatus::Ok {
                    self.acts(*agent, Some(*cycle));
                }
                self.end_call(at, *agent, call, tool, *status, *ms);
            }
            Update::ToolError { agent, cycle, call, tool, ms, .. } => {
                self.acts(*agent, Some(*cycle));
                self.end_call(at, *agent, call, tool, OutcomeStatus::Error, *ms);
            }
            Update::Thought { agent, cycle, step, reasoning, delta } => {
                self.acts(*agent, Some(*cycle));
                self.think(at, *agent, *step, *reasoning, delta);
            }
            // The call itself is told when it begins.
            Update::EventProgress { agent, event, progress: EventProgress::Dead, .. } => {
                self.gave_up(at, *agent, event)
            }
            Update::Commit { .. } | Update::EventProgress { .. } | Update::ToolInput { .. } => {}
            Update::CycleEnded { agent, cycle, ending, reason, spent } => {
                self.busy.remove(agent);
                self.resting.remove(agent);
                self.drafts.retain(|_, draft| draft.agent != *agent);
                // Who woke for nothing is told in one short row.
                let idle =
                    matches!(ending, Ending::Completed | Ending::Skipped) && self.cycles.ends(*agent, *cycle);
                let spent = spent.as_ref().filter(|_| !idle);
                self.ended(at, *agent, *ending, reason.as_deref(), spent);
            }
        }
    }

    fn gave_up(&mut self, at: Timestamp, agent: AgentId, event: &EventId) {
        let words = format!("gave up the event {} (`viv dead` lists such)", self.screen.clean_line(&event.0));
        self.remark(at, &self.names.of(agent.entity()), &words);
    }

    /// Takes the snapshot of a new connection.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        self.busy = snapshot
            .agents
            .iter()
            .filter(|now| now.state != AgentState::Sleeping)
            .map(|now| (now.agent, (now.cycle, now.state)))
            .collect();
        for now in &snapshot.idle {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.rests(Timestamp::now(), now.agent, rest, now.why.as_deref());
        }
        self.cycles.keep(|agent| self.busy.contains_key(&agent));
        self.drafts.clear();
        self.calls.clear();
        for draft in snapshot.drafts.iter().take(IN_FLIGHT) {
            let text = draft.text.clone();
            let open = LogDraft { agent: draft.agent, space: draft.space, text, torn: false };
            self.drafts.insert(draft.message, open);
        }
    }

    /// A moment passed: calls that take long are told.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        let long = |call: &Call| now.as_millisecond() - call.since.as_millisecond() > LONG_CALL_MS;
        let mut due: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| !call.told && long(call))
            .map(|(id, _)| id.clone())
            .collect();
        due.sort();
        for id in due {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.told = true;
            let since = call.since;
            let who = self.names.of(call.agent.entity());
            let text = called(&format!("{} ...", call.tool), Some(call));
            self.row(since, &who, &text, Style::Dim);
        }
    }

    /// A remark of ours, about the log itself.
    pub(crate) fn note(&mut self, at: Timestamp, text: &str) {
        let row = format!("{} ({text})", clock(at, &self.zone));
        self.rows.push(self.screen.paint(Style::Yellow, &row));
    }

    /// A row as it is.
    pub(crate) fn print(&mut self, row: String) {
        self.rows.push(row);
    }

    /// What happens just now, in one row of at most `width` columns.
    pub(crate) fn unfinished(&self, now: Timestamp, width: usize) -> Option<String> {
        if let Some((_, draft)) = self.drafts.first_key_value().filter(|_| !self.brief) {
            return Some(self.being_written(now, draft, width));
        }
        let working: Vec<String> = self
            .busy
            .iter()
            .map(|(agent, (_, state))| format!("{} is {}", self.names.of(agent.entity()), state.as_str()))
            .collect();
        let text = match working.len() {
            0 => return None,
            1..=3 => working.join(", "),
            n => format!("{} and {} more", working[..2].join(", "), n - 2),
        };
        Some(self.screen.paint(Style::Dim, &shortened(&format!("({text})"), width)))
    }

    /// A draft in one row. What is short of room loses first who else writes, then time and place: a row
    /// that reached the last column would leave a line behind with every piece.
    fn being_written(&self, now: Timestamp, draft: &LogDraft, width: usize) -> String {
        let who = self.names.of(draft.agent.entity());
        let place = format!("{who}{}{}: ", self.arrow(), self.names.of_space(draft.space));
        let others = self.drafts.len() - 1;
        let more = if others > 0 { format!(" (+{others} writing)") } else { String::new() };
        let time = clock(now, &self.zone);
        let ways = [(format!("{time} {place}"), more), (format!("{time} {place}"), String::new())];
        let ways = ways.into_iter().chain([(place, String::new()), (format!("{who}: "), String::new())]);
        let text = self.screen.clean_line(&draft.text);
        for (lead, more) in ways {
            let room = width.saturating_sub(columns(&lead) + columns(&more));
            if room >= TEXT_LEAST {
                return shortened(&format!("{lead}{}{more}", end_of(&text, room)), width);
            }
        }
        end_of(&text, width)
    }

    /// An agent does what is seen: before that its activation is told.
    fn acts(&mut self, agent: AgentId, cycle: Option<CycleId>) {
        let cycle = cycle.or_else(|| self.busy.get(&agent).map(|(cycle, _)| *cycle));
        self.resting.remove(&agent);
        if let Some(cycle) = cycle
            && let Some((since, state)) = self.cycles.acts(agent, cycle)
        {
            self.row(since, &self.names.of(agent.entity()), state.as_str(), Style::Dim);
        }
    }

    fn arrow(&self) -> &'static str {
        if self.screen.utf8 { " → " } else { " > " }
    }

    fn said(&mut self, at: Timestamp, who: &str, space: SpaceId, text: &str, of_agent: bool) {
        let place = self.names.of_space(space);
        let time = clock(at, &self.zone);
        let lead = format!("{time} {who}{}{place}: ", self.arrow());
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
            place
        );
        for row in rows {
            self.rows.push(match row.strip_prefix(&lead) {
                Some(rest) => format!("{painted}{rest}"),
                None => row,
            });
        }
    }

    fn draft(&mut self, space: SpaceId, message: MessageId, agent: AgentId, delta: &str, chars: u64) {
        if self.messages.contains(&message) || self.drafts.len() >= IN_FLIGHT {
            return;
        }
        let new = || LogDraft { agent, space, text: String::new(), torn: false };
        let draft = self.drafts.entry(message).or_insert_with(new);
        let after = draft.text.chars().count() + delta.chars().count();
        draft.torn |= after as u64 != chars;
        if !draft.torn {
            draft.text.push_str(delta);
        }
    }

    /// Told once, however often it tries.
    fn rests(&mut self, at: Timestamp, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        self.busy.remove(&agent);
        if self.resting.insert(agent) {
            let why = why.map(|why| self.screen.clean_line(why));
            let text = cannot_think(rest, why.as_deref(), &self.zone);
            self.row(at, &self.names.of(agent.entity()), &text, Style::Yellow);
        }
    }

    fn state(
        &mut self,
        at: Timestamp,
        agent: AgentId,
        state: AgentState,
        cycle: Option<CycleId>,
        reason: Option<&str>,
    ) {
        let who = self.names.of(agent.entity());
        let reason = reason.map(|reason| self.screen.clean_line(reason));
        if matches!(state, AgentState::Sleeping | AgentState::Retired) {
            self.busy.remove(&agent);
            if let Some(reason) = reason {
                self.row(at, &who, &format!("sleeps: {reason}"), Style::Yellow);
            }
            return;
        }
        let before = self.busy.get(&agent).copied();
        if let Some(cycle) = cycle.or(before.map(|(cycle, _)| cycle)) {
            self.busy.insert(agent, (cycle, state));
        }
        if let Some(reason) = reason {
            self.acts(agent, cycle);
            return self.row(at, &who, &reason, Style::Yellow);
        }
        let new = before.map(|(cycle, _)| Some(cycle)) != Some(cycle);
        if state == AgentState::Paused {
            self.acts(agent, cycle);
            self.row(at, &who, "waits for a person", Style::Yellow);
        } else if new && !self.brief {
            self.cycles.wakes(agent, at, state);
        }
    }

    fn begin_call(&mut self, at: Timestamp, agent: AgentId, call: &CallId, tool: &str, arguments: &str) {
        if self.brief || self.calls.len() >= IN_FLIGHT {
            return;
        }
        let (tool, arguments) = (self.screen.clean_line(tool), self.screen.clean_line(arguments));
        let told = SEEN_OTHERWISE.contains(&tool.as_str());
        self.calls.insert(call.clone(), Call { agent, tool, arguments, since: at, told });
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
        let begun = self.calls.remove(call);
        let tool = self.screen.clean_line(tool);
        let hidden = status == OutcomeStatus::Ok && (self.brief || SEEN_OTHERWISE.contains(&tool.as_str()));
        if hidden {
            return;
        }
        let (how, style) = match status {
            OutcomeStatus::Ok => ("ok", Style::Dim),
            OutcomeStatus::Error => ("failed", Style::Red),
            OutcomeStatus::Pending => ("answer comes later", Style::Yellow),
            OutcomeStatus::Unknown => ("unknown whether it happened", Style::Red),
            OutcomeStatus::Canceled => ("canceled", Style::Yellow),
        };
        let time = ms.map(|ms| format!(", {}", took(ms))).unwrap_or_default();
        // How it went stands before what may be cut off.
        let what = called(&format!("{tool}: {how}{time}"), begun.filter(|call| !call.told).as_ref());
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
            text.push_str(&format!(": {}", summed(spent)));
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

    fn remark(&mut self, at: Timestamp, who: &str, text: &str) {
        self.row(at, who, text, Style::Dim);
    }

    /// Something about somebody: one row where rows are to be that, else as many as it takes.
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

/// What a cycle took, in words; what is unknown is not said to be nothing.
pub(crate) fn summed(spent: &Spent) -> String {
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

/// A call in words, with the beginning of its arguments.
fn called(what: &str, call: Option<&Call>) -> String {
    match call.map(|call| call.arguments.trim()) {
        None | Some("" | "{}") => what.to_owned(),
        Some(arguments) => format!("{what} {}", shortened(arguments, ARGUMENTS)),
    }
}

/// The end of a text, in at most `most` columns.
fn end_of(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    let mut used = 3;
    for c in text.chars().rev() {
        used += crate::output::char_columns(c);
        if used > most {
            break;
        }
        kept.push(c);
    }
    format!("...{}", kept.iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests;
