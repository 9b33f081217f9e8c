//! A secret prints nothing (invariant 11). It is opened only where a header is written.

use std::fmt;

/// A key of a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key; surrounding white space is a slip of whoever pasted it.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Opens it.
    pub(crate) fn open(&self) -> &str {
        &self.0
    }

    /// `text` without the key, should a vendor have echoed it.
    pub(crate) fn redact(&self, text: String) -> String {
        // A very short "key" (a placeholder such as `x`) would blank out harmless text.
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
    fn a_secret_prints_nothing_and_is_taken_out_of_errors() {
        let secret = Secret::new(" sk-canary-123 \n");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.redact("wrong key sk-canary-123!".into()), "wrong key [key]!");
    }
}
