//! Layers: text that a model is sent in addition to the log, and a typed record of what of the workspace it shows. What a
//! request shows is read from these records, never from texts, so that a change of wording changes nothing else.
//!
//! A layer belongs to the view under which it was first sent, and is sent as long as the entries stand that this view shows. So
//! a view that shows others begins with one whole workspace, whatever it leaves out.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::WorkspacePart;
use crate::limits;
use crate::tokens;

names! {
    /// What a layer is.
    pub enum LayerKind {
        /// The whole workspace.
        Whole,
        /// Lines of the workspace that have changed since.
        Update,
        /// Beginnings of events that wait.
        Preview,
        /// Which tools may be called from now on.
        Phase,
    }
}

/// A volatile layer: text that is sent to the model but is no entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What it is.
    pub kind: LayerKind,
    /// The revision of the view to which it belongs.
    pub view: u64,
    /// The entry that it follows.
    pub after: u64,
    /// The text that is sent.
    pub text: Arc<str>,
    /// What of the workspace it shows.
    pub shown: ShownLines,
    /// Its estimated tokens.
    pub tokens: u32,
}

impl Layer {
    /// That text after that entry of that view.
    pub fn new(kind: LayerKind, view: u64, after: u64, text: Arc<str>) -> Self {
        Self { kind, view, after, shown: ShownLines::default(), tokens: tokens::estimate(&text), text }
    }
}

/// What of the workspace a layer shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownLines {
    /// The time that it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Timestamp>,
    /// Its lines of the other parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ShownPart>,
}

impl ShownLines {
    /// Whether it shows nothing of the workspace.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it shows lines of that part.
    pub fn has(&self, part: WorkspacePart) -> bool {
        self.parts.iter().any(|shown| shown.part == part)
    }
}

/// Lines of one part of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPart {
    /// The part.
    pub part: WorkspacePart,
    /// What is said of each item: its name or id, and the state in which it is shown.
    pub lines: Vec<(String, ShownLine)>,
}

/// What a request says of one item of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownLine {
    /// A line of that hash.
    Text(u64),
    /// That there was no room for it.
    LeftOut,
    /// That it is no more.
    Gone,
}

impl ShownLine {
    /// The line that is this text.
    pub fn of(text: &str) -> Self {
        let hash: [u8; 32] = Sha256::digest(text).into();
        let first = hash.first_chunk::<8>().copied().unwrap_or_default();
        Self::Text(u64::from_le_bytes(first))
    }
}

/// What a request says of the workspace, all layers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The newest time that it shows.
    pub clock: Option<Timestamp>,
    lines: BTreeMap<(WorkspacePart, String), ShownLine>,
}

impl Known {
    /// What these layers say, oldest first.
    pub fn of<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Self {
        let mut known = Self::default();
        for layer in layers {
            known.add(&layer.shown);
        }
        known
    }

    /// Something more is shown.
    pub fn add(&mut self, shown: &ShownLines) {
        self.clock = self.clock.max(shown.clock);
        for ShownPart { part, lines } in &shown.parts {
            for (item, line) in lines {
                self.set(*part, item, *line);
            }
        }
    }

    /// The item is shown like that.
    pub fn set(&mut self, part: WorkspacePart, item: &str, line: ShownLine) {
        let at = (part, item.to_owned());
        match line {
            ShownLine::Gone => drop(self.lines.remove(&at)),
            ShownLine::Text(_) | ShownLine::LeftOut => drop(self.lines.insert(at, line)),
        }
    }

    /// What is said of the item.
    pub fn get(&self, part: WorkspacePart, item: &str) -> Option<ShownLine> {
        self.lines.get(&(part, item.to_owned())).copied()
    }

    /// The items of the part of which something is said.
    pub fn items(&self, part: WorkspacePart) -> impl Iterator<Item = &str> {
        let from = (part, String::new());
        let of_part = self.lines.range(from..).take_while(move |((of, _), _)| *of == part);
        of_part.map(|((_, item), _)| item.as_str())
    }
}

/// Whether so many more tokens of changes have no room behind the whole workspace among these layers: then the view begins
/// anew with one fresh copy. They have as much as a quarter of it, and a little in any case.
pub fn is_tail_full<'a>(layers: impl IntoIterator<Item = &'a Layer>, more: u32) -> bool {
    let (mut whole, mut tail) = (0, u64::from(more));
    for layer in layers {
        match layer.kind {
            LayerKind::Whole => whole += u64::from(layer.tokens),
            LayerKind::Update => tail += u64::from(layer.tokens),
            LayerKind::Preview | LayerKind::Phase => {}
        }
    }
    whole == 0 || tail > (whole / limits::WORKSPACE_TAIL_SHARE).max(limits::WORKSPACE_TAIL_MIN_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_form_and_later_lines_replace_earlier_ones() {
        let shown = |lines: &[(&str, ShownLine)]| ShownLines {
            clock: None,
            parts: vec![ShownPart {
                part: WorkspacePart::Memories,
                lines: lines.iter().map(|(item, line)| ((*item).to_owned(), *line)).collect(),
            }],
        };
        let first = shown(&[
            ("\"a\"", ShownLine::of("- 1")),
            ("\"b\"", ShownLine::LeftOut),
            ("\"c\"", ShownLine::of("c")),
        ]);
        let json = serde_json::to_string(&first).unwrap();
        let start = r#"{"parts":[{"part":"memories","lines":[["\"a\"",{"text":"#;
        assert!(json.starts_with(start) && json.contains(r#"["\"b\"","left_out"]"#), "{json}");
        assert_eq!(serde_json::from_str::<ShownLines>(&json).unwrap(), first);
        assert_eq!(serde_json::to_string(&ShownLines::default()).unwrap(), "{}");
        let layer = |shown| Layer { shown, ..Layer::new(LayerKind::Update, 0, 1, "x".into()) };
        let later = shown(&[("\"b\"", ShownLine::of("- 2")), ("\"c\"", ShownLine::Gone)]);
        let known = Known::of(&[layer(first), layer(later)]);
        let get = |item| known.get(WorkspacePart::Memories, item);
        assert_eq!(
            (get("\"a\""), get("\"b\""), get("\"c\"")),
            (Some(ShownLine::of("- 1")), Some(ShownLine::of("- 2")), None)
        );
        assert_eq!(known.items(WorkspacePart::Memories).collect::<Vec<_>>(), ["\"a\"", "\"b\""]);
        assert_eq!(known.items(WorkspacePart::Plans).count() + known.items(WorkspacePart::Clock).count(), 0);
    }

    #[test]
    fn changes_have_room_up_to_a_quarter_of_the_workspace() {
        let layer = |kind, tokens| Layer { tokens, ..Layer::new(kind, 0, 1, "x".into()) };
        let sent =
            [layer(LayerKind::Whole, 4_000), layer(LayerKind::Update, 600), layer(LayerKind::Preview, 9_000)];
        assert!(!is_tail_full(&sent, 400) && is_tail_full(&sent, 401));
        let small = [layer(LayerKind::Whole, 100)];
        assert!(!is_tail_full(&small, 200) && is_tail_full(&small, 201), "a little has room in any case");
        assert!(is_tail_full(&[], 1), "without a whole workspace there is nothing to change");
    }
}
