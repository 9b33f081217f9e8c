//! One kind of pagination for all lists: cursors that are opaque to clients, checked, and bound to their list and its
//! filters. Must not know what a list contains.

use std::fmt::Write;

use agent::id::{hex, unhex};
use agent::limits;
use agent::port::{Page, PageRequest};
use api::{PageJson, Paged};
use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::auth::Caller;
use crate::extract::{read_query, rows};
use crate::problem::{Code, Problem};

/// Bytes of a cursor that prove to which list it belongs.
const SEAL_BYTES: usize = 8;

/// A list as one request asks for it: its filters, and the page to read. Where and whose the list is, and its filters, are part
/// of every cursor.
pub(crate) struct List<Q> {
    pub(crate) filters: Q,
    /// The page to read; its cursor is the position in the list.
    pub(crate) page: PageRequest,
    identity: String,
}

/// A page of a list: made only by the list that was asked for.
pub(crate) struct Listed<T>(PageJson<T>);

impl<T: Serialize> IntoResponse for Listed<T> {
    fn into_response(self) -> Response {
        Json(self.0).into_response()
    }
}

impl<S: Send + Sync, Q: Paged> FromRequestParts<S> for List<Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let filters: Q = read_query(&parts.uri)?;
        let caller = parts.extensions.get::<Caller>();
        let whose = caller.and_then(Caller::entity).map(|entity| entity.to_string()).unwrap_or_default();
        Self::new(&format!("{} {whose}", parts.uri.path()), filters)
    }
}

impl<Q: Paged> List<Q> {
    /// The list called `name` with these filters.
    fn new(name: &str, filters: Q) -> Result<Self, Problem> {
        let mut identity = name.to_lowercase();
        let query = serde_json::to_value(&filters).map_err(|error| Problem::internal(&error))?;
        // How many rows a page has, and in which form, may change from page to page.
        let kept = query.as_object().into_iter().flatten();
        for (key, value) in kept.filter(|(key, _)| !matches!(key.as_str(), "cursor" | "limit" | "brief")) {
            // Writing to a string cannot fail.
            let _ = write!(identity, "\n{key}={value}");
        }
        let page = PageRequest { cursor: None, limit: rows(filters.limit())? };
        let mut list = Self { filters, page, identity };
        list.page.cursor = list.filters.cursor().map(|cursor| list.position(cursor)).transpose()?;
        Ok(list)
    }
}

impl<Q> List<Q> {
    /// The number in the cursor.
    pub(crate) fn number(&self) -> Option<u64> {
        self.page.cursor.as_deref().and_then(|position| position.parse().ok())
    }

    /// The answer: the rows as JSON, and the cursor of the next page.
    pub(crate) fn answer<T, U>(&self, found: Page<U>, turn: impl FnMut(U) -> T) -> Listed<T> {
        let next = found.next.map(|position| self.seal(&position));
        Listed(PageJson { items: found.items.into_iter().map(turn).collect(), next })
    }

    /// A list without any items.
    pub(crate) fn empty<T>(&self) -> Listed<T> {
        Listed(PageJson { items: Vec::new(), next: None })
    }

    /// The wanted page of a list that was read whole. `name` tells its items apart: a page begins after the item that was the last
    /// one of the page before, wherever that is now, or else where it was. `bytes` is the size of what an item has of variable
    /// length.
    pub(crate) fn cut<U>(
        &self,
        items: Vec<U>,
        name: impl Fn(&U) -> String,
        bytes: impl Fn(&U) -> usize,
    ) -> Page<U> {
        let names: Vec<String> = items.iter().map(|item| short(&name(item))).collect();
        let start = self.page.cursor.as_deref().map_or(0, |position| {
            let (at, last) = position.split_once(' ').unwrap_or((position, ""));
            let at: usize = at.parse().unwrap_or(0);
            let same = names.iter().enumerate().filter(|(_, name)| *name == last).map(|(n, _)| n);
            same.min_by_key(|n| n.abs_diff(at)).map_or(at, |n| n + 1)
        });
        let most = start.saturating_add(self.page.limit as usize).min(items.len());
        let (mut end, mut size) = (start.min(most), 0);
        while end < most && (end == start || size + bytes(&items[end]) <= limits::PAGE_MAX_BYTES) {
            size += bytes(&items[end]);
            end += 1;
        }
        let next = (end < items.len() && end > start).then(|| format!("{} {}", end - 1, names[end - 1]));
        let items = items.into_iter().skip(start).take(end.saturating_sub(start)).collect();
        Page { items, next }
    }

    fn seal(&self, position: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.identity.as_bytes());
        hash.update([0]);
        hash.update(position.as_bytes());
        format!("{}{}", hex(&hash.finalize()[..SEAL_BYTES]), hex(position.as_bytes()))
    }

    fn position(&self, cursor: &str) -> Result<String, Problem> {
        let unsealed = cursor.get(2 * SEAL_BYTES..).filter(|_| cursor.len() <= limits::KEY_MAX_BYTES);
        let text = unsealed.and_then(unhex).and_then(|bytes| String::from_utf8(bytes).ok());
        let position = text.filter(|position| self.seal(position) == cursor);
        position.ok_or_else(|| {
            Problem::new(Code::BadQuery, "`cursor` is not the `next` of an earlier page of this list")
                .hint("keep the filters of the first page; leave `cursor` out to begin again")
        })
    }
}

/// The name of an item, shortened for a cursor.
fn short(name: &str) -> String {
    hex(&Sha256::digest(name.as_bytes())[..SEAL_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{InboxQuery, PageQuery};

    fn list_with(name: &str, query: &InboxQuery, cursor: Option<&str>) -> Result<Option<String>, Problem> {
        let query = InboxQuery { cursor: cursor.map(str::to_owned), ..query.clone() };
        List::new(name, query).map(|list| list.page.cursor)
    }

    #[test]
    fn a_list_that_is_read_whole_is_paged_by_its_items_whatever_is_added_or_removed() {
        let bytes = |item: &str| if item == "large" { limits::PAGE_MAX_BYTES } else { 1 };
        let page = |items: &[&str], cursor: Option<String>| {
            let list = List::new("names", PageQuery { limit: Some(2), cursor }).unwrap();
            let cut = list.cut(items.to_vec(), |item| (*item).to_owned(), |item| bytes(item));
            let next = cut.next.map(|position| list.seal(&position));
            (cut.items.join(""), next)
        };
        let (first, next) = page(&["a", "b", "c", "d", "e"], None);
        assert_eq!(first, "ab");
        let rest = |items: &[&str]| page(items, next.clone()).0;
        assert_eq!(rest(&["a", "b", "c", "d", "e"]), "cd");
        assert_eq!(rest(&["0", "a", "a1", "b", "c", "d"]), "cd", "some were added before");
        assert_eq!(rest(&["b", "c", "d", "e"]), "cd", "the first is gone");
        assert_eq!(rest(&["a", "c", "d", "e"]), "cd", "the last one that was shown is gone");
        assert_eq!(rest(&["a", "b"]), "");
        assert_eq!(rest(&[]), "");
        assert_eq!(page(&["a", "b"], None), ("ab".to_owned(), None), "the last page");
        assert_eq!(page(&["large", "b"], None).0, "large", "a large item is a page of its own");
    }

    #[test]
    fn a_cursor_is_accepted_by_its_own_list_with_the_same_filters_only() {
        let dead = InboxQuery { state: Some("dead".to_owned()), ..InboxQuery::default() };
        let list = list_with;
        let sealed = List::new("inbox of ada", dead.clone()).unwrap().seal("17");
        assert_eq!(list("inbox of ada", &dead, Some(&sealed)), Ok(Some("17".to_owned())));
        let longer = InboxQuery { limit: Some(7), ..dead.clone() };
        assert_eq!(list("inbox of ada", &longer, Some(&sealed)), Ok(Some("17".to_owned())));
        let other = format!("{sealed}00");
        for (name, query, cursor) in [
            ("inbox of bob", &dead, &*sealed),
            ("inbox of ada", &InboxQuery::default(), &sealed),
            ("inbox of ada", &dead, &sealed[..18]),
            ("inbox of ada", &dead, &other),
            ("inbox of ada", &dead, "17"),
            ("inbox of ada", &dead, ""),
            ("inbox of ada", &dead, "ééééééééééé"),
        ] {
            let refused = list(name, query, Some(cursor)).unwrap_err();
            assert_eq!(refused.code(), Code::BadQuery, "{name} {cursor}");
        }
    }
}
