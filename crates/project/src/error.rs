//! Why agent files could not be applied.

/// A failure that stops the whole reconciliation. Problems of single files and agents are part of its report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\nhint: {hint}")]
pub struct ProjectError {
    /// Stable, in lower snake case.
    pub code: &'static str,
    /// What was wanted and what stood in the way.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
}
