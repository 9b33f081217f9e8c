//! A minimal scanner of Rust: separates code, strings and comments, and finds functions.

/// One line of a file, in three forms.
pub(crate) struct Line {
    /// As written.
    pub(crate) raw: String,
    /// Without comments.
    pub(crate) uncommented: String,
    /// Without comments and without the content of strings.
    pub(crate) code: String,
}

/// A Rust file.
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// Its lines.
    pub(crate) lines: Vec<Line>,
    /// Index of the first line of the test module; the number of lines if there is none.
    pub(crate) tests_from: usize,
}

/// A function with a body.
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Line of its signature, from 1.
    pub(crate) line: usize,
    /// Lines from there to its closing brace.
    pub(crate) length: usize,
}

impl Source {
    /// Splits a file into lines.
    pub(crate) fn new(path: String, text: &str) -> Self {
        let (uncommented, code) = blank(text);
        let lines: Vec<Line> = text
            .lines()
            .zip(uncommented.lines())
            .zip(code.lines())
            .map(|((raw, uncommented), code)| Line {
                raw: raw.to_owned(),
                uncommented: uncommented.to_owned(),
                code: code.to_owned(),
            })
            .collect();
        let tests_from = if is_test_file(&path) { 0 } else { bottom_tests(&lines) };
        Self { path, lines, tests_from }
    }

    /// The crate's folder, such as `crates/agent` or `bench`.
    pub(crate) fn package(&self) -> &str {
        let depth = if self.path.starts_with("crates/") { 2 } else { 1 };
        let end = self.path.match_indices('/').nth(depth - 1).map_or(self.path.len(), |(at, _)| at);
        &self.path[..end]
    }

    /// The lines outside tests, numbered from 1.
    pub(crate) fn shipped(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.numbered().take(self.tests_from)
    }

    /// The lines of tests, numbered from 1.
    pub(crate) fn tests(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.numbered().skip(self.tests_from)
    }

    /// All lines, numbered from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Every function with a body, in order.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (line, text) in self.numbered() {
            if let Some(name) = function_name(&text.code)
                && let Some(end) = self.end_of_body(line - 1)
            {
                found.push(Function { name, line, length: end + 1 - (line - 1) });
            }
        }
        found
    }

    /// Index of the line that closes the body of the function whose signature starts at `start`; `None` if it
    /// has no body.
    fn end_of_body(&self, start: usize) -> Option<usize> {
        let mut round = 0i32;
        let mut curly = 0i32;
        let from = self.lines[start].code.find("fn ").unwrap_or(0);
        for (index, line) in self.lines.iter().enumerate().skip(start) {
            let skip = if index == start { from } else { 0 };
            for character in line.code[skip..].chars() {
                match character {
                    '(' | '[' => round += 1,
                    ')' | ']' => round -= 1,
                    ';' if curly == 0 && round == 0 => return None,
                    '{' => curly += 1,
                    '}' => {
                        curly -= 1;
                        if curly == 0 {
                            return Some(index);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Index of the line where the test module at the bottom starts.
fn bottom_tests(lines: &[Line]) -> usize {
    let begins = |index: usize| {
        lines[index].code.trim() == "#[cfg(test)]"
            && lines[index + 1..]
                .iter()
                .map(|line| line.code.trim())
                .find(|code| !code.starts_with("#["))
                .is_some_and(|code| code.starts_with("mod ") && code.ends_with('{'))
    };
    (0..lines.len()).find(|index| begins(*index)).unwrap_or(lines.len())
}

fn function_name(code: &str) -> Option<String> {
    let at = code.find("fn ")?;
    let free = code[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || before == '(');
    let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (free && !name.is_empty()).then_some(name)
}

/// The text without comments, and the text without comments and strings, with the same lines.
fn blank(text: &str) -> (String, String) {
    let mut scanner = Scanner { rest: text, uncommented: String::new(), code: String::new() };
    while let Some(next) = scanner.rest.chars().next() {
        if scanner.rest.starts_with("//") {
            let end = scanner.rest.find('\n').unwrap_or(scanner.rest.len());
            scanner.skip(end, false);
        } else if scanner.rest.starts_with("/*") {
            let end = block_comment(scanner.rest);
            scanner.skip(end, false);
        } else if let Some(length) = raw_string(scanner.rest, &scanner.code) {
            scanner.skip(length, true);
        } else if next == '"' {
            let length = string(scanner.rest);
            scanner.skip(length, true);
        } else if let Some(length) = character(scanner.rest) {
            scanner.skip(length, true);
        } else {
            scanner.keep(next);
        }
    }
    (scanner.uncommented, scanner.code)
}

struct Scanner<'a> {
    rest: &'a str,
    uncommented: String,
    code: String,
}

impl Scanner<'_> {
    fn keep(&mut self, character: char) {
        self.uncommented.push(character);
        self.code.push(character);
        self.rest = &self.rest[character.len_utf8()..];
    }

    /// Removes `length` bytes from the code. A literal stays in the uncommented text.
    fn skip(&mut self, length: usize, literal: bool) {
        let (skipped, rest) = self.rest.split_at(length);
        for character in skipped.chars() {
            let blank = if character == '\n' { '\n' } else { ' ' };
            self.code.push(blank);
            self.uncommented.push(if literal { character } else { blank });
        }
        self.rest = rest;
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn raw_string(text: &str, before: &str) -> Option<usize> {
    let after_prefix = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let hashes = after_prefix.len() - after_prefix.trim_start_matches('#').len();
    let body = after_prefix[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |at| at + close.len());
    Some(text.len() - body.len() + end)
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let first = body.chars().next()?;
    if first == '\\' {
        return body.char_indices().skip(2).find(|(_, c)| *c == '\'').map(|(at, _)| at + 2);
    }
    let closed = body[first.len_utf8()..].starts_with('\'');
    closed.then(|| first.len_utf8() + 2)
}

#[test]
fn strings_comments_and_characters_are_distinguished() {
    let text = "let a = \"// no\"; // yes\nlet b = 'x'; /* {\n} */ fn f<'a>(c: &'a str) { r#\"}\"# }\n";
    let source = Source::new("crates/x/src/a.rs".to_owned(), text);
    assert_eq!(source.lines[0].uncommented.trim_end(), "let a = \"// no\";");
    assert!(!source.lines[0].code.contains("no"));
    assert!(!source.lines[1].code.contains('{'));
    assert_eq!(source.functions().len(), 1);
}

#[test]
fn a_function_is_as_long_as_its_lines() {
    let text = "trait T {\n    fn none(&self);\n}\nfn two() {\n    let x = [0; 3];\n}\n#[cfg(test)]\nmod tests {\n}\n";
    let source = Source::new("crates/x/src/a.rs".to_owned(), text);
    let functions = source.functions();
    assert_eq!(functions.len(), 1);
    assert_eq!((functions[0].name.as_str(), functions[0].line, functions[0].length), ("two", 4, 3));
    assert_eq!(source.tests_from, 6);
    assert_eq!(source.package(), "crates/x");
}
