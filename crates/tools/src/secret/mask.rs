//! Finds secrets in what a server says, in the forms in which servers repeat what they were sent, and hides them.

use base64::Engine as _;
use base64::alphabet::{self, Alphabet};
use base64::engine::{GeneralPurpose, general_purpose::NO_PAD};

use super::SecretValue;

/// Shortest beginning of a secret, in characters, that is hidden at the end of a text that was cut.
const CUT_MIN: usize = 4;
/// What stands for such a beginning.
const CUT_SHOWN: &str = "•••";

/// Hides the secrets of one call.
#[derive(Default)]
pub(crate) struct Mask {
    secrets: Vec<Hidden>,
}

/// One secret as it can be found.
struct Hidden {
    /// What is shown instead.
    shown: String,
    /// Itself, and what encodings make of it as a whole.
    forms: Vec<Form>,
}

/// A text by its characters, each with all its spellings.
struct Form {
    characters: Vec<Vec<Spelling>>,
    /// The bytes with which it can begin: a text of megabytes is searched for them first.
    starts: [bool; 256],
}

/// A way to write a character.
struct Spelling {
    text: String,
    /// Whether its letters may be small or capital.
    any_case: bool,
}

/// What stands at some place of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Nothing,
    /// The text ends within a secret.
    Beginning,
    /// A secret that ends there.
    Until(usize),
}

impl Mask {
    /// Hides these secrets, each given by name and value.
    pub(crate) fn of<'a>(secrets: impl Iterator<Item = (&'a str, &'a SecretValue)>) -> Self {
        let hidden = |(name, secret): (&str, &SecretValue)| Hidden {
            shown: format!("[secret {name}]"),
            forms: forms(secret.reveal()),
        };
        let mut secrets: Vec<_> = secrets.collect();
        // A secret may contain another one.
        secrets.sort_by_key(|(_, secret)| std::cmp::Reverse(secret.reveal().len()));
        Self { secrets: secrets.into_iter().map(hidden).collect() }
    }

    /// The text without secrets.
    pub(crate) fn hide(&self, text: String) -> String {
        self.replaced(text, false)
    }

    /// The same for a text whose end was cut off, perhaps within a secret.
    pub(crate) fn hide_cut(&self, text: String) -> String {
        self.replaced(text, true)
    }

    fn replaced(&self, mut text: String, is_cut: bool) -> String {
        for hidden in &self.secrets {
            for form in &hidden.forms {
                text = replace(text, form, &hidden.shown, is_cut);
            }
        }
        text
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask(..)")
    }
}

fn replace(text: String, form: &Form, shown: &str, is_cut: bool) -> String {
    let mut replaced = String::new();
    // Everything before it is in `replaced`.
    let mut done = 0;
    let mut at = 0;
    let start = |at: usize| text.as_bytes()[at..].iter().position(|byte| form.starts[usize::from(*byte)]);
    while let Some(skipped) = start(at) {
        at += skipped;
        match find_at(&text, at, form) {
            Match::Until(end) => {
                replaced.push_str(&text[done..at]);
                replaced.push_str(shown);
                (done, at) = (end, end);
            }
            Match::Beginning if is_cut => {
                replaced.push_str(&text[done..at]);
                replaced.push_str(CUT_SHOWN);
                return replaced;
            }
            Match::Beginning | Match::Nothing => at += 1,
        }
    }
    if done == 0 {
        return text;
    }
    replaced.push_str(&text[done..]);
    replaced
}

/// Whether the characters stand there, each in any of its spellings.
fn find_at(text: &str, at: usize, form: &Form) -> Match {
    // Two spellings can fit: `%` may be itself or begin `%25`.
    let mut places = vec![at];
    let mut otherwise = Match::Nothing;
    for (index, spellings) in form.characters.iter().enumerate() {
        let mut next = Vec::new();
        if index > 0 {
            // A program that wraps lines breaks a secret like any other word.
            let behind = places.iter().filter_map(|place| behind_break(text.as_bytes(), *place));
            let behind: Vec<usize> = behind.collect();
            places.extend(behind);
        }
        for place in places {
            let rest = &text.as_bytes()[place..];
            let is_end =
                |spelling: &Spelling| rest.len() < spelling.text.len() && spelling.begins(rest, rest.len());
            if index >= CUT_MIN && spellings.iter().any(is_end) {
                otherwise = Match::Beginning;
            }
            next.extend(spellings.iter().filter_map(|spelling| spelling.end_at(text.as_bytes(), place)));
        }
        next.sort_unstable();
        next.dedup();
        places = next;
        if places.is_empty() {
            break;
        }
    }
    places.into_iter().max().map_or(otherwise, Match::Until)
}

/// Where the text goes on behind a line break, in any of the forms in which programs write one.
fn behind_break(text: &[u8], place: usize) -> Option<usize> {
    let mut rest = &text[place..];
    loop {
        // The soft break of mails.
        let start = rest
            .strip_prefix(b"=")
            .filter(|rest| rest.starts_with(b"\r") || rest.starts_with(b"\n"))
            .unwrap_or(rest);
        let found = BREAKS.iter().find_map(|known| {
            let given = start.get(..known.len())?;
            given.eq_ignore_ascii_case(known.as_bytes()).then(|| &start[known.len()..])
        });
        let Some(after) = found else { break };
        // A folded line begins with white space.
        let indent = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        rest = &after[indent..];
    }
    let behind = text.len() - rest.len();
    (behind > place).then_some(behind)
}

impl Spelling {
    fn exact(text: impl Into<String>) -> Self {
        Self { text: text.into(), any_case: false }
    }

    fn any_case(text: String) -> Self {
        Self { text, any_case: true }
    }

    /// Where it ends if it stands there, perhaps with a line break in it.
    fn end_at(&self, text: &[u8], mut place: usize) -> Option<usize> {
        for (index, own) in self.text.bytes().enumerate() {
            let fits = |place: usize| {
                let given = text.get(place)?;
                let same = if self.any_case { given.eq_ignore_ascii_case(&own) } else { *given == own };
                same.then_some(place + 1)
            };
            let broken = || (index > 0).then(|| behind_break(text, place)).flatten();
            place = fits(place).or_else(|| fits(broken()?))?;
        }
        Some(place)
    }

    /// Whether the first `length` bytes of both are the same.
    fn begins(&self, rest: &[u8], length: usize) -> bool {
        let (Some(given), Some(own)) = (rest.get(..length), self.text.as_bytes().get(..length)) else {
            return false;
        };
        if self.any_case { given.eq_ignore_ascii_case(own) } else { given == own }
    }
}

impl Form {
    fn of(characters: Vec<Vec<Spelling>>) -> Self {
        let mut starts = [false; 256];
        for spelling in characters.first().into_iter().flatten() {
            if let Some(first) = spelling.text.bytes().next() {
                starts[usize::from(first)] = true;
                starts[usize::from(first.to_ascii_uppercase())] |= spelling.any_case;
                starts[usize::from(first.to_ascii_lowercase())] |= spelling.any_case;
            }
        }
        Self { characters, starts }
    }
}

/// The forms in which a secret can appear: itself, hexadecimal, and Base64 behind any bytes.
fn forms(secret: &str) -> Vec<Form> {
    let hex = secret.bytes().map(|byte| vec![Spelling::any_case(format!("{byte:02x}"))]);
    let mut forms = vec![Form::of(secret.chars().map(in_any_case).collect()), Form::of(hex.collect())];
    for alphabet in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
        for before in 0..3 {
            // Base64 has characters that URLs and JSON write differently.
            forms.push(Form::of(base64(secret, alphabet, before).chars().map(spellings).collect()));
        }
    }
    forms
}

/// How programs write the end of a line, also within JSON, URLs and HTML.
const BREAKS: [&str; 11] =
    ["\r\n", "\n", "\r", "\\r\\n", "\\n", "\\r", "%0d%0a", "%0a", "&#10;", "<br>", "<br/>"];

/// How often an encoded text may be encoded again: a body that was JSON is often repeated as a text within JSON.
const NESTED: u32 = 3;

/// How servers write a character of a text that they may have put into capital or small letters.
fn in_any_case(character: char) -> Vec<Spelling> {
    let others = character.to_uppercase().chain(character.to_lowercase()).filter(|other| *other != character);
    let mut found: Vec<Spelling> = [character].into_iter().chain(others).flat_map(spellings).collect();
    // A letter that becomes two.
    found.push(Spelling::exact(character.to_uppercase().to_string()));
    found
}

/// How servers write a character: as it is, or encoded for a URL, JSON or HTML, also several times.
fn spellings(character: char) -> Vec<Spelling> {
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).as_bytes();
    let mut units = [0; 2];
    let units = character.encode_utf16(&mut units);
    let code = u32::from(character);
    let mut found = vec![
        Spelling::exact(character),
        Spelling::exact(format!("&#{code};")),
        Spelling::any_case(format!("&#x{code:x};")),
    ];
    for level in 0..NESTED {
        let percent = format!("%{}", "25".repeat(level as usize));
        found.push(Spelling::any_case(bytes.iter().map(|byte| format!("{percent}{byte:02X}")).collect()));
        let slashes = "\\".repeat(1 << level);
        found.push(Spelling::any_case(units.iter().map(|unit| format!("{slashes}u{unit:04x}")).collect()));
        match character {
            // Each time, the quotation mark and every backslash before it get one more.
            '"' => found.push(Spelling::exact("\\".repeat((2 << level) - 1) + "\"")),
            '\\' => found.push(Spelling::exact("\\".repeat(2 << level))),
            '/' => found.push(Spelling::exact(slashes + "/")),
            _ => {}
        }
    }
    let more = match character {
        ' ' => "+",
        '"' => "&quot;",
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '\'' => "&apos;",
        _ => "",
    };
    if !more.is_empty() {
        found.push(Spelling::exact(more));
    }
    found
}

/// The characters of a Base64 text that only the secret decides, if so many bytes come before it.
fn base64(secret: &str, alphabet: &Alphabet, before: usize) -> String {
    let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
    let text = GeneralPurpose::new(alphabet, NO_PAD).encode(&bytes);
    let from = (before * 8).div_ceil(6);
    text[from..bytes.len() * 8 / 6].to_owned()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;
    use crate::template::percent_encoded;

    #[test]
    fn a_secret_is_hidden_in_every_form_in_which_servers_repeat_it() {
        let value = "cän/ary+K?y >\"42";
        let mask = Mask::of([("key", &SecretValue::new(value))].into_iter());
        let mut echoes = vec![
            value.to_owned(),
            serde_json::json!({ "key": value }).to_string(),
            percent_encoded(value),
            percent_encoded(value).replace("%2F", "%2f").replace("%20", "+"),
            value.replace('/', "%2f").replace('"', "&quot;"),
            value.replace('ä', "\\u00E4").replace('/', "\\/"),
            value.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ];
        for user in ["", "u:", "me:", "user:", "longer-user:"] {
            for after in ["", "!", "12", "123"] {
                echoes.push(STANDARD.encode(format!("{user}{value}{after}")));
                echoes.push(URL_SAFE.encode(format!("{user}{value}{after}")));
            }
        }
        for echo in echoes {
            let hidden = mask.hide(format!("you sent `{echo}`, wrong"));
            assert!(hidden.contains("[secret key]"), "{echo}: {hidden}");
            assert!(!hidden.contains("ary"), "{hidden}");
        }
        assert_eq!(mask.hide("nothing".into()), "nothing");
        assert_eq!(mask.hide(format!("{value}{value}, {value}")), "[secret key][secret key], [secret key]");
        let odd = Mask::of([("odd", &SecretValue::new("%25%&x\\u"))].into_iter());
        for echo in ["%25%&x\\u", "%2525%25%26x%5Cu", "%25%&amp;x\\\\u"] {
            assert_eq!(odd.hide(echo.into()), "[secret odd]", "{echo}");
        }
        let sharp = Mask::of([("sharp", &SecretValue::new("CANARY\"q\\s<>ä"))].into_iter());
        let mut text = "CANARY\"q\\s<>ä".to_owned();
        for _ in 0..NESTED {
            text = serde_json::json!(text).to_string();
            let hidden = sharp.hide(text.clone());
            assert!(hidden.contains("[secret sharp]") && !hidden.contains("CANARY"), "{text}: {hidden}");
        }
        assert!(format!("{mask:?}").len() < 12);
    }

    #[test]
    fn a_secret_is_hidden_in_capital_letters_and_over_two_lines() {
        let value = "Cän/ary-K1 ?y0815";
        let mask = Mask::of([("key", &SecretValue::new(value))].into_iter());
        let mut echoes = vec![value.to_uppercase(), value.to_lowercase(), "cÄN/ARY-k1 ?Y0815".to_owned()];
        for broken in [
            "\n", "\r\n", "\r", "\r\n ", "\n\t", "=\r\n", "\\n", "\\r\\n", "%0D%0A", "%0a", "<br>", "<BR/>",
            "&#10;", "\n\n",
        ] {
            for at in [1, 6, 9] {
                let at = value.char_indices().nth(at).unwrap().0;
                echoes.push(format!("{}{broken}{}", &value[..at], &value[at..]));
                echoes.push(format!("{}{broken}{}", &value[..at], &value[at..]).to_uppercase());
            }
        }
        let every = |text: &str, count: usize| {
            let characters: Vec<char> = text.chars().collect();
            characters
                .chunks(count)
                .map(|part| part.iter().collect::<String>())
                .collect::<Vec<_>>()
                .join("\r\n")
        };
        echoes.push(every(&STANDARD.encode(format!("user:{value}")), 10));
        echoes.push(every(&percent_encoded(value).to_lowercase(), 5));
        echoes.push(every(&value.bytes().map(|byte| format!("{byte:02x}")).collect::<String>(), 8));
        for echo in echoes {
            let hidden = mask.hide(format!("you sent `{echo}`, wrong"));
            assert!(hidden.contains("[secret key]"), "{echo:?}: {hidden:?}");
            assert!(!hidden.to_lowercase().contains("0815"), "{hidden:?}");
        }
        let sharp = Mask::of([("sharp", &SecretValue::new("straße-42"))].into_iter());
        assert_eq!(sharp.hide("STRASSE-42".into()), "[secret sharp]");
        // Long texts of line breaks cost no more than their length.
        let breaks = format!("c{}", "\n".repeat(200_000));
        assert_eq!(mask.hide(breaks.clone()), breaks);
    }

    #[test]
    fn a_secret_that_a_cut_divides_is_hidden_too() {
        let mask = Mask::of([("key", &SecretValue::new("canary-123456"))].into_iter());
        assert_eq!(mask.hide_cut("you sent canary-12".into()), "you sent •••");
        assert_eq!(mask.hide_cut("you sent can".into()), "you sent can");
        assert_eq!(mask.hide_cut("you sent canary%2".into()), "you sent •••");
        assert_eq!(mask.hide_cut("you sent canary-123456".into()), "you sent [secret key]");
        assert_eq!(mask.hide("you sent canary-12".into()), "you sent canary-12");
    }
}
