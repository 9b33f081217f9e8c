//! Pages: cursors are opaque to clients and name the last row of the page.

use agent::limits;
use agent::port::{Page, PageRequest};

/// A page out of one row more than it holds; `name` is the cursor of a row.
pub(super) fn paged<T>(mut items: Vec<T>, limit: u32, name: impl Fn(&T) -> String) -> Page<T> {
    let limit = limit as usize;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(name);
    Page { items, next }
}

/// Rows of a page: what is asked for, within the bound.
pub(super) fn rows_of(page: &PageRequest) -> u32 {
    page.limit.clamp(1, limits::PAGE_MAX)
}
