//! Wraps text into rows of a terminal, between words.

use crate::output::{char_columns, columns};

const INDENT: &str = "  ";
/// A terminal that is narrower gets rows of this width.
const WIDTH_MIN: usize = 8;

/// Text in rows of at most `width` columns. `lead` columns of the first row are left free for what stands before the
/// text; the other rows are indented. A word that is longer than a row is cut.
pub(crate) fn flow(text: &str, lead: usize, width: usize) -> Vec<String> {
    let width = width.max(WIDTH_MIN);
    let (mut rows, mut row, mut used, mut begin) = (Vec::new(), String::new(), lead, 0);
    for c in text.trim_end().chars() {
        let full = used + char_columns(c) > width;
        if c == '\n' || full {
            let space = row[begin..].rfind(' ').filter(|_| c != '\n' && c != ' ');
            let word = space.map(|at| row.split_off(begin + at)).unwrap_or_default();
            rows.push(row.trim_end().to_owned());
            row = format!("{INDENT}{}", word.trim_start());
            (used, begin) = (columns(&row), INDENT.len());
            if c == '\n' || c == ' ' {
                continue;
            }
        }
        row.push(c);
        used += char_columns(c);
    }
    rows.push(row.trim_end().to_owned());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_between_words_and_keeps_its_lines() {
        let rows = flow("one two three four five\n\nsix\n", 5, 14);
        assert_eq!(rows, ["one two", "  three four", "  five", "", "  six"]);
        assert_eq!(flow("", 5, 14), [""]);
    }

    #[test]
    fn a_word_longer_than_the_row_is_cut() {
        assert_eq!(flow("abcdefghijkl", 5, 10), ["abcde", "  fghijkl"]);
        assert_eq!(flow("漢字漢字", 5, 10), ["漢字", "  漢字"]);
    }
}
