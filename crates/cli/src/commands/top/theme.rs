//! Colours and weights of the screen of `top`. Must not know the layout.

use api::Agent;
use ratatui::style::{Color, Modifier, Style};

use super::overview::{is_working, state_of};
use crate::output::Screen;

/// Styles: colours if they may be used, else only weight.
#[derive(Clone, Copy)]
pub(crate) struct Theme {
    colour: bool,
}

impl Theme {
    /// The theme of a screen.
    pub(crate) fn of(screen: &Screen) -> Self {
        Self { colour: screen.colour }
    }

    /// The colour, if colours may be used.
    pub(crate) fn fg(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// The style of an agent's row.
    pub(crate) fn of_agent(self, agent: &Agent) -> Style {
        match state_of(agent) {
            _ if is_working(agent) => self.fg(Color::Green).add_modifier(Modifier::BOLD),
            "paused" | "suspended" => self.fg(Color::Yellow),
            "provider" | "backoff" | "store" | "broke" => self.fg(Color::Red),
            "sleeping" if agent.waiting > 0 => Style::new(),
            _ => dim(),
        }
    }
}

/// The style of less important text.
pub(crate) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}
