//! Text that arrives in pieces, each a JSON string. Vendors split between UTF-16 units, so a piece may
//! end with a high surrogate whose low surrogate begins the next piece. Such halves are joined. A piece
//! that is not a string, or a half that stays alone, makes the stream garbage: no text is left out.

use std::fmt;

use agent::port::ModelError;
use serde::de::{Deserialize, Deserializer, Visitor};

/// The pieces of one text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    /// A high surrogate that waits for its low one.
    half: Option<u16>,
    broken: bool,
}

impl Pieces {
    /// Reads the raw JSON of a piece and returns its complete characters. A missing or null piece is
    /// empty.
    pub(crate) fn take(&mut self, raw: Option<&str>) -> Result<String, ModelError> {
        let Some(raw) = raw.filter(|raw| *raw != "null") else { return Ok(String::new()) };
        if !raw.starts_with('"') {
            self.broken = true;
            let got: String = raw.chars().take(80).collect();
            return Err(ModelError::Garbage(format!("wanted a text, got `{got}`")));
        }
        if let (None, Ok(text)) = (self.half, serde_json::from_str(raw)) {
            return Ok(text);
        }
        let joined = self.join(raw);
        self.broken |= joined.is_none();
        joined.ok_or_else(half_lost)
    }

    /// An error if the text is incomplete: then the stream is garbage.
    pub(crate) fn whole(&self) -> Result<(), ModelError> {
        if self.broken || self.half.is_some() { Err(half_lost()) } else { Ok(()) }
    }

    fn join(&mut self, raw: &str) -> Option<String> {
        let Wtf8(bytes) = serde_json::from_str(raw).ok()?;
        let mut rest = bytes.as_slice();
        let mut text = String::new();
        if let (Some(first), false) = (self.half, rest.is_empty()) {
            let (second, behind) = rest.split_first_chunk()?;
            text.push(char::decode_utf16([first, half(*second)?]).next()?.ok()?);
            (self.half, rest) = (None, behind);
        }
        if let Some((before, last)) = rest.split_last_chunk()
            && let Some(first) = half(*last).filter(|unit| *unit < 0xdc00)
        {
            (self.half, rest) = (Some(first), before);
        }
        text.push_str(std::str::from_utf8(rest).ok()?);
        Some(text)
    }
}

/// A text that arrives in one piece.
pub(crate) fn whole(raw: Option<&str>) -> Result<String, ModelError> {
    let mut pieces = Pieces::default();
    let text = pieces.take(raw)?;
    pieces.whole()?;
    Ok(text)
}

fn half_lost() -> ModelError {
    ModelError::Garbage("half of a UTF-16 character arrived without its other half".to_owned())
}

/// The surrogate that three bytes encode, if they encode one.
fn half([a, b, c]: [u8; 3]) -> Option<u16> {
    let unit = || 0xd000 | u16::from(b & 0x3f) << 6 | u16::from(c & 0x3f);
    (a == 0xed && b >= 0xa0).then(unit)
}

/// The bytes of a JSON string as WTF-8: UTF-8, in which a lone surrogate is encoded in three bytes.
struct Wtf8(Vec<u8>);

impl<'de> Deserialize<'de> for Wtf8 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Wtf8;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Wtf8, E> {
                Ok(Wtf8(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_joined_and_the_text_before_them_is_not_delayed() {
        let mut pieces = Pieces::default();
        let mut take = |raw| pieces.take(Some(raw)).unwrap();
        assert_eq!(take(r#""do NOT \ud83d""#), "do NOT ");
        assert_eq!(take(r#""""#), "");
        assert_eq!(take("null"), "");
        assert_eq!(take(r#""\ude00 \uD83D\uDE01\ud83d""#), "😀 😁");
        assert_eq!(take(r#""\ude02""#), "😂");
        pieces.whole().unwrap();
    }

    #[test]
    fn a_broken_text_stays_broken() {
        for raw in [r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\ud83d""#, "7", "[]"] {
            let mut pieces = Pieces::default();
            assert!(matches!(pieces.take(Some(raw)), Err(ModelError::Garbage(_))), "{raw}");
            let _ = pieces.take(Some(r#""fine""#));
            assert!(pieces.whole().is_err(), "{raw}");
        }
        let mut pieces = Pieces::default();
        pieces.take(Some(r#""\ud83d""#)).unwrap();
        assert!(pieces.whole().is_err());
        assert!(pieces.take(Some(r#""é""#)).is_err());
    }
}
