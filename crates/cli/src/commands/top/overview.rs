//! The state of `top` and what its keys do. Pure: takes agents, updates, keys and answers, returns actions.
//! Must not know the terminal or the server.

use std::cmp::Reverse;

use agent::id::{AgentId, CycleId};
use agent::life::Standing;
use agent::update::{AgentState, Update};
use api::Agent;
use clap::ValueEnum;
use client::{Feed, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use crate::args::SortArg;

const FILTER_MAX: usize = 80;

const PAGE: u16 = 10;

/// What a key requests from outside the overview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Request(Request),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Cancel(AgentId, CycleId),
    Set(AgentId, Standing),
    Open(AgentId),
}

/// What the keys do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Move in the list or in the opened agent.
    #[default]
    Browse,
    Filter,
    Confirm(Request),
}

#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) of: AgentId,
    /// Its latest activity, oldest first.
    pub(crate) rows: Vec<String>,
    /// Rows scrolled up from the end.
    pub(crate) up: u16,
}

#[derive(Debug, Default)]
pub(crate) struct Overview {
    pub(crate) agents: Vec<Agent>,
    pub(crate) sort: SortArg,
    pub(crate) filter: String,
    pub(crate) mode: Mode,
    /// Why the list is missing or old.
    pub(crate) trouble: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) detail: Option<Detail>,
    pub(crate) help: bool,
    pub(crate) chosen: Option<AgentId>,
    pub(crate) table: TableState,
    feed: Feed,
    /// The agents that match the filter, in order.
    shown: Vec<usize>,
}

impl Overview {
    pub(crate) fn new(sort: SortArg, filter: String) -> Self {
        let trouble = Some("loading ...".to_owned());
        Self { sort, filter, trouble, feed: Feed::without_drafts(), ..Self::default() }
    }

    /// The agents that match the filter, in order.
    pub(crate) fn shown(&self) -> impl ExactSizeIterator<Item = &Agent> {
        self.shown.iter().map(|i| &self.agents[*i])
    }

    pub(crate) fn none(&self) -> Option<&'static str> {
        match (self.shown.is_empty(), self.filter.is_empty()) {
            (false, _) => None,
            (true, true) => Some("there is no agent"),
            (true, false) => Some("no agent matches the filter"),
        }
    }

    pub(crate) fn chosen(&self) -> Option<&Agent> {
        self.agents.iter().find(|agent| Some(agent.id) == self.chosen)
    }

    pub(crate) fn listed(&mut self, agents: Vec<Agent>) {
        self.agents = agents;
        self.trouble = None;
        self.arrange();
    }

    /// The list is old: the server does not answer.
    pub(crate) fn lost(&mut self, why: &str) {
        self.trouble = Some(format!("not connected; reconnecting ({why})"));
    }

    /// Sets whether an agent is active or suspended, before the next list says so.
    pub(crate) fn set_standing(&mut self, agent: AgentId, standing: Standing) {
        self.change(agent, |agent| agent.standing = standing);
        let suspended = standing == Standing::Suspended;
        self.message = Some(if suspended { "suspended; s resumes it" } else { "resumed" }.to_owned());
    }

    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        self.feed.snapshot(snapshot);
        for (id, work) in self.feed.working().clone() {
            self.change(id, |agent| (agent.state, agent.cycle) = (work.state, work.cycle));
        }
    }

    /// Handles an update. What else changed comes with the next list.
    pub(crate) fn update(&mut self, update: &Update) {
        self.feed.update(update);
        let Update::State { agent: id, state, reason, idle, .. } = update else { return };
        let cycle = self.feed.working().get(id).and_then(|work| work.cycle);
        self.change(*id, |agent| {
            // An update has the reason as text; its code comes with the next list if this is not a back-off.
            if idle.is_some() || *state != agent.state || reason.is_none() {
                agent.reason = idle.map(|idle| idle.reason.as_str().to_owned());
            }
            (agent.state, agent.cycle, agent.why) = (*state, cycle, reason.clone());
        });
    }

    /// Sets the latest activity of an agent, if it is still opened.
    pub(crate) fn opened(&mut self, of: AgentId, rows: Vec<String>) {
        if let Some(detail) = self.detail.as_mut().filter(|detail| detail.of == of) {
            detail.rows = rows;
        }
    }

    /// The opened agent, if the update means that its latest activity must be read again.
    pub(crate) fn is_open_on(&self, update: &Update) -> Option<AgentId> {
        let of = self.detail.as_ref()?.of;
        let concerned = match update {
            Update::CycleEnded { agent, .. } => *agent == of,
            Update::Message { message } => message.sender == of.entity(),
            _ => false,
        };
        concerned.then_some(of)
    }

    fn change(&mut self, id: AgentId, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.iter_mut().find(|agent| agent.id == id) {
            change(agent);
        }
    }

    /// Filters and sorts; the chosen agent stays chosen while it is shown.
    pub(crate) fn arrange(&mut self) {
        let at = self.position().unwrap_or(0);
        let wanted = self.filter.to_lowercase();
        let of = |text: &str| text.to_lowercase().contains(&wanted);
        let matches_filter = |agent: &Agent| {
            of(&agent.handle)
                || of(&agent.display_name)
                || of(state_of(agent))
                || agent.model.as_deref().is_some_and(of)
        };
        let agents = &self.agents;
        let mut shown: Vec<usize> = (0..agents.len()).filter(|i| matches_filter(&agents[*i])).collect();
        shown.sort_by_cached_key(|i| (Reverse(weight(&agents[*i], self.sort)), agents[*i].handle.clone()));
        self.shown = shown;
        if self.position().is_none() {
            self.choose(at);
        }
    }

    /// The row of the chosen agent in the whole list.
    pub(crate) fn position(&self) -> Option<usize> {
        self.shown.iter().position(|i| self.agents.get(*i).is_some_and(|agent| Some(agent.id) == self.chosen))
    }

    fn choose(&mut self, position: usize) {
        let position = position.min(self.shown.len().saturating_sub(1));
        self.chosen = self.shown.get(position).map(|i| self.agents[*i].id);
    }

    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
        }
        self.message = None;
        if std::mem::take(&mut self.help) {
            return None;
        }
        if matches!(self.mode, Mode::Browse) && matches!(key.code, KeyCode::Char('?' | 'h')) {
            self.help = true;
            return None;
        }
        match std::mem::take(&mut self.mode) {
            Mode::Browse if self.detail.is_some() => self.press_in_detail(key.code),
            Mode::Browse => self.press_in_list(key.code),
            Mode::Filter => {
                self.press_in_filter(key.code);
                None
            }
            Mode::Confirm(asked) if matches!(key.code, KeyCode::Char('y' | 'Y')) => {
                Some(Action::Request(asked))
            }
            Mode::Confirm(_) => {
                self.message = Some("nothing was done".to_owned());
                None
            }
        }
    }

    fn press_in_list(&mut self, key: KeyCode) -> Option<Action> {
        let at = self.position().unwrap_or(0);
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.choose(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(at + 1),
            KeyCode::PageUp => self.choose(at.saturating_sub(usize::from(PAGE))),
            KeyCode::PageDown | KeyCode::Char(' ') => self.choose(at + usize::from(PAGE)),
            KeyCode::Home | KeyCode::Char('g') => self.choose(0),
            KeyCode::End | KeyCode::Char('G') => self.choose(usize::MAX),
            KeyCode::Enter => {
                let of = self.chosen()?.id;
                self.detail = Some(Detail { of, rows: Vec::new(), up: 0 });
                return Some(Action::Request(Request::Open(of)));
            }
            KeyCode::Char('o') => {
                let all = SortArg::value_variants();
                let at = all.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = all[(at + 1) % all.len()];
                self.arrange();
            }
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.arrange();
            }
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            other => return self.press_on_agent(other),
        }
        None
    }

    fn press_in_detail(&mut self, key: KeyCode) -> Option<Action> {
        let detail = self.detail.as_mut()?;
        match key {
            KeyCode::Up | KeyCode::Char('k') => detail.up = detail.up.saturating_add(1),
            KeyCode::Down | KeyCode::Char('j') => detail.up = detail.up.saturating_sub(1),
            KeyCode::PageUp => detail.up = detail.up.saturating_add(PAGE),
            KeyCode::PageDown => detail.up = detail.up.saturating_sub(PAGE),
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Enter => self.detail = None,
            other => return self.press_on_agent(other),
        }
        None
    }

    fn press_on_agent(&mut self, key: KeyCode) -> Option<Action> {
        let agent = self.chosen()?;
        match (key, agent.cycle, agent.standing) {
            (KeyCode::Char('c'), Some(cycle), _) => {
                self.mode = Mode::Confirm(Request::Cancel(agent.id, cycle))
            }
            (KeyCode::Char('c'), None, _) => {
                self.message = Some(format!("{} has no open cycle", agent.handle))
            }
            (KeyCode::Char('s'), _, Standing::Active) => {
                self.mode = Mode::Confirm(Request::Set(agent.id, Standing::Suspended));
            }
            // Resuming needs no confirmation.
            (KeyCode::Char('s'), _, _) => {
                return Some(Action::Request(Request::Set(agent.id, Standing::Active)));
            }
            _ => {}
        }
        None
    }

    fn press_in_filter(&mut self, key: KeyCode) {
        self.mode = Mode::Filter;
        match key {
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Browse;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_MAX => self.filter.push(c),
            _ => {}
        }
        self.arrange();
    }
}

/// The state in one word: the reason why it is idle or makes no progress, if there is one.
pub(crate) fn state_of(agent: &Agent) -> &str {
    match (&agent.reason, agent.standing) {
        (_, Standing::Retired) => "retired",
        (Some(reason), _) if agent.state == AgentState::Sleeping || is_working(agent) => reason,
        (_, Standing::Suspended) if agent.state == AgentState::Sleeping => "suspended",
        _ => agent.state.as_str(),
    }
}

/// Whether its model generates or its tools run.
pub(crate) fn is_working(agent: &Agent) -> bool {
    matches!(agent.state, AgentState::Thinking | AgentState::Processing)
}

/// All tokens; `None` if none were reported.
pub(crate) fn tokens_of(agent: &Agent) -> Option<u64> {
    match (agent.usage.input, agent.usage.output) {
        (None, None) => None,
        (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
    }
}

fn rank(agent: &Agent) -> u8 {
    match agent.standing {
        Standing::Suspended if !is_working(agent) => 5,
        _ if is_working(agent) => 0,
        _ if agent.state == AgentState::Paused => 1,
        _ if agent.reason.is_some() => 2,
        _ if agent.waiting > 0 => 3,
        _ => 4,
    }
}

/// The name of a sort order, as on the command line.
pub(crate) fn name_of(sort: SortArg) -> String {
    sort.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// What stands higher in the list is greater; what is equal is ordered by name.
fn weight(agent: &Agent, sort: SortArg) -> i64 {
    // An unknown count is less than zero.
    let count = |n: Option<u64>| n.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
    match sort {
        SortArg::Name => 0,
        SortArg::State => -i64::from(rank(agent)),
        SortArg::Waiting => i64::from(agent.waiting),
        SortArg::Tokens => count(tokens_of(agent)),
        SortArg::Cost => count(agent.cost_micros),
        SortArg::Last => agent.last_run.as_ref().map_or(i64::MIN, |last| last.ended_at.as_millisecond()),
    }
}

#[cfg(test)]
pub(super) mod tests;
