//! What long lives cost in tokens and which facts they lose, with fresh workspaces and with workspaces that stay, against the
//! baseline without compaction. Nothing is timed: every run gives the same figures, in every build profile.

use std::sync::Arc;

use agent::config::Placement;
use agent::port::{Clock, Ids, Models};
use anyhow::{Context, Result};
use runtime::Ports;
use storage::sqlite::Sqlite;
use testkit::long_life::{
    LifeFigures, LifeVariant, LivedLife, LongLife, LostFacts, QuestionHits, ScriptedSummarizer, coding, live,
    measure as figures_of, seeds, support,
};

use crate::report::{Floor, Goal, Metric, table};
use crate::{Bench, server};

/// Tokens of the models' window.
const WINDOW: u32 = 16_000;
const PLACEMENTS: [(Placement, &str); 2] = [(Placement::Fresh, "`fresh`"), (Placement::Append, "`append`")];
const SUMMARIZERS: [(ScriptedSummarizer, &str); 3] = [
    (ScriptedSummarizer::Keeps, "keeps all"),
    (ScriptedSummarizer::ForgetsAThird, "forgets a third"),
    (ScriptedSummarizer::Invents, "invents a third"),
];

/// The figures of one life.
struct Compared {
    baseline: LifeFigures,
    /// With the default placement and a summarizer that keeps all.
    usual: LifeFigures,
}

pub(crate) fn measure(_: &Bench) -> Result<Vec<Metric>> {
    let threads = server::threads()?;
    let mut lines = vec![
        "| life | workspace | summarizer | requests | uncached | cached | cost | lost | lost with `recall` | invented |"
            .to_owned(),
        format!("|{}", "---|".repeat(10)),
    ];
    let support_life = threads.block_on(compare(support(200, 40), &mut lines))?;
    threads.block_on(compare(coding(60, 12), &mut lines))?;
    table(&lines);
    let Compared { baseline, usual } = support_life;
    let note = format!(
        "200 cycles of a support agent, a window of {WINDOW} tokens, a cached token at 0.1: {} uncached and {} cached; floor: \
         `baseline=seeds`, {} uncached and {} cached",
        usual.uncached, usual.cached, baseline.uncached, baseline.cached,
    );
    let goal = Goal::RatioAtMost(0.4);
    let cost = Metric::new(
        "mind.life_tokens_ratio",
        (usual.cost(), "tokens"),
        Floor::Named(baseline.cost()),
        goal,
        note,
    );
    let (lost, lost_by_baseline) = (usual.lost.all() as f64, baseline.lost.all() as f64);
    let note = "of 40 facts, unknown when they were asked for, with a summarizer that keeps all; floor: `baseline=seeds`";
    let goal = Goal::ValueBelow(lost_by_baseline);
    let lost = Metric::new(
        "mind.life_lost_facts",
        (lost, "facts"),
        Floor::Residue(lost_by_baseline),
        goal,
        note.to_owned(),
    );
    Ok(vec![cost, lost])
}

/// Lives this life in every variant and adds a line for each.
async fn compare(life: LongLife, lines: &mut Vec<String>) -> Result<Compared> {
    let life = Arc::new(life);
    let (mut baseline, mut usual) = (None, None);
    for (placement, place) in PLACEMENTS {
        for (summarizer, name) in SUMMARIZERS {
            let variant = LifeVariant { window: WINDOW, placement, summarizer };
            let LivedLife { requests, recalled } = live(&life, variant, ports).await?;
            let figures = figures_of(&life, &requests, &recalled);
            lines.push(line(life.name, place, name, &figures));
            if summarizer == ScriptedSummarizer::Keeps && placement == Placement::default() {
                usual = Some(figures);
            }
            // The baseline is made from the whole workspaces.
            if placement == Placement::Fresh && summarizer == ScriptedSummarizer::Keeps {
                baseline = Some(figures_of(&life, &seeds(&requests), &QuestionHits::new()));
            }
        }
    }
    let (baseline, usual) = baseline.zip(usual).context("a variant of the life is missing")?;
    lines.push(line(life.name, "`baseline=seeds`", "none", &baseline));
    Ok(Compared { baseline, usual })
}

fn line(life: &str, workspace: &str, summarizer: &str, figures: &LifeFigures) -> String {
    let LifeFigures { requests, summaries, uncached, cached, invented, .. } = figures;
    let facts = |LostFacts { in_same_words, in_other_words }| format!("{in_same_words} + {in_other_words}");
    format!(
        "| {life} | {workspace} | {summarizer} | {requests} + {summaries} | {uncached} | {cached} | {:.0} | {} | {} | \
         {invented} |",
        figures.cost(),
        facts(figures.lost),
        facts(figures.lost_with_recall),
    )
}

pub(super) fn ports(
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    models: Arc<dyn Models>,
) -> Result<Ports, String> {
    let store = Sqlite::in_memory(Arc::clone(&clock)).map_err(|error| error.to_string())?;
    Ok(Ports::new(Arc::new(store), models, Arc::new(tools::prebuilt()), clock, ids))
}
