//! The words of a text, in the form in which entries are indexed and queries are asked: NFKC, lower case, without
//! diacritics; Arabic without marks, tatweel and article, and with one form of alef; scripts without spaces between
//! words as pairs of characters. Knows nothing of what the texts are.

use agent::limits;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// A word of a text, and the bytes of the text that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) word: String,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The words of a text, in order. A run of characters without spaces also ends with its last character alone, so that
/// one character is found wherever it stands, as the beginning of a word.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut begin = None;
    for (at, c) in text.char_indices() {
        match (begin, is_part(c)) {
            (None, true) => begin = Some(at),
            (Some(from), false) => {
                run(text, from, at, &mut found);
                begin = None;
            }
            _ => {}
        }
    }
    if let Some(from) = begin {
        run(text, from, text.len(), &mut found);
    }
    found
}

/// Whether a character belongs to a word: letters, digits, and marks upon them.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{640}') || is_arabic_mark(c) || is_dense_mark(c)
}

/// Vowel signs and tone marks of Thai, Lao, Khmer and Burmese: those that are no letters.
fn is_dense_mark(c: char) -> bool {
    matches!(c, '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{eb1}' | '\u{eb4}'..='\u{ebc}' | '\u{ec8}'..='\u{ece}'
        | '\u{17b4}'..='\u{17d3}' | '\u{17dd}' | '\u{102b}'..='\u{103e}' | '\u{1056}'..='\u{1060}' | '\u{1062}'..='\u{1064}'
        | '\u{1067}'..='\u{106d}' | '\u{1071}'..='\u{1074}' | '\u{1082}'..='\u{108d}' | '\u{108f}' | '\u{109a}'..='\u{109d}')
}

fn is_arabic_mark(c: char) -> bool {
    matches!(c, '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e8}' | '\u{6ea}'..='\u{6ed}')
}

/// Scripts that are written without spaces between words, or with endings attached: Chinese, Japanese, Korean, Thai, Lao, Khmer,
/// Burmese.
fn is_dense(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3134f}')
}

/// Adds the words of a run of letters, digits and marks.
fn run(text: &str, from: usize, to: usize, found: &mut Vec<Word>) {
    let part = &text[from..to];
    if part.is_ascii() {
        let word = part.bytes().take(limits::INDEXED_WORD_MAX_CHARS).map(|b| b.to_ascii_lowercase() as char);
        found.push(Word { word: word.collect(), from, to });
        return;
    }
    let mut begin = from;
    let mut dense = None;
    for (at, c) in part.char_indices().map(|(at, c)| (from + at, c)) {
        if *dense.get_or_insert(is_dense(c)) != is_dense(c) && !is_mark(c) {
            stretch(text, begin, at, dense == Some(true), found);
            (begin, dense) = (at, Some(is_dense(c)));
        }
    }
    stretch(text, begin, to, dense == Some(true), found);
}

/// Adds the words of a stretch in one kind of script.
fn stretch(text: &str, from: usize, to: usize, dense: bool, found: &mut Vec<Word>) {
    if dense {
        return pairs(text, from, to, found);
    }
    let nfkc = ComposingNormalizerBorrowed::new_nfkc().normalize(&text[from..to]);
    for piece in nfkc.split(|c: char| !is_part(c)) {
        let folded = fold(piece);
        if !folded.is_empty() {
            found.push(Word { word: folded, from, to });
        }
    }
}

fn pairs(text: &str, from: usize, to: usize, found: &mut Vec<Word>) {
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let single = |(at, c): (usize, char)| {
        let mut buffer = [0; 4];
        let same: String =
            nfkc.normalize(c.encode_utf8(&mut buffer)).chars().filter(|c| is_part(*c)).collect();
        (from + at, from + at + c.len_utf8(), same.to_lowercase())
    };
    let characters: Vec<_> =
        text[from..to].char_indices().map(single).filter(|(_, _, c)| !c.is_empty()).collect();
    for pair in characters.windows(2) {
        let [(from, _, first), (_, to, second)] = pair else { continue };
        found.push(Word { word: format!("{first}{second}"), from: *from, to: *to });
    }
    if let Some((from, to, last)) = characters.last() {
        found.push(Word { word: last.clone(), from: *from, to: *to });
    }
}

/// One word in the form in which it is compared.
fn fold(piece: &str) -> String {
    // By way of upper case, so that letters with one capital are equal: `ß` and `ss`, `ς` and `σ`.
    let upper = piece.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    let lower: String = upper.flat_map(char::to_lowercase).collect();
    let arabic = lower.chars().any(|c| matches!(c, '\u{600}'..='\u{6ff}'));
    let bare: String = match arabic {
        true => lower.chars().filter_map(arabic_letter).collect(),
        false => {
            let parts = DecomposingNormalizerBorrowed::new_nfd().normalize(&lower);
            let bare: String = parts.chars().filter(|c| !matches!(c, '\u{300}'..='\u{36f}')).collect();
            ComposingNormalizerBorrowed::new_nfc().normalize(&bare).into_owned()
        }
    };
    let bare = if arabic { without_article(&bare) } else { &bare };
    bare.chars().take(limits::INDEXED_WORD_MAX_CHARS).collect()
}

/// The letter that stands for all its forms; `None` for marks and tatweel.
fn arabic_letter(c: char) -> Option<char> {
    match c {
        '\u{640}' => None,
        c if is_arabic_mark(c) => None,
        'أ' | 'إ' | 'آ' | 'ٱ' => Some('ا'),
        'ى' | 'ی' => Some('ي'),
        'ک' => Some('ك'),
        'ة' => Some('ه'),
        c => Some(c),
    }
}

/// The word without the article, also behind a preposition or `and`.
fn without_article(word: &str) -> &str {
    let articles = ["وال", "بال", "كال", "فال", "لل", "ال"];
    let rest = articles.iter().find_map(|article| word.strip_prefix(article));
    rest.filter(|rest| rest.chars().count() >= 3).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: &[&str]) {
        let found: Vec<String> = words(text).into_iter().map(|word| word.word).collect();
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn equal_words_have_one_form() {
        check("", &[]);
        check("... \"-\" * \u{0} \u{202e}", &[]);
        check(
            "Straße, CAFÉ cafe\u{301} Ｆｕｌｌ ﬁne ½",
            &["strasse", "cafe", "cafe", "full", "fine", "1", "2"],
        );
        check("STRASSE STRAẞE σοφός ΣΟΦΟΣ", &["strasse", "strasse", "σοφοσ", "σοφοσ"]);
        check("foo_bar a.b@c-d", &["foo", "bar", "a", "b", "c", "d"]);
        check("İstanbul", &["istanbul"]);
    }

    #[test]
    fn arabic_words_lose_marks_tatweel_and_article() {
        check("الكِتَابُ والكتاب كتاب كـتـاب", &["كتاب", "كتاب", "كتاب", "كتاب"]);
        check("أحمد إحمد آحمد احمد", &["احمد", "احمد", "احمد", "احمد"]);
        check("مدرسة المدرسه على علي", &["مدرسه", "مدرسه", "علي", "علي"]);
        check("ال الى", &["ال", "الي"]);
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        check("東京都", &["東京", "京都", "都"]);
        check("店", &["店"]);
        check("GPT東京v2", &["gpt", "東京", "京", "v2"]);
        check("서울에", &["서울", "울에", "에"]);
        // A word inside a sentence shares all its pairs with it.
        for (sentence, word) in [
            ("ฉันชอบดื่มชาร้อนทุกเช้า", "ดื่มชา"),
            ("ຂ້ອຍມັກດື່ມຊາຮ້ອນ", "ດື່ມຊາ"),
            ("ខ្ញុំចូលចិត្តផឹកតែ", "ផឹកតែ"),
            ("ကျွန်တော်လက်ဖက်ရည်သောက်တယ်", "လက်ဖက်ရည်"),
        ] {
            let all = words(sentence);
            let inner = words(word);
            let pairs = &inner[..inner.len() - 1];
            assert!(
                pairs.len() > 2 && pairs.iter().all(|pair| all.iter().any(|w| w.word == pair.word)),
                "{word}"
            );
        }
    }

    #[test]
    fn a_word_names_its_bytes_and_long_ones_are_cut() {
        let text = "x الكِتَاب 東京";
        let places: Vec<&str> = words(text).iter().map(|word| &text[word.from..word.to]).collect();
        assert_eq!(places, ["x", "الكِتَاب", "東京", "京"]);
        assert_eq!(words(&"x".repeat(1_000_000))[0].word.len(), limits::INDEXED_WORD_MAX_CHARS);
    }
}
