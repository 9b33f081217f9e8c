//! What is answered where something may not be done or not be seen. Must not know routes.

use agent::port::{Denial, RegistryError};

use crate::app_state::AppState;
use crate::auth::Caller;
use crate::problem::{Code, Problem};

/// What a filter names, or `None` if the caller sees nothing of it: for a person, what does not exist is the same as what is not
/// theirs to see.
pub(super) fn wanted<T>(caller: &Caller, found: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(problem) if problem.code() == Code::NotFound && !caller.is_operator() => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// The problem of a denied request, with handles in place of ids: people know agents and spaces by those.
pub(super) async fn denied(app: &AppState, denial: Denial) -> Problem {
    let (entity, space) = match &denial {
        Denial::NotMember { entity, space } => (Some(*entity), Some(*space)),
        Denial::SpaceClosed(space) | Denial::SpaceFull(space) => (None, Some(*space)),
        Denial::Retired(agent)
        | Denial::InboxFull(agent)
        | Denial::MemoriesFull(agent)
        | Denial::PlansFull(agent)
        | Denial::PinnedFull { agent, .. }
        | Denial::BadGoals { agent, .. }
        | Denial::NoOpenCycle(agent)
        | Denial::OtherCycle(agent) => (Some(agent.entity()), None),
        _ => (None, None),
    };
    let mut problem = Problem::from(denial);
    // Without an answer the id stays, which is correct, too.
    if let Some(id) = entity
        && let Ok(Some(found)) = app.ports.reader.entity(id.to_string()).await
    {
        problem = problem.with_name(&id, &found.name);
    }
    if let Some(id) = space
        && let Ok(Some(found)) = app.ports.reader.space(id.to_string()).await
    {
        problem = problem.with_name(&id, &found.name);
    }
    problem
}

/// As [`denied`], for anything that the registry refuses.
pub(super) async fn refused(app: &AppState, error: RegistryError) -> Problem {
    match error {
        RegistryError::Denied(denial) => denied(app, denial).await,
        other => other.into(),
    }
}
