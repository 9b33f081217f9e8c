//! The detail view of one agent in `top`: its state and recent activity.

use agent::run::Ending;
use api::{Agent, RunJson};
use client::PastItem;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::cells::{cost_of, since, until};
use super::draw::{coloured, dim};
use super::overview::{Overview, state_of};
use crate::commands::chat::flow::flow;
use crate::commands::watch::moment::{money, took};
use crate::output::{Screen, columns, short_count};

/// Draws the view.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    overview: &mut Overview,
    screen: &Screen,
    now: Timestamp,
) {
    let Some(agent) = overview.chosen() else { return };
    let width = usize::from(area.width);
    let head = head(agent, width, screen, now);
    let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [top, rest] =
        Layout::vertical([Constraint::Length(height.saturating_add(1)), Constraint::Min(1)]).areas(area);
    frame.render_widget(Paragraph::new(head), top);
    let lines = match &overview.detail.past {
        None => vec![Line::styled("reading ...", dim())],
        Some(past) if past.is_empty() => vec![Line::styled("nothing happened yet", dim())],
        Some(past) => past.iter().flat_map(|item| past_lines(item, width, screen, now)).collect(),
    };
    // Shows the end; keys scroll up from there.
    let max = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(rest.height);
    overview.detail.up = overview.detail.up.min(max);
    frame.render_widget(Paragraph::new(lines).scroll((max - overview.detail.up, 0)), rest);
}

fn head(agent: &Agent, width: usize, screen: &Screen, now: Timestamp) -> Vec<Line<'static>> {
    let mut state = state_of(agent).to_owned();
    if let Some(until_then) = agent.not_before.filter(|at| *at > now) {
        state.push_str(&format!(", retries {}", until(until_then, now)));
    }
    state.extend(agent.why.as_ref().map(|why| format!(" ({why})")));
    let cycles = if agent.cycles == 1 { "1 cycle".to_owned() } else { format!("{} cycles", agent.cycles) };
    let mut pairs = vec![
        ("agent ", format!("{} ({})", agent.display_name, agent.name)),
        ("state ", format!("{state}, waiting {}, held {}", agent.waiting, agent.held)),
        ("model ", agent.model.clone().unwrap_or_else(|| "none".to_owned())),
        ("runs  ", format!("{cycles}, {} skipped, age {}", agent.skips, since(agent.created_at, now))),
        ("used  ", used(agent)),
    ];
    pairs.extend(agent.next_plan.map(|at| ("plan  ", until(at, now))));
    let pair = |(name, value): (&'static str, String)| {
        lines_of(vec![Span::styled(name, dim())], &screen.clean_line(&value), width, Style::new())
    };
    pairs.into_iter().flat_map(pair).collect()
}

fn past_lines(item: &PastItem, width: usize, screen: &Screen, now: Timestamp) -> Vec<Line<'static>> {
    match item {
        PastItem::Message(posted) => {
            let name = format!("{}: ", screen.clean_line(&posted.sender_name));
            let lead = vec![
                Span::styled(format!("{:>4} ", since(posted.message.at, now)), dim()),
                Span::styled(name, Style::new().add_modifier(Modifier::BOLD)),
            ];
            lines_of(lead, &screen.clean(&posted.message.text), width, Style::new())
        }
        PastItem::Run(run) => steps(run, width, screen, now),
    }
}

fn steps(run: &RunJson, width: usize, screen: &Screen, now: Timestamp) -> Vec<Line<'static>> {
    let ms = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
    let cost = run.cost_micros.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    let reason = run.reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    let style = match run.ending {
        Ending::Completed => coloured(screen, Color::Green),
        Ending::Skipped => dim(),
        Ending::Exhausted | Ending::Canceled => coloured(screen, Color::Yellow),
        Ending::Failed => coloured(screen, Color::Red),
    };
    let took_all = took(u64::try_from(ms).unwrap_or(0));
    let text = format!("{:>4} {} in {took_all}{cost}{reason}", since(run.ended_at, now), run.ending.as_str());
    let mut lines = lines_of(Vec::new(), &screen.clean_line(&text), width, style);
    for step in &run.steps {
        let tools = if step.tools.is_empty() { "no call".to_owned() } else { step.tools.join(", ") };
        let (input, output) = (counted(step.usage.input), counted(step.usage.output));
        let text =
            format!("     step {}: {tools}, {}, {input} in, {output} out", step.step, took(step.model_ms));
        lines.extend(lines_of(Vec::new(), &screen.clean_line(&text), width, dim()));
    }
    lines
}

/// A text in rows; the first begins with `lead`.
fn lines_of(lead: Vec<Span<'static>>, text: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    let taken = lead.iter().map(|span| columns(&span.content)).sum();
    let mut lines: Vec<Line<'static>> =
        flow(text, taken, width).into_iter().map(|row| Line::from(Span::styled(row, style))).collect();
    lines[0].spans.splice(0..0, lead);
    lines
}

fn counted(n: Option<u64>) -> String {
    n.map_or_else(|| "?".to_owned(), short_count)
}

/// Tokens and cost.
fn used(agent: &Agent) -> String {
    let (input, output) = (counted(agent.usage.input), counted(agent.usage.output));
    let cached = agent.usage.cached.filter(|n| *n > 0);
    let cached = cached.map(|n| format!(" ({} cached)", short_count(n))).unwrap_or_default();
    format!("{input} in{cached}, {output} out, cost {}", cost_of(agent))
}
