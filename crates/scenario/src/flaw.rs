//! What is wrong with a file, and where.

use std::fmt;

use agent::config::nearest;

use crate::bounds;

/// A place in a file, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilePosition {
    /// The line; 0 where it is the file as a whole.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// One thing that is wrong: what was wanted, what stands there, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFlaw {
    /// Where.
    pub place: FilePosition,
    /// What.
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
}

impl fmt::Display for FileFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Everything that was found wrong so far. Reading goes on behind a flaw, so that a person sees all
/// of them at once.
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

/// `; did you mean `x`?` where one of the candidates is alike, else which there are.
pub(crate) fn meant<'a>(word: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(nearest) = nearest(word, candidates.clone()) {
        return format!("; did you mean `{nearest}`?");
    }
    let all: Vec<String> = candidates.take(bounds::FLAWS_MAX).map(|name| format!("`{name}`")).collect();
    if all.is_empty() { String::new() } else { format!("; there are {}", all.join(", ")) }
}

/// The beginning of something that was written, for one line of an error.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let short: String = chars.by_ref().take(bounds::SHOWN_CHARS).collect();
    if chars.next().is_some() { format!("{short}...") } else { short }
}
