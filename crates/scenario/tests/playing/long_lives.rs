//! A short form of the long lives that the benchmark measures.

use std::sync::Arc;

use agent::config::Placement;
use agent::entry::Entry;
use agent::prompt::Item;
use agent::transcript::valid_entries;
use testkit::long_life::{
    LifeFigures, LifeVariant, LivedLife, LongLife, RecordedRequest, ScriptedSummarizer, coding, live,
    measure, seeds, support,
};

use crate::stage::ports;

const WINDOW: u32 = 8_000;
/// What the models of a life reserve for a reply.
const MAX_OUTPUT: u64 = 1_024;

async fn lived(life: &Arc<LongLife>, placement: Placement, by: ScriptedSummarizer) -> LivedLife {
    live(life, LifeVariant { window: WINDOW, placement, summarizer: by }, ports).await.unwrap()
}

fn figures(life: &LongLife, lived: &LivedLife) -> LifeFigures {
    measure(life, &lived.requests, &lived.recalled)
}

fn entries(request: &RecordedRequest) -> Vec<Arc<Entry>> {
    let entry = |item: &Item| match item {
        Item::Entry(entry) => Some(Arc::clone(entry)),
        Item::Layer(_) => None,
    };
    request.prompt.items.iter().filter_map(entry).collect()
}

#[tokio::test]
async fn a_long_life_stays_in_its_window_keeps_its_facts_and_costs_less_than_the_baseline() {
    for life in [support(40, 8), coding(60, 12)] {
        let life = Arc::new(life);
        for placement in [Placement::Fresh, Placement::Append] {
            let lived = lived(&life, placement, ScriptedSummarizer::Keeps).await;
            let figures_of_life = figures(&life, &lived);
            let LifeFigures { largest, summaries, .. } = figures_of_life;
            let name = life.name;
            assert!(summaries > 2, "{name} was compacted {summaries} times");
            assert!(largest + MAX_OUTPUT <= u64::from(WINDOW), "{name}: {largest} tokens");
            assert_eq!((figures_of_life.lost.all(), figures_of_life.invented), (0, 0), "{name}");
            for request in &lived.requests {
                let entries = entries(request);
                assert_eq!(
                    valid_entries(&entries).len(),
                    entries.len(),
                    "{name}: a call and its outcome parted"
                );
            }
            if placement == Placement::Fresh {
                let shown = seeds(&lived.requests);
                let seqs: Vec<u64> = shown.iter().flat_map(entries).map(|entry| entry.seq).collect();
                let (first, last) = (seqs[0], seqs[seqs.len() - 1]);
                assert!((first..=last).all(|seq| seqs.contains(&seq)), "{name}: the baseline lacks an entry");
                let baseline = measure(&life, &shown, &lived.recalled);
                assert_eq!(baseline.requests, figures_of_life.requests);
                assert!(figures_of_life.cost() < baseline.cost(), "{name}: {figures_of_life:?} {baseline:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_summarizer_that_forgets_or_invents_is_seen_in_the_figures() {
    let life = Arc::new(support(40, 8));
    let forgot = figures(&life, &lived(&life, Placement::Fresh, ScriptedSummarizer::ForgetsAThird).await);
    assert!(forgot.lost.all() > 0 && forgot.invented == 0, "{forgot:?}");
    let invented = figures(&life, &lived(&life, Placement::Fresh, ScriptedSummarizer::Invents).await);
    assert!(invented.lost.all() > 0 && invented.invented == invented.lost.all(), "{invented:?}");
}

#[tokio::test]
async fn what_a_summary_forgets_is_found_by_a_search_for_the_words_of_the_fact() {
    let life = Arc::new(support(40, 8));
    let forgot = figures(&life, &lived(&life, Placement::Fresh, ScriptedSummarizer::ForgetsAThird).await);
    assert!(forgot.lost.in_same_words > 0, "{forgot:?}");
    assert_eq!(forgot.lost_with_recall.in_same_words, 0, "{forgot:?}");
}

#[tokio::test]
async fn the_figures_count_the_tokens_that_the_cycle_counts_and_every_run_is_the_same() {
    let life = Arc::new(support(20, 4));
    let mut first = lived(&life, Placement::Append, ScriptedSummarizer::Keeps).await;
    let again = lived(&life, Placement::Append, ScriptedSummarizer::Keeps).await;
    assert_eq!(figures(&life, &first), figures(&life, &again));
    first.requests.retain(|request| !request.for_summary);
    let LifeFigures { cached, uncached, .. } = figures(&life, &first);
    assert_eq!(cached + uncached, first.requests.iter().map(|request| request.prompt.tokens).sum::<u64>());
}
