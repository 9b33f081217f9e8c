//! Where an agent searches: the space that a query names, and the spaces whose messages it may find.

use agent::id::AgentId;
use agent::limits;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::index::find;
use crate::sqlite::tables::rows::{agent_row, all, first, id_or_name};

/// Where an agent searches.
pub(super) struct Places {
    pub(super) agent: i64,
    pub(super) space: SoughtSpace,
    /// The spaces whose messages it may find: those that it is a member of now.
    pub(super) spaces: Vec<i64>,
    /// Whether there are more than the limit.
    pub(super) more_spaces: bool,
}

/// The space that a query names.
#[derive(Clone, Copy)]
pub(super) enum SoughtSpace {
    All,
    OfMember(i64),
    /// The agent is not a member (any more).
    OfOthers(i64),
    Unknown,
}

impl SoughtSpace {
    pub(super) fn row(self) -> Option<i64> {
        match self {
            Self::OfMember(space) | Self::OfOthers(space) => Some(space),
            Self::All | Self::Unknown => None,
        }
    }

    /// Of a space that it is not a member of, an agent finds what it processed: while the index is still being built,
    /// nobody knows what that is.
    pub(super) fn is_searchable(self, index: &Connection, agent: i64, built: bool) -> Outcome<bool> {
        match self {
            Self::All | Self::OfMember(_) => Ok(true),
            Self::OfOthers(space) => Ok(!built || find::is_about(index, agent, space)?),
            Self::Unknown => Ok(false),
        }
    }
}

const MEMBERSHIPS: &str = "FROM member m JOIN space s ON s.id = m.space \
    WHERE m.entity = ?1 AND (?2 IS NULL OR m.space = ?2) ORDER BY s.active_at DESC LIMIT ?3";

/// `None` if the agent is unknown.
pub(super) fn places(db: &Connection, agent: AgentId, named: Option<&str>) -> Outcome<Option<Places>> {
    let Some(agent) = agent_row(db, agent.0)? else { return Ok(None) };
    let row = |row: &Row<'_>| Ok(row.get::<_, i64>(0)?);
    let found = match named {
        None => None,
        Some(name) => {
            let (column, value) = id_or_name(name, "uuid", "name");
            first(db, &format!("SELECT id FROM space WHERE {column} = ?"), [value], row)?
        }
    };
    let most = limits::RECALL_SPACES;
    let sql = format!("SELECT m.space {MEMBERSHIPS}");
    let mut spaces = all(db, &sql, params![agent, found, most + 1], row)?;
    let more_spaces = spaces.len() > most as usize;
    spaces.truncate(most as usize);
    let space = match (named, found) {
        (None, _) => SoughtSpace::All,
        (Some(_), None) => SoughtSpace::Unknown,
        (Some(_), Some(space)) if spaces.is_empty() => SoughtSpace::OfOthers(space),
        (Some(_), Some(space)) => SoughtSpace::OfMember(space),
    };
    Ok(Some(Places { agent, space, spaces, more_spaces }))
}

/// The handles of an agent's spaces, those with the newest messages first, then of others that it processed something of.
pub(super) fn searchable(db: &Connection, agent: i64, processed: &[i64]) -> Outcome<Vec<String>> {
    let name = |row: &Row<'_>| Ok(row.get::<_, String>(0)?);
    let no_space: Option<i64> = None;
    let given = params![agent, no_space, limits::RECALL_SPACES];
    let mut names = all(db, &format!("SELECT s.name {MEMBERSHIPS}"), given, name)?;
    for space in processed {
        let found = first(db, "SELECT name FROM space WHERE id = ?", [space], name)?;
        names.extend(found.filter(|name| !names.contains(name)));
    }
    names.truncate(limits::RECALL_SPACES as usize);
    Ok(names)
}
