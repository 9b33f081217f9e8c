//! A request body as a list of shared segments with a known length. Segments of earlier requests are
//! sent again without being copied or encoded.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

/// A request body.
#[derive(Clone, Debug, Default)]
pub struct Body {
    segments: VecDeque<Bytes>,
    len: u64,
}

impl Body {
    /// Appends a segment.
    pub fn push(&mut self, segment: Bytes) {
        if !segment.is_empty() {
            self.len += segment.len() as u64;
            self.segments.push_back(segment);
        }
    }

    /// Bytes left to send.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of segments left to send.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The whole body as one copy. For tests and for inspecting requests.
    pub fn concat(&self) -> Bytes {
        let mut all = BytesMut::with_capacity(usize::try_from(self.len).unwrap_or(0));
        for segment in &self.segments {
            all.extend_from_slice(segment);
        }
        all.freeze()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(segment) = self.segments.pop_front() else { return Poll::Ready(None) };
        self.len -= segment.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(segment))))
    }

    fn is_end_stream(&self) -> bool {
        self.segments.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len)
    }
}
