//! The screen of `top`, as a pure function of the overview. Columns are dropped if space is short.

use agent::life::Standing;
use api::Agent;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::cells::{CellContext, Column, fitted, layout};
use super::detail;
use super::overview::{Link, Mode, Overview, Request, is_working, tokens_of};
use super::theme::{Theme, dim};
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
    overview.resize(usize::from(middle.height.saturating_sub(1)));
    let theme = Theme::of(screen);
    frame.render_widget(Paragraph::new(title(overview, theme, top.width, screen)), top);
    let open = overview.detail.of.is_some();
    if open {
        detail::draw(frame, middle, overview, screen, now);
    } else {
        list(frame, middle, overview, screen, now, blink);
    }
    if overview.mode == Mode::Help {
        help(frame, middle);
    }
    frame.render_widget(Paragraph::new(foot(overview, theme, bottom.width, screen)), bottom);
}

/// Totals of all agents: number, working, waiting, tokens, cost.
fn title(overview: &Overview, theme: Theme, width: u16, screen: &Screen) -> Line<'static> {
    if let Link::Down(why) = &overview.link {
        let text = format!("not connected; reconnecting ({})", screen.clean_line(why));
        let text = shortened(&text, usize::from(width));
        return Line::styled(text, theme.fg(Color::Red).add_modifier(Modifier::BOLD));
    }
    if overview.link == Link::Loading {
        return Line::styled("loading ...", dim());
    }
    let all = overview.agents.iter().filter(|agent| agent.standing != Standing::Retired);
    let mut count = 0u64;
    let mut awake = 0u64;
    let mut waiting = 0u64;
    let mut tokens = None;
    let mut cost = None;
    let mut unpriced = false;
    for agent in all {
        count += 1;
        awake += u64::from(is_working(agent));
        waiting += u64::from(agent.waiting);
        tokens = tokens_of(agent).map_or(tokens, |more| Some(tokens.unwrap_or(0u64).saturating_add(more)));
        cost = agent.cost_micros.map_or(cost, |more| Some(cost.unwrap_or(0u64).saturating_add(more)));
        unpriced |= agent.unpriced > 0;
    }
    let agents = if count == 1 { "1 agent".to_owned() } else { format!("{count} agents") };
    let mut parts = vec![agents, format!("{awake} at work"), format!("{waiting} waiting")];
    // Unreported tokens are unknown, not zero.
    parts.push(format!("{} tokens", tokens.map_or_else(|| "?".to_owned(), short_count)));
    parts.extend(cost.map(|cost| format!("{}{}", money(cost), if unpriced { "+?" } else { "" })));
    let order =
        format!("by {}{}", sort_name(overview.sort), if overview.reverse { ", reversed" } else { "" });
    parts.push(order);
    if !overview.filter.is_empty() {
        parts.push(format!("only `{}`", screen.clean_line(&overview.filter)));
    }
    // A part that does not fit is omitted completely.
    let mut text = String::new();
    for part in parts {
        let next = if text.is_empty() { part } else { format!("{text}, {part}") };
        if columns(&next) > usize::from(width) {
            break;
        }
        text = next;
    }
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn list(
    frame: &mut Frame<'_>,
    area: Rect,
    overview: &Overview,
    screen: &Screen,
    now: Timestamp,
    blink: bool,
) {
    let theme = Theme::of(screen);
    let longest = overview.shown().map(|agent| agent.name.len()).max().unwrap_or(0);
    let cells = layout(usize::from(area.width.saturating_sub(MARK)), longest);
    let mut lines = vec![heads(&cells, overview.sort)];
    let context = CellContext { screen, pulses: &overview.pulses, now };
    let rows = usize::from(area.height.saturating_sub(1));
    for agent in overview.shown().skip(overview.first).take(rows) {
        let chosen = Some(agent.id) == overview.chosen;
        lines.push(row(&context, &cells, agent, theme, chosen, blink));
    }
    if overview.shown().len() == 0 && overview.link != Link::Loading {
        let text =
            if overview.filter.is_empty() { "there is no agent" } else { "no agent matches the filter" };
        lines.push(Line::styled(text, dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn heads(cells: &[(Column, usize)], sort: SortArg) -> Line<'static> {
    let mut spans = vec![Span::raw(" ".repeat(usize::from(MARK)))];
    for (column, width) in cells {
        let style = if sorts(*column, sort) {
            Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
        } else {
            dim()
        };
        let text = fitted(column.head(), *width, column.is_right());
        // The underline of the sort column is under the word, not under the padding.
        let (word, rest) = match column.is_right() {
            true => (text.trim_start().to_owned(), text.len() - text.trim_start().len()),
            false => (text.trim_end().to_owned(), text.len() - text.trim_end().len()),
        };
        let space = Span::raw(" ".repeat(rest));
        if column.is_right() {
            spans.extend([space, Span::styled(word, style)]);
        } else {
            spans.extend([Span::styled(word, style), space]);
        }
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

fn sorts(column: Column, sort: SortArg) -> bool {
    matches!(
        (column, sort),
        (Column::Name, SortArg::Name)
            | (Column::State, SortArg::State)
            | (Column::Waiting, SortArg::Waiting)
            | (Column::Tokens, SortArg::Tokens)
            | (Column::Cost, SortArg::Cost)
            | (Column::Last, SortArg::Last)
    )
}

fn row(
    context: &CellContext<'_>,
    cells: &[(Column, usize)],
    agent: &Agent,
    theme: Theme,
    chosen: bool,
    blink: bool,
) -> Line<'static> {
    let style = theme.of_agent(agent);
    let mut spans = vec![Span::styled(format!("{} ", context.mark(agent, blink)), style)];
    for (column, width) in cells {
        let style = match column {
            Column::Name if is_working(agent) => Style::new().add_modifier(Modifier::BOLD),
            Column::Name => Style::new(),
            Column::State => style,
            Column::Pulse => theme.fg(Color::Green),
            Column::Waiting if agent.waiting > 0 => theme.fg(Color::Yellow).add_modifier(Modifier::BOLD),
            Column::Last if failed(agent) => theme.fg(Color::Red),
            _ => dim(),
        };
        let text = fitted(&context.cell(*column, agent), *width, column.is_right());
        spans.push(Span::styled(text, style));
        spans.push(Span::raw(" "));
    }
    let line = Line::from(spans);
    if chosen { line.style(Style::new().add_modifier(Modifier::REVERSED)) } else { line }
}

fn failed(agent: &Agent) -> bool {
    use agent::run::Ending;
    agent.last.as_ref().is_some_and(|last| matches!(last.ending, Ending::Failed | Ending::Exhausted))
}

/// The last row: a question, a message, or the keys.
fn foot(overview: &Overview, theme: Theme, width: u16, screen: &Screen) -> Line<'static> {
    let max = usize::from(width);
    let bold = theme.fg(Color::Yellow).add_modifier(Modifier::BOLD);
    match &overview.mode {
        Mode::Confirm(ask) => {
            return Line::styled(shortened(&question(overview, ask, screen), max), bold);
        }
        Mode::Filter => {
            let text = format!("filter: {}_", screen.clean_line(&overview.filter));
            return Line::styled(text, bold);
        }
        Mode::List | Mode::Detail | Mode::Help => {}
    }
    if let Some(message) = &overview.message {
        return Line::styled(shortened(&screen.clean_line(message), max), bold);
    }
    let keys: &[&str] = match overview.mode {
        Mode::Detail => &["Esc back", "c cancel", "s suspend", "Up/Down scroll", "? help"],
        Mode::Help => &["any key goes back"],
        _ => &["q quit", "? help", "Enter open", "c cancel", "s suspend", "/ filter", "o order"],
    };
    let mut text = String::new();
    for key in keys {
        let next = if text.is_empty() { (*key).to_owned() } else { format!("{text}  {key}") };
        if columns(&next) > max {
            break;
        }
        text = next;
    }
    Line::styled(text, dim())
}

fn question(overview: &Overview, ask: &Request, screen: &Screen) -> String {
    let name = overview.chosen().map(|agent| screen.clean_line(&agent.name)).unwrap_or_default();
    match ask {
        Request::Cancel(..) => format!("cancel the cycle of {name}? what it committed is kept (y/n)"),
        Request::Suspend(_) => format!("suspend {name}? events keep waiting until it is resumed (y/n)"),
        Request::Resume(_) | Request::Open(_) => String::new(),
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let widest = HELP.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let line = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:widest$}  "), bold), Span::raw(*what)])
    };
    let lines: Vec<Line<'static>> = HELP.iter().map(line).collect();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height);
    let help_area = Rect { height, ..area };
    frame.render_widget(Clear, help_area);
    frame.render_widget(Paragraph::new(lines), help_area);
}

/// The name of the sort order.
fn sort_name(sort: SortArg) -> &'static str {
    match sort {
        SortArg::State => "state",
        SortArg::Name => "name",
        SortArg::Waiting => "waiting",
        SortArg::Tokens => "tokens",
        SortArg::Cost => "cost",
        SortArg::Last => "last ending",
    }
}

#[cfg(test)]
mod tests;
