//! Runs worlds one after the other until the time is up or the binary has been killed often enough. The variants
//! alternate: the plain binary, failpoints, loss of power. Each world is settled, checked and dropped, so that an
//! hour needs no more memory than a minute.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::binary;
use crate::check::Breach;
use crate::faults::{Sabotage, Variant};
use crate::kill::{self, WorldOptions};
use crate::random::{self, Rng};
use crate::tally::Tally;
use crate::{HarnessError, Result};

/// Rounds of one world, by variant.
const ROUNDS: [(Variant, u64); 3] = [(Variant::Plain, 40), (Variant::Points, 48), (Variant::Power, 30)];

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct TortureSettings {
    /// Start no world after so many minutes.
    pub minutes: Option<u64>,
    /// Start no world after so many deaths of the process; used if `minutes` is not set.
    pub kills: u64,
    /// The seed of the run; the first world uses it unchanged.
    pub seed: u64,
    /// The sabotage that must be caught.
    pub sabotage: Option<Sabotage>,
    /// Run only worlds of this variant.
    pub only: Option<Variant>,
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct TortureOutcome {
    /// The counts.
    pub tally: Tally,
    /// Broken promises, each with the directory in which the data was left.
    pub breaches: Vec<(Breach, PathBuf)>,
    /// Failpoints that should have been reached and were not.
    pub never_hit: Vec<&'static str>,
}

impl TortureSettings {
    /// Reads the settings from the environment: `VIV_MINUTES`, `VIV_KILLS` (default 200), `VIV_SEED`, `VIV_SABOTAGE`,
    /// `VIV_ONLY`.
    pub fn from_env() -> Result<Self> {
        let sabotage =
            from_variable("VIV_SABOTAGE", "`drain-first`, `sync-normal` or `lying-tools`", Sabotage::parse)?;
        let only = from_variable("VIV_ONLY", "`plain`, `points` or `power`", Variant::parse)?;
        let number = |name| from_variable(name, "a number", |text| text.parse().ok());
        Ok(Self {
            minutes: number("VIV_MINUTES")?,
            kills: number("VIV_KILLS")?.unwrap_or(200),
            seed: number("VIV_SEED")?.unwrap_or_else(random::new_seed),
            sabotage,
            // Each sabotage does harm only in one variant.
            only: only.or(sabotage.map(Sabotage::variant)),
        })
    }
}

/// Reads an environment variable; `None` if it is not set or empty.
fn from_variable<T>(name: &str, wanted: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
    let text = std::env::var(name).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let read = read(&text);
    read.map(Some).ok_or_else(|| HarnessError::new(format!("wanted {wanted} in `{name}`, got `{text}`")))
}

/// Runs worlds; `say` is called with a line for each world and each broken promise.
pub async fn run(settings: &TortureSettings, mut say: impl FnMut(&str)) -> Result<TortureOutcome> {
    let begun = Instant::now();
    let mut outcome = TortureOutcome::default();
    let only = |variant| settings.only.is_none_or(|only| only == variant);
    let kinds = ROUNDS.into_iter().filter(|(variant, _)| only(*variant));
    let kinds = kinds.map(|(variant, rounds)| Ok((variant, rounds, binary::of(variant)?)));
    for (world, (variant, rounds, viv)) in kinds.collect::<Result<Vec<_>>>()?.iter().cycle().enumerate() {
        let enough = match settings.minutes {
            Some(minutes) => begun.elapsed() >= Duration::from_secs(minutes * 60),
            None => outcome.tally.deaths() >= settings.kills,
        };
        if enough {
            break;
        }
        let seed = match world as u64 {
            0 => settings.seed,
            world => Rng::derive(settings.seed, &[world]).between(1, 999_999_999),
        };
        let (variant, sabotage, rounds) = (*variant, settings.sabotage, *rounds);
        // The sabotages of the store are caught without workers, whose calls it would lose for good.
        let workers = sabotage.is_none_or(|sabotage| sabotage == Sabotage::LyingTools);
        let options =
            WorldOptions { viv: viv.clone(), variant, sabotage, rounds, seed, forget: None, workers };
        let report = kill::run(&options, &outcome.tally.points).await?;
        let (found, name) = (report.breaches.len(), variant.as_str());
        for breach in &report.breaches {
            say(&format!("broken: {breach}"));
        }
        if let Some(left) = &report.left {
            say(&format!(
                "repeat that world with `VIV_ONLY={name} VIV_SEED={seed}`; its data is in `{}`",
                left.display()
            ));
        }
        outcome.tally.add(&report.tally);
        let deaths = outcome.tally.deaths();
        say(&format!(
            "world {} ({name}, seed {seed}): {} deaths, {found} promises broken, {:.1} s; {deaths} deaths so far, {:.0} s",
            world + 1,
            report.tally.deaths(),
            report.tally.took.as_secs_f64(),
            begun.elapsed().as_secs_f64(),
        ));
        let left = report.left.unwrap_or_default();
        outcome.breaches.extend(report.breaches.into_iter().map(|breach| (breach, left.clone())));
    }
    outcome.tally.took = begun.elapsed();
    let all_points = settings.sabotage.is_none() && only(Variant::Points);
    outcome.never_hit = if all_points { outcome.tally.never_hit() } else { Vec::new() };
    Ok(outcome)
}
