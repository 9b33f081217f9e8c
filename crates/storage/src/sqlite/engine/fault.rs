//! What can stop a command inside its transaction, and what each port makes of it. Whatever is
//! returned as an error here undoes what the command wrote.

use agent::call::Outcome as Answer;
use agent::changes::Refusal;
use agent::config::BadConfig;
use agent::id::{AgentId, CallId};
use agent::port::{CallError, Denial, RegistryError, StoreError};
use rusqlite::ErrorCode;

/// Why a command writes nothing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite says so.
    Sql(rusqlite::Error),
    /// The store as a whole, or a record.
    Store(StoreError),
    /// A record of that agent cannot be read, in something that is about others too.
    Torn(AgentId, String),
    /// It may not be done.
    Denied(Denial),
    /// The config is invalid.
    Config(BadConfig),
    /// Calls of a commit that may not do what they want.
    Refused(Vec<Refusal>),
    /// The lease is lost.
    Lost,
    /// The cycle was canceled.
    Canceled,
    /// Something urgent came before a call that cannot be repeated.
    Barred,
    /// Calls of a commit that were answered from outside before.
    Answered(Vec<(CallId, Answer)>),
    /// Events to be shown or settled that do not wait any more.
    Gone(Vec<u64>),
}

impl Fault {
    /// Whether a command of ours found it out by itself, between two statements; any other may have come in the middle
    /// of one.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Sql(_) | Self::Store(_) | Self::Torn(..) => false,
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

/// What a command comes to.
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
            Fault::Torn(agent, why) => Self::Damaged(named(agent, &why)),
            Fault::Denied(denial) => Self::Damaged(denial.to_string()),
            Fault::Config(error) => Self::Damaged(error.to_string()),
            Fault::Refused(_)
            | Fault::Lost
            | Fault::Canceled
            | Fault::Barred
            | Fault::Answered(_)
            | Fault::Gone(_) => Self::Damaged("an answer of `commit` came from elsewhere".into()),
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

/// A record that cannot be read.
pub(crate) fn damaged(what: impl Into<String>) -> Fault {
    Fault::Store(StoreError::Damaged(what.into()))
}

/// Names the agent whose record is damaged; only that agent is to be left alone.
pub(crate) fn of(agent: AgentId) -> impl Fn(Fault) -> Fault {
    move |fault| match damage(fault) {
        Ok(why) => damaged(named(agent, &why)),
        Err(other) => other,
    }
}

/// The same in something that is about others too, which goes on without it.
pub(crate) fn torn(agent: AgentId) -> impl Fn(Fault) -> Fault {
    move |fault| match damage(fault) {
        Ok(why) => Fault::Torn(agent, why),
        Err(other) => other,
    }
}

fn named(agent: AgentId, why: &str) -> String {
    format!("agent `{agent}`: {why}")
}

/// What is damaged, in words; any other fault as it is.
fn damage(fault: Fault) -> Result<String, Fault> {
    match fault {
        Fault::Store(StoreError::Damaged(why)) => Ok(why),
        Fault::Sql(error) => match classify(&error) {
            StoreError::Damaged(why) => Ok(why),
            // Only an agent whose rows are on a torn page is affected: all others continue.
            _ if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => Ok(error.to_string()),
            _ => Err(Fault::Sql(error)),
        },
        other => Err(other),
    }
}

/// What the caller does next about an error of SQLite.
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
        // A constraint, a type, a value that does not decode: this record, not the store.
        _ => StoreError::Damaged(text),
    }
}

/// The same error for another command of a group that failed as a whole.
pub(crate) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy(text) => StoreError::Busy(text.clone()),
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::Damaged(text) => StoreError::Damaged(text.clone()),
        StoreError::Closed => StoreError::Closed,
        StoreError::Broken(text) => StoreError::Broken(text.clone()),
    }
}

/// What one agent's part in something about several comes to. A damaged record of it names the agent; nothing
/// comes of it where the agent is apart already.
pub(crate) fn part<T>(agent: AgentId, apart: bool, done: Outcome<T>) -> Outcome<Option<T>> {
    match done.map(Some).map_err(torn(agent)) {
        Err(Fault::Torn(..)) if apart => Ok(None),
        done => done,
    }
}
