//! The screen of `top`, as a pure function of the overview. Columns are dropped if space is short.

use agent::life::Standing;
use agent::run::Ending;
use api::Agent;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, TableState};

use super::cells::{CellContext, Column, layout};
use super::detail;
use super::overview::{Link, Mode, Overview, Request, is_working, name_of, state_of, tokens_of};
use crate::args::SortArg;
use crate::commands::watch::moment::money;
use crate::output::{Screen, columns, short_count, shortened};

/// Columns before the first cell: the mark of the agent's state.
const MARK: u16 = 2;

/// The keys and what they do, in at most 40 columns.
const HELP: [(&str, &str); 12] = [
    ("Up Down", "choose an agent"),
    ("PgUp PgDn", "move by a page"),
    ("Enter", "show its latest activity"),
    ("o", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter; Esc clears it"),
    ("c", "cancel its cycle (asks)"),
    ("s", "suspend it (asks), resume it"),
    ("Ctrl-L", "redraw the screen"),
    ("Ctrl-Z", "stop; `fg` continues"),
    ("?", "this help"),
    ("q", "quit"),
];

/// Draws the screen.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    overview: &mut Overview,
    screen: &Screen,
    now: Timestamp,
    blink: bool,
) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    // The heading of the list takes one row of the middle.
    overview.prepare(usize::from(middle.height.saturating_sub(1)));
    frame.render_widget(Paragraph::new(title(overview, screen, top.width)), top);
    if overview.detail.of.is_some() {
        detail::draw(frame, middle, overview, screen, now);
    } else {
        list(frame, middle, overview, &CellContext { screen, pulses: &overview.pulses, now }, blink);
    }
    if overview.mode == Mode::Help {
        help(frame, middle);
    }
    frame.render_widget(Paragraph::new(foot(overview, screen, bottom.width)), bottom);
}

/// The style of less important text.
pub(super) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// The style with a colour, if colours may be used.
pub(super) fn coloured(screen: &Screen, colour: Color) -> Style {
    if screen.colour { Style::new().fg(colour) } else { Style::new() }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The parts that fit, separated; one that does not fit is omitted completely.
fn fitting(parts: &[String], separator: &str, width: u16) -> String {
    let mut text = String::new();
    for part in parts {
        let next = if text.is_empty() { part.clone() } else { format!("{text}{separator}{part}") };
        if columns(&next) > usize::from(width) {
            break;
        }
        text = next;
    }
    text
}

/// Totals of all agents: number, working, waiting, tokens, cost.
fn title(overview: &Overview, screen: &Screen, width: u16) -> Line<'static> {
    match &overview.link {
        Link::Down(why) => {
            let text = format!("not connected; reconnecting ({})", screen.clean_line(why));
            let style = coloured(screen, Color::Red).add_modifier(Modifier::BOLD);
            return Line::styled(shortened(&text, usize::from(width)), style);
        }
        Link::Loading => return Line::styled("loading ...", dim()),
        Link::Live => {}
    }
    let all = || overview.agents.iter().filter(|agent| agent.standing != Standing::Retired);
    // What was never reported is unknown, not zero.
    let sum = |of: fn(&Agent) -> Option<u64>| all().filter_map(of).reduce(u64::saturating_add);
    let agents = match all().count() {
        1 => "1 agent".to_owned(),
        n => format!("{n} agents"),
    };
    let waiting: u64 = all().map(|agent| u64::from(agent.waiting)).sum();
    let at_work = all().filter(|agent| is_working(agent)).count();
    let tokens = sum(tokens_of).map_or_else(|| "?".to_owned(), short_count);
    let unpriced = if all().any(|agent| agent.unpriced > 0) { "+?" } else { "" };
    let mut parts =
        vec![agents, format!("{at_work} at work"), format!("{waiting} waiting"), format!("{tokens} tokens")];
    parts.extend(sum(|agent| agent.cost_micros).map(|cost| money(cost) + unpriced));
    let reversed = if overview.reverse { ", reversed" } else { "" };
    parts.push(format!("by {}{reversed}", name_of(overview.sort)));
    if !overview.filter.is_empty() {
        parts.push(format!("only `{}`", screen.clean_line(&overview.filter)));
    }
    Line::styled(fitting(&parts, ", ", width), bold())
}

fn list(frame: &mut Frame<'_>, area: Rect, overview: &Overview, context: &CellContext<'_>, blink: bool) {
    let longest = overview.shown().map(|agent| agent.name.len()).max().unwrap_or(0);
    let shape = layout(usize::from(area.width.saturating_sub(MARK)), longest);
    let widths = shape.iter().map(|(_, width)| u16::try_from(*width).unwrap_or(u16::MAX));
    let rows = overview.shown().skip(overview.first).take(overview.page);
    let table = Table::new(
        rows.map(|agent| row(context, &shape, agent, blink)),
        std::iter::once(MARK - 1).chain(widths),
    );
    let heads = shape.iter().map(|(column, _)| head(*column, overview.sort));
    let table = table
        .header(Row::new(std::iter::once(Cell::default()).chain(heads)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let chosen = overview.position().map(|at| at - overview.first);
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(chosen));
    if overview.shown().len() == 0 && overview.link != Link::Loading {
        let text =
            if overview.filter.is_empty() { "there is no agent" } else { "no agent matches the filter" };
        let below = Rect { y: area.y + 1, height: 1, ..area }.intersection(area);
        frame.render_widget(Paragraph::new(text).style(dim()), below);
    }
}

fn cell(text: String, style: Style, right: bool) -> Cell<'static> {
    let text = Text::from(Span::styled(text, style));
    Cell::from(if right { text.right_aligned() } else { text })
}

fn head(column: Column, sort: SortArg) -> Cell<'static> {
    let sorted = name_of(sort).to_uppercase().starts_with(column.head());
    let style = if sorted { bold().add_modifier(Modifier::UNDERLINED) } else { dim() };
    cell(column.head().to_owned(), style, column.is_right())
}

fn row(context: &CellContext<'_>, shape: &[(Column, usize)], agent: &Agent, blink: bool) -> Row<'static> {
    let screen = context.screen;
    let state = match state_of(agent) {
        _ if is_working(agent) => coloured(screen, Color::Green).add_modifier(Modifier::BOLD),
        "paused" | "suspended" => coloured(screen, Color::Yellow),
        "provider" | "backoff" | "store" | "broke" => coloured(screen, Color::Red),
        "sleeping" if agent.waiting > 0 => Style::new(),
        _ => dim(),
    };
    let ended = agent.last.as_ref().map(|last| last.ending);
    let cells = shape.iter().map(|(column, width)| {
        let style = match column {
            Column::Name if is_working(agent) => bold(),
            Column::Name => Style::new(),
            Column::State => state,
            Column::Pulse => coloured(screen, Color::Green),
            Column::Waiting if agent.waiting > 0 => {
                coloured(screen, Color::Yellow).add_modifier(Modifier::BOLD)
            }
            Column::Last if matches!(ended, Some(Ending::Failed | Ending::Exhausted)) => {
                coloured(screen, Color::Red)
            }
            _ => dim(),
        };
        cell(shortened(&context.cell(*column, agent), *width), style, column.is_right())
    });
    let mark = cell(context.mark(agent, blink).to_owned(), state, false);
    Row::new(std::iter::once(mark).chain(cells))
}

/// The last row: a question, a message, or the keys.
fn foot(overview: &Overview, screen: &Screen, width: u16) -> Line<'static> {
    let keys: &[&str] = match (&overview.mode, &overview.message) {
        (Mode::Confirm(ask), _) => return asked(&question(overview, ask), screen, width),
        (Mode::Filter, _) => return asked(&format!("filter: {}_", overview.filter), screen, width),
        (_, Some(message)) => return asked(message, screen, width),
        (Mode::Detail, None) => &["Esc back", "c cancel", "s suspend", "Up/Down scroll", "? help"],
        (Mode::Help, None) => &["any key goes back"],
        (Mode::List, None) => {
            &["q quit", "? help", "Enter open", "c cancel", "s suspend", "/ filter", "o order"]
        }
    };
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    Line::styled(fitting(&keys, "  ", width), dim())
}

fn asked(text: &str, screen: &Screen, width: u16) -> Line<'static> {
    let style = coloured(screen, Color::Yellow).add_modifier(Modifier::BOLD);
    Line::styled(shortened(&screen.clean_line(text), usize::from(width)), style)
}

fn question(overview: &Overview, ask: &Request) -> String {
    let name = overview.chosen().map_or("", |agent| agent.name.as_str());
    match ask {
        Request::Cancel(..) => format!("cancel the cycle of {name}? what it committed is kept (y/n)"),
        Request::Suspend(_) => format!("suspend {name}? events keep waiting until it is resumed (y/n)"),
        Request::Resume(_) | Request::Open(_) => String::new(),
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let widest = HELP.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let line = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:widest$}  "), bold()), Span::raw(*what)])
    };
    let lines: Vec<Line<'static>> = HELP.iter().map(line).collect();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height);
    let help_area = Rect { height, ..area };
    frame.render_widget(Clear, help_area);
    frame.render_widget(Paragraph::new(lines), help_area);
}

#[cfg(test)]
mod tests;
