//! Chance that repeats: the same seed throws the same numbers (SplitMix64).

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

/// A source of numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of one seed, for one use of it.
    pub fn of(seed: u64, uses: &[u64]) -> Self {
        let mut dice = Self(seed);
        for one in uses {
            dice = Self(dice.throw() ^ one.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        dice
    }

    /// The next number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.throw() % (high - low + 1)
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.throw().is_multiple_of(n)
    }

    /// One of them; there must be one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let last = from.len() as u64 - 1;
        &from[self.between(0, last) as usize]
    }

    /// A UUID of version 4.
    pub fn uuid(&mut self) -> Uuid {
        let halves = (u128::from(self.throw()) << 64) | u128::from(self.throw());
        Builder::from_random_bytes(halves.to_be_bytes()).into_uuid()
    }
}

/// A seed that no run had before, for runs that name none.
pub fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Few digits, since people type it in again; the dice spread it.
    u64::from(now.subsec_nanos()) % 1_000_000 + (now.as_secs() % 10_000) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_numbers_and_another_use_others() {
        let throws = |seed, uses: &[u64]| {
            let mut dice = Dice::of(seed, uses);
            [dice.throw(), dice.throw(), dice.throw()]
        };
        assert_eq!(throws(7, &[1, 2]), throws(7, &[1, 2]));
        assert_ne!(throws(7, &[1, 2]), throws(7, &[2, 1]));
        assert_ne!(throws(7, &[1, 2]), throws(8, &[1, 2]));
        assert_eq!(Dice::of(7, &[]).uuid().get_version_num(), 4);
    }
}
