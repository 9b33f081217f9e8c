//! World behind world until the time is up or enough lives have ended: the plain binary, the named
//! points, the loss of power, in turn. Each world is settled, judged and forgotten, so that an hour
//! needs no more memory than a minute.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::binary;
use crate::blow::{Sabotage, Variant};
use crate::check::Breach;
use crate::dice::{self, Dice};
use crate::kill::{self, Torture};
use crate::tally::Tally;
use crate::{Result, Trouble};

/// Lives of one world.
const LIVES: [(Variant, u64); 3] = [(Variant::Plain, 40), (Variant::Points, 48), (Variant::Power, 30)];

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The binary as it is shipped.
    pub plain: PathBuf,
    /// The build with `failpoints`, where it is needed.
    pub failpoints: PathBuf,
    /// Begin no world after so many minutes.
    pub minutes: Option<u64>,
    /// Begin no world after so many deaths, where no minutes are named.
    pub kills: u64,
    /// The seed of it all; the first world has it unchanged.
    pub seed: u64,
    /// What must be caught.
    pub sabotage: Option<Sabotage>,
    /// Only worlds of this kind.
    pub only: Option<Variant>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct TortureOutcome {
    /// In numbers.
    pub tally: Tally,
    /// Promises that were broken, each with where the data was left.
    pub breaches: Vec<(Breach, PathBuf)>,
    /// Points that should have been hit and were not.
    pub never_hit: Vec<&'static str>,
}

impl Orders {
    /// From the environment: `VIV_BIN`, `VIV_FAILPOINTS_BIN`, `VIV_MINUTES`, `VIV_KILLS` (200),
    /// `VIV_SEED`, `VIV_SABOTAGE`, `VIV_ONLY`.
    pub fn from_env() -> Result<Self> {
        let sabotage = named("VIV_SABOTAGE", "`drain-first` or `sync-normal`", Sabotage::parse)?;
        let only = named("VIV_ONLY", "`plain`, `points` or `power`", Variant::parse)?;
        let number = |name| named(name, "a number", |text| text.parse().ok());
        Ok(Self {
            plain: binary::find()?,
            failpoints: binary::find_failpoints()?,
            minutes: number("VIV_MINUTES")?,
            kills: number("VIV_KILLS")?.unwrap_or(200),
            seed: number("VIV_SEED")?.unwrap_or_else(dice::new_seed),
            sabotage,
            // Each is caught where it does harm.
            only: only.or(match sabotage {
                None => None,
                Some(Sabotage::DrainFirst) => Some(Variant::Points),
                Some(Sabotage::SyncNormal) => Some(Variant::Power),
            }),
        })
    }
}

/// A variable that is set and not empty.
fn named<T>(name: &str, wanted: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
    let text = std::env::var(name).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let read = read(&text);
    read.map(Some).ok_or_else(|| Trouble::new(format!("wanted {wanted} in `{name}`, got `{text}`")))
}

/// Does it; `say` is told of each world and each broken promise.
pub async fn run(orders: &Orders, mut say: impl FnMut(&str)) -> Result<TortureOutcome> {
    let begun = Instant::now();
    let mut outcome = TortureOutcome::default();
    let kinds = LIVES.iter().filter(|(variant, _)| orders.only.is_none_or(|only| only == *variant));
    for (world, (variant, lives)) in kinds.cycle().enumerate() {
        let enough = match orders.minutes {
            Some(minutes) => begun.elapsed() >= Duration::from_secs(minutes * 60),
            None => outcome.tally.deaths() >= orders.kills,
        };
        if enough {
            break;
        }
        let seed = match world as u64 {
            0 => orders.seed,
            world => Dice::of(orders.seed, &[world]).between(1, 999_999_999),
        };
        let viv = if *variant == Variant::Plain { &orders.plain } else { &orders.failpoints };
        let (variant, sabotage, lives) = (*variant, orders.sabotage, *lives);
        let torture = Torture { viv: viv.clone(), variant, sabotage, lives, seed, forget: None };
        let report = kill::run(&torture, &outcome.tally.points).await?;
        let (found, name) = (report.breaches.len(), variant.as_str());
        for breach in &report.breaches {
            say(&format!("broken: {breach}"));
        }
        if let Some(left) = &report.left {
            say(&format!(
                "`VIV_ONLY={name} VIV_SEED={seed}` runs that world again; its data is in `{}`",
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
    let all_points = orders.sabotage.is_none() && orders.only.is_none_or(|only| only == Variant::Points);
    outcome.never_hit = if all_points { outcome.tally.never_hit() } else { Vec::new() };
    Ok(outcome)
}
