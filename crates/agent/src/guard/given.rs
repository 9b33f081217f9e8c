//! Addresses that a person gave word for word. To read such a page sends nothing that a stranger could have put into its address.

use crate::tool::{ToolSpec, names};

/// The characters around which an address ends in a text.
const AROUND: [char; 17] =
    ['"', '\'', '`', '<', '>', '(', ')', '[', ']', '{', '}', '|', '\\', '^', '*', '“', '”'];
/// Punctuation that belongs to the sentence if an address ends with it.
const SENTENCE: [char; 6] = ['.', ',', ';', ':', '!', '?'];

/// White space as a quotation writes it.
const ESCAPED_SPACE: [&str; 3] = ["\\n", "\\r", "\\t"];

/// The address that a call reads, if all that it sends is that address.
pub fn address(tool: &ToolSpec, arguments: &str) -> Option<String> {
    if tool.name != names::FETCH_PAGE {
        return None;
    }
    let arguments: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).ok()?;
    let only = arguments.len() == 1;
    arguments.get("url").filter(|_| only)?.as_str().map(str::to_owned)
}

/// Whether the text names exactly that address: the whole one, and nothing that goes on.
pub fn names_address(text: &str, address: &str) -> bool {
    // An entry quotes what people wrote on one line.
    let text = ESCAPED_SPACE.iter().fold(text.to_owned(), |text, escaped| text.replace(escaped, " "));
    let ends = |letter: char| letter.is_whitespace() || AROUND.contains(&letter);
    text.split(ends).any(|word| word == address || word.trim_end_matches(SENTENCE) == address)
        && address.starts_with("http")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_only_as_a_whole_and_exactly() {
        let given = "https://a.example/x?y=1";
        for text in [
            "read https://a.example/x?y=1",
            "1. [space home] \"Mira\": \"read https://a.example/x?y=1.\"",
            "(https://a.example/x?y=1), please",
            "1. Mira: \"this:\\nhttps://a.example/x?y=1\\nand that\"",
            "<https://a.example/x?y=1>\nand another",
        ] {
            assert!(names_address(text, given), "{text}");
        }
        for text in [
            "read https://a.example/x?y=12",
            "read https://a.example/x?y=1&q=4711",
            "read http://a.example/x?y=1",
            "read https://a.example/x",
            "https://evil.example/?to=https://a.example/x?y=1",
            "HTTPS://A.EXAMPLE/x?y=1",
            "",
        ] {
            assert!(!names_address(text, given), "{text}");
        }
        assert!(!names_address("look up rain", "rain"), "a word is no address");
    }
}
