//! Bars: where something lies on a scale and how long it is, in cells of a line. Must not know what the
//! bars show.

use crate::output::{Screen, Style, columns};

/// Minimum number of columns between two marks of an axis: the label and some space.
const MARK_COLUMNS: usize = 8;

/// Steps of an axis of milliseconds: round numbers for people.
const STEPS_MS: [u64; 24] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000,
    300_000, 600_000, 1_800_000, 3_600_000, 14_400_000, 43_200_000, 86_400_000,
];

/// A length and the cells that show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The length that all cells together represent.
    pub(crate) total: u64,
    /// Columns of the bar.
    pub(crate) cells: usize,
}

/// A part of a bar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Where it begins.
    pub(crate) from: u64,
    /// Where it ends.
    pub(crate) to: u64,
    /// What it is drawn with.
    pub(crate) glyph: char,
    /// Its colour.
    pub(crate) style: Style,
}

impl Scale {
    /// The cell that contains position `at`.
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

    /// Marks of a time axis above such bars, with their labels.
    pub(crate) fn times(&self, screen: &Screen) -> String {
        let mark = screen.pick("│", "|");
        let wide = |step: u64| step <= self.total && self.cell(step) >= MARK_COLUMNS;
        let step = STEPS_MS.iter().copied().find(|step| wide(*step)).unwrap_or(u64::MAX);
        let mut out = String::new();
        let mut at: u64 = 0;
        while at <= self.total {
            let cell = self.cell(at);
            let label = format!("{mark}{}", time(at));
            if cell + columns(&label) > self.cells {
                break;
            }
            out.push_str(&" ".repeat(cell.saturating_sub(columns(&out))));
            out.push_str(&label);
            at = at.saturating_add(step);
            if at == u64::MAX {
                break;
            }
        }
        // Too narrow for a second mark: label the end of the axis with its length.
        let end = format!("{}{mark}", time(self.total));
        if !out.contains(' ') && self.total > 0 && columns(&out) + columns(&end) < self.cells {
            out.push_str(&" ".repeat(self.cells - columns(&out) - columns(&end)));
            out.push_str(&end);
        }
        out
    }
}

/// The time of a mark, as short as possible.
fn time(ms: u64) -> String {
    match ms {
        0 => "0".to_owned(),
        ms if ms < 1_000 => format!("{ms} ms"),
        ms if ms < 60_000 && ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms if ms < 60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms if ms < 3_600_000 && ms % 60_000 == 0 => format!("{} min", ms / 60_000),
        ms if ms < 3_600_000 => format!("{}:{:02}", ms / 60_000, ms / 1_000 % 60),
        ms => format!("{} h", ms / 3_600_000),
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
    fn an_axis_has_round_marks_that_do_not_touch() {
        let axis = |total, cells| Scale { total, cells }.times(&Screen::plain(Some(80), false));
        assert_eq!(axis(1_000, 50), "|0        |200 ms   |400 ms   |600 ms   |800 ms");
        assert_eq!(axis(2_400, 24), "|0        |1 s      |2 s");
        assert_eq!(axis(3, 12), "|0     3 ms|");
        assert_eq!(axis(3, 6), "|0");
        assert_eq!(axis(0, 10), "|0");
        assert_eq!(axis(90_000_000, 60), "|0       |4 h      |8 h     |12 h     |16 h     |20 h");
    }
}
