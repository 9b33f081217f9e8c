//! From the bytes of a page to its characters, by what its server or it itself says about them. Must not know HTML.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Where a page names its character set, if it does: as browsers look for it.
const PROLOGUE_BYTES: usize = 1024;

/// The text, by its byte order mark, else by the content type, else by what the page says. Bytes that are no character
/// become replacement characters.
pub(super) fn decode<'a>(bytes: &'a [u8], content_type: &str, is_cut: bool) -> Cow<'a, str> {
    let prologue = String::from_utf8_lossy(&bytes[..bytes.len().min(PROLOGUE_BYTES)]);
    let said = || named(&prologue, "charset=").or_else(|| named(&prologue, "encoding="));
    // What could be read up to here as ASCII is no UTF-16.
    let said = || said().map(|found| if found == UTF_16LE || found == UTF_16BE { UTF_8 } else { found });
    let likely = || if is_utf8(bytes, is_cut) { UTF_8 } else { WINDOWS_1252 };
    let is_markup = prologue.trim_start().starts_with('<');
    let found = named(content_type, "charset=").or_else(|| is_markup.then(said).flatten());
    found.unwrap_or_else(likely).decode(bytes).0
}

/// The character set that follows the key.
fn named(text: &str, key: &str) -> Option<&'static Encoding> {
    let text = text.to_ascii_lowercase();
    let rest = text.split_once(key)?.1.trim_start_matches(['"', '\'', ' ']);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.')));
    Encoding::for_label(&rest.as_bytes()[..end.unwrap_or(rest.len())])
}

/// Whether it is UTF-8; of a text that was cut the last character may be, too.
fn is_utf8(bytes: &[u8], is_cut: bool) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| is_cut && error.error_len().is_none(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_set_is_found_where_it_is_named() {
        let check = |bytes: &[u8], kind: &str, wanted: &str| {
            assert_eq!(decode(bytes, kind, false), wanted, "{kind} {bytes:?}");
        };
        check(b"\xe4", "text/html; Charset=\"ISO-8859-1\"", "ä");
        check(b"\x83\x65", "text/plain; charset=shift_jis", "テ");
        check(b"<meta charset=koi8-r>\xc1", "text/html", "<meta charset=koi8-r>а");
        check(b"<?xml encoding='iso-8859-5'?>\xd0", "text/xml", "<?xml encoding='iso-8859-5'?>а");
        check(b"<meta charset=utf-16>\xc3\xa4", "text/html", "<meta charset=utf-16>ä");
        check(b"\xff\xfe\xe4\x00", "text/html; charset=utf-8", "ä");
        check(b"\xef\xbb\xbf\xc3\xa4", "", "ä");
    }

    #[test]
    fn without_a_name_it_is_utf_8_or_what_the_old_web_had() {
        assert_eq!(decode("ä".as_bytes(), "", false), "ä");
        assert_eq!(decode(b"\xc3\xa4 \xc3", "", true), "ä \u{fffd}");
        assert_eq!(decode(b"\xe4 \x80", "text/html; charset=klingon", false), "ä €");
        assert_eq!(decode(b"charset=koi8-r \xe4", "text/plain", false), "charset=koi8-r ä");
    }
}
