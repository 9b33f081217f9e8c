//! A quick look at a store that nobody may have open: what it is, and who of its agents cannot be lived.

use std::path::Path;

use agent::port::{PageRequest, StoreError};

use super::UpkeepError;
use super::beside::Beside;
use crate::sqlite::reader_lives::agents;
use crate::sqlite::rows::Configs;
use crate::sqlite::schema::VERSION;

/// What a look at a store tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The version of its tables.
    pub version: i64,
    /// Agents that were set apart or of whose life something cannot be read: the handle, and why.
    pub torn: Vec<(String, String)>,
}

/// Looks at the store of a data directory, and at `most` of its agents. Agents of an older version of the
/// tables are not looked at. Writes nothing.
pub fn look(place: &Path, most: usize) -> Result<Looked, UpkeepError> {
    let store = Beside::open(place)?;
    let mut found = Looked { version: store.version, torn: Vec::new() };
    if store.version != VERSION {
        return Ok(found);
    }
    let (mut seen, mut cursor, configs) = (0, None, Configs::default());
    while seen < most {
        let page = PageRequest { cursor, limit: agent::limits::PAGE_MAX };
        let page = agents(&store.db, &configs, &page).map_err(StoreError::from)?;
        seen += page.items.len();
        let torn = page.items.into_iter().filter_map(|card| Some((card.entity.name, card.damage?)));
        found.torn.extend(torn);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}
