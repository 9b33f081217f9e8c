//! A secret never prints its value (invariant 11). It is revealed only where a header is written.

use std::fmt;

/// A provider's API key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key. Surrounding white space is removed, because pasted keys often have it.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// Whether the key is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` with the key replaced, in case a vendor echoed it.
    pub(crate) fn redact(&self, text: String) -> String {
        // Replacing a very short key (a placeholder such as `x`) would remove harmless text.
        if self.0.len() < 6 || !text.contains(&self.0) {
            return text;
        }
        text.replace(&self.0, "[key]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed_and_is_redacted_from_errors() {
        let secret = Secret::new(" sk-canary-123 \n");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.redact("wrong key sk-canary-123!".into()), "wrong key [key]!");
    }
}
