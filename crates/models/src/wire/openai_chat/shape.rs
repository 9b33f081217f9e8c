//! Reads a reply that is one JSON object while it streams: the tool's name and the raw bytes of its
//! arguments, or a text. If the reply is no such object, all of it is text.

/// What the reader found in a piece of the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The reply is a text.
    Text,
    /// The reply is a call of this tool.
    Call(String),
    /// More of the text, or more of the raw arguments.
    More(String),
}

/// The whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Empty.
    Nothing,
    /// A text.
    Text(String),
    /// A call, with its raw arguments.
    Call { name: String, arguments: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Before the object.
    Start,
    /// Between fields: a key, a comma or the end.
    Field,
    /// Inside a key.
    Key(Text),
    /// After a key.
    Colon(String),
    /// Before a value.
    Before(String),
    /// Inside the tool's name.
    Name(Text),
    /// Inside the text.
    InText,
    /// Inside the arguments (`kept`), or inside an unknown value.
    Value { nesting: Nesting, kept: bool },
    /// After the object.
    Done,
    /// The reply is not an object: all of it is text.
    Plain,
}

/// A JSON string being decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Text {
    text: String,
    escape: Option<String>,
    high: Option<u16>,
}

impl Text {
    /// Reads a character; `true` if it is the closing quote.
    fn push(&mut self, c: char) -> bool {
        match self.escape.as_mut() {
            Some(escape) => {
                escape.push(c);
                let done = !escape.starts_with('u') || escape.len() >= 5;
                if done {
                    let escape = self.escape.take().unwrap_or_default();
                    self.unescape(&escape);
                }
            }
            None if c == '"' => {
                self.give_up_half();
                return true;
            }
            None if c == '\\' => self.escape = Some(String::new()),
            None => {
                self.give_up_half();
                self.text.push(c);
            }
        }
        false
    }

    /// Replaces a lone high surrogate by U+FFFD.
    fn give_up_half(&mut self) {
        if self.high.take().is_some() {
            self.text.push('\u{fffd}');
        }
    }

    fn unescape(&mut self, escape: &str) {
        let Some(hex) = escape.strip_prefix('u') else {
            self.give_up_half();
            self.text.push(match escape {
                "n" => '\n',
                "t" => '\t',
                "r" => '\r',
                "b" => '\u{8}',
                "f" => '\u{c}',
                other => other.chars().next().unwrap_or('\u{fffd}'),
            });
            return;
        };
        let unit = u16::from_str_radix(hex, 16).unwrap_or(0xfffd);
        if let Some(Ok(c)) = self.high.and_then(|high| char::decode_utf16([high, unit]).next()) {
            self.high = None;
            return self.text.push(c);
        }
        self.give_up_half();
        match unit {
            0xd800..0xdc00 => self.high = Some(unit),
            _ => self.text.push(char::from_u32(unit.into()).unwrap_or('\u{fffd}')),
        }
    }
}

/// The position inside a raw value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl Nesting {
    /// Reads a character and returns whether the value ends with it or ended before it.
    fn push(&mut self, c: char) -> End {
        let first = !std::mem::replace(&mut self.begun, true);
        if self.in_string {
            let quote = c == '"' && !self.escaped;
            self.escaped = c == '\\' && !self.escaped;
            self.in_string = !quote;
            return if quote && self.depth == 0 { End::With } else { End::Not };
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' | ',' if self.depth == 0 && !first => return End::Before,
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                return if self.depth == 0 { End::With } else { End::Not };
            }
            _ => {}
        }
        End::Not
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Not,
    With,
    Before,
}

/// The reader.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    state: State,
    raw: String,
    name: Option<String>,
    arguments: String,
    text: Option<Text>,
    shown: bool,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            state: State::Start,
            raw: String::new(),
            name: None,
            arguments: String::new(),
            text: None,
            shown: false,
        }
    }

    /// Reads more of the reply.
    pub(super) fn push(&mut self, more: &str, out: &mut Vec<Seen>) {
        self.raw.push_str(more);
        let (arguments, text) =
            (self.arguments.len(), self.text.as_ref().map_or(0, |found| found.text.len()));
        let plain = self.state == State::Plain;
        for c in more.chars() {
            self.step(c);
        }
        if self.state == State::Plain {
            if !plain {
                out.push(Seen::Text);
                out.push(Seen::More(self.raw.clone()));
            } else {
                out.push(Seen::More(more.to_owned()));
            }
            self.shown = true;
            return;
        }
        if let (Some(name), false) = (&self.name, self.shown || self.text.is_some()) {
            self.shown = true;
            out.push(Seen::Call(name.clone()));
            // Arguments that arrived before the name are shown now.
            if !self.arguments.is_empty() {
                out.push(Seen::More(self.arguments.clone()));
            }
        } else if self.name.is_some() && self.arguments.len() > arguments {
            out.push(Seen::More(self.arguments[arguments..].to_owned()));
        } else if let (Some(found), None) = (&self.text, &self.name) {
            if !std::mem::replace(&mut self.shown, true) {
                out.push(Seen::Text);
            }
            if found.text.len() > text {
                out.push(Seen::More(found.text[text..].to_owned()));
            }
        }
    }

    /// The reply so far.
    pub(super) fn shape(&self) -> Shape {
        match (&self.state, &self.name, &self.text) {
            (State::Plain, ..) => Shape::Text(self.raw.clone()),
            (_, Some(name), _) => Shape::Call { name: name.clone(), arguments: self.arguments.clone() },
            (_, None, Some(found)) if found.text.is_empty() => Shape::Nothing,
            (_, None, Some(found)) => Shape::Text(found.text.clone()),
            _ if self.raw.trim().is_empty() => Shape::Nothing,
            _ => Shape::Text(self.raw.clone()),
        }
    }

    fn step(&mut self, c: char) {
        let state = std::mem::replace(&mut self.state, State::Done);
        self.state = match state {
            State::Start if c.is_whitespace() => State::Start,
            State::Start if c == '{' => State::Field,
            State::Start => State::Plain,
            State::Field if c == '"' => State::Key(Text::default()),
            State::Field if c == '}' => State::Done,
            State::Field if c.is_whitespace() || c == ',' => State::Field,
            State::Field => self.invalid(),
            State::Key(mut key) => match key.push(c) {
                true => State::Colon(key.text),
                false => State::Key(key),
            },
            State::Colon(key) if c.is_whitespace() => State::Colon(key),
            State::Colon(key) if c == ':' => State::Before(key),
            State::Colon(_) => self.invalid(),
            State::Before(key) if c.is_whitespace() => State::Before(key),
            State::Before(key) => self.value(&key, c),
            State::Name(mut name) => match name.push(c) {
                true => {
                    self.name = Some(name.text);
                    State::Field
                }
                false => State::Name(name),
            },
            State::InText => match self.text.get_or_insert_default().push(c) {
                true => State::Field,
                false => State::InText,
            },
            State::Value { mut nesting, kept } => {
                let end = nesting.push(c);
                if kept && end != End::Before {
                    self.arguments.push(c);
                }
                match end {
                    End::Not => State::Value { nesting, kept },
                    End::With => State::Field,
                    End::Before if c == '}' => State::Done,
                    End::Before => State::Field,
                }
            }
            State::Done => State::Done,
            State::Plain => State::Plain,
        };
    }

    fn value(&mut self, key: &str, c: char) -> State {
        match key {
            "name" if c == '"' && self.name.is_none() && self.text.is_none() => State::Name(Text::default()),
            "text" if c == '"' && self.name.is_none() && self.text.is_none() => {
                self.text = Some(Text::default());
                State::InText
            }
            _ => {
                let kept = key == "arguments" && self.arguments.is_empty() && self.text.is_none();
                let mut nesting = Nesting::default();
                nesting.push(c);
                if kept {
                    self.arguments.push(c);
                }
                State::Value { nesting, kept }
            }
        }
    }

    /// The state after invalid JSON: plain text, unless a call or a text was already found.
    fn invalid(&self) -> State {
        if self.shown || self.name.is_some() || self.text.is_some() { State::Done } else { State::Plain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reply: &str, size: usize) -> (Shape, Vec<Seen>) {
        let (mut reader, mut seen) = (Reader::new(), Vec::new());
        let chars: Vec<char> = reply.chars().collect();
        for chunk in chars.chunks(size) {
            reader.push(&chunk.iter().collect::<String>(), &mut seen);
        }
        (reader.shape(), seen)
    }

    fn check(reply: &str, expected: &Shape) {
        for size in 1..=reply.chars().count().max(1) {
            let (shape, seen) = read(reply, size);
            assert_eq!(shape, *expected, "{reply} in pieces of {size}");
            let more: String = seen
                .iter()
                .filter_map(|s| if let Seen::More(m) = s { Some(m.as_str()) } else { None })
                .collect();
            let (begins, whole) = match &shape {
                Shape::Nothing => continue,
                Shape::Text(text) => (Seen::Text, text.clone()),
                Shape::Call { name, arguments } => (Seen::Call(name.clone()), arguments.clone()),
            };
            assert_eq!(seen.first(), Some(&begins), "{reply} in pieces of {size}");
            assert_eq!(more, whole, "{reply} in pieces of {size}");
        }
    }

    fn call(name: &str, arguments: &str) -> Shape {
        Shape::Call { name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn a_call_keeps_the_bytes_of_its_arguments() {
        check(
            "{\n  \"name\": \"a\",\n \"arguments\" : {\"t\" :  \"x}\\\"é\", \"n\":[1,{}]}\n}",
            &call("a", "{\"t\" :  \"x}\\\"é\", \"n\":[1,{}]}"),
        );
        check(r#"{"arguments":{"a":1},"name":"late"}"#, &call("late", r#"{"a":1}"#));
        check(r#"{"name":"n","arguments":"s"}"#, &call("n", r#""s""#));
        check(r#"{"name":"n","arguments":null}"#, &call("n", "null"));
        check(r#"{"name":"n","why":[1,"}"],"arguments":{}}"#, &call("n", "{}"));
        check(r#"{"name":"n"}"#, &call("n", ""));
    }

    #[test]
    fn a_call_that_is_cut_keeps_what_arrived() {
        check(r#"{"name":"n","arguments":{"a":"b"#, &call("n", r#"{"a":"b"#));
    }

    #[test]
    fn a_text_is_decoded() {
        check(r#"{"text": "a\n\"b\" \u00e9 \ud83d\ude00 ü"}"#, &Shape::Text("a\n\"b\" é 😀 ü".into()));
        check(r#"{"text":"ab"#, &Shape::Text("ab".into()));
        let halves = r#"{"text":"\ud83dx\ude00\ud83d\ud83d\ude00\n\ud83d\n\ud83d"}"#;
        check(halves, &Shape::Text("\u{fffd}x\u{fffd}\u{fffd}😀\n\u{fffd}\n\u{fffd}".into()));
        check(r#"{"text":""}"#, &Shape::Nothing);
        check("", &Shape::Nothing);
    }

    #[test]
    fn anything_else_is_text() {
        check("Hello {world}", &Shape::Text("Hello {world}".into()));
        check("{hello}", &Shape::Text("{hello}".into()));
        assert_eq!(read(r#"{"foo": 1}"#, 3).0, Shape::Text(r#"{"foo": 1}"#.into()));
    }
}
