//! Renders a live log or a conversation: takes updates, returns finished rows and those that still change. Pure; must
//! not know the terminal or the server, so every order of updates can be tested.

use std::collections::{BTreeMap, HashMap, VecDeque};

use agent::call::OutcomeStatus;
use agent::event::EventProgress;
use agent::id::{AgentId, CallId, CycleId, SpaceId};
use agent::life::{IdleReason, IdleUntil};
use agent::run::{Ending, Spent};
use agent::update::{AgentState, Update};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

use super::moment::{clock, money};
use super::names::Names;
use crate::commands::chat::cards::Cards;
use crate::commands::chat::flow::flow;
use crate::output::{Screen, Style, char_columns, columns, counted, short_count, shortened, span};
use crate::written_by;
use client::{AgentWork, Feed, FeedDraft, Snapshot};

/// Maximum number of items that are remembered, so that they are not shown twice.
const REMEMBERED: usize = 1_024;
/// Maximum number of open calls that are remembered.
const IN_FLIGHT: usize = 4_096;
/// Maximum number of bytes of a thought that are kept until it is shown.
const THOUGHT_BYTES: usize = 64 * 1024;
/// Columns of a call's arguments.
const ARGUMENTS: usize = 60;
/// If fewer columns are left for a text, what stands before it is shortened.
const TEXT_MIN: usize = 8;
/// Tools that are not shown: their effect is visible as a message or as the end of the cycle.
const HIDDEN_TOOLS: [&str; 3] = ["send_message", "done", "skip"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStyle {
    /// Everything that agents do, with times and spaces.
    Full,
    /// One line per item: no tools, no intermediate states.
    Brief,
    /// A conversation in one space: messages, and in parentheses what else a person has to know.
    Chat,
}

struct ThoughtLine {
    step: u32,
    reasoning: bool,
    text: String,
}

struct Written {
    cycle: CycleId,
    /// It posted something here, or may have done so unseen.
    posted: bool,
    text: bool,
}

pub(crate) struct Log {
    screen: Screen,
    zone: TimeZone,
    style: LogStyle,
    pub(crate) names: Names,
    /// The cards that were shown.
    pub(crate) cards: Cards,
    feed: Feed,
    calls: HashMap<CallId, String>,
    thoughts: HashMap<AgentId, ThoughtLine>,
    written: HashMap<AgentId, Written>,
    /// The last messages, with their revisions, because the message of a tool changes, and the last ended cycles.
    shown: VecDeque<(Uuid, u64)>,
    rows: Vec<String>,
}

impl Log {
    pub(crate) fn new(screen: Screen, zone: TimeZone, style: LogStyle) -> Self {
        Self {
            screen,
            zone,
            style,
            names: Names::new(style == LogStyle::Chat),
            cards: Cards::default(),
            feed: Feed::default(),
            calls: HashMap::new(),
            thoughts: HashMap::new(),
            written: HashMap::new(),
            shown: VecDeque::new(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn resize(&mut self, width: usize) {
        self.screen.width = self.screen.width.map(|_| width);
    }

    /// Rows that were finished since the last call.
    pub(crate) fn take_rows(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rows)
    }

    pub(crate) fn working(&self) -> &BTreeMap<AgentId, AgentWork> {
        self.feed.working()
    }

    pub(crate) fn lost(&mut self) {
        self.feed.lost();
        self.missed();
    }

    /// Handles that updates are missing: an open cycle may have posted something.
    pub(crate) fn missed(&mut self) {
        self.written.values_mut().for_each(|written| written.posted = true);
    }

    /// The cycle whose end this is, if the conversation has no message of it although it was seen from its beginning.
    pub(crate) fn ends_silently(&self, update: &Update) -> Option<CycleId> {
        let Update::CycleEnded { agent, cycle, ending: Ending::Completed, .. } = update else { return None };
        let written = self.written.get(agent).filter(|written| written.cycle == *cycle && !written.posted);
        written.filter(|_| self.style == LogStyle::Chat).map(|written| written.cycle)
    }

    pub(crate) fn wrote(&mut self, cycle: CycleId) {
        let of_cycle = |written: &&mut Written| written.cycle == cycle;
        self.written.values_mut().filter(of_cycle).for_each(|written| written.text = true);
    }

    /// Whether it was shown before; marks it as shown.
    pub(crate) fn shown_before(&mut self, update: &Update) -> bool {
        let item = match update {
            Update::Message { message } => (message.id.0, message.rev),
            Update::CycleEnded { cycle, .. } => (cycle.0, 0),
            // The id of a call is a hash.
            Update::ToolDone { cycle, call, .. } | Update::ToolError { cycle, call, .. } => {
                let hash = call.0.get(1..17).and_then(|hash| u64::from_str_radix(hash, 16).ok());
                let Some(hash) = hash else { return false };
                (cycle.0, hash | 1)
            }
            _ => return false,
        };
        if self.shown.contains(&item) {
            return true;
        }
        self.shown.push_back(item);
        if self.shown.len() > REMEMBERED {
            self.shown.pop_front();
        }
        false
    }

    pub(crate) fn update(&mut self, at: Timestamp, update: &Update) {
        if !matches!(update, Update::Thought { .. }) {
            self.end_thought(at, update.agent());
        }
        let change = self.feed.update(update);
        match update {
            Update::Message { message } => {
                self.cards.message(message);
                let of_cycle = |written: &&mut Written| Some(written.cycle) == message.cycle;
                self.written.values_mut().filter(of_cycle).for_each(|written| written.posted = true);
                let style = if message.cycle.is_some() { Style::Cyan } else { Style::Bold };
                let text = written_by::shown(&self.screen, message.kind, &message.text);
                self.entry(at, (message.sender.0, style), Some(message.space), &text, None);
            }
            Update::Member { space, entity, joined, .. } => {
                let how = if *joined { "joined" } else { "left" };
                let text = format!("{how} {}", self.names.of(space.0));
                self.entry(at, (entity.0, Style::Cyan), None, &text, Some(Style::Dim));
            }
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
            Update::State { agent, state, reason, cycle, .. } => {
                // A cycle that waited goes on as the same.
                if let Some(cycle) = cycle.filter(|_| change.new_cycle)
                    && self.written.get(agent).is_none_or(|written| written.cycle != cycle)
                {
                    self.written.insert(*agent, Written { cycle, posted: false, text: false });
                }
                self.state(at, *agent, *state, reason.as_deref());
            }
            Update::ToolStarted { call, arguments, .. } => {
                if self.calls.len() < IN_FLIGHT {
                    self.calls.insert(call.clone(), self.screen.clean_line(arguments));
                }
            }
            Update::ToolDone { agent, call, tool, status, ms, .. } => {
                self.end_call(at, *agent, call, tool, *status, *ms);
            }
            Update::ToolError { agent, call, tool, ms, .. } => {
                self.end_call(at, *agent, call, tool, OutcomeStatus::Error, *ms);
            }
            Update::Thought { agent, step, reasoning, delta, .. } => {
                self.think(at, *agent, *step, *reasoning, delta);
            }
            Update::EventProgress { agent, event, progress: EventProgress::Dead, reason, .. } => {
                let why = reason.as_deref().unwrap_or("no reason is known");
                // The id is last: a brief row may be cut off there.
                let text = format!("has a dead event, see `viv ps`: {why} (event {})", event.0);
                self.row(at, *agent, &text, Style::Dim);
            }
            Update::Compaction { agent, compaction, .. } => {
                self.row(at, *agent, &compaction.line(), Style::Dim);
            }
            Update::Alert { agent, text, .. } => self.row(at, *agent, text, Style::Yellow),
            Update::Commit { .. }
            | Update::Draft { .. }
            | Update::EventProgress { .. }
            | Update::ToolInput { .. } => {}
            Update::CycleEnded { agent, ending, reason, spent, .. } => {
                let silent = self.ends_silently(update).is_some();
                match self.written.remove(agent).filter(|_| silent) {
                    Some(written) => self.posted_nothing(*agent, written.text),
                    None => self.ended(at, *agent, *ending, reason.as_deref(), spent.as_ref()),
                }
            }
        }
    }

    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        let new = self.feed.snapshot(snapshot);
        for now in snapshot.idle.iter().filter(|now| new.contains(&now.agent)) {
            let rest = IdleUntil { reason: now.reason, until: now.until };
            self.back_off(Timestamp::now(), now.agent, rest, now.why.as_deref());
        }
        self.calls.clear();
        for now in &snapshot.agents {
            self.written.insert(now.agent, Written { cycle: now.cycle, posted: true, text: false });
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
        let draft = |draft| self.draft(now, draft, room / shown.max(1));
        let mut rows: Vec<String> = drafts.values().take(shown).flat_map(draft).collect();
        if rows.len() < max {
            rows.extend(self.status());
        }
        rows
    }

    /// A draft in at most `max` rows: its newest words.
    fn draft(&self, now: Timestamp, draft: &FeedDraft, max: usize) -> Vec<String> {
        let width = self.width();
        let [time, name, place] = self.lead(now, &self.names.of(draft.agent.0), Some(draft.space));
        let taken = columns(&time) + columns(&name) + columns(&place);
        let mut rows = flow(&written_by::by_member(&self.screen.clean(&draft.text)), taken, width);
        let mut rows = rows.split_off(rows.len().saturating_sub(max));
        let first = tail_of(rows[0].trim_start(), width.saturating_sub(taken));
        rows[0] =
            self.screen.paint(Style::Dim, &time) + &self.screen.paint(Style::Cyan, &name) + &place + &first;
        rows
    }

    fn status(&self) -> Option<String> {
        let working: Vec<String> = self
            .feed
            .working()
            .iter()
            .map(|(agent, work)| {
                let name = self.names.of(agent.0);
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
    /// text, it is only the name, as far as it fits.
    fn lead(&self, at: Timestamp, who: &str, space: Option<SpaceId>) -> [String; 3] {
        let width = self.width();
        let end = if space.is_some() { ": " } else { " " };
        // A conversation is in one space.
        if self.style != LogStyle::Chat {
            let arrow = self.screen.pick(" → ", " > ");
            let place = space.map_or_else(String::new, |space| format!("{arrow}{}", self.names.of(space.0)));
            let whole = [format!("{} ", clock(at, &self.zone)), who.to_owned(), place + end];
            if columns(&whole.concat()) + TEXT_MIN <= width {
                return whole;
            }
        }
        let room = width.saturating_sub(TEXT_MIN + end.len());
        [String::new(), shortened(who, room), end.to_owned()]
    }

    fn back_off(&mut self, at: Timestamp, agent: AgentId, rest: IdleUntil, why: Option<&str>) {
        // Only operators learn the exact reason.
        let why = why.unwrap_or(rest.reason.description());
        let until = clock(rest.until, &self.zone);
        let text = match rest.reason {
            IdleReason::Person => format!("waits for a person's answer, at most until {until}"),
            IdleReason::Debounce => format!("gathers what arrives until {until}"),
            _ => format!("is backing off: {why}; retries at {until}"),
        };
        self.row(at, agent, &text, Style::Yellow);
    }

    fn state(&mut self, at: Timestamp, agent: AgentId, state: AgentState, reason: Option<&str>) {
        let text = match (state, reason) {
            (AgentState::Sleeping | AgentState::Retired, Some(reason)) => format!("sleeps: {reason}"),
            (AgentState::Paused, _) => "waits for a person".to_owned(),
            (_, Some(reason)) => reason.to_owned(),
            (_, None) => return,
        };
        self.row(at, agent, &text, Style::Yellow);
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
        let arguments = self.calls.remove(call);
        let (how, style) = match status {
            OutcomeStatus::Ok if self.style == LogStyle::Brief || HIDDEN_TOOLS.contains(&tool) => return,
            OutcomeStatus::Ok => ("ok", Style::Dim),
            OutcomeStatus::Error => ("failed", Style::Red),
            OutcomeStatus::Pending => ("result comes later", Style::Yellow),
            OutcomeStatus::Unknown => ("unknown whether it happened", Style::Red),
            OutcomeStatus::Canceled => ("canceled", Style::Yellow),
        };
        let time = ms.map(|ms| format!(", {}", span(ms))).unwrap_or_default();
        let mut what = format!("{tool}: {how}{time}");
        // The status comes before the arguments, which may be cut off.
        if let Some(arguments) = arguments.filter(|arguments| !["", "{}"].contains(&arguments.trim())) {
            what.push_str(&format!(" {}", shortened(arguments.trim(), ARGUMENTS)));
        }
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
        if let Some(spent) = spent.filter(|_| self.style != LogStyle::Chat && ending != Ending::Skipped) {
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

    /// Adds that an agent's cycle ended without a message in this conversation, so that nobody waits for one.
    fn posted_nothing(&mut self, agent: AgentId, text: bool) {
        let name = self.names.of(agent.0);
        self.remark(&match text {
            true => {
                let handle = self.names.handle(agent.0);
                format!("({name} wrote text that was not sent: `viv runs show {handle}`)")
            }
            false => format!("({name} ended without a message)"),
        });
    }

    fn row(&mut self, at: Timestamp, agent: AgentId, text: &str, style: Style) {
        match self.style {
            LogStyle::Chat => self.remark(&format!("({} {text})", self.names.of(agent.0))),
            _ => self.entry(at, (agent.0, Style::Cyan), None, text, Some(style)),
        }
    }

    /// Adds text by or about somebody: one row if the log is brief, else as many as needed.
    fn entry(
        &mut self,
        at: Timestamp,
        (who, name_style): (Uuid, Style),
        space: Option<SpaceId>,
        text: &str,
        style: Option<Style>,
    ) {
        let width = self.width();
        let lead = self.lead(at, &self.names.of(who), space);
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
    let mut parts = vec![counted(spent.steps, "step"), span(spent.ms)];
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
