//! The screen of `top`, as a function of the overview.

use api::Agent;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::cells::{COLUMNS, Column, layout};
use super::overview::{Detail, Mode, Overview, Request, is_working, name_of, state_of};
use crate::commands::chat::flow::flow;
use crate::commands::watch::moment::money;
use crate::output::{Screen, counted, shortened};

/// The keys, in rows that fit a narrow terminal.
const KEYS: [&str; 9] = [
    "Up/Down  choose",
    "Enter    open",
    "o        sort",
    "/        filter",
    "c        cancel",
    "s        suspend,",
    "         resume",
    "? or h   these keys",
    "q or Esc back, quit",
];

pub(crate) fn draw(frame: &mut Frame<'_>, overview: &mut Overview, screen: &Screen, now: Timestamp) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    overview.arrange();
    let title = overview.trouble.clone().unwrap_or_else(|| totals(overview));
    frame.render_widget(line(&title, bold(), screen, top.width), top);
    if overview.help {
        let rows: Vec<Line<'_>> = KEYS.iter().map(|row| Line::raw(*row)).collect();
        frame.render_widget(Paragraph::new(rows), middle);
    } else if overview.detail.is_some() {
        detail(frame, middle, overview, screen);
    } else {
        list(frame, middle, overview, screen, now);
    }
    let (text, style) = foot(overview);
    frame.render_widget(line(&text, style, screen, bottom.width), bottom);
}

fn line(text: &str, style: Style, screen: &Screen, width: u16) -> Line<'static> {
    Line::styled(shortened(&screen.clean_line(text), usize::from(width)), style)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Number, work and cost of all agents, and what of them is listed.
fn totals(overview: &Overview) -> String {
    let all = || overview.agents.iter();
    let agents = counted(overview.agents.len(), "agent");
    let at_work = all().filter(|agent| is_working(agent)).count();
    let waiting: u64 = all().map(|agent| u64::from(agent.waiting)).sum();
    // What was never reported is unknown, not zero.
    let cost = all().filter_map(|agent| agent.cost_micros).reduce(u64::saturating_add);
    let unpriced = if all().any(|agent| agent.unpriced > 0) { "+?" } else { "" };
    let mut parts = vec![agents, format!("{at_work} at work"), format!("{waiting} waiting")];
    parts.extend(cost.map(|cost| money(cost) + unpriced));
    parts.push(format!("by {}", name_of(overview.sort)));
    if !overview.filter.is_empty() {
        parts.push(format!("only `{}`", overview.filter));
    }
    parts.join(", ")
}

fn list(frame: &mut Frame<'_>, area: Rect, overview: &mut Overview, screen: &Screen, now: Timestamp) {
    let longest = overview.shown().map(|agent| agent.handle.len()).max().unwrap_or(0);
    let (fitting, name) = layout(usize::from(area.width), longest);
    let columns = &COLUMNS[..fitting];
    let width = |(i, column): (usize, &Column)| if i == 0 { name } else { column.width };
    let widths: Vec<usize> = columns.iter().enumerate().map(width).collect();
    let row = |agent| {
        let cells = columns.iter().zip(&widths).map(|(column, width)| {
            let text = screen.clean_line(&(column.text)(agent, now));
            cell(shortened(&text, *width), column)
        });
        Row::new(cells).style(style_of(agent, screen))
    };
    let rows: Vec<Row<'_>> = overview.shown().map(row).collect();
    let heads = columns.iter().map(|column| cell(column.head.to_owned(), column));
    let lengths = widths.iter().map(|width| u16::try_from(*width).unwrap_or(u16::MAX));
    let table = Table::new(rows, lengths)
        .header(Row::new(heads).style(dim()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    overview.table.select(overview.position());
    frame.render_stateful_widget(table, area, &mut overview.table);
    if let (Some(none), None) = (overview.none(), &overview.trouble) {
        let below = Rect { y: area.y + 1, height: 1, ..area }.intersection(area);
        frame.render_widget(Paragraph::new(none).style(dim()), below);
    }
}

fn cell(text: String, column: &Column) -> Cell<'static> {
    let text = Text::from(text);
    Cell::from(if column.is_right { text.right_aligned() } else { text })
}

fn style_of(agent: &Agent, screen: &Screen) -> Style {
    let (style, colour) = match state_of(agent) {
        _ if is_working(agent) => (bold(), Color::Green),
        "paused" | "suspended" => (Style::new(), Color::Yellow),
        "provider" | "backoff" | "store" | "broke" => (Style::new(), Color::Red),
        _ => return Style::new(),
    };
    if screen.colour { style.fg(colour) } else { style }
}

/// One line about the opened agent, and its latest activity as `watch` shows it.
fn detail(frame: &mut Frame<'_>, area: Rect, overview: &mut Overview, screen: &Screen) {
    let facts = overview.chosen().map(facts).unwrap_or_default();
    let Some(Detail { rows: past, up, .. }) = &mut overview.detail else { return };
    let folded = |row: &str| flow(row, 0, usize::from(area.width));
    let rows: Vec<Line<'_>> = folded(&screen.clean_line(&facts))
        .into_iter()
        .map(|row| Line::styled(row, dim()))
        .chain(past.iter().flat_map(|row| folded(row)).map(Line::raw))
        .collect();
    // Shows the end; keys scroll up from there.
    let max = u16::try_from(rows.len()).unwrap_or(u16::MAX).saturating_sub(area.height);
    *up = (*up).min(max);
    frame.render_widget(Paragraph::new(rows).scroll((max - *up, 0)), area);
}

fn facts(agent: &Agent) -> String {
    let why = agent.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let model = agent.model.as_deref().unwrap_or("no model");
    let Agent { handle: name, display_name, waiting, held, cycles, .. } = agent;
    let state = state_of(agent);
    format!(
        "{display_name} ({name}), {model}: {state}{why}, {waiting} waiting, {held} held, cycles: {cycles}"
    )
}

/// The last row: a question, a message, or the keys.
fn foot(overview: &Overview) -> (String, Style) {
    let name = overview.chosen().map_or("", |agent| agent.handle.as_str());
    let text = match (&overview.mode, &overview.message) {
        (Mode::Confirm(Request::Cancel(..)), _) => {
            format!("cancel the cycle of {name}? what it committed is kept (y/n)")
        }
        (Mode::Confirm(_), _) => format!("suspend {name}? events keep waiting until it is resumed (y/n)"),
        (Mode::Filter, _) => format!("filter: {}_", overview.filter),
        (Mode::Browse, Some(message)) => message.clone(),
        (Mode::Browse, None) if overview.detail.is_some() => {
            return ("Esc back  ? keys  c cancel  s suspend  Up/Down scroll".to_owned(), dim());
        }
        (Mode::Browse, None) => {
            return ("q quit  ? keys  Enter open  c cancel  s suspend  / filter  o sort".to_owned(), dim());
        }
    };
    (text, bold())
}

#[cfg(test)]
mod tests;
