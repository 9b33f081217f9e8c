//! Reasons why a command stops inside its transaction, and the error that each port returns for them.
//! A command that returns one of them writes nothing.

use agent::call::Outcome as Answer;
use agent::changes::Refusal;
use agent::config::BadConfig;
use agent::id::{AgentId, CallId};
use agent::port::{CallError, Denial, RegistryError, StoreError};
use rusqlite::ErrorCode;

/// Why a command writes nothing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// An error of the store as a whole, or of one record.
    Store(StoreError),
    /// A record of that agent cannot be read, in a command or query about several agents.
    DamagedAgent(AgentId, String),
    /// The command is not allowed.
    Denied(Denial),
    /// The config is invalid.
    Config(BadConfig),
    /// Calls of a commit that are not allowed.
    Refused(Vec<Refusal>),
    /// The lease is lost.
    Lost,
    /// The cycle was canceled.
    Canceled,
    /// Something urgent arrived before a call that cannot be repeated.
    Barred,
    /// Calls of a commit that were already answered from outside.
    Answered(Vec<(CallId, Answer)>),
    /// Events to be shown or settled that are not waiting any more.
    Gone(Vec<u64>),
}

impl Fault {
    /// Whether the command itself found the reason, between two statements. Any other fault may have occurred in
    /// the middle of a statement.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Sql(_) | Self::Store(_) | Self::DamagedAgent(..) => false,
            Self::Denied(_)
            | Self::Config(_)
            | Self::Refused(_)
            | Self::Lost
            | Self::Canceled
            | Self::Barred
            | Self::Answered(_)
            | Self::Gone(_) => true,
        }
    }
}

/// The result of a command.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Denial> for Fault {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<BadConfig> for Fault {
    fn from(error: BadConfig) -> Self {
        Self::Config(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => classify(&error),
            Fault::Store(error) => error,
            Fault::DamagedAgent(agent, why) => Self::Damaged(named(agent, &why)),
            Fault::Denied(denial) => Self::Damaged(denial.to_string()),
            Fault::Config(error) => Self::Damaged(error.to_string()),
            Fault::Refused(_)
            | Fault::Lost
            | Fault::Canceled
            | Fault::Barred
            | Fault::Answered(_)
            | Fault::Gone(_) => Self::Damaged("another command returned a result of `commit`".into()),
        }
    }
}

impl From<Fault> for RegistryError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Denied(denial) => Self::Denied(denial),
            Fault::Config(error) => Self::Config(error),
            other => Self::Store(other.into()),
        }
    }
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        Self::Store(fault.into())
    }
}

/// The fault for a record that cannot be read.
pub(crate) fn damaged(what: impl Into<String>) -> Fault {
    Fault::Store(StoreError::Damaged(what.into()))
}

/// Names the agent whose record is damaged, so that only that agent is quarantined.
pub(crate) fn name_agent(agent: AgentId) -> impl Fn(Fault) -> Fault {
    move |fault| match damage(fault) {
        Ok(why) => damaged(named(agent, &why)),
        Err(other) => other,
    }
}

/// Like [`name_agent`], in a command or query about several agents, which continues without this one.
pub(crate) fn damaged_agent(agent: AgentId) -> impl Fn(Fault) -> Fault {
    move |fault| match damage(fault) {
        Ok(why) => Fault::DamagedAgent(agent, why),
        Err(other) => other,
    }
}

fn named(agent: AgentId, why: &str) -> String {
    format!("agent `{agent}`: {why}")
}

/// A description of the damage; any other fault is returned as it is.
fn damage(fault: Fault) -> Result<String, Fault> {
    match fault {
        Fault::Store(StoreError::Damaged(why)) => Ok(why),
        Fault::Sql(error) => match classify(&error) {
            StoreError::Damaged(why) => Ok(why),
            // Only agents with rows on the damaged page are affected: all others continue.
            _ if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => Ok(error.to_string()),
            _ => Err(Fault::Sql(error)),
        },
        other => Err(other),
    }
}

/// Classifies an error of SQLite by what the caller must do next.
pub(crate) fn classify(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OutOfMemory) => {
            StoreError::Busy(text)
        }
        Some(ErrorCode::DiskFull) => StoreError::Full(format!("{text}; free some disk space")),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied,
        ) => StoreError::Broken(text),
        // A constraint, a type or a value that does not decode: only this record is damaged, not the store.
        _ => StoreError::Damaged(text),
    }
}

/// A copy of the error, for another command of a group that failed as a whole.
pub(crate) fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy(text) => StoreError::Busy(text.clone()),
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::Damaged(text) => StoreError::Damaged(text.clone()),
        StoreError::Closed => StoreError::Closed,
        StoreError::Broken(text) => StoreError::Broken(text.clone()),
    }
}

/// The result for one agent in a command or query about several. A damaged record becomes a fault that names the
/// agent, or `None` if the agent is quarantined or retired already.
pub(crate) fn unless_quarantined<T>(
    agent: AgentId,
    quarantined: bool,
    done: Outcome<T>,
) -> Outcome<Option<T>> {
    match done.map(Some).map_err(damaged_agent(agent)) {
        Err(Fault::DamagedAgent(..)) if quarantined => Ok(None),
        done => done,
    }
}
