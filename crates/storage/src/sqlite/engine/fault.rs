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
            Fault::Denied(denial) => Self::Bug(denial.to_string()),
            Fault::Config(error) => Self::Bug(error.to_string()),
            Fault::Refused(_)
            | Fault::Lost
            | Fault::Canceled
            | Fault::Barred
            | Fault::Answered(_)
            | Fault::Gone(_) => Self::Bug("another command returned a result of `commit`".into()),
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

/// Like [`name_agent`], in a command or query about several agents, which continues without this one. So is one whose rows
/// contradict each other, because the command would fail for all the others too, as often as it is tried.
pub(crate) fn damaged_agent(agent: AgentId) -> impl Fn(Fault) -> Fault {
    move |fault| match damage(fault) {
        Ok(why) => Fault::DamagedAgent(agent, why),
        Err(Fault::Sql(error)) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Fault::DamagedAgent(agent, error.to_string())
        }
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

/// What SQLite says of a stored text that its JSON functions cannot read: it has no code of its own for that.
const MALFORMED: &str = "malformed JSON";

/// Classifies an error of SQLite by what the caller must do next. Only what fails to decode is damage.
pub(crate) fn classify(error: &rusqlite::Error) -> StoreError {
    use rusqlite::Error;
    let text = error.to_string();
    match error {
        // A value or a row that is not as every writer leaves it: only this record is damaged, not the store.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..)
        | Error::QueryReturnedNoRows => return StoreError::Damaged(text),
        _ => {}
    }
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
        _ if text.contains(MALFORMED) => StoreError::Damaged(text),
        _ => StoreError::Bug(text),
    }
}

/// A copy of the error, for another command of a group that failed as a whole.
pub(crate) fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy(text) => StoreError::Busy(text.clone()),
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::Damaged(text) => StoreError::Damaged(text.clone()),
        StoreError::Bug(text) => StoreError::Bug(text.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::engine::schema;
    use crate::sqlite::ports::{Caller, Sqlite};

    #[test]
    fn only_what_does_not_decode_is_damage_and_a_mistake_in_a_command_is_a_bug() {
        let db = schema::open_memory().unwrap();
        db.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER NOT NULL CHECK (x > 0)) STRICT")
            .unwrap();
        db.execute_batch("INSERT INTO t VALUES (1, 1)").unwrap();
        let fails = |sql: &str| {
            let done = db.prepare(sql).and_then(|mut ask| ask.query_row([], |row| row.get::<_, i64>(0)));
            classify(&done.unwrap_err())
        };
        for sql in [
            "SELECT 'text'",
            "SELECT NULL",
            "SELECT x FROM t WHERE id = 7",
            "SELECT json_extract('{torn', '$.a')",
        ] {
            let found = fails(sql);
            assert!(matches!(found, StoreError::Damaged(_)), "{sql}: {found}");
        }
        for sql in [
            "INSERT INTO t VALUES (1, 1) RETURNING id",
            "INSERT INTO t VALUES (2, 0) RETURNING id",
            "INSERT INTO t VALUES (2, NULL) RETURNING id",
            "INSERT INTO t VALUES (2, 'text') RETURNING id",
            "SELECT nothing FROM t",
            "SELECT 1 FROM nowhere",
            "SELEC 1",
            "SELECT ?",
        ] {
            let found = if sql == "SELECT ?" {
                classify(&db.query_row(sql, [1, 2], |row| row.get::<_, i64>(0)).unwrap_err())
            } else {
                fails(sql)
            };
            assert!(matches!(found, StoreError::Bug(_)), "{sql}: {found}");
        }
    }

    #[tokio::test]
    async fn a_command_or_query_that_panics_is_a_bug_and_the_store_works_on() {
        let dir = tempfile::tempdir().unwrap();
        let clock = scenario::clock::SimClock::new(jiff::Timestamp::UNIX_EPOCH);
        let store = Sqlite::open(dir.path(), std::sync::Arc::new(clock)).unwrap();
        let command = store.write(|_, _| -> Outcome<()> { panic!("on purpose") }).await;
        let query = store.read(Caller::Api, |_, _| -> Outcome<()> { panic!("on purpose") }).await;
        let short = store.read_inline(Caller::Agents, |_, _| -> Outcome<()> { panic!("on purpose") }).await;
        for failed in [command, query, short] {
            let found = StoreError::from(failed.unwrap_err());
            assert!(matches!(found, StoreError::Bug(_)), "{found}");
        }
        store.write(|db, _| Ok(db.execute_batch("SELECT 1")?)).await.unwrap();
        store.close().await.unwrap();
    }
}
