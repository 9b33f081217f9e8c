//! Pages of a list. A cursor names the last row of the page, or the last row that a filter looked at.

use agent::limits;
use agent::port::{Page, PageRequest};

/// A page of these items; `name` returns the cursor of the last one if more follow.
pub(crate) fn paged<T>((items, more): (Vec<T>, bool), name: impl Fn(&T) -> String) -> Page<T> {
    let next = items.last().filter(|_| more).map(name);
    Page { items, next }
}

/// The bounds of a page: the requested number of rows, within the limits, and their bytes.
pub(crate) fn bounds(limit: u32) -> (u32, usize) {
    (limit.clamp(1, limits::PAGE_MAX), limits::PAGE_MAX_BYTES)
}

/// The number in the cursor of a list from new to old; without a cursor, one above the newest row's.
pub(super) fn before(page: &PageRequest, newest: u64) -> u64 {
    let before = page.cursor.as_deref().and_then(|cursor| cursor.parse().ok());
    before.unwrap_or(u64::MAX).min(newest.saturating_add(1))
}

/// Where a page with a filter stops looking, from `before` down: only greater numbers are looked at. 0 is the end.
pub(super) fn look_down_to(before: u64, filtered: bool) -> u64 {
    if filtered { before.saturating_sub(limits::PAGE_LOOK_MAX.saturating_add(1)) } else { 0 }
}

/// A page of a list from new to old whose filter looked at the rows above `floor`.
pub(super) fn paged_down<T>(found: (Vec<T>, bool), floor: u64, number: impl Fn(&T) -> u64) -> Page<T> {
    let page = paged(found, |item| number(item).to_string());
    let next = page.next.or_else(|| (floor > 0).then(|| floor.saturating_add(1).to_string()));
    Page { next, ..page }
}
