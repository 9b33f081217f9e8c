//! Decodes one answer: turns bytes into pieces and decides what the end of the bytes means.

use agent::port::{ModelError, Piece};
use net::sse::{Sse, SseEvent};

use super::{Decoder, failure};
use crate::bounds::{ERROR_BODY_MAX_BYTES, NATIVE_MAX_BYTES, REPLY_MAX_BYTES};

/// An answer that is being received. It can be cloned if its decoder can.
#[derive(Clone)]
pub struct EventFeed<D: ?Sized = dyn Decoder> {
    sse: Option<Sse>,
    /// The bytes before the first event, as long as the answer may turn out to be no stream of events.
    unread: Option<Vec<u8>>,
    decoder: Option<Box<D>>,
    received: usize,
}

impl<D: Decoder + ?Sized> EventFeed<D> {
    /// An answer of which nothing was received yet.
    pub fn new(decoder: Box<D>) -> Self {
        Self { sse: Some(Sse::new()), unread: Some(Vec::new()), decoder: Some(decoder), received: 0 }
    }

    /// Reads the next bytes. Returns at least one piece; the last is [`Piece::Done`] once the vendor
    /// closed the answer.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, ModelError> {
        let mut out = Vec::new();
        self.received += bytes.len();
        let Some(sse) = self.sse.as_mut().filter(|_| self.received <= REPLY_MAX_BYTES) else {
            return self.fail(ModelError::Garbage(format!("the reply is over {REPLY_MAX_BYTES} bytes")));
        };
        let mut events = Vec::new();
        let fits = sse.feed(bytes, &mut events);
        let may_be_none = events.is_empty() && self.received <= ERROR_BODY_MAX_BYTES;
        self.unread = self.unread.take().filter(|_| may_be_none);
        self.unread.iter_mut().for_each(|unread| unread.extend_from_slice(bytes));
        for event in &events {
            if let Err(error) = self.event(event, &mut out) {
                out.extend(self.fail(error)?);
                return Ok(out);
            }
        }
        if fits.is_err() {
            out.extend(self.fail(ModelError::Garbage("an event of the stream is too large".into()))?);
        } else if self.decoder.as_ref().is_some_and(|decoder| decoder.closed()) {
            out.extend(self.finish()?);
        }
        if out.is_empty() {
            out.push(Piece::Alive);
        }
        Ok(out)
    }

    /// Ends the answer; `broken` is the network's error, if there was one. Returns the reply if the stop
    /// reason has arrived; otherwise the stream was cut and is an error.
    pub fn end(&mut self, broken: Option<String>) -> Result<Vec<Piece>, ModelError> {
        let mut out = Vec::new();
        let last = self.sse.take().and_then(Sse::end).filter(is_whole);
        if let Some(Err(error)) = last.map(|event| self.event(&event, &mut out)) {
            out.extend(self.fail(error)?);
            return Ok(out);
        }
        if let (Some(word), false, false) = (broken, self.is_done(), self.is_finished()) {
            return Err(ModelError::Cut(word));
        }
        // JSON instead of events: no field of an event begins with a bracket.
        let unread = self.unread.take().unwrap_or_default();
        if matches!(unread.trim_ascii_start().first(), Some(b'{' | b'[')) {
            return Err(failure::not_a_stream(&String::from_utf8_lossy(&unread)));
        }
        out.extend(self.finish()?);
        Ok(out)
    }

    /// Whether the stop reason has arrived: the reply is complete; only usage and the like may follow.
    pub fn is_finished(&self) -> bool {
        self.decoder.as_ref().is_some_and(|decoder| decoder.finished())
    }

    /// Whether the reply was returned, or failed.
    pub fn is_done(&self) -> bool {
        self.decoder.is_none()
    }

    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError> {
        match self.decoder.as_mut() {
            // Events after the closing mark are ignored.
            Some(decoder) if !decoder.closed() => decoder.event(event, out),
            _ => Ok(()),
        }
    }

    /// Handles an error. After the stop reason it is ignored, because the reply is complete.
    fn fail(&mut self, error: ModelError) -> Result<Vec<Piece>, ModelError> {
        if self.is_finished() {
            return self.finish();
        }
        self.decoder = None;
        Err(error)
    }

    fn finish(&mut self) -> Result<Vec<Piece>, ModelError> {
        self.sse = None;
        match self.decoder.take() {
            Some(decoder) => {
                let mut reply = decoder.reply()?;
                // Whatever else a vendor puts beside text and calls would be stored, and sent back with each request.
                reply.native = reply.native.filter(|native| native.body.len() <= NATIVE_MAX_BYTES);
                Ok(vec![Piece::Done(reply)])
            }
            None => Ok(Vec::new()),
        }
    }
}

/// Whether the last event is complete: a cut JSON object does not parse.
fn is_whole(event: &SseEvent) -> bool {
    event.data == "[DONE]" || super::json::is_object(&event.data)
}
