//! The random choices of a simulated world, all from one seed.
//!
//! Must not know what they decide.

use std::collections::BTreeMap;
use std::sync::Mutex;

use runtime::Bounds;

/// Random numbers determined by a seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Dice(Mutex<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give similar worlds.
        Self(Mutex::new(seed.wrapping_mul(0xA076_1D64_78BD_642F) ^ 0xE703_7ED1_A0B4_28DB))
    }

    fn roll(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// A number in `from..=to`.
    pub(crate) fn between(&self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// `true` that often in a thousand times. A chance of zero uses no random number, so that a world without one
    /// fault is otherwise unchanged.
    pub(crate) fn chance(&self, permille: u64) -> bool {
        permille > 0 && self.below(1_000) < permille
    }

    pub(crate) fn pick<'a, T>(&self, among: &'a [T]) -> &'a T {
        &among[usize::try_from(self.below(among.len() as u64)).unwrap()]
    }

    /// One of several, by weight.
    pub(crate) fn weighed<T: Copy>(&self, among: &[(u64, T)]) -> T {
        let mut at = self.below(among.iter().map(|(weight, _)| weight).sum());
        for (weight, what) in among {
            if at < *weight {
                return *what;
            }
            at -= weight;
        }
        among[0].1
    }
}

/// What may fail in one world. Most worlds have only a few kinds of faults, so that each kind occurs alone and
/// together with others. Chances are in a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// The store answers that it is busy.
    pub(crate) busy: u64,
    /// The store answers that it is full.
    pub(crate) full: u64,
    /// The store commits, and its answer is lost.
    pub(crate) unanswered: u64,
    /// A read is delayed, before or after it runs.
    pub(crate) slow_reads: u64,
    /// Longest wait for a sync, in milliseconds.
    pub(crate) sync_ms: u64,
    /// A signal is lost.
    pub(crate) lost_signals: u64,
    /// A signal arrives twice.
    pub(crate) doubled: u64,
    /// A client repeats a request that was answered.
    pub(crate) repeated: u64,
    /// The model fails, in one of its ways.
    pub(crate) model: u64,
    /// The model stops sending.
    pub(crate) silence: u64,
    /// How often the process may die.
    pub(crate) deaths: u64,
    /// The most interactions with the world after which it dies.
    pub(crate) fuse: u64,
    /// A node is halted while another one takes over, and continues later.
    pub(crate) zombies: bool,
    /// The wall clock jumps.
    pub(crate) jumps: bool,
    /// Some events cannot be answered by any model, and some kill the process.
    pub(crate) poison: bool,
    /// Operators cancel, suspend, amend.
    pub(crate) operators: bool,
    /// The sender of a message loses its membership for a moment.
    pub(crate) removals: u64,
    /// The store refuses everything for a while.
    pub(crate) outages: bool,
    /// Agents that may be awake at once, if only few may.
    pub(crate) slots: Option<usize>,
}

impl Faults {
    /// How much runs at once on a node of this world.
    pub(crate) fn bounds(&self) -> Bounds {
        let few = |awake| Bounds { awake, requests_per_provider: awake, ..Bounds::default() };
        self.slots.map_or_else(Bounds::default, few)
    }

    pub(crate) fn of(dice: &Dice) -> Self {
        let some = |permille: u64, most: u64| if dice.chance(permille) { dice.between(1, most) } else { 0 };
        Self {
            busy: some(300, 80),
            full: some(150, 40),
            unanswered: some(300, 80),
            slow_reads: some(300, 200),
            sync_ms: if dice.chance(250) { 3_000 } else { dice.between(0, 30) },
            lost_signals: some(300, 600),
            doubled: some(300, 400),
            repeated: some(400, 500),
            model: some(500, 250),
            silence: some(150, 60),
            deaths: some(600, 8),
            fuse: dice.between(20, 600),
            zombies: dice.chance(300),
            jumps: dice.chance(200),
            poison: dice.chance(150),
            operators: dice.chance(500),
            removals: some(500, 400),
            outages: dice.chance(250),
            slots: dice.chance(250).then(|| if dice.chance(500) { 1 } else { 2 }),
        }
    }
}

/// Prints a line of a loud world.
#[expect(clippy::print_stdout, reason = "the caller asked for it")]
pub(crate) fn show(line: &str) {
    println!("{line}");
}

/// What happened in one world, line by line. Two worlds are the same if their hashes are.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: u64,
    pub(crate) lines: u64,
    /// Whether every line is printed.
    pub(crate) loud: bool,
    /// How often each thing happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Trace {
    pub(crate) fn new(loud: bool) -> Self {
        Self { loud, ..Self::default() }
    }

    pub(crate) fn line(&mut self, line: &str) {
        if self.loud {
            show(line);
        }
        self.lines += 1;
        // FNV-1a, started with the line's number, so that an empty line counts.
        let mut hash = self.hash ^ 0xCBF2_9CE4_8422_2325 ^ self.lines;
        for byte in line.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.hash = hash;
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}
