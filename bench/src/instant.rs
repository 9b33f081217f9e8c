//! A model in this process that answers at once, so that everything except the model is measured.

use std::sync::Arc;

use agent::entry::EntryKind;
use agent::port::{Clock, ModelInfo, Models, ReasoningReplay};
use agent::prompt::{Item, Prompt};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use models::scripted::{Script, authored};

const NAME: &str = "instant";

/// A set of one model, which answers each step at once with the script that `author` returns.
pub(crate) fn models(
    clock: Arc<dyn Clock>,
    author: impl Fn(usize) -> Script + Send + Sync + 'static,
) -> Arc<dyn Models> {
    let info = ModelInfo {
        name: NAME.to_owned(),
        provider: NAME.to_owned(),
        context_window: 1_000_000,
        max_output: 4_096,
        reasoning_replay: ReasoningReplay::None,
        demo: true,
        ..ModelInfo::default()
    };
    let model = authored(info, move |prompt| author(steps_so_far(prompt)));
    let book = ModelBook::new(ModelConfig::named(NAME), KeyRing::default(), clock);
    Arc::new(book.with_model(NAME, model))
}

/// The number of steps of the current cycle in the prompt.
fn steps_so_far(prompt: &Prompt) -> usize {
    let entries = prompt.items.iter().rev().filter_map(|item| match item {
        Item::Entry(entry) => Some(entry),
        Item::Layer(_) => None,
    });
    let of_cycle = entries.take_while(|entry| entry.cycle == prompt.cycle);
    of_cycle.filter(|entry| entry.kind == EntryKind::Assistant).count()
}
