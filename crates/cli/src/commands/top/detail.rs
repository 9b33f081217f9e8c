//! The detail view of one agent in `top`: its state, and its recent activity as `watch` shows it.

use agent::update::Update;
use api::Agent;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::cells::{cost_of, since, until};
use super::draw::dim;
use super::overview::{Detail, Overview, state_of};
use crate::commands::chat::flow::flow;
use crate::commands::watch::log::{Log, LogStyle};
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
    let lines = past_lines(&overview.detail, screen, width, &overview.zone);
    // Shows the end; keys scroll up from there.
    let max = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(rest.height);
    overview.detail.up = overview.detail.up.min(max);
    frame.render_widget(Paragraph::new(lines).scroll((max - overview.detail.up, 0)), rest);
}

fn past_lines(detail: &Detail, screen: &Screen, width: usize, zone: &TimeZone) -> Vec<Line<'static>> {
    let Some((past, names)) = &detail.past else { return vec![Line::styled("reading ...", dim())] };
    if past.is_empty() {
        return vec![Line::styled("nothing happened yet", dim())];
    }
    // The codes of colours would be shown as text.
    let screen = Screen { colour: false, width: Some(width + 1), ..*screen };
    let mut log = Log::new(screen, zone.clone(), LogStyle::Full);
    log.names = names.clone();
    for item in past {
        if let (Update::CycleEnded { cycle, .. }, _) | (_, Some(cycle)) = (&item.update, &item.posted_cycle) {
            log.mark_visible(*cycle);
        }
        log.update(item.at, &item.update);
    }
    log.take_rows().into_iter().map(Line::raw).collect()
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
        let mut lead = vec![Span::styled(name, dim())];
        let rows = flow(&screen.clean_line(&value), columns(name), width).into_iter();
        rows.map(move |row| {
            lead.push(Span::raw(row));
            Line::from(std::mem::take(&mut lead))
        })
    };
    pairs.into_iter().flat_map(pair).collect()
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
