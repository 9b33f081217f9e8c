//! Drives one answer: bytes in, pieces out, and the decision what an end of the bytes means.

use agent::port::{ModelError, Piece};

use super::{Decoder, failure};
use crate::bounds::{ERROR_BODY_MAX_BYTES, REPLY_MAX_BYTES};
use crate::sse::{Sse, SseEvent};

/// One answer being received. Where its decoder can be copied, so can what was received until now.
#[derive(Clone)]
pub struct Feed<D: ?Sized = dyn Decoder> {
    sse: Option<Sse>,
    /// What came before the first event, while there may be none.
    unread: Option<Vec<u8>>,
    decoder: Option<Box<D>>,
    received: usize,
}

impl<D: Decoder + ?Sized> Feed<D> {
    /// Nothing received yet.
    pub fn new(decoder: Box<D>) -> Self {
        Self { sse: Some(Sse::new()), unread: Some(Vec::new()), decoder: Some(decoder), received: 0 }
    }

    /// Takes the next bytes. At least one piece comes of them; the last is [`Piece::Done`] where the
    /// vendor closed the answer.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, ModelError> {
        let mut out = Vec::new();
        self.received += bytes.len();
        let Some(sse) = self.sse.as_mut().filter(|_| self.received <= REPLY_MAX_BYTES) else {
            return self.spoiled(ModelError::Garbage(format!("the reply is over {REPLY_MAX_BYTES} bytes")));
        };
        let mut events = Vec::new();
        let fits = sse.feed(bytes, &mut events);
        let may_be_none = events.is_empty() && self.received <= ERROR_BODY_MAX_BYTES;
        self.unread = self.unread.take().filter(|_| may_be_none);
        self.unread.iter_mut().for_each(|unread| unread.extend_from_slice(bytes));
        for event in &events {
            if let Err(error) = self.event(event, &mut out) {
                out.extend(self.spoiled(error)?);
                return Ok(out);
            }
        }
        if fits.is_err() {
            out.extend(self.spoiled(ModelError::Garbage("an event of the stream is too large".into()))?);
        } else if self.decoder.as_ref().is_some_and(|decoder| decoder.closed()) {
            out.extend(self.finish()?);
        }
        if out.is_empty() {
            out.push(Piece::Alive);
        }
        Ok(out)
    }

    /// The bytes ended, with the network's word for it where it broke. The reply, if the vendor had
    /// said why it stopped; else the stream was cut and nothing of it counts.
    pub fn end(&mut self, broken: Option<String>) -> Result<Vec<Piece>, ModelError> {
        let mut out = Vec::new();
        let last = self.sse.take().and_then(Sse::end).filter(is_whole);
        if let Some(Err(error)) = last.map(|event| self.event(&event, &mut out)) {
            out.extend(self.spoiled(error)?);
            return Ok(out);
        }
        if let (Some(word), false, false) = (broken, self.is_over(), self.is_finished()) {
            return Err(ModelError::Cut(word));
        }
        // No field of an event is called so.
        let unread = self.unread.take().unwrap_or_default();
        if matches!(unread.trim_ascii_start().first(), Some(b'{' | b'[')) {
            return Err(failure::no_stream(&String::from_utf8_lossy(&unread)));
        }
        out.extend(self.finish()?);
        Ok(out)
    }

    /// Whether the vendor said why it stopped: the reply is whole, and only what is said about it may come.
    pub fn is_finished(&self) -> bool {
        self.decoder.as_ref().is_some_and(|decoder| decoder.finished())
    }

    /// Whether the reply was handed out (or never will be).
    pub fn is_over(&self) -> bool {
        self.decoder.is_none()
    }

    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        match self.decoder.as_mut() {
            // What comes behind the vendor's own closing mark is nobody's.
            Some(decoder) if !decoder.closed() => decoder.event(event, out),
            _ => Ok(()),
        }
    }

    /// An error after the finish loses nothing: the reply stands.
    fn spoiled(&mut self, error: ModelError) -> Result<Vec<Piece>, ModelError> {
        if self.is_finished() {
            return self.finish();
        }
        self.decoder = None;
        Err(error)
    }

    fn finish(&mut self) -> Result<Vec<Piece>, ModelError> {
        self.sse = None;
        match self.decoder.take() {
            Some(decoder) => Ok(vec![Piece::Done(decoder.reply()?)]),
            None => Ok(Vec::new()),
        }
    }
}

/// An object cannot be cut and stay one; anything else is only taken whole.
fn is_whole(event: &SseEvent) -> bool {
    event.data == "[DONE]" || super::json::is_object(&event.data)
}
