//! Bodies that a server has compressed without being asked: unpacked piece by piece, and never beyond what may still come.
//! Must not know where they come from.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Unpacks one body.
pub(super) enum Unpacker {
    Gzip(MultiGzDecoder<Unpacked>),
    /// What is called `deflate`, before its first byte has come: many leave out the head that belongs there.
    Deflate(Unpacked),
    Zlib(ZlibDecoder<Unpacked>),
    Raw(DeflateDecoder<Unpacked>),
}

/// Takes what still may come.
#[derive(Default)]
pub(super) struct Unpacked {
    unpacked: Vec<u8>,
    left: usize,
    /// Whether there was more.
    is_full: bool,
}

impl Unpacker {
    /// What unpacks this `content-encoding`, to at most so many bytes; `None` if nothing does.
    pub(super) fn of(encoding: &str, left: usize) -> Option<Self> {
        let room = Unpacked { left, ..Unpacked::default() };
        match encoding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip(MultiGzDecoder::new(room))),
            "deflate" => Some(Self::Deflate(room)),
            _ => None,
        }
    }

    fn room(&mut self) -> &mut Unpacked {
        match self {
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Deflate(room) => room,
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::Raw(decoder) => decoder.get_mut(),
        }
    }

    /// Lowers what still may come.
    pub(super) fn at_most(&mut self, bytes: usize) {
        let room = self.room();
        room.left = room.left.min(bytes);
    }

    /// What a piece becomes, and whether there was more than may come.
    pub(super) fn piece(&mut self, packed: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        if let (Self::Deflate(room), Some(first)) = (&mut *self, packed.first()) {
            let room = std::mem::take(room);
            // The method `deflate` in the head of zlib.
            *self = if first & 0x0f == 8 {
                Self::Zlib(ZlibDecoder::new(room))
            } else {
                Self::Raw(DeflateDecoder::new(room))
            };
        }
        let done = match self {
            Self::Gzip(decoder) => decoder.write_all(packed),
            Self::Zlib(decoder) => decoder.write_all(packed),
            Self::Raw(decoder) => decoder.write_all(packed),
            Self::Deflate(_) => Ok(()),
        };
        self.taken(done)
    }

    /// What is still to come after the last piece. The error says that the end is missing.
    pub(super) fn rest(&mut self) -> io::Result<(Vec<u8>, bool)> {
        let done = match self {
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::Raw(decoder) => decoder.try_finish(),
            Self::Deflate(_) => Ok(()),
        };
        self.taken(done)
    }

    fn taken(&mut self, done: io::Result<()>) -> io::Result<(Vec<u8>, bool)> {
        let room = self.room();
        if !room.is_full {
            done?;
        }
        Ok((std::mem::take(&mut room.unpacked), room.is_full))
    }
}

impl Write for Unpacked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.unpacked.extend_from_slice(&bytes[..taken]);
        self.left -= taken;
        self.is_full |= taken < bytes.len();
        if self.is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
