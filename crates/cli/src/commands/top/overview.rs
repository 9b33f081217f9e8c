//! The state of `top` and what its keys do. Pure: takes agents, updates, keys and answers, returns actions.
//! Must not know the terminal or the server.

use std::cmp::Reverse;

use agent::id::{AgentId, CycleId};
use agent::life::Standing;
use agent::update::{AgentState, Update};
use api::{Agent, LastRunJson};
use clap::ValueEnum;
use client::{Feed, Snapshot};
use jiff::tz::TimeZone;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::pulse::Pulses;
use crate::args::SortArg;
use crate::commands::watch::moment::zone;
use crate::commands::watch::names::Names;
use crate::commands::watch::past::PastUpdate;

/// Maximum number of characters of a filter.
const FILTER_MAX: usize = 80;

/// What a key requests from outside the overview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Quit.
    Quit,
    /// Stop the process, as Ctrl-Z does.
    Stop,
    /// Draw everything again.
    Redraw,
    /// Send a request to the server.
    Request(Request),
}

/// A request to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Cancel this cycle.
    Cancel(AgentId, Option<CycleId>),
    /// Suspend the agent.
    Suspend(AgentId),
    /// Resume the agent.
    Resume(AgentId),
    /// Read the agent's recent items.
    Open(AgentId),
}

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All agents.
    List,
    /// One agent.
    Detail,
    /// The help.
    Help,
    /// The filter is being typed.
    Filter,
    /// A confirmation before a destructive request.
    Confirm(Request),
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing has been read yet.
    Loading,
    /// The server answers.
    Live,
    /// The server does not answer, and why.
    Down(String),
}

/// The recent items of the opened agent.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    pub(crate) of: Option<AgentId>,
    /// Oldest first, and the names in them; `None` while they are being read.
    pub(crate) past: Option<(Vec<PastUpdate>, Names)>,
    /// Rows scrolled up from the end.
    pub(crate) up: u16,
}

/// Everything that is shown.
#[derive(Debug)]
pub(crate) struct Overview {
    pub(crate) agents: Vec<Agent>,
    pub(crate) pulses: Pulses,
    pub(crate) sort: SortArg,
    pub(crate) reverse: bool,
    pub(crate) filter: String,
    pub(crate) mode: Mode,
    pub(crate) link: Link,
    /// The result of the last request.
    pub(crate) message: Option<String>,
    pub(crate) detail: Detail,
    /// The zone of the times in it.
    pub(crate) zone: TimeZone,
    pub(crate) chosen: Option<AgentId>,
    /// First row of the list on the screen.
    pub(crate) first: usize,
    /// Rows of the list on the screen.
    pub(crate) page: usize,
    feed: Feed,
    /// The agents that match the filter, in order.
    shown: Vec<usize>,
    /// Something changed since the agents were sorted.
    stale: bool,
}

impl Overview {
    /// An empty overview.
    pub(crate) fn new(sort: SortArg, filter: String) -> Self {
        Self {
            agents: Vec::new(),
            pulses: Pulses::default(),
            sort,
            reverse: false,
            filter,
            mode: Mode::List,
            link: Link::Loading,
            message: None,
            detail: Detail::default(),
            zone: zone(),
            chosen: None,
            first: 0,
            page: 1,
            feed: Feed::without_drafts(),
            shown: Vec::new(),
            stale: false,
        }
    }

    /// The agents that match the filter, in order.
    pub(crate) fn shown(&self) -> impl ExactSizeIterator<Item = &Agent> {
        self.shown.iter().map(|i| &self.agents[*i])
    }

    /// The chosen agent.
    pub(crate) fn chosen(&self) -> Option<&Agent> {
        self.agents.iter().find(|agent| Some(agent.id) == self.chosen)
    }

    /// Sets the current list of agents.
    pub(crate) fn listed(&mut self, agents: Vec<Agent>) {
        self.agents = agents;
        self.link = Link::Live;
        self.arrange();
    }

    /// Sets whether an agent is active or suspended, before the next list says so.
    pub(crate) fn set_standing(&mut self, agent: AgentId, standing: Standing, message: &str) {
        self.change(agent, |agent| agent.standing = standing);
        self.message = Some(message.to_owned());
    }

    /// Sets the agents at work.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        self.feed.snapshot(snapshot);
        for (id, work) in self.feed.working().clone() {
            self.pulses.beat(id);
            self.change(id, |agent| (agent.state, agent.cycle) = (work.state, work.cycle));
        }
    }

    /// Handles an update. Tokens and cost come with the next list.
    pub(crate) fn update(&mut self, now: jiff::Timestamp, update: &Update) {
        self.feed.update(update);
        let by_message = match update {
            Update::Message { message } => message.cycle.map(|_| message.sender.agent()),
            Update::EventProgress { .. } => return,
            _ => None,
        };
        let Some(id) = by_message.or(update.agent()) else { return };
        self.pulses.beat(id);
        match update {
            Update::State { state, reason, .. } => {
                let cycle = self.feed.working().get(&id).and_then(|work| work.cycle);
                self.change(id, |agent| {
                    (agent.state, agent.cycle) = (*state, cycle);
                    let suspended = agent.standing == Standing::Suspended;
                    agent.reason = reason.clone().or_else(|| suspended.then(|| "suspended".to_owned()));
                });
            }
            Update::CycleEnded { cycle, ending, .. } => {
                let last = LastRunJson { id: *cycle, ending: *ending, ended_at: now };
                self.change(id, |agent| agent.last = Some(last));
            }
            _ => {}
        }
    }

    /// Sets an agent's recent items, if it is still opened.
    pub(crate) fn opened(&mut self, of: AgentId, past: Vec<PastUpdate>, names: Names) {
        if self.detail.of == Some(of) {
            self.detail.past = Some((past, names));
        }
    }

    /// The opened agent, if the update means that its recent items must be read again.
    pub(crate) fn is_open_on(&self, update: &Update) -> Option<AgentId> {
        let of = self.detail.of.filter(|_| self.mode == Mode::Detail)?;
        match update {
            Update::CycleEnded { agent, .. } if *agent == of => Some(of),
            Update::Message { message } if message.sender == of.entity() => Some(of),
            _ => None,
        }
    }

    fn change(&mut self, id: AgentId, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.iter_mut().find(|agent| agent.id == id) {
            change(agent);
            self.stale = true;
        }
    }

    /// Filters and sorts again; the chosen agent stays chosen while it is shown.
    fn arrange(&mut self) {
        self.stale = false;
        let wanted = self.filter.to_lowercase();
        let of = |text: &str| text.to_lowercase().contains(&wanted);
        let matches_filter = |agent: &Agent| {
            of(&agent.name)
                || of(&agent.display_name)
                || of(state_of(agent))
                || agent.model.as_deref().is_some_and(of)
        };
        let agents = &self.agents;
        let mut shown: Vec<usize> = (0..agents.len()).filter(|i| matches_filter(&agents[*i])).collect();
        shown.sort_by_cached_key(|i| (Reverse(weight(&agents[*i], self.sort)), agents[*i].name.clone()));
        if self.reverse {
            shown.reverse();
        }
        self.shown = shown;
        if self.position().is_none() {
            self.choose(self.first);
        }
        self.scroll_to_chosen();
    }

    /// The row of the chosen agent in the whole list.
    pub(crate) fn position(&self) -> Option<usize> {
        self.shown().position(|agent| Some(agent.id) == self.chosen)
    }

    /// Prepares for drawing, with `page` rows of the list on the screen.
    pub(crate) fn prepare(&mut self, page: usize) {
        self.page = page.max(1);
        // Updates arrive faster than the screen is drawn: sort only before drawing.
        if self.stale {
            self.arrange();
        }
        self.scroll_to_chosen();
    }

    fn scroll_to_chosen(&mut self) {
        let at = self.position().unwrap_or(0);
        self.first = self.first.min(at).max((at + 1).saturating_sub(self.page));
        self.first = self.first.min(self.shown.len().saturating_sub(self.page));
    }

    fn choose(&mut self, position: usize) {
        let position = position.min(self.shown.len().saturating_sub(1));
        self.chosen = self.shown.get(position).map(|i| self.agents[*i].id);
        self.scroll_to_chosen();
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Action::Quit),
                KeyCode::Char('z') => Some(Action::Stop),
                KeyCode::Char('l') => Some(Action::Redraw),
                _ => None,
            };
        }
        self.message = None;
        match &self.mode {
            Mode::List => self.press_in_list(key.code),
            Mode::Detail => self.press_in_detail(key.code),
            Mode::Help => {
                self.mode = Mode::List;
                None
            }
            Mode::Filter => {
                self.press_in_filter(key.code);
                None
            }
            Mode::Confirm(ask) => {
                let ask = ask.clone();
                self.mode = if self.detail.of.is_some() { Mode::Detail } else { Mode::List };
                let yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
                if !yes {
                    self.message = Some("nothing was done".to_owned());
                }
                yes.then_some(Action::Request(ask))
            }
        }
    }

    fn press_in_list(&mut self, key: KeyCode) -> Option<Action> {
        let at = self.position().unwrap_or(0);
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.choose(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(at + 1),
            KeyCode::PageUp => self.choose(at.saturating_sub(self.page)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.choose(at + self.page),
            KeyCode::Home | KeyCode::Char('g') => self.choose(0),
            KeyCode::End | KeyCode::Char('G') => self.choose(usize::MAX),
            KeyCode::Enter => {
                let id = self.chosen()?.id;
                self.mode = Mode::Detail;
                self.detail = Detail { of: Some(id), past: None, up: 0 };
                return Some(Action::Request(Request::Open(id)));
            }
            KeyCode::Char('o') => {
                let all = SortArg::value_variants();
                let at = all.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = all[(at + 1) % all.len()];
                self.arrange();
            }
            KeyCode::Char('r') => {
                self.reverse = !self.reverse;
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
        match key {
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Backspace | KeyCode::Left | KeyCode::Enter => {
                self.mode = Mode::List;
                self.detail = Detail::default();
            }
            KeyCode::Up | KeyCode::Char('k') => self.detail.up = self.detail.up.saturating_add(1),
            KeyCode::Down | KeyCode::Char('j') => self.detail.up = self.detail.up.saturating_sub(1),
            KeyCode::PageUp => self.detail.up = self.detail.up.saturating_add(10),
            KeyCode::PageDown => self.detail.up = self.detail.up.saturating_sub(10),
            other => return self.press_on_agent(other),
        }
        None
    }

    /// Handles a key that acts on the chosen agent.
    fn press_on_agent(&mut self, key: KeyCode) -> Option<Action> {
        match key {
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('c') => {
                let agent = self.chosen()?;
                match agent.cycle {
                    Some(cycle) => self.mode = Mode::Confirm(Request::Cancel(agent.id, Some(cycle))),
                    None => self.message = Some(format!("{} has no open cycle", agent.name)),
                }
            }
            KeyCode::Char('s') => {
                let agent = self.chosen()?;
                match agent.standing {
                    Standing::Active => self.mode = Mode::Confirm(Request::Suspend(agent.id)),
                    // Resuming needs no confirmation.
                    Standing::Suspended => return Some(Action::Request(Request::Resume(agent.id))),
                    Standing::Retired => self.message = Some(format!("{} is retired", agent.name)),
                }
            }
            _ => {}
        }
        None
    }

    fn press_in_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_MAX => self.filter.push(c),
            _ => {}
        }
        self.arrange();
    }
}

/// The state in one word: the reason why it is idle, if there is one.
pub(crate) fn state_of(agent: &Agent) -> &str {
    match (&agent.reason, agent.standing) {
        (_, Standing::Retired) => "retired",
        (Some(reason), _) if agent.state == AgentState::Sleeping => reason,
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
        Standing::Retired => 6,
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
        SortArg::Last => agent.last.as_ref().map_or(i64::MIN, |last| last.ended_at.as_millisecond()),
    }
}

#[cfg(test)]
pub(super) mod tests;
