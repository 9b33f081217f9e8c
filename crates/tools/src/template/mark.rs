//! Marks that stand for secrets until a request is written. They consist of characters that no text may contain, so that
//! an argument cannot forge one. Must not know a secret's value.

use std::collections::BTreeSet;

const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// The mark of this secret. The error says what a name may be.
pub(super) fn of(name: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(
            "wanted a secret's name of 1 to 64 characters from a-z, A-Z, 0-9, `_`, `-` and `.`".to_owned()
        );
    }
    Ok(format!("{OPEN}{name}{CLOSE}"))
}

/// Whether a text contains a character of marks.
pub(crate) fn has_mark(text: &str) -> bool {
    text.contains([OPEN, CLOSE])
}

/// The secrets that a text names.
pub(crate) fn names(text: &str) -> BTreeSet<String> {
    parts(text).filter_map(|(_, name)| name.map(str::to_owned)).collect()
}

/// The secrets that a template names by a text of its own, `secret("name")`, and not by an argument.
pub(crate) fn written(source: &str) -> BTreeSet<String> {
    let named = source.split("secret").skip(1).filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix('(')?.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest[1..].split_once(quote).map(|(name, _)| name.to_owned())
    });
    named.collect()
}

/// The text with its marks replaced. The error is the name of a secret that `open` does not know.
pub(crate) fn fill(text: &str, open: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    for (before, name) in parts(text) {
        filled.push_str(before);
        if let Some(name) = name {
            filled.push_str(&open(name).ok_or_else(|| name.to_owned())?);
        }
    }
    Ok(filled)
}

/// The text with everything but its marks changed.
pub(super) fn around(text: &str, change: impl Fn(&str) -> String) -> String {
    let mut changed = String::with_capacity(text.len());
    for (before, name) in parts(text) {
        changed.push_str(&change(before));
        if let Some(name) = name {
            changed.extend([OPEN]);
            changed.push_str(name);
            changed.extend([CLOSE]);
        }
    }
    changed
}

/// Pieces of plain text, each with the name of the mark behind it.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let current = rest.take()?;
        let mark = current.split_once(OPEN).and_then(|(before, after)| {
            let (name, behind) = after.split_once(CLOSE)?;
            Some((before, name, behind))
        });
        Some(match mark {
            Some((before, name, behind)) => {
                rest = Some(behind);
                (before, Some(name))
            }
            None => (current, None),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_and_filled() {
        let text = format!("a {} b {}", of("k").unwrap(), of("l.m").unwrap());
        assert_eq!(names(&text), BTreeSet::from(["k".to_owned(), "l.m".to_owned()]));
        assert_eq!(fill(&text, &|name| Some(name.to_uppercase())).unwrap(), "a K b L.M");
        assert_eq!(fill(&text, &|name| (name == "k").then(String::new)).unwrap_err(), "l.m");
        assert_eq!(fill(&around(&text, str::to_uppercase), &|name| Some(name.into())).unwrap(), "A k B l.m");
        let source = "{{ secret('a') }} {{secret ( \"b.c\" )}} {{ secret(d) }} secret secret(";
        assert_eq!(written(source), BTreeSet::from(["a".to_owned(), "b.c".to_owned()]));
        assert!(of("a b").is_err() && of("").is_err());
    }
}
