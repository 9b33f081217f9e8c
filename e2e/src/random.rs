//! Reproducible randomness: the same seed yields the same numbers (SplitMix64).

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed for one purpose; `uses` identifies the purpose.
    pub fn derive(seed: u64, uses: &[u64]) -> Self {
        let mut rng = Self(seed);
        for one in uses {
            rng = Self(rng.next_number() ^ one.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        rng
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next_number() % (high - low + 1)
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.next_number().is_multiple_of(n)
    }

    /// A random element; the slice must not be empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let last = from.len() as u64 - 1;
        &from[self.between(0, last) as usize]
    }

    /// A UUID of version 4.
    pub fn uuid(&mut self) -> Uuid {
        let halves = (u128::from(self.next_number()) << 64) | u128::from(self.next_number());
        Builder::from_random_bytes(halves.to_be_bytes()).into_uuid()
    }
}

/// A new seed, for runs without a given seed.
pub fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Few digits, since people retype it.
    u64::from(now.subsec_nanos()) % 1_000_000 + (now.as_secs() % 10_000) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_use_yield_the_same_numbers() {
        let numbers = |seed, uses: &[u64]| {
            let mut rng = Rng::derive(seed, uses);
            [rng.next_number(), rng.next_number(), rng.next_number()]
        };
        assert_eq!(numbers(7, &[1, 2]), numbers(7, &[1, 2]));
        assert_ne!(numbers(7, &[1, 2]), numbers(7, &[2, 1]));
        assert_ne!(numbers(7, &[1, 2]), numbers(8, &[1, 2]));
        assert_eq!(Rng::derive(7, &[]).uuid().get_version_num(), 4);
    }
}
