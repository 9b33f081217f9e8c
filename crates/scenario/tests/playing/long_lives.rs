//! A short form of the long lives that the benchmark measures.

use std::sync::Arc;

use agent::config::Placement;
use agent::entry::Entry;
use agent::prompt::Item;
use agent::transcript::valid_entries;
use scenario::long_life::{
    LifeFigures, LifeVariant, LongLife, RecordedRequest, ScriptedSummarizer, coding, live, measure,
    nothing_recalled, seeds, support,
};

use crate::stage::ports;

const WINDOW: u32 = 8_000;
/// What the models of a life reserve for a reply.
const MAX_OUTPUT: u64 = 1_024;

async fn lived(life: &Arc<LongLife>, placement: Placement, by: ScriptedSummarizer) -> Vec<RecordedRequest> {
    live(life, LifeVariant { window: WINDOW, placement, summarizer: by }, ports).await.unwrap()
}

fn figures(life: &LongLife, requests: &[RecordedRequest]) -> LifeFigures {
    measure(life, requests, nothing_recalled)
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
            let requests = lived(&life, placement, ScriptedSummarizer::Keeps).await;
            let figures_of_life = figures(&life, &requests);
            let LifeFigures { largest, summaries, .. } = figures_of_life;
            let name = life.name;
            assert!(summaries > 2, "{name} was compacted {summaries} times");
            assert!(largest + MAX_OUTPUT <= u64::from(WINDOW), "{name}: {largest} tokens");
            assert_eq!((figures_of_life.all_lost(), figures_of_life.invented), (0, 0), "{name}");
            for request in &requests {
                let entries = entries(request);
                assert_eq!(
                    valid_entries(&entries).len(),
                    entries.len(),
                    "{name}: a call and its outcome parted"
                );
            }
            if placement == Placement::Fresh {
                let shown = seeds(&requests);
                let seqs: Vec<u64> = shown.iter().flat_map(entries).map(|entry| entry.seq).collect();
                let (first, last) = (seqs[0], seqs[seqs.len() - 1]);
                assert!((first..=last).all(|seq| seqs.contains(&seq)), "{name}: the baseline lacks an entry");
                let baseline = figures(&life, &shown);
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
    assert!(forgot.all_lost() > 0 && forgot.invented == 0, "{forgot:?}");
    let requests = lived(&life, Placement::Fresh, ScriptedSummarizer::Invents).await;
    let invented = figures(&life, &requests);
    assert!(invented.all_lost() > 0 && invented.invented == invented.all_lost(), "{invented:?}");
    let fact = |question: &str| life.facts.iter().find(|fact| fact.question == question);
    let found = measure(&life, &requests, |question| {
        fact(question).map(|fact| fact.statement.clone()).into_iter().collect()
    });
    assert_eq!(found.all_lost(), 0, "what a search finds is not lost");
}

#[tokio::test]
async fn the_figures_count_the_tokens_that_the_cycle_counts_and_every_run_is_the_same() {
    let life = Arc::new(support(20, 4));
    let mut requests = lived(&life, Placement::Append, ScriptedSummarizer::Keeps).await;
    let again = lived(&life, Placement::Append, ScriptedSummarizer::Keeps).await;
    assert_eq!(figures(&life, &requests), figures(&life, &again));
    requests.retain(|request| !request.for_summary);
    let LifeFigures { cached, uncached, .. } = figures(&life, &requests);
    assert_eq!(cached + uncached, requests.iter().map(|request| request.prompt.tokens).sum::<u64>());
}
