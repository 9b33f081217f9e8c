//! Compares output with a page: `…` in a line stands for anything, a line that is only `…` for any number
//! of lines.

/// The mark for text that differs from run to run.
const ANY: &str = "…";

/// Whether `got` matches `wanted`; trailing blanks and empty lines at the end are ignored.
pub(crate) fn fits(wanted: &str, got: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    lines_fit(&lines(wanted), &lines(got))
}

fn lines_fit(wanted: &[String], got: &[String]) -> bool {
    match wanted.split_first() {
        None => got.is_empty(),
        Some((first, rest)) if first == ANY => (0..=got.len()).any(|skip| lines_fit(rest, &got[skip..])),
        Some((first, rest)) => {
            got.split_first().is_some_and(|(line, others)| line_fits(first, line) && lines_fit(rest, others))
        }
    }
}

fn line_fits(wanted: &str, got: &str) -> bool {
    let mut parts = wanted.split(ANY);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = got.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[test]
fn only_the_mark_matches_anything() {
    let check = |wanted: &str, got: &str, fit: bool| assert_eq!(fits(wanted, got), fit, "{wanted} / {got}");
    check("id …, 3 s\n", "id 01a2, 3 s\n\n", true);
    check("id …, 3 s", "id 01a2, 4 s", false);
    check("a\n…\nz", "a\nb\nc\nz", true);
    check("a\n…\nz", "a\nz", true);
    check("a\n…\nz", "a\nb", false);
    check("a", "a\nb", false);
    check("… of …", "3 of 4", true);
}
