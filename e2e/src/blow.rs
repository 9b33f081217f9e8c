//! What befalls one life, by dice: when it is halted, how it ends, and what it suffers from within.

use std::collections::BTreeMap;

use failpoint::POINTS;

use crate::binary::Faults;
use crate::dice::Dice;
use crate::stub::Mishap;

/// Half of the lives are under load for so many milliseconds.
const LOAD_MS: (u64, u64) = (50, 400);
/// The others end right behind a commit: so many at most are heard first, within so many milliseconds,
/// and then the blow falls within so many.
const COMMITS: (u64, u64, u64) = (8, 1_500, 12);
/// One in so many lives is killed before it is ready, within so many milliseconds.
const EARLY: (u64, u64) = (8, 80);
/// One in so many is halted in the middle for so many milliseconds.
const HALTED: (u64, (u64, u64)) = (4, (20, 400));
/// One in so many is told to stop and ends in peace.
const PEACEFUL: u64 = 6;

/// Points between the opening of a cycle and what it lives: where a protocol that drains first loses.
const OPEN: [&str; 4] = ["stream.first_byte", "stream.middle", "stream.done", "decide.before"];

/// Which binary lives, on which disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// The plain binary; blows come from outside.
    Plain,
    /// The build with `failpoints`: each life ends at a named point.
    Points,
    /// The same on a disk that loses what was not synced.
    Power,
}

impl Variant {
    /// Its name, as it is asked for.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Points => "points",
            Self::Power => "power",
        }
    }

    /// The reverse of [`Variant::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Plain, Self::Points, Self::Power].into_iter().find(|variant| variant.as_str() == text)
    }
}

/// A protocol or a setting that must be caught breaking promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Events leave the inbox when a cycle opens.
    DrainFirst,
    /// Commits are answered before they are on disk.
    SyncNormal,
}

impl Sabotage {
    /// Its name, as the fault is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DrainFirst => "drain-first",
            Self::SyncNormal => "sync-normal",
        }
    }

    /// The reverse of [`Sabotage::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        [Self::DrainFirst, Self::SyncNormal].into_iter().find(|sabotage| sabotage.as_str() == text)
    }
}

/// How long a life is under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLength {
    /// So many milliseconds.
    Ms(u64),
    /// Until so many commits were heard, within so many milliseconds, and so many milliseconds more.
    Commits(usize, u64, u64),
    /// Until it dies of itself, or so many milliseconds.
    UntilItDies(u64),
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGKILL.
    Kill,
    /// SIGTERM: it must end by itself, in time and in peace (or at its point).
    Term,
}

/// What befalls one life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blow {
    /// It is killed so many milliseconds after its start, ready or not.
    pub early: Option<u64>,
    /// Its time under load.
    pub load: LoadLength,
    /// In the middle of it, it stands still for so many milliseconds.
    pub halted: Option<u64>,
    /// Its end from outside, where it comes to that.
    pub end: End,
    /// The point at which it ends from within.
    pub point: Option<&'static str>,
    /// Variables of its environment.
    pub faults: Faults,
    /// How its model fails.
    pub mishap: Option<(Mishap, bool)>,
}

impl Blow {
    /// What befalls this life. `hit` says how often each point was hit so far.
    pub fn of(
        variant: Variant,
        sabotage: Option<Sabotage>,
        (seed, life): (u64, u64),
        hit: &BTreeMap<&'static str, u64>,
    ) -> Self {
        let mut dice = Dice::of(seed, &[life, 99]);
        let early = (life > 0 && dice.one_in(EARLY.0)).then(|| dice.between(0, EARLY.1));
        let load = if dice.one_in(2) {
            LoadLength::Ms(dice.between(LOAD_MS.0, LOAD_MS.1))
        } else {
            let (most, patience, blow) = COMMITS;
            LoadLength::Commits(dice.between(1, most) as usize, patience, dice.between(0, blow))
        };
        let halted = dice.one_in(HALTED.0).then(|| dice.between(HALTED.1.0, HALTED.1.1));
        let end = if life > 0 && dice.one_in(PEACEFUL) { End::Term } else { End::Kill };
        // A world that was never made whole could not be asked for what it lost.
        let sabotage = sabotage.filter(|_| life > 0);
        let mut faults: Vec<&str> = sabotage.iter().map(|sabotage| sabotage.as_str()).collect();
        if variant != Variant::Plain {
            // Each copying back of the log syncs: where syncs are what is missing, it would heal too much.
            faults.extend((sabotage != Some(Sabotage::SyncNormal)).then_some("small-log"));
            faults.extend(dice.one_in(4).then_some("answers-lost"));
        }
        if variant == Variant::Power {
            faults.push("power-loss");
        }
        let mut blow = Self { early, load, halted, end, point: None, faults: Faults::new(), mishap: None };
        if variant == Variant::Points || (variant == Variant::Power && life > 0 && dice.one_in(3)) {
            let point = match sabotage {
                Some(Sabotage::DrainFirst) => *dice.pick(&OPEN),
                _ => next(variant, life, hit, &mut dice),
            };
            blow = blow.at(point, hit.contains_key(point), &mut dice);
        }
        if !faults.is_empty() {
            blow.faults.push(("VIV_FAULTS", faults.join(",")));
        }
        blow
    }

    /// The same with its end at that point: as soon as it comes there, where nobody ever did.
    fn at(mut self, point: &'static str, hit_before: bool, dice: &mut Dice) -> Self {
        let most = match point {
            _ if !hit_before => 1,
            "migrate" => 8,
            "boot" | "shutdown" | "view.before" | "view.committed" => 1,
            // Only who was at work when the process died before comes there.
            "sent.before" | "sent.committed" | "arrived.before" | "arrived.committed" => 1,
            "stream.middle" => 40,
            _ => 3,
        };
        let after = match point {
            // Long enough for the answer to go out.
            "accept.signalled" => dice.between(0, 30),
            _ if dice.one_in(3) => dice.between(1, 5),
            _ => 0,
        };
        self.early = None;
        self.halted = None;
        (self.load, self.end) = match point {
            "shutdown" => (LoadLength::Ms(dice.between(30, 200)), End::Term),
            _ => (LoadLength::UntilItDies(2_500), End::Kill),
        };
        self.mishap = match point {
            "park.before" | "park.committed" => Some((Mishap::Overloaded, false)),
            "view.before" | "view.committed" => Some((Mishap::TooLong, true)),
            _ => None,
        };
        self.point = Some(point);
        self.faults.push(("VIV_FAILPOINT", format!("{point}@{}+{after}", dice.between(1, most))));
        self
    }
}

/// The point that was hit least. Only a first life migrates, and it does nothing else.
fn next(variant: Variant, life: u64, hit: &BTreeMap<&'static str, u64>, dice: &mut Dice) -> &'static str {
    let times = |point: &str| hit.get(point).copied().unwrap_or(0);
    if life == 0 && variant == Variant::Points {
        return "migrate";
    }
    let fits = |point: &&&str| **point != "migrate";
    let least = POINTS.iter().filter(fits).map(|point| times(point)).min().unwrap_or(0);
    let least: Vec<&'static str> =
        POINTS.iter().filter(fits).copied().filter(|point| times(point) == least).collect();
    let at = dice.between(0, least.len() as u64 - 1) as usize;
    least[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_brings_the_same_blows_and_every_point_has_its_turn() {
        let mut hit = BTreeMap::new();
        for life in 0..POINTS.len() as u64 {
            let blow = Blow::of(Variant::Points, None, (7, life), &hit);
            assert_eq!(blow, Blow::of(Variant::Points, None, (7, life), &hit));
            *hit.entry(blow.point.unwrap()).or_default() += 1;
        }
        assert_eq!(hit.len(), POINTS.len());
    }

    #[test]
    fn the_plain_binary_is_told_nothing() {
        for life in 0..50 {
            let blow = Blow::of(Variant::Plain, None, (3, life), &BTreeMap::new());
            assert!(blow.faults.is_empty() && blow.point.is_none());
        }
    }
}
