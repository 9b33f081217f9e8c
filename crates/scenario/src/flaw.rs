//! What is wrong with a file, and where.

use std::fmt;

use agent::config::nearest;
use serde::Serialize;

use crate::bounds;

/// A position in a file, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FilePosition {
    /// The line; 0 for the file as a whole.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileFlaw {
    /// The position.
    #[serde(flatten)]
    pub place: FilePosition,
    /// What was wanted and what was found.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl FileFlaw {
    pub(crate) fn new(place: FilePosition, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message after the file and the position, such as `a.yaml:3:5: unknown key`.
    pub fn located(&self, file: &str) -> String {
        let FilePosition { line, column } = self.place;
        if line == 0 { format!("{file}: {self}") } else { format!("{file}:{line}:{column}: {self}") }
    }
}

impl fmt::Display for FileFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// All flaws found so far. Reading continues after a flaw, so that a person sees all of them at once.
#[derive(Debug, Default)]
pub(crate) struct Flaws(Vec<FileFlaw>);

impl Flaws {
    pub(crate) fn add(&mut self, flaw: FileFlaw) {
        if self.0.len() < bounds::FLAWS_MAX {
            self.0.push(flaw);
        }
    }

    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Vec<FileFlaw>> {
        if self.0.is_empty() { Ok(value) } else { Err(self.0) }
    }
}

/// `; did you mean `x`?` if a candidate is similar, otherwise the list of candidates.
pub(crate) fn meant<'a>(word: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(nearest) = nearest(word, candidates.clone()) {
        return format!("; did you mean `{nearest}`?");
    }
    let all: Vec<String> = candidates.take(bounds::FLAWS_MAX).map(|name| format!("`{name}`")).collect();
    if all.is_empty() { String::new() } else { format!("; there are {}", all.join(", ")) }
}

/// The beginning of a text, for one line of an error.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let short: String = chars.by_ref().take(bounds::SHOWN_CHARS).collect();
    if chars.next().is_some() { format!("{short}...") } else { short }
}
