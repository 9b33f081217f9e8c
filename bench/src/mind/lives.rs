//! What six lives cost in tokens, with workspaces that stay and with fresh ones, where a cached token costs a tenth of another one
//! and where it costs as much. Nothing is timed: every run gives the same figures, in every build profile. The table is
//! written into `docs/memory.md`.

use std::path::Path;
use std::sync::Arc;

use agent::config::Placement;
use anyhow::{Context, Result};
use testkit::long_life::{
    CACHED_PRICE, LifeFigures, LifeVariant, LongLife, ScriptedSummarizer, coding, hourly, live,
    many_memories, measure as figures_of, minutely, support, three_spaces,
};

use super::life::ports;
use crate::report::{Floor, Goal, Metric, table};
use crate::{Bench, server};

/// Tokens of the models' window.
const WINDOW: u32 = 32_000;
/// The price of a cached token where another one costs 1: usual, and without a discount.
const PRICES: [f64; 2] = [CACHED_PRICE, 1.0];
/// How much more than the other placement the default one may cost in any life at any price.
const WORST: f64 = 1.05;
const PAGE: &str = "docs/memory.md";
const BEGIN: &str = "<!-- mind.lives -->\n";
const END: &str = "<!-- end of mind.lives -->";

pub(crate) fn measure(_: &Bench) -> Result<Vec<Metric>> {
    let lives =
        [support(200, 0), coding(60, 0), minutely(200), many_memories(120), three_spaces(150), hourly(120)];
    let threads = server::threads()?;
    let mut lines = vec![
        "| life | workspace | requests | uncached | cached | cost at 0.1 | cost at 1 | largest request |"
            .to_owned(),
        format!("|{}", "---|".repeat(8)),
    ];
    let (mut sums, mut worst) = ([[0.0; 2]; 2], (0.0, 0.0, String::new()));
    for life in lives {
        let life = Arc::new(life);
        let fresh = threads.block_on(lived(&life, Placement::Fresh))?;
        let append = threads.block_on(lived(&life, Placement::Append))?;
        for (placement, figures) in [("`fresh`", &fresh), ("`append`", &append)] {
            lines.push(line(life.name, placement, figures));
        }
        let (usual, other) = match Placement::default() {
            Placement::Append => (append, fresh),
            Placement::Fresh => (fresh, append),
        };
        for (at, price) in PRICES.into_iter().enumerate() {
            let (cost, floor) = (usual.cost_at(price), other.cost_at(price));
            sums[at][0] += cost;
            sums[at][1] += floor;
            if cost * worst.1 >= worst.0 * floor {
                worst = (cost, floor, format!("`{}` at {price}", life.name));
            }
        }
    }
    table(&lines);
    write(&lines)?;
    let all = |at: usize| {
        let [cost, floor] = sums[at];
        let note = format!(
            "six lives, a window of {WINDOW} tokens, a cached token at {}, with the default placement; floor: the other one",
            PRICES[at]
        );
        Metric::new(
            ["mind.lives_cost", "mind.lives_cost_uncached"][at],
            (cost, "tokens"),
            Floor::Named(floor),
            Goal::RatioAtMost(WORST),
            note,
        )
    };
    let (cost, floor, which) = worst;
    let note = format!("the life that costs most of what it costs with the other placement: {which}");
    let worst = Metric::new(
        "mind.lives_worst",
        (cost, "tokens"),
        Floor::Named(floor),
        Goal::RatioAtMost(WORST),
        note,
    );
    Ok(vec![all(0), all(1), worst])
}

async fn lived(life: &Arc<LongLife>, placement: Placement) -> Result<LifeFigures> {
    let variant = LifeVariant { window: WINDOW, placement, summarizer: ScriptedSummarizer::Keeps };
    let lived = live(life, variant, ports).await?;
    Ok(figures_of(life, &lived.requests, &lived.recalled))
}

fn line(life: &str, workspace: &str, figures: &LifeFigures) -> String {
    let LifeFigures { requests, summaries, uncached, cached, largest, .. } = figures;
    let [usual, full] = PRICES.map(|price| figures.cost_at(price));
    format!(
        "| {life} | {workspace} | {requests} + {summaries} | {uncached} | {cached} | {usual:.0} | {full:.0} | {largest} |"
    )
}

/// Writes the table into the page, between its marks.
fn write(lines: &[String]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a directory")?;
    let file = root.join(PAGE);
    let page = std::fs::read_to_string(&file).with_context(|| format!("`{PAGE}` cannot be read"))?;
    let (head, rest) = page.split_once(BEGIN).with_context(|| format!("`{PAGE}` has no mark `{BEGIN}`"))?;
    let (_, tail) = rest.split_once(END).with_context(|| format!("`{PAGE}` has no mark `{END}`"))?;
    let table = lines.join("\n");
    std::fs::write(&file, format!("{head}{BEGIN}\n{table}\n\n{END}{tail}"))
        .with_context(|| format!("`{PAGE}` cannot be written"))
}
