//! Wraps text that arrives in pieces into rows of a terminal, between words. A full row is final.

use crate::output::{char_columns, columns};

/// Indent of the rows after the first.
const INDENT: &str = "  ";

/// A text that is being wrapped.
#[derive(Debug)]
pub(crate) struct Flow {
    width: usize,
    row: String,
    used: usize,
    /// Bytes at the start of the row that are not text: a name or an indent.
    lead: usize,
}

impl Flow {
    /// Starts with `lead`, such as a name, in rows of at most `width` columns.
    pub(crate) fn new(lead: &str, width: usize) -> Self {
        Self { width: width.max(8), row: lead.to_owned(), used: columns(lead), lead: lead.len() }
    }

    /// Adds text; returns the rows that are now full.
    pub(crate) fn feed(&mut self, text: &str) -> Vec<String> {
        let mut full = Vec::new();
        for c in text.chars() {
            if c == '\n' {
                full.push(self.begin_row(""));
                continue;
            }
            let needed = char_columns(c);
            if self.used + needed > self.width {
                if c == ' ' {
                    full.push(self.begin_row(""));
                    continue;
                }
                let space = self.row[self.lead..].rfind(' ').map(|at| self.lead + at);
                let word = space.map(|at| self.row.split_off(at)).unwrap_or_default();
                full.push(self.begin_row(word.trim_start()));
            }
            self.row.push(c);
            self.used += needed;
        }
        full
    }

    /// The row that is not full yet.
    pub(crate) fn row(&self) -> &str {
        &self.row
    }

    /// Ends the text; returns its last row unless it is empty.
    pub(crate) fn end(&mut self) -> Option<String> {
        let empty = self.row[self.lead..].trim().is_empty();
        let rest = self.begin_row("");
        (!empty).then_some(rest)
    }

    fn begin_row(&mut self, with: &str) -> String {
        let next = format!("{INDENT}{with}");
        self.used = columns(&next);
        self.lead = INDENT.len();
        std::mem::replace(&mut self.row, next).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize, piece: usize) -> Vec<String> {
        let mut flow = Flow::new("ada: ", width);
        let chars: Vec<char> = text.chars().collect();
        let mut rows = Vec::new();
        for piece in chars.chunks(piece) {
            rows.extend(flow.feed(&piece.iter().collect::<String>()));
        }
        rows.extend(flow.end());
        rows
    }

    #[test]
    fn text_wraps_the_same_in_pieces_of_any_size() {
        let expected = ["ada: one two", "  three four", "  five", "", "  six"];
        for piece in [1, 3, 100] {
            assert_eq!(rows("one two three four five\n\nsix", 14, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_word_longer_than_the_row_is_cut() {
        assert_eq!(rows("abcdefghijkl", 10, 5), ["ada: abcde", "  fghijkl"]);
        assert_eq!(rows("漢字漢字", 10, 1), ["ada: 漢字", "  漢字"]);
    }
}
