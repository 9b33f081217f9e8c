//! Revisions of configs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agent::config::AgentConfig;
use agent::limits;
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{from_json, int};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::engine::mutex::lock;

/// Parsed configs by agent and revision. A revision never changes, so no entry becomes stale.
#[derive(Default)]
pub(crate) struct Configs(Mutex<Parsed>);

#[derive(Default)]
struct Parsed {
    configs: HashMap<(i64, u64), Arc<AgentConfig>>,
    /// The total size of their JSON.
    bytes: usize,
}

impl Configs {
    /// Returns the config of that revision, from memory if it was parsed before.
    pub(crate) fn get(&self, db: &Connection, agent: i64, rev: u64) -> Outcome<Arc<AgentConfig>> {
        if let Some(config) = lock(&self.0).configs.get(&(agent, rev)) {
            return Ok(Arc::clone(config));
        }
        let text = config_text(db, agent, rev)?;
        let config = Arc::new(from_json(&text, "a config")?);
        let mut parsed = lock(&self.0);
        if parsed.bytes + text.len() > limits::CONFIGS_MAX_BYTES {
            *parsed = Parsed::default();
        }
        if parsed.configs.insert((agent, rev), Arc::clone(&config)).is_none() {
            parsed.bytes += text.len();
        }
        Ok(config)
    }
}

/// Reads a config from its row.
pub(crate) fn config_of(db: &Connection, agent: i64, rev: u64) -> Outcome<AgentConfig> {
    from_json(&config_text(db, agent, rev)?, "a config")
}

fn config_text(db: &Connection, agent: i64, rev: u64) -> Outcome<String> {
    let text: Option<String> = db
        .prepare_cached("SELECT config FROM config_rev WHERE agent = ? AND rev = ?")?
        .query_row(params![agent, int(rev)], |row| row.get(0))
        .optional()?;
    text.ok_or_else(|| damaged(format!("config revision {rev} of an agent is missing")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::tables::rows::{run, to_json};

    #[test]
    fn parsed_configs_are_cached_up_to_a_number_of_bytes() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let config = AgentConfig { instructions: "x".repeat(1 << 20), ..AgentConfig::default() };
        let text = to_json(&config).unwrap();
        let configs = Configs::default();
        for agent in 0..100 {
            let sql = "INSERT INTO config_rev (agent, rev, at, config) VALUES (?, 1, 0, ?)";
            run(&db, sql, params![agent, text]).unwrap();
            let first = configs.get(&db, agent, 1).unwrap();
            assert!(Arc::ptr_eq(&first, &configs.get(&db, agent, 1).unwrap()));
            let parsed = lock(&configs.0);
            assert_eq!(parsed.bytes, parsed.configs.len() * text.len());
            assert!(parsed.bytes <= limits::CONFIGS_MAX_BYTES);
        }
    }
}
