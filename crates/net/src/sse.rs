//! A parser of server-sent events as servers really send them: any line ending, comments, several `data`
//! lines, an `error:` field (an old model server), no empty line at the end. Its memory is bounded.
//!
//! It does not interpret the events.

use crate::bounds::EVENT_MAX_BYTES;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty if there is none.
    pub name: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
    /// The `id` field, from which a stream can be continued.
    pub id: Option<String>,
}

/// An event is larger than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversize;

/// The parser: bytes in, events out. Chunks may end anywhere.
#[derive(Clone, Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    after_cr: bool,
    started: bool,
}

impl Sse {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next bytes and appends the events that they complete.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), Oversize> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (piece, ending) = (&rest[..at], rest[at]);
            rest = &rest[at + 1..];
            // The LF of a CR LF does not end another line.
            let second_half = ending == b'\n' && self.after_cr && piece.is_empty() && self.line.is_empty();
            self.after_cr = ending == b'\r';
            if second_half {
                continue;
            }
            self.line.extend_from_slice(piece);
            self.end_line(out);
            if self.event.data.len() > EVENT_MAX_BYTES {
                return Err(Oversize);
            }
        }
        if !rest.is_empty() {
            self.after_cr = false;
            self.line.extend_from_slice(rest);
        }
        if self.line.len() > EVENT_MAX_BYTES { Err(Oversize) } else { Ok(()) }
    }

    /// The event that was not yet ended by an empty line when the stream ended. The caller must check that
    /// it is complete.
    pub fn end(mut self) -> Option<SseEvent> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut out);
        }
        self.has_data.then_some(self.event)
    }

    fn end_line(&mut self, out: &mut Vec<SseEvent>) {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = text.as_ref();
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                out.push(std::mem::take(&mut self.event));
            }
            self.event = SseEvent::default();
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.to_owned(),
            "data" => self.data(value),
            "error" => {
                self.event.name = "error".to_owned();
                self.data(value);
            }
            // With a NUL it is ignored, by the standard.
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            // Comments (an empty field), `retry` and unknown fields.
            _ => {}
        }
    }

    fn data(&mut self, value: &str) {
        if std::mem::replace(&mut self.has_data, true) {
            self.event.data.push('\n');
        }
        self.event.data.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        "\u{feff}: hello\r\nevent: a\r\nid: 7\r\ndata: 1\r\ndata: é\r\n\r\n: ping\n\ndata:x\n\nerror: {}\n\n";

    fn expected() -> Vec<SseEvent> {
        let event = |name: &str, data: &str| SseEvent { name: name.into(), data: data.into(), id: None };
        let first = SseEvent { id: Some("7".into()), ..event("a", "1\né") };
        vec![first, event("", "x"), event("error", "{}")]
    }

    #[test]
    fn events_are_the_same_wherever_the_chunks_end() {
        for size in 1..STREAM.len() {
            let (mut sse, mut out) = (Sse::new(), Vec::new());
            for chunk in STREAM.as_bytes().chunks(size) {
                sse.feed(chunk, &mut out).unwrap();
            }
            assert_eq!(out, expected(), "chunks of {size}");
            assert_eq!(sse.end(), None);
        }
    }

    #[test]
    fn every_kind_of_line_ending_is_accepted() {
        for ending in ["\n", "\r", "\r\n"] {
            let (mut sse, mut out) = (Sse::new(), Vec::new());
            let stream = format!("data: 1{ending}{ending}data: 2{ending}{ending}");
            sse.feed(stream.as_bytes(), &mut out).unwrap();
            assert_eq!(out.len(), 2, "{ending:?}");
        }
    }

    #[test]
    fn an_event_without_its_empty_line_is_returned_at_the_end() {
        let (mut sse, mut out) = (Sse::new(), Vec::new());
        sse.feed(b"data: [DONE]", &mut out).unwrap();
        assert!(out.is_empty());
        assert_eq!(sse.end().unwrap().data, "[DONE]");
    }

    #[test]
    fn an_endless_line_is_refused() {
        let (mut sse, mut out) = (Sse::new(), Vec::new());
        let chunk = vec![b'x'; 1024 * 1024];
        assert!((0..10).any(|_| sse.feed(&chunk, &mut out) == Err(Oversize)));
    }
}
