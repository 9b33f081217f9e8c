//! Queries about alerts.

use agent::alert::{Alert, AlertKind};
use agent::port::{AlertFilter, Page, PageRequest};
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::ports::reader::page::{before, bounds, look_down_to, paged_down};
use crate::sqlite::tables::alerts::alert_at;
use crate::sqlite::tables::rows::{agent_row, first, int, ms, page_of, row_bytes};

/// A page of alerts, newest first.
pub(super) fn alerts(
    db: &Connection,
    filter: &AlertFilter,
    page: &PageRequest,
) -> Outcome<Page<(u64, Alert)>> {
    let agent = match filter.agent {
        Some(agent) => match agent_row(db, agent.0)? {
            Some(row) => Some(row),
            None => return Ok(Page { items: Vec::new(), next: None }),
        },
        None => None,
    };
    let newest =
        first(db, "SELECT max(n) FROM alert", [], |row| Ok(row.get::<_, Option<i64>>(0)?))?.flatten();
    let before = before(page, newest.and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
    // Of one agent few are kept; of all, a page with a filter looks at a part.
    let floor = look_down_to(before, agent.is_none() && (filter.alert.is_some() || filter.since.is_some()));
    let of = if agent.is_some() { "a.agent = ?1" } else { "?1 IS NULL" };
    let sql = format!(
        "SELECT a.at, a.kind, a.text, e.uuid, a.cycle, a.event, a.target, a.n FROM alert a \
         LEFT JOIN entity e ON e.id = a.agent WHERE {of} AND a.n > ?2 AND a.n < ?3 \
         AND (?4 IS NULL OR a.kind = ?4) AND (?5 IS NULL OR a.at >= ?5) ORDER BY a.n DESC LIMIT ?6"
    );
    let bounds = bounds(page.limit);
    let (kind, since) = (filter.alert.map(AlertKind::as_str), filter.since.map(ms));
    let given = params![agent, int(floor), int(before), kind, since, bounds.0 + 1];
    let found = page_of(db, &sql, given, bounds, row_bytes, alert_at)?;
    Ok(paged_down(found, floor, |(n, _)| *n))
}
