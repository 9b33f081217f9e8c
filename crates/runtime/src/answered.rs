//! Which models have ever given a usable answer. If a model that never has refuses a request, the request may be
//! bad, or its server may be set up so that it refuses everything.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use agent::limits;
use agent::run::Run;

/// Names of the models that have answered this process.
#[derive(Debug, Default)]
pub(crate) struct Answered(Mutex<HashSet<String>>);

impl Answered {
    /// The model has answered.
    pub(crate) fn note(&self, model: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(model) && known.len() < limits::BREAKERS_MAX {
            known.insert(model.to_owned());
        }
    }

    /// Whether it has, now or in one of these runs.
    pub(crate) fn has(&self, model: &str, runs: &[Run]) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(model);
        known || runs.iter().any(|run| answered_in(run, model))
    }
}

fn answered_in(run: &Run, model: &str) -> bool {
    run.steps.iter().any(|step| step.model.as_ref().unwrap_or(&run.model) == model)
}
