//! What the requests of a life cost, and which facts they had lost when they were asked for. Must not know how the requests came
//! about, so that a life and its baseline are measured alike.

use std::collections::BTreeMap;

use agent::prompt::{Item, Prompt};
use agent::tokens::estimate;

use super::LongLife;
use super::facts::PlantedFact;
use super::models::RecordedRequest;

/// The usual price of a cached token where another one costs 1.
pub const CACHED_PRICE: f64 = 0.1;

/// By question, the texts that a search for its words finds.
pub type QuestionHits = BTreeMap<String, Vec<String>>;

/// The figures of one life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifeFigures {
    /// Requests to the agent's model.
    pub requests: u64,
    /// Requests for a summary.
    pub summaries: u64,
    /// Tokens that a provider reads anew.
    pub uncached: u64,
    /// Tokens that it has in its cache: the beginning that a request shares with the one before to the same model.
    pub cached: u64,
    /// Tokens of the largest request to the agent's model.
    pub largest: u64,
    /// Facts that were not in the request that asked for them.
    pub lost: LostFacts,
    /// Facts that a search for the question does not find either.
    pub lost_with_recall: LostFacts,
    /// Facts for which a value was shown that nobody said.
    pub invented: u64,
}

/// Facts that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostFacts {
    /// Those that were asked for in their own words.
    pub in_same_words: u64,
    /// Those that were asked for in other words.
    pub in_other_words: u64,
}

impl LostFacts {
    /// All of them.
    pub fn all(self) -> u64 {
        self.in_same_words + self.in_other_words
    }

    fn add(&mut self, fact: &PlantedFact) {
        *if fact.in_other_words { &mut self.in_other_words } else { &mut self.in_same_words } += 1;
    }
}

impl LifeFigures {
    /// The price of all tokens, in those that are read anew.
    pub fn cost(&self) -> f64 {
        self.cost_at(CACHED_PRICE)
    }

    /// The same if a cached token costs that much of another one.
    pub fn cost_at(&self, cached: f64) -> f64 {
        self.uncached as f64 + cached * self.cached as f64
    }
}

/// Measures the requests of a life, oldest first.
pub fn measure(life: &LongLife, requests: &[RecordedRequest], recalled: &QuestionHits) -> LifeFigures {
    let mut figures = LifeFigures::default();
    let mut last: [Option<&Prompt>; 2] = [None, None];
    for RecordedRequest { for_summary, prompt } in requests {
        let (all, last) = (tokens(prompt), &mut last[usize::from(*for_summary)]);
        let kept = last.filter(|before| !life.around.forgets || before.cycle == prompt.cycle);
        let cached = kept.map_or(0, |before| shared(before, prompt));
        *last = Some(prompt);
        figures.cached += cached;
        figures.uncached += all - cached;
        if *for_summary {
            figures.summaries += 1;
        } else {
            figures.requests += 1;
            figures.largest = figures.largest.max(all);
        }
    }
    for fact in &life.facts {
        let asked =
            requests.iter().find(|request| !request.for_summary && asks(&request.prompt, &fact.question));
        let shown: String = asked.iter().flat_map(|request| &request.prompt.items).map(text).collect();
        figures.invented += u64::from(shown.contains(&fact.invented));
        if shown.contains(&fact.value) {
            continue;
        }
        figures.lost.add(fact);
        let hits = recalled.get(&fact.question).into_iter().flatten();
        if !hits.into_iter().any(|hit| hit.contains(&fact.value)) {
            figures.lost_with_recall.add(fact);
        }
    }
    figures
}

/// Whether the open cycle's events have the question.
fn asks(prompt: &Prompt, question: &str) -> bool {
    prompt.items.iter().any(|item| match item {
        Item::Entry(entry) => entry.cycle == prompt.cycle && text(item).contains(question),
        Item::Layer(_) => false,
    })
}

/// Tokens of a request.
pub(super) fn tokens(prompt: &Prompt) -> u64 {
    fixed_tokens(prompt) + prompt.items.iter().map(item_tokens).sum::<u64>()
}

/// Tokens of the beginning that both requests share.
fn shared(before: &Prompt, now: &Prompt) -> u64 {
    if before.system != now.system || before.tools != now.tools {
        return 0;
    }
    let items = before.items.iter().zip(&now.items).take_while(|(before, now)| is_same(before, now));
    fixed_tokens(now) + items.map(|(_, item)| item_tokens(item)).sum::<u64>()
}

fn fixed_tokens(prompt: &Prompt) -> u64 {
    let tools: u64 = prompt.tools.iter().map(|tool| u64::from(tool.tokens())).sum();
    u64::from(estimate(&prompt.system)) + tools
}

fn item_tokens(item: &Item) -> u64 {
    u64::from(match item {
        Item::Entry(entry) => entry.tokens,
        Item::Layer(text) => estimate(text),
    })
}

fn is_same(before: &Item, now: &Item) -> bool {
    match (before, now) {
        (Item::Entry(before), Item::Entry(now)) => before.seq == now.seq && before.message == now.message,
        (Item::Layer(before), Item::Layer(now)) => before == now,
        _ => false,
    }
}

/// The text of an item as a model reads it.
pub(super) fn text(item: &Item) -> String {
    match item {
        Item::Entry(entry) => entry.message.countable(),
        Item::Layer(text) => text.to_string(),
    }
}
