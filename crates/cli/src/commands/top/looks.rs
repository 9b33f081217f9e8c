//! How the screen of `top` looks: colours and weights. Must not know where anything stands on it.

use ratatui::style::{Color, Modifier, Style};
use server::api::Agent;

use super::overview::{state_of, works};
use crate::output::Screen;

/// How things look: colours where they may be used, else weight alone.
#[derive(Clone, Copy)]
pub(crate) struct Looks {
    colour: bool,
}

impl Looks {
    /// Those of a screen.
    pub(crate) fn of(screen: &Screen) -> Self {
        Self { colour: screen.colour }
    }

    /// The colour, where colours may be used.
    pub(crate) fn fg(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// That of an agent's row.
    pub(crate) fn of_agent(self, agent: &Agent) -> Style {
        match state_of(agent) {
            _ if works(agent) => self.fg(Color::Green).add_modifier(Modifier::BOLD),
            "paused" | "suspended" => self.fg(Color::Yellow),
            "provider" | "backoff" | "store" | "broke" => self.fg(Color::Red),
            "sleeping" if agent.waiting > 0 => Style::new(),
            _ => dim(),
        }
    }
}

/// What may be overlooked.
pub(crate) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}
