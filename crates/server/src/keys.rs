//! Keys: 256 random bits as text, kept as a hash. A fast hash is right for a secret that cannot be
//! guessed. Must not know where keys are kept.

use agent::id::hex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every key begins with, so that people and scanners recognise one.
pub const PREFIX: &str = "viv_";

/// The text of a key: the prefix and 64 hexadecimal digits.
pub fn key(random: &[u8; 32]) -> String {
    format!("{PREFIX}{}", hex(random))
}

/// What is kept of a key: SHA-256 of its text, as lower-case hexadecimal.
pub fn hash(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

/// Whether two texts are the same; takes the same time wherever they differ.
pub fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_recognisable_and_its_hash_is_not_it() {
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
