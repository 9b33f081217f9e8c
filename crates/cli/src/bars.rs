//! Bars: where something lies on a scale and how long it is, in cells of a line. Must not know what the
//! bars show.

use crate::output::{Screen, Style, columns, span};

/// A length and the cells that show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The length that all cells together represent.
    pub(crate) total: u64,
    pub(crate) cells: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) glyph: char,
    pub(crate) style: Style,
}

impl Scale {
    fn cell(&self, at: u64) -> usize {
        let at = u128::from(at.min(self.total));
        let cell = at * self.cells as u128 / u128::from(self.total.max(1));
        usize::try_from(cell).unwrap_or(self.cells).min(self.cells)
    }

    /// Draws the bar. A piece that is not empty has at least one cell; if two pieces share a cell, the
    /// later one shows.
    pub(crate) fn bar(&self, screen: &Screen, pieces: &[Piece]) -> String {
        let mut cells: Vec<Option<Piece>> = vec![None; self.cells];
        for piece in pieces.iter().filter(|_| self.cells > 0) {
            let from = self.cell(piece.from).min(self.cells - 1);
            let to = self.cell(piece.to).clamp(from + 1, self.cells);
            cells[from..to].fill(Some(*piece));
        }
        let mut out = String::new();
        for run in cells.chunk_by(|a, b| a.map(|piece| piece.glyph) == b.map(|piece| piece.glyph)) {
            match run[0] {
                None => out.push_str(&" ".repeat(run.len())),
                Some(piece) => {
                    out.push_str(&screen.paint(piece.style, &piece.glyph.to_string().repeat(run.len())));
                }
            }
        }
        out.trim_end().to_owned()
    }

    /// A time axis above such bars: its begin, and its end in milliseconds if there is room.
    pub(crate) fn times(&self, screen: &Screen) -> String {
        let mark = screen.pick("│", "|");
        let begin = format!("{mark}0");
        let end = format!("{}{mark}", span(self.total));
        match self.cells.checked_sub(columns(&begin) + columns(&end)) {
            Some(between) if between > 0 => format!("{begin}{}{end}", " ".repeat(between)),
            _ => begin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(total: u64, pieces: &[(u64, u64, char)]) -> String {
        let piece = |&(from, to, glyph): &(u64, u64, char)| Piece { from, to, glyph, style: Style::Dim };
        let pieces: Vec<Piece> = pieces.iter().map(piece).collect();
        Scale { total, cells: 10 }.bar(&Screen::plain(Some(80), false), &pieces)
    }

    #[test]
    fn a_piece_is_at_its_position_and_has_at_least_one_cell() {
        assert_eq!(bar(100, &[(0, 20, '.'), (20, 60, '#')]), "..####");
        assert_eq!(bar(100, &[(95, 95, '#')]), "         #");
        assert_eq!(bar(100, &[(100, 100, '#')]), "         #");
        assert_eq!(bar(100, &[(50, 900, '#')]), "     #####");
        assert_eq!(bar(0, &[(0, 0, '#')]), "#");
        assert_eq!(bar(100, &[]), "");
    }

    #[test]
    fn an_axis_shows_its_begin_and_its_end() {
        let axis = |total, cells| Scale { total, cells }.times(&Screen::plain(Some(80), false));
        assert_eq!(axis(2_400, 24), "|0               2.40 s|");
        assert_eq!([axis(3, 12), axis(3, 6)], ["|0     3 ms|", "|0"]);
    }
}
