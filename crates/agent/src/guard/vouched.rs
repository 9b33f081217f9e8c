//! What of a delivery its operator answers for: single plain fields, taken by the template of a trusted hook. Must not know
//! templates.

use crate::event::Trust;
use crate::limits;
use crate::quote;

/// Whether the operator answers for what an event of a hook says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// The hook is not trusted.
    No,
    /// It is, and all that its template took of the delivery are plain fields.
    Fields,
    /// It is, but its template took more of this delivery than that; why.
    Beyond(String),
}

/// How far an event of a hook can be trusted. Never as far as a person: an address in it is none that a person gave, and an
/// answer to it is posted nowhere by itself.
pub fn trust_of_delivery(vouched: &Vouched) -> Trust {
    match vouched {
        Vouched::Fields => Trust::Agent,
        Vouched::No | Vouched::Beyond(_) => Trust::Outside,
    }
}

/// Whether a text is a plain field, as names are. The error says what it is instead. `taken`: the characters of the texts that
/// were taken of the same delivery before it.
pub fn check_field(text: &str, taken: usize) -> Result<usize, &'static str> {
    let length = text.chars().count();
    let taken = taken.saturating_add(length);
    if length > limits::HOOK_FIELD_MAX_CHARS {
        return Err("a long text");
    }
    if quote::one_line(text) != text {
        return Err("a text of several lines or with hidden characters");
    }
    if taken > limits::HOOK_FIELDS_MAX_CHARS {
        return Err("one of so many texts that they could be a long one");
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_a_short_line_and_all_of_them_are_not_much() {
        let longest = "x".repeat(limits::HOOK_FIELD_MAX_CHARS);
        for text in ["", "db-1", "Fehlerrate über 5 %", "\"quoted\" \\d", &longest] {
            assert_eq!(check_field(text, 0), Ok(text.chars().count()), "{text}");
        }
        for text in [
            format!("{longest}x"),
            "a\nb".into(),
            "a\u{2028}b".into(),
            "a\u{202e}b".into(),
            "\u{200b}".into(),
        ] {
            assert!(check_field(&text, 0).is_err(), "{text:?}");
        }
        let room = limits::HOOK_FIELDS_MAX_CHARS - longest.len();
        assert!(check_field(&longest, room).is_ok() && check_field(&longest, room + 1).is_err());
    }

    #[test]
    fn no_delivery_is_trusted_as_a_person_is() {
        let all = [Vouched::No, Vouched::Fields, Vouched::Beyond("why".into())];
        assert_eq!(
            all.map(|vouched| trust_of_delivery(&vouched)),
            [Trust::Outside, Trust::Agent, Trust::Outside]
        );
    }
}
