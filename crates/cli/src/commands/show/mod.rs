//! What is shown of an agent: itself, a run, what its model is sent.

pub(crate) mod agent;
mod calls;
pub(crate) mod context;
pub(crate) mod run;

pub(super) use context::read_all;
pub(super) use run::waterfall;

use crate::output::{Screen, Style};

/// Prints lines under a heading; nothing if there are none.
fn section(screen: &Screen, name: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    screen.line(&format!("\n{}", screen.paint(Style::Bold, name)));
    for line in lines {
        screen.wrapped(&format!("  {}", screen.clean_line(&line)), 4);
    }
}
