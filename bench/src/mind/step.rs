//! The overhead of a step at 100k tokens against 10k, as `history` measures it, with workspaces that stay.

use agent::config::Placement;
use anyhow::Result;

use crate::report::Metric;
use crate::{Bench, history, server};

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let mut config = server::config();
    config.workspace.placement = Placement::Append;
    history::compared(bench, "mind.step_overhead_ratio", &config)
}
