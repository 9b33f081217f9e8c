//! The columns of the table, and which of them fit. Must not know the terminal.

use api::Agent;
use jiff::Timestamp;

use super::overview::{state_of, tokens_of};
use crate::commands::watch::moment::money;
use crate::output::{ago, short_count};

pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// Its width; that of the first column is the least.
    pub(crate) width: usize,
    pub(crate) is_right: bool,
    /// The text of a cell, which may have foreign characters.
    pub(crate) text: fn(&Agent, Timestamp) -> String,
}

/// All columns, from left to right; the most important come first.
pub(crate) const COLUMNS: [Column; 7] = [
    Column { head: "NAME", width: 12, is_right: false, text: |agent, _| agent.handle.clone() },
    Column { head: "STATE", width: 10, is_right: false, text: |agent, _| state_of(agent).to_owned() },
    Column { head: "WAIT", width: 4, is_right: true, text: |agent, _| agent.waiting.to_string() },
    Column { head: "COST", width: 10, is_right: true, text: |agent, _| cost(agent) },
    Column { head: "TOKENS", width: 6, is_right: true, text: |agent, _| tokens(agent) },
    Column { head: "LAST", width: 20, is_right: false, text: last },
    Column {
        head: "MODEL",
        width: 18,
        is_right: false,
        text: |agent, _| agent.model.clone().unwrap_or_default(),
    },
];

const NAME_MIN: usize = 6;
const NAME_MAX: usize = 32;

/// How many columns fit, and the width of the names, of which the longest has `longest` columns.
pub(crate) fn layout(width: usize, longest: usize) -> (usize, usize) {
    // In a very narrow terminal a part of the names must do: a state says more than their ends.
    let name = COLUMNS[0].width.min(width.saturating_sub(COLUMNS[1].width + 1)).max(NAME_MIN);
    let least =
        |count: usize| name + 1 + COLUMNS[1..count].iter().map(|column| column.width + 1).sum::<usize>();
    let fitting = (1..=COLUMNS.len()).rev().find(|count| least(*count) <= width + 1).unwrap_or(1);
    let left = (width + 1).saturating_sub(least(fitting));
    (fitting, (name + left).min(longest.clamp(name, NAME_MAX)))
}

/// What is shown where no model reported anything: unknown is not zero.
const UNREPORTED: &str = "-";

pub(crate) fn tokens(agent: &Agent) -> String {
    tokens_of(agent).map_or_else(|| UNREPORTED.to_owned(), short_count)
}

/// The cost; `+?` marks that the price of some runs is unknown.
fn cost(agent: &Agent) -> String {
    match (agent.cost_micros, agent.unpriced) {
        (None, _) => UNREPORTED.to_owned(),
        (Some(cost), 0) => money(cost),
        (Some(cost), _) => format!("{}+?", money(cost)),
    }
}

fn last(agent: &Agent, now: Timestamp) -> String {
    let text =
        agent.last_run.as_ref().map(|last| format!("{} {}", last.ending.as_str(), ago(last.ended_at, now)));
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_columns_are_dropped_if_space_is_short() {
        let last = |width| COLUMNS[layout(width, 12).0 - 1].head;
        assert_eq!([120, 80, 40, 30, 20, 1].map(last), ["MODEL", "LAST", "COST", "WAIT", "STATE", "NAME"]);
        assert_eq!([layout(200, 50).1, layout(200, 20).1, layout(80, 50).1], [32, 20, 25]);
        // The longest value fits its column.
        assert_eq!(COLUMNS[5].width, "exhausted 59 min ago".len());
    }
}
