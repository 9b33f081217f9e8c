//! `a ~ b` in templates. The engine writes both sides in a way of its own there (`True`, `None`) and as long as they are, and
//! offers no place to change that; so each side is given to the filter `string` first, which is ours. Must not know what
//! a template is for.

use std::borrow::Cow;

/// Words that end an expression in front of them, or belong to none.
const WORDS: [&str; 6] = ["and", "or", "not", "in", "is", "if"];

/// The source of a template with both sides of every `~` as texts.
pub(super) fn rewritten(source: &str) -> Cow<'_, str> {
    if !source.contains('~') {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len() * 2);
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'%') if is_tag(tag, "raw") => raw_end(tag),
            Some(open @ (b'{' | b'%')) => {
                let close = if *open == b'{' { "}}" } else { "%}" };
                // A sign there is about the white space in front.
                let begin = if tag[2..].starts_with(['-', '+']) { 3 } else { 2 };
                out.push_str(&tag[..begin]);
                let (expression, length) = expression(&tag[begin..], close);
                out.push_str(&expression);
                rest = &tag[begin + length..];
                continue;
            }
            _ => 1,
        };
        out.push_str(&tag[..end]);
        rest = &tag[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The same for a single expression.
pub(super) fn rewritten_expression(source: &str) -> Cow<'_, str> {
    match source.contains('~') {
        true => Cow::Owned(expression(source, "").0),
        false => Cow::Borrowed(source),
    }
}

/// Whether a text begins with a block of that name.
fn is_tag(text: &str, name: &str) -> bool {
    let inside = text.strip_prefix("{%").map(|inside| inside.trim_start_matches(['-', '+']).trim_start());
    inside.and_then(|inside| inside.strip_prefix(name)).is_some_and(|after| !after.starts_with(is_word))
}

/// Where the text behind a `{% raw %}` goes on.
fn raw_end(text: &str) -> usize {
    let ends = text.match_indices("{%").map(|(at, _)| at);
    ends.skip(1).find(|at| is_tag(&text[*at..], "endraw")).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where in the written text the operands of a run of `~` are.
#[derive(Default)]
struct Operands {
    start: usize,
    /// The positions of `~`.
    tildes: Vec<usize>,
}

impl Operands {
    /// Ends the run: each operand of a `~` becomes a text.
    fn end(&mut self, out: &mut String) {
        if !self.tildes.is_empty() {
            let run = out.split_off(self.start);
            let mut from = 0;
            let ends = self.tildes.iter().map(|at| at - self.start).chain([run.len()]);
            let parts: Vec<String> = ends
                .map(|end| {
                    let part = format!("(({})|string)", &run[from..end]);
                    from = end + 1;
                    part
                })
                .collect();
            out.push_str(&parts.join("~"));
        }
        *self = Self { start: out.len(), tildes: Vec::new() };
    }
}

/// The expression up to `close`, rewritten, and its length.
fn expression(source: &str, close: &str) -> (String, usize) {
    let mut out = String::with_capacity(source.len() * 2);
    // One for each bracket that is open.
    let mut open = vec![Operands::default()];
    // What came before the next token: whether it ended an operand, and whether it was a `.` or `|`.
    let (mut is_operand, mut names_next) = (false, false);
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let innermost = open.len() - 1;
        if !close.is_empty() && innermost == 0 && rest.trim_start_matches(['-', '+']).starts_with(close) {
            break;
        }
        let length = match c {
            '"' | '\'' => text_length(rest, c),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let token = &rest[..length];
        at += length;
        match c {
            _ if c.is_whitespace() => {
                out.push_str(token);
                continue;
            }
            '(' | '[' | '{' => {
                out.push_str(token);
                open.push(Operands { start: out.len(), tildes: Vec::new() });
                (is_operand, names_next) = (false, false);
                continue;
            }
            ')' | ']' | '}' => {
                if let Some(mut inner) = (innermost > 0).then(|| open.pop()).flatten() {
                    inner.end(&mut out);
                }
                out.push_str(token);
                (is_operand, names_next) = (true, false);
                continue;
            }
            '~' => {
                open[innermost].tildes.push(out.len());
                out.push_str(token);
                (is_operand, names_next) = (false, false);
                continue;
            }
            _ => {}
        }
        let is_first = close == "%}" && innermost == 0 && out.trim().is_empty();
        let is_boundary = match c {
            '+' | ',' | ':' | '=' | '<' | '>' | '!' => true,
            // Between two operands it is weaker than `~`, before one it is part of it.
            '-' => is_operand,
            c if is_word(c) => is_first || !names_next && (WORDS.contains(&token) || token == "else"),
            _ => false,
        };
        if is_boundary {
            open[innermost].end(&mut out);
            out.push_str(token);
            open[innermost].start = out.len();
        } else {
            out.push_str(token);
        }
        is_operand = !is_boundary && (is_word(c) || matches!(c, '"' | '\''));
        names_next = matches!(c, '.' | '|');
    }
    while let Some(mut operands) = open.pop() {
        operands.end(&mut out);
    }
    (out, at)
}

/// Length of a text with its quotation marks.
fn text_length(text: &str, mark: char) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == mark && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_tilde_are_texts_and_nothing_else_changes() {
        for (source, wanted) in [
            ("{{ a ~ b }}", "{{(( a )|string)~(( b )|string)}}"),
            ("{{- a ~ b -}}", "{{-(( a )|string)~(( b )|string)-}}"),
            (
                "{{ a*2 ~ -b.c[d ~ 1] | upper }}",
                "{{(( a*2 )|string)~(( -b.c[((d )|string)~(( 1)|string)] | upper )|string)}}",
            ),
            (
                "{% if a ~ b == c and not d ~ e %}",
                "{% if(( a )|string)~(( b )|string)== c and not(( d )|string)~(( e )|string)%}",
            ),
            ("{% set x = a - b ~ c %}", "{% set x = a -(( b )|string)~(( c )|string)%}"),
            ("{{ f(a, k=b ~ c) }}", "{{ f(a, k=((b )|string)~(( c)|string)) }}"),
            ("{{ {'a': b ~ '}}'} }}", "{{ {'a':(( b )|string)~(( '}}')|string)} }}"),
            (
                "{{ a ~ b if c else d.in ~ e }}",
                "{{(( a )|string)~(( b )|string)if c else(( d.in )|string)~(( e )|string)}}",
            ),
            (
                "{# a ~ b #}~{% raw %}{{ a ~ b }}{% endraw %}{{ '~' }}",
                "{# a ~ b #}~{% raw %}{{ a ~ b }}{% endraw %}{{ '~' }}",
            ),
            ("{{ 'a\\'~' ~ b", "{{(( 'a\\'~' )|string)~(( b)|string)"),
        ] {
            assert_eq!(rewritten(source), wanted);
        }
        assert_eq!(rewritten_expression("a ~ b"), "((a )|string)~(( b)|string)");
        assert_eq!(rewritten("{{ a }}~{ }} ~ {%"), "{{ a }}~{ }} ~ {%");
    }
}
