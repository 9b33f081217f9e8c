//! One agent's damaged records inside a command that is about others too: they stop nobody else.

use agent::port::StoreError;
use rusqlite::{Connection, params};

use super::fault::{Fault, Outcome, classify};
use super::rows::run;

/// Does `work` for one agent. Where a record is damaged, what it did is undone, the agent is set apart, and
/// nothing comes of it.
pub(super) fn or_apart<T>(
    db: &Connection,
    agent: i64,
    work: impl FnOnce() -> Outcome<T>,
) -> Outcome<Option<T>> {
    run(db, "SAVEPOINT one", [])?;
    match work().map_err(damage) {
        Ok(done) => {
            run(db, "RELEASE one", [])?;
            Ok(Some(done))
        }
        Err(Ok(why)) => {
            run(db, "ROLLBACK TO one", [])?;
            run(db, "RELEASE one", [])?;
            set_apart(db, agent, &why)?;
            Ok(None)
        }
        // The command as a whole is undone.
        Err(Err(fault)) => Err(fault),
    }
}

/// What is damaged, in words; any other fault as it is.
fn damage(fault: Fault) -> Result<String, Fault> {
    match fault {
        Fault::Store(StoreError::Damaged(why)) => Ok(why),
        Fault::Sql(error) => match classify(&error) {
            StoreError::Damaged(why) => Ok(why),
            _ => Err(Fault::Sql(error)),
        },
        other => Err(other),
    }
}

/// What was read, or `instead`, with the damage noted.
pub(super) fn or_noted<T>(found: Outcome<T>, instead: T, noted: &mut Option<String>) -> Outcome<T> {
    found.or_else(|fault| {
        let why = damage(fault)?;
        noted.get_or_insert(why);
        Ok(instead)
    })
}

/// Suspends whoever may live, and keeps the reason. Reads nothing of the agent. Whoever is retired has no
/// cycle to be closed any more: nobody could.
pub(super) fn set_apart(db: &Connection, agent: i64, why: &str) -> Outcome<()> {
    let sql = "UPDATE agent SET standing = 1, damage = ? WHERE id = ? AND standing <> 2";
    run(db, sql, params![why, agent])?;
    run(db, "UPDATE inbox_head SET due_at = NULL WHERE agent = ?", [agent]).map(drop)
}
