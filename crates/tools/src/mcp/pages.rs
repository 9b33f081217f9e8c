//! Lists that come in pages, within bounds: a server could go on for ever.

use agent::limits;
use rmcp::model::PaginatedRequestParams;

use super::failure::Failure;

/// The pages of a list.
#[derive(Default)]
pub(super) struct Pages {
    count: usize,
    items: usize,
    cursor: Option<String>,
    is_over: bool,
}

impl Pages {
    /// The next page to ask for, `None` after the last one.
    pub(super) fn next(&mut self, server: &str) -> Result<Option<Option<PaginatedRequestParams>>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        self.count += 1;
        if self.count > limits::MCP_PAGES_MAX {
            return Err(too_long(server, limits::MCP_PAGES_MAX, "pages"));
        }
        let page = self.cursor.clone();
        Ok(Some(page.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))))
    }

    /// A page came, with so many items and the place of the one behind it.
    pub(super) fn turn(&mut self, server: &str, items: usize, cursor: Option<String>) -> Result<(), Failure> {
        self.items += items;
        if self.items > limits::MCP_LISTED_MAX {
            return Err(too_long(server, limits::MCP_LISTED_MAX, "entries"));
        }
        self.is_over = cursor.is_none();
        self.cursor = cursor;
        Ok(())
    }
}

fn too_long(server: &str, max: usize, what: &str) -> Failure {
    Failure::not_sent(format!("the MCP server `{server}` has a list of more than {max} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_with_its_last_page_or_at_the_limits() {
        let mut pages = Pages::default();
        assert!(pages.next("x").unwrap().unwrap().is_none());
        pages.turn("x", 2, Some("c".into())).unwrap();
        assert_eq!(pages.next("x").unwrap().unwrap().unwrap().cursor.as_deref(), Some("c"));
        assert!(pages.turn("x", limits::MCP_LISTED_MAX, None).is_err());

        let mut endless = Pages::default();
        for _ in 0..limits::MCP_PAGES_MAX {
            endless.next("x").unwrap();
            endless.turn("x", 0, Some("c".into())).unwrap();
        }
        assert!(endless.next("x").is_err());
    }
}
