//! The detail view of one agent in `top`: its state and recent activity.

use api::{Agent, RunJson};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::cells::{cost_of, since, until};
use super::overview::{Overview, state_of};
use super::theme::{Theme, dim};
use crate::commands::chat::flow::Flow;
use crate::commands::watch::moment::{money, took};
use crate::output::{Screen, short_count};
use agent::space::PostedMessage;
use client::PastItem;

/// Draws the view.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    overview: &mut Overview,
    screen: &Screen,
    now: Timestamp,
) {
    let Some(agent) = overview.chosen().cloned() else { return };
    let head = head(&agent, usize::from(area.width), screen, now);
    let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [top, rest] = Layout::vertical([Constraint::Length(height + 1), Constraint::Min(1)]).areas(area);
    frame.render_widget(Paragraph::new(head), top);
    let Some(past) = &overview.detail.past else {
        frame.render_widget(Paragraph::new(Line::styled("reading ...", dim())), rest);
        return;
    };
    let lines = past_lines(past, usize::from(rest.width), screen, now);
    let page = usize::from(rest.height);
    // Shows the end; keys scroll up from there.
    let max = lines.len().saturating_sub(page);
    let up = usize::from(overview.detail.up).min(max);
    overview.detail.up = u16::try_from(up).unwrap_or(u16::MAX);
    let lines: Vec<Line<'static>> = lines.into_iter().skip(max - up).take(page).collect();
    frame.render_widget(Paragraph::new(lines), rest);
}

fn head(agent: &Agent, width: usize, screen: &Screen, now: Timestamp) -> Vec<Line<'static>> {
    let clean = |text: &str| screen.clean_line(text);
    let mut state = clean(state_of(agent));
    if let Some(until_then) = agent.not_before.filter(|at| *at > now) {
        state.push_str(&format!(", retries {}", until(until_then, now)));
    }
    if let Some(why) = &agent.why {
        state.push_str(&format!(" ({})", clean(why)));
    }
    let model = agent.model.as_deref().map_or_else(|| "none".to_owned(), clean);
    let mut pairs = vec![
        ("agent", format!("{} ({})", clean(&agent.display_name), clean(&agent.name))),
        ("state", format!("{state}, waiting {}, held {}", agent.waiting, agent.held)),
        ("model", model),
        (
            "runs",
            format!(
                "{}, {} skipped, age {}",
                if agent.cycles == 1 { "1 cycle".to_owned() } else { format!("{} cycles", agent.cycles) },
                agent.skips,
                since(agent.created_at, now)
            ),
        ),
        ("used", used(agent)),
    ];
    if let Some(at) = agent.next_plan {
        pairs.push(("plan", until(at, now)));
    }
    let mut lines = Vec::new();
    for (name, value) in pairs {
        let lead = format!("{name:6}");
        let mut flow = Flow::new(&lead, width);
        let mut rows = flow.feed(&value);
        rows.extend(flow.end());
        for row in rows {
            lines.push(match row.strip_prefix(&lead) {
                Some(rest) => Line::from(vec![Span::styled(lead.clone(), dim()), Span::raw(rest.to_owned())]),
                None => Line::raw(row),
            });
        }
    }
    lines
}

fn past_lines(past: &[PastItem], width: usize, screen: &Screen, now: Timestamp) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for item in past {
        match item {
            PastItem::Message(posted) => message(posted, width, screen, now, &mut lines),
            PastItem::Run(run) => steps(run, width, screen, now, &mut lines),
        }
    }
    if lines.is_empty() {
        lines.push(Line::styled("nothing happened yet", dim()));
    }
    lines
}

fn message(
    posted: &PostedMessage,
    width: usize,
    screen: &Screen,
    now: Timestamp,
    lines: &mut Vec<Line<'static>>,
) {
    let ago = format!("{:>4} ", since(posted.message.at, now));
    let name = screen.clean_line(&posted.sender_name);
    let lead = format!("{ago}{name}: ");
    let mut flow = Flow::new(&lead, width);
    let mut rows = flow.feed(&screen.clean(&posted.message.text));
    rows.extend(flow.end());
    for row in rows {
        lines.push(match row.strip_prefix(&lead) {
            Some(rest) => {
                let bold = Style::new().add_modifier(Modifier::BOLD);
                Line::from(vec![
                    Span::styled(ago.clone(), dim()),
                    Span::styled(format!("{name}: "), bold),
                    Span::raw(rest.to_owned()),
                ])
            }
            None => Line::raw(row),
        });
    }
}

fn steps(run: &RunJson, width: usize, screen: &Screen, now: Timestamp, lines: &mut Vec<Line<'static>>) {
    use agent::run::Ending;
    let ms = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
    let cost = run.cost_micros.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    let reason =
        run.reason.as_deref().map(|why| format!(" ({})", screen.clean_line(why))).unwrap_or_default();
    let theme = Theme::of(screen);
    let style = match run.ending {
        Ending::Completed => theme.fg(Color::Green),
        Ending::Skipped => dim(),
        Ending::Exhausted | Ending::Canceled => theme.fg(Color::Yellow),
        Ending::Failed => theme.fg(Color::Red),
    };
    let took = took(u64::try_from(ms).unwrap_or(0));
    let text = format!("{:>4} {} in {took}{cost}{reason}", since(run.ended_at, now), run.ending.as_str());
    push(&text, width, style, lines);
    for step in &run.steps {
        let tools = if step.tools.is_empty() { "no call".to_owned() } else { step.tools.join(", ") };
        let count = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), short_count);
        let text = format!(
            "     step {}: {}, {}, {} in, {} out",
            step.step,
            screen.clean_line(&tools),
            crate::commands::watch::moment::took(step.model_ms),
            count(step.usage.input),
            count(step.usage.output)
        );
        push(&text, width, dim(), lines);
    }
}

fn push(text: &str, width: usize, style: Style, lines: &mut Vec<Line<'static>>) {
    let mut flow = Flow::new("", width);
    let mut rows = flow.feed(text);
    rows.extend(flow.end());
    lines.extend(rows.into_iter().map(|row| Line::styled(row, style)));
}

/// Tokens and cost.
fn used(agent: &Agent) -> String {
    let count = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), short_count);
    let (input, output) = (count(agent.usage.input), count(agent.usage.output));
    let cached = agent.usage.cached.filter(|n| *n > 0);
    let cached = cached.map(|n| format!(" ({} cached)", short_count(n))).unwrap_or_default();
    format!("{input} in{cached}, {output} out, cost {}", cost_of(agent))
}
