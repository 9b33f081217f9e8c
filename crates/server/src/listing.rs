//! One kind of pagination for all lists: cursors that are opaque to clients, checked, and bound to their list and its
//! filters. Must not know what a list contains.

use std::fmt::Write;

use agent::id::{hex, unhex};
use agent::limits;
use agent::port::{Page, PageRequest};
use api::PageJson;
use axum::Json;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::extract::rows;
use crate::problem::{Code, Problem};

/// Bytes of a cursor that prove to which list it belongs.
const SEAL_BYTES: usize = 8;

/// One list with its filters, as one request asks for it.
pub(crate) struct Listing {
    /// Names the list and its filters.
    identity: String,
    /// The page to read; its cursor is the position in the list.
    pub(crate) page: PageRequest,
}

impl Listing {
    /// The list called `name`, which includes whose it is, with the filters in `query`.
    pub(crate) fn new(
        name: impl Into<String>,
        query: &impl Serialize,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Self, Problem> {
        let mut identity = name.into();
        let query = serde_json::to_value(query).map_err(|error| Problem::internal(&error))?;
        // How many rows a page has, and in which form, may change from page to page.
        let filters = query.as_object().into_iter().flatten();
        for (key, value) in filters.filter(|(key, _)| !matches!(key.as_str(), "cursor" | "limit" | "brief")) {
            // Writing to a string cannot fail.
            let _ = write!(identity, "\n{key}={value}");
        }
        let list = Self { identity, page: PageRequest { cursor: None, limit: rows(limit)? } };
        let cursor = cursor.map(|cursor| list.position(cursor)).transpose()?;
        Ok(Self { page: PageRequest { cursor, ..list.page }, ..list })
    }

    /// The number in the cursor.
    pub(crate) fn number(&self) -> Option<u64> {
        self.page.cursor.as_deref().and_then(|position| position.parse().ok())
    }

    /// The answer: the rows as JSON, and the cursor of the next page.
    pub(crate) fn answer<T, U>(&self, found: Page<U>, turn: impl FnMut(U) -> T) -> Json<PageJson<T>> {
        let next = found.next.map(|position| self.seal(&position));
        Json(PageJson { items: found.items.into_iter().map(turn).collect(), next })
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

#[cfg(test)]
mod tests {
    use super::*;
    use api::InboxQuery;

    #[test]
    fn a_cursor_is_accepted_by_its_own_list_with_the_same_filters_only() {
        let dead = InboxQuery { state: Some("dead".to_owned()), ..InboxQuery::default() };
        let list = |name: &str, query: &InboxQuery, cursor: Option<&str>| {
            Listing::new(name, query, cursor, query.limit).map(|list| list.page.cursor)
        };
        let sealed = Listing::new("inbox of ada", &dead, None, None).unwrap().seal("17");
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
