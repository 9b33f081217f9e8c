//! Finds secrets in what a server says, in the forms in which servers repeat what they were sent, and hides them.
//!
//! One walk over the text for all secrets. What has begun is kept by how far it has come, once however often it begins, so a byte
//! costs a bounded number of steps: a server that writes against the mask cannot make it slow.

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::{self, Alphabet};
use base64::engine::{GeneralPurpose, general_purpose::NO_PAD};

use super::reading::{READING_MAX_BYTES, Reading, readings};
use super::{SecretValue, apart};

/// Shortest beginning of a secret, in characters, that is hidden at the end of a text that was cut.
const CUT_MIN: usize = 4;
/// What stands for such a beginning.
const CUT_SHOWN: &str = "•••";
/// Places that a reading can lead to, the one where it begins included.
const RING: usize = READING_MAX_BYTES + 1;

/// Hides the secrets of one call.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    forms: Arc<[Form]>,
}

/// One secret as it can be found: itself, or what an encoding makes of it as a whole.
struct Form {
    /// What is shown instead.
    shown: Arc<str>,
    characters: Vec<char>,
    /// Whether its letters may be small or capital; the characters are folded then.
    any_case: bool,
}

/// A form that has begun, and how far the text can be read as it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BegunForm {
    form: usize,
    /// Characters of it that were read.
    count: usize,
    /// Whether only a line break and white space came after those.
    behind_break: bool,
    start: usize,
}

/// A part of the text to hide.
struct Masked {
    start: usize,
    end: usize,
    shown: Arc<str>,
}

impl Mask {
    /// Hides these secrets, each given by name and value.
    pub(crate) fn of<'a>(secrets: impl Iterator<Item = (&'a str, &'a SecretValue)>) -> Self {
        Self { forms: secrets.flat_map(|(name, secret)| forms(name, secret.reveal())).collect() }
    }

    /// The text without secrets.
    pub(crate) fn hide(&self, text: String) -> String {
        self.replaced(text, false)
    }

    /// The same for a text whose end was cut off, perhaps within a secret.
    pub(crate) fn hide_cut(&self, text: String) -> String {
        self.replaced(text, true)
    }

    /// The text without secrets, searched where a long one holds nothing up.
    pub(crate) async fn hide_apart(&self, text: String) -> String {
        if self.forms.is_empty() {
            return text;
        }
        let mask = self.clone();
        let hidden = apart(text.len(), move || mask.hide(text)).await;
        hidden.unwrap_or_else(|_| "[a text that could not be searched for secrets]".to_owned())
    }

    fn replaced(&self, text: String, is_cut: bool) -> String {
        if self.forms.is_empty() {
            return text;
        }
        let mut walk = Walk::new(&self.forms);
        walk.over(&text, is_cut);
        walk.replaced(text)
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask(..)")
    }
}

/// A walk over a text.
struct Walk<'a> {
    forms: &'a [Form],
    /// The bytes at which something can begin: a text of megabytes is searched for them first.
    starts: [bool; 256],
    /// What has come to each of the next places.
    ahead: Vec<Vec<BegunForm>>,
    /// How many of these there are.
    waiting: usize,
    /// In the order of their ends; none overlaps the one before.
    found: Vec<Masked>,
}

impl<'a> Walk<'a> {
    fn new(forms: &'a [Form]) -> Self {
        let mut starts = [false; 256];
        for form in forms {
            let first = form.characters.first().copied().unwrap_or_default();
            let byte = first.encode_utf8(&mut [0; 4]).as_bytes()[0];
            starts[usize::from(byte)] = true;
            starts[usize::from(byte.to_ascii_uppercase())] |= form.any_case;
        }
        // With these an encoded character begins, and any other letter may be one of the secret in another case.
        for byte in [b'%', b'&', b'\\', b'='].into_iter().chain(0xC0..=0xFF) {
            starts[usize::from(byte)] = true;
        }
        Self { forms, starts, ahead: vec![Vec::new(); RING], waiting: 0, found: Vec::new() }
    }

    fn over(&mut self, text: &str, is_cut: bool) {
        let bytes = text.as_bytes();
        let (mut at, mut found, mut here) = (0, Vec::new(), Vec::new());
        while at < bytes.len() {
            if self.waiting == 0 {
                let next = bytes[at..].iter().position(|byte| self.starts[usize::from(*byte)]);
                let Some(skipped) = next else { return };
                at += skipped;
            }
            self.come_to(at, &mut here);
            if !here.is_empty() || self.starts[usize::from(bytes[at])] {
                let ends_here = readings(text, at, &mut found);
                found.iter().for_each(|reading| self.read(&here, at, *reading));
                if matches!(bytes[at], b' ' | b'\t') {
                    // A folded line begins with white space.
                    here.iter()
                        .filter(|begun| begun.behind_break)
                        .for_each(|begun| self.go_to(at + 1, *begun));
                }
                if is_cut && ends_here {
                    self.cut(&here, bytes.len());
                }
            }
            at += 1;
        }
        self.come_to(at, &mut here);
        if is_cut {
            self.cut(&here, bytes.len());
        }
    }

    /// What has come to that place: of several that came equally far only the one that began first.
    fn come_to(&mut self, at: usize, here: &mut Vec<BegunForm>) {
        here.clear();
        here.append(&mut self.ahead[at % RING]);
        self.waiting -= here.len();
        here.sort_unstable();
        here.dedup_by_key(|begun| (begun.form, begun.count, begun.behind_break));
    }

    fn go_to(&mut self, at: usize, begun: BegunForm) {
        self.ahead[at % RING].push(begun);
        self.waiting += 1;
    }

    /// Goes on with what has come to that place, and begins what begins there.
    fn read(&mut self, here: &[BegunForm], at: usize, reading: Reading) {
        for begun in here {
            self.advance(*begun, reading);
            if reading.is_break() {
                self.go_to(reading.end, BegunForm { behind_break: true, ..*begun });
            }
        }
        for form in 0..self.forms.len() {
            self.advance(BegunForm { form, count: 0, behind_break: false, start: at }, reading);
        }
    }

    fn advance(&mut self, begun: BegunForm, reading: Reading) {
        super::step();
        let form = &self.forms[begun.form];
        let Some(count) = form.after(begun.count, reading.character) else { return };
        if count < form.characters.len() {
            self.go_to(reading.end, BegunForm { count, behind_break: false, ..begun });
        } else {
            self.hide(Masked { start: begun.start, end: reading.end, shown: Arc::clone(&form.shown) });
        }
    }

    /// Hides what has begun and may go on behind the end of the text.
    fn cut(&mut self, here: &[BegunForm], end: usize) {
        let long = here.iter().filter(|begun| begun.count >= CUT_MIN);
        if let Some(start) = long.map(|begun| begun.start).min() {
            self.hide(Masked { start, end, shown: CUT_SHOWN.into() });
        }
    }

    /// Secrets that overlap are hidden as one, by the name of the one that begins first, or else of the longest.
    fn hide(&mut self, mut found: Masked) {
        while let Some(last) = self.found.pop_if(|last| last.end > found.start) {
            let end = last.end.max(found.end);
            if (last.start, found.end) <= (found.start, last.end) {
                found = last;
            }
            found.end = end;
        }
        self.found.push(found);
    }

    fn replaced(self, text: String) -> String {
        if self.found.is_empty() {
            return text;
        }
        let (mut replaced, mut done) = (String::new(), 0);
        for found in self.found {
            replaced.push_str(&text[done..found.start]);
            replaced.push_str(&found.shown);
            done = found.end;
        }
        replaced.push_str(&text[done..]);
        replaced
    }
}

impl Form {
    fn of(name: &str, text: &str, any_case: bool) -> Self {
        let characters =
            if any_case { text.chars().flat_map(folded).collect() } else { text.chars().collect() };
        Self { shown: format!("[secret {name}]").into(), characters, any_case }
    }

    /// How many characters of it were read when that one comes after so many.
    fn after(&self, mut count: usize, character: char) -> Option<usize> {
        if !self.any_case || character.is_ascii() {
            let read = if self.any_case { character.to_ascii_lowercase() } else { character };
            return (self.characters.get(count) == Some(&read)).then_some(count + 1);
        }
        for read in folded(character) {
            if self.characters.get(count) != Some(&read) {
                return None;
            }
            count += 1;
        }
        Some(count)
    }
}

/// A letter without its case. Some letters become two.
fn folded(character: char) -> impl Iterator<Item = char> {
    character.to_uppercase().flat_map(char::to_lowercase)
}

/// The forms in which a secret can appear: itself, hexadecimal, and Base64 behind any bytes.
fn forms(name: &str, secret: &str) -> Vec<Form> {
    let hex: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![Form::of(name, secret, true)];
    forms.extend(["", " ", ":", "-"].map(|between| Form::of(name, &hex.join(between), true)));
    for before in 0..3 {
        let of_alphabet = |alphabet| base64(secret, alphabet, before);
        let (standard, for_urls) = (of_alphabet(&alphabet::STANDARD), of_alphabet(&alphabet::URL_SAFE));
        forms.extend((standard != for_urls).then(|| Form::of(name, &for_urls, false)));
        forms.push(Form::of(name, &standard, false));
    }
    forms
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
    use super::super::reading::NESTED;
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
            value.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
            value.bytes().map(|byte| format!("={byte:02X}")).collect(),
            value.replace('ä', "\\xc3\\xa4").replace('y', "\\x79"),
        ];
        for between in [" ", ":", "-", ":\n    "] {
            let hex: Vec<String> = value.bytes().map(|byte| format!("{byte:02X}")).collect();
            echoes.push(hex.join(between));
        }
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
            "&#10;", "\n\n", "\t", "\\t", "%09", "\u{2028}", "\\u2028", "\u{85}", "<wbr>", "<WBR/>", "&shy;",
            "\u{200b}", "&#8203;",
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
    }

    #[test]
    fn several_lines_several_secrets_and_what_overlaps_are_hidden() {
        let lines = "-----BEGIN KEY-----\nMIIB\nnewAA==\n-----END KEY-----";
        let mask = Mask::of([("pem", &SecretValue::new(lines))].into_iter());
        for echo in [lines.to_owned(), lines.replace('\n', "\r\n"), lines.replace('\n', "\\\\n")] {
            assert_eq!(mask.hide(format!("<{echo}>")), "<[secret pem]>", "{echo}");
            assert_eq!(mask.hide(serde_json::json!([echo]).to_string()), r#"["[secret pem]"]"#, "{echo}");
        }
        let of = |text: &str| SecretValue::new(text);
        let (long, inner, next) = (of("abcdefgh-0815"), of("defgh-"), of("0815-zyxwvu"));
        let mask = Mask::of([("inner", &inner), ("long", &long), ("next", &next)].into_iter());
        assert_eq!(mask.hide("abcdefgh-0815 defgh-".into()), "[secret long] [secret inner]");
        assert_eq!(
            mask.hide("abcdefgh-0815-zyxwvu!".into()),
            "[secret long]!",
            "no end of the second is left"
        );
        let mask = Mask::of([("round", &of("abcabc-abc"))].into_iter());
        assert_eq!(mask.hide("abcabc-abcabc-abc.".into()), "[secret round].");
    }

    /// Texts of this many bytes of every kind that makes a search go back, in front of a secret or not.
    fn hostile(secret: &str, bytes: usize) -> Vec<String> {
        let base64 = STANDARD.encode(secret);
        let (most, first) = (&secret[..secret.len() - 1], &secret[..1]);
        let mut units: Vec<String> = [
            "\\n",
            "\\r\\n",
            "\\\\n",
            "%0a",
            "%0D%0A",
            "%250a",
            "&#10;",
            "&amp;#10;",
            "&#xa;",
            "<br>",
            "<BR />",
            "<wbr>",
            "&shy;",
            "\t",
            "\u{200b}",
            "\\x0a",
            "=0a",
            "=c3",
            "6e:",
            "\n",
            "\r\n",
            "=\n",
            "=\r\n\t",
            "\n    ",
            "\\u000a",
            "\\n%0a<br>&#10;\n",
            "%",
            "%25",
            "%2525",
            "&",
            "&amp;",
            "\\",
            "<",
            "=",
            " ",
            "n",
            "r",
            "a",
            "d",
        ]
        .map(str::to_owned)
        .into();
        units.extend([secret, most, first, &base64[..base64.len() - 4], &base64[..1]].map(str::to_owned));
        for broken in ["\\n", "%0a", "<br>", "=\n "] {
            units.push(most.chars().map(|one| format!("{one}{broken}")).collect());
            units.push(base64.chars().map(|one| format!("{one}{broken}{broken}")).collect());
            units.push(format!("{first}{}", broken.repeat(50)));
        }
        units.iter().map(|unit| unit.repeat(bytes / unit.len())).collect()
    }

    #[test]
    fn the_steps_of_a_search_grow_with_the_text_and_no_faster() {
        // The first letters are those with which line breaks end, and the last of them repeats itself.
        let secrets = [
            "npm_abcdefghij0123456789",
            "re_8Kd0fh38dhGt",
            "aKIA0a0d0a0d0a0dXY",
            "d0a%0d%0a%25\\nQ",
            ">lt;br>=\\n\\r",
            "\\\\\\n\\n\\n",
            "nnnnnnnnnnnnnnnnnnnnnnnn",
        ];
        let steps = |mask: &Mask, text: &str| {
            let before = super::super::STEPS.get();
            mask.hide(text.to_owned());
            super::super::STEPS.get() - before
        };
        for secret in secrets {
            let mask = Mask::of([("key", &SecretValue::new(secret))].into_iter());
            // As many as all forms have characters, and then a few readings of a place.
            let states: usize = mask.forms.iter().map(|form| form.characters.len()).sum();
            for text in hostile(secret, 1_200) {
                let (steps, shape) = (steps(&mask, &text), text.chars().take(40).collect::<String>());
                let most = text.len() * (states + 300);
                assert!(steps <= most, "{secret} in {shape:?}: {steps} steps, wanted at most {most}");
                let hidden = mask.hide(format!("{text} {secret}"));
                assert!(hidden.ends_with("[secret key]"), "{secret} behind {shape:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_long_text_is_searched_on_another_thread() {
        let mask = Mask::of([("key", &SecretValue::new("npm_abcdefghij"))].into_iter());
        for (bytes, elsewhere) in [(100, false), (100_000, true)] {
            let before = super::super::STEPS.get();
            let text = format!("{}npm_abcdefghij", "\\n".repeat(bytes / 2));
            assert!(mask.hide_apart(text).await.ends_with("\\n[secret key]"));
            assert_eq!(super::super::STEPS.get() == before, elsewhere);
        }
    }

    #[test]
    fn a_secret_that_a_cut_divides_is_hidden_too() {
        let mask = Mask::of([("key", &SecretValue::new("canary-123456"))].into_iter());
        assert_eq!(mask.hide_cut("you sent canary-12".into()), "you sent •••");
        assert_eq!(mask.hide_cut("you sent can".into()), "you sent can");
        assert_eq!(mask.hide_cut("you sent canary%2".into()), "you sent •••");
        assert_eq!(mask.hide_cut("you sent canary-123456".into()), "you sent [secret key]");
        assert_eq!(mask.hide("you sent canary-12".into()), "you sent canary-12");
        for end in
            ["canary-1\\", "canary\n", "canary-%0", "CANARY-1\r\n ", "canary-12\u{fffd}", "63616e6172792d"]
        {
            assert_eq!(mask.hide_cut(format!("you sent {end}")), "you sent •••", "{end:?}");
        }
    }
}
