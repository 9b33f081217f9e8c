//! API keys: 256 random bits as text, stored as a hash. A fast hash suffices, because the secret cannot be
//! guessed. Must not know where keys are stored.

use agent::id::hex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Labels of admin keys that the program itself creates and replaces: of the first start, and of each start.
pub const RESERVED_LABELS: [&str; 2] = ["admin", "cli"];

/// The prefix of every key, so that people and secret scanners recognize one.
pub const PREFIX: &str = "viv_";

/// The text of a key: the prefix and 64 lower-case hexadecimal digits.
pub fn key(random: &[u8; 32]) -> String {
    format!("{PREFIX}{}", hex(random))
}

/// The stored form of a key: SHA-256 of its text, as lower-case hexadecimal.
pub fn hash(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

/// Compares two texts in constant time.
pub fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_prefix_and_its_hash_does_not_contain_it() {
        let text = key(&[7; 32]);
        assert_eq!(text.len(), PREFIX.len() + 64);
        assert!(text.starts_with("viv_0707"));
        assert_eq!(hash(&text).len(), 64);
        assert!(!hash(&text).contains("0707"));
    }

    #[test]
    fn only_equal_texts_are_the_same() {
        assert!(same("viv_a", "viv_a"));
        assert!(!same("viv_a", "viv_b"));
        assert!(!same("viv_a", "viv_aa"));
    }
}
