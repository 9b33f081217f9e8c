//! The content of each column, and which columns fit. Must not know the terminal.

use api::Agent;
use jiff::Timestamp;

use super::overview::{is_working, state_of, tokens_of};
use super::pulse::{BEATS, Pulses};
use crate::commands::watch::moment::money;
use crate::output::{Screen, short_count};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Name,
    State,
    Pulse,
    Waiting,
    Tokens,
    Cost,
    Last,
    Plan,
    Cycles,
    Model,
}

use Column::{Cost, Cycles, Last, Model, Name, Plan, Pulse, State, Tokens, Waiting};

/// All columns, from left to right.
pub(crate) const ALL: [Column; 10] = [Name, State, Pulse, Waiting, Tokens, Cost, Last, Plan, Cycles, Model];
/// The order in which columns are dropped if space is short; the others are always shown.
const DROP_ORDER: [Column; 7] = [Model, Cycles, Plan, Last, Tokens, Cost, Pulse];
/// Maximum width of a handle.
const NAME_MAX: usize = 32;

impl Column {
    /// The heading, the width, and whether it is aligned to the right, as numbers are.
    const fn shape(self) -> (&'static str, usize, bool) {
        match self {
            Name => ("NAME", 11, false),
            State => ("STATE", 10, false),
            Pulse => ("PULSE", BEATS, false),
            Waiting => ("WAIT", 4, true),
            Tokens => ("TOKENS", 6, true),
            Cost => ("COST", 10, true),
            Last => ("LAST", 13, false),
            Plan => ("PLAN", 6, false),
            Cycles => ("CYCLES", 6, true),
            Model => ("MODEL", 18, false),
        }
    }

    /// The heading.
    pub(crate) const fn head(self) -> &'static str {
        self.shape().0
    }

    /// Whether it is aligned to the right.
    pub(crate) const fn is_right(self) -> bool {
        self.shape().2
    }
}

/// The columns that fit, with their widths. Remaining space goes to the names, up to `longest`.
pub(crate) fn layout(width: usize, longest: usize) -> Vec<(Column, usize)> {
    let mut columns: Vec<(Column, usize)> = ALL.map(|column| (column, column.shape().1)).to_vec();
    let needed = |columns: &[(Column, usize)]| columns.iter().map(|(_, width)| width + 1).sum::<usize>() - 1;
    for dropped in DROP_ORDER {
        if needed(&columns) > width {
            columns.retain(|(column, _)| *column != dropped);
        }
    }
    let left = width.saturating_sub(needed(&columns));
    let name = &mut columns[0].1;
    *name = (*name + left).min(longest.clamp(*name, NAME_MAX));
    columns
}

/// What a row needs in addition to its agent.
#[derive(Clone, Copy)]
pub(crate) struct CellContext<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) pulses: &'a Pulses,
    pub(crate) now: Timestamp,
}

impl CellContext<'_> {
    /// The text of a cell.
    pub(crate) fn cell(&self, column: Column, agent: &Agent) -> String {
        match column {
            Name => self.screen.clean_line(&agent.name),
            State => self.screen.clean_line(state_of(agent)),
            Pulse => self.pulses.of(agent.id, self.screen.utf8),
            Waiting => agent.waiting.to_string(),
            Tokens => tokens_of(agent).map_or_else(|| unknown(agent), short_count),
            Cost => cost_of(agent),
            Last => agent.last.as_ref().map_or_else(String::new, |last| {
                format!("{} {}", last.ending.as_str(), since(last.ended_at, self.now))
            }),
            Plan => agent.next_plan.map(|at| until(at, self.now)).unwrap_or_default(),
            Cycles => short_count(agent.cycles),
            Model => agent.model.as_deref().map(|model| self.screen.clean_line(model)).unwrap_or_default(),
        }
    }

    /// The mark in front of a row; that of a working agent blinks.
    pub(crate) fn mark(&self, agent: &Agent, blink: bool) -> &'static str {
        let (utf8, ascii) = match state_of(agent) {
            _ if is_working(agent) && blink => ("●", "*"),
            _ if is_working(agent) => ("○", "o"),
            "suspended" => ("-", "-"),
            "paused" => ("◐", "="),
            "retired" => ("×", "x"),
            "sleeping" if agent.waiting > 0 => ("◌", "+"),
            "sleeping" => ("·", "."),
            _ => ("!", "!"),
        };
        self.screen.pick(utf8, ascii)
    }
}

/// Unknown is not zero; an agent without cycles has nothing to report.
fn unknown(agent: &Agent) -> String {
    if agent.cycles == 0 && agent.skips == 0 { "-".to_owned() } else { "?".to_owned() }
}

/// The cost; `+?` marks that the price of some runs is unknown.
pub(crate) fn cost_of(agent: &Agent) -> String {
    match (agent.cost_micros, agent.unpriced) {
        (None, _) => unknown(agent),
        (Some(cost), 0) => money(cost),
        (Some(cost), _) => format!("{}+?", money(cost)),
    }
}

/// How long ago, short.
pub(crate) fn since(at: Timestamp, now: Timestamp) -> String {
    span(now.as_second() - at.as_second())
}

/// How long until then, short.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> String {
    let left = at.as_second() - now.as_second();
    if left <= 0 { "now".to_owned() } else { format!("in {}", span(left)) }
}

fn span(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..=59 => format!("{s}s"),
        s @ 60..=3_599 => format!("{}m", s / 60),
        s @ 3_600..=86_399 => format!("{}h", s / 3_600),
        s @ 86_400..=8_639_999 => format!("{}d", s / 86_400),
        s => format!("{}w", s / 604_800),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(width: usize) -> Vec<&'static str> {
        layout(width, 12).into_iter().map(|(column, _)| column.head()).collect()
    }

    #[test]
    fn columns_are_dropped_in_the_stated_order() {
        assert_eq!(names(120).len(), 10);
        assert_eq!(names(78), ["NAME", "STATE", "PULSE", "WAIT", "TOKENS", "COST", "LAST", "PLAN"]);
        assert_eq!(names(74), ["NAME", "STATE", "PULSE", "WAIT", "TOKENS", "COST", "LAST"]);
        assert_eq!(names(38), ["NAME", "STATE", "PULSE", "WAIT"]);
        assert_eq!(names(30), ["NAME", "STATE", "WAIT"]);
        assert_eq!(names(1), ["NAME", "STATE", "WAIT"]);
        assert_eq!(layout(200, 50)[0], (Name, 32));
    }

    #[test]
    fn spans_are_short() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!([since(at(0), at(59)), since(at(0), at(7_300)), since(at(9), at(0))], ["59s", "2h", "0s"]);
        assert_eq!([until(at(0), at(1)), until(at(300), at(0))], ["now", "in 5m"]);
        // The longest values fit their columns.
        assert_eq!([until(at(99 * 86_400), at(0)), until(at(100 * 86_400), at(0))], ["in 99d", "in 14w"]);
        assert_eq!(Last.shape().1, "exhausted 59m".len());
    }
}
