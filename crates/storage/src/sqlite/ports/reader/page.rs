//! Pages of a list. A cursor is opaque to clients and names the last row of the page.

use agent::limits;
use agent::port::{Page, PageRequest};

/// Makes a page of at most `limit` items; one more item shows that there is a next page. `name` returns the cursor
/// of an item.
pub(super) fn paged<T>(mut items: Vec<T>, limit: u32, name: impl Fn(&T) -> String) -> Page<T> {
    let limit = limit as usize;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(name);
    Page { items, next }
}

/// The number of rows of a page: the requested one, within the limits.
pub(super) fn rows_of(page: &PageRequest) -> u32 {
    page.limit.clamp(1, limits::PAGE_MAX)
}
