//! Random lives of the machine against a store in memory: what every request shows of the workspace, through compactions,
//! changes by others and by the agent, and within and across cycles.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::changes::MemoryChange;
use crate::layer::Layer;
use crate::life::Facts;
use crate::limits;
use crate::memory::{Importance, Memory};
use crate::prompt::PromptParts;

/// A reproducible random generator (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a store has of the agent.
struct Lived {
    dice: Dice,
    append: bool,
    window: u32,
    entries: Vec<Entry>,
    view: View,
    layers: Vec<(CycleId, Layer)>,
    memories: BTreeMap<String, Memory>,
    open: Option<OpenCycle>,
    commits: u64,
    facts_rev: u64,
    /// The last request that was decided: its view, its cycle and what it showed.
    last: Option<(u64, CycleId, PromptParts)>,
    /// How often it was seen that a request shows a pin, an update, and that a view began anew.
    seen: (usize, usize, usize),
}

impl Lived {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (append, window) = (dice.chance(70), 4_000 + 2_000 * u32::try_from(dice.below(8)).unwrap());
        let memories = (0..dice.below(40)).map(|n| memory(&format!("k{n}"), "as it was", n == 0));
        Self {
            append,
            window,
            entries: Vec::new(),
            view: View::whole(),
            layers: Vec::new(),
            memories: memories.map(|memory| (memory.key.clone(), memory)).collect(),
            open: None,
            commits: 0,
            facts_rev: 0,
            last: None,
            seen: (0, 0, 0),
            dice,
        }
    }

    /// A change of one memory.
    fn change(&mut self) -> MemoryChange {
        let key = format!("k{}", self.dice.below(45));
        if self.dice.chance(20) {
            return MemoryChange::Delete { key };
        }
        let pins = self.memories.values().filter(|memory| memory.pinned).count();
        let pinned = (pins < 6 && self.dice.chance(25)).then_some(true);
        let value = format!("{}{}", "word ".repeat(self.dice.below(20) as usize), self.dice.below(1_000));
        MemoryChange::Set { key, value, importance: None, pinned, trust: None }
    }

    fn make(&mut self, change: &MemoryChange) {
        self.facts_rev += 1;
        match change {
            MemoryChange::Set { key, value, pinned, .. } => {
                let pinned =
                    pinned.unwrap_or_else(|| self.memories.get(key).is_some_and(|memory| memory.pinned));
                self.memories.insert(key.clone(), memory(key, value, pinned));
            }
            other => drop(self.memories.remove(other.key())),
        }
    }

    fn facts(&self) -> Facts {
        let mut memories: Vec<Memory> = self.memories.values().cloned().collect();
        memories.sort_by_key(|memory| !memory.pinned);
        Facts { memories, rev: self.facts_rev, ..Facts::default() }
    }

    fn activation(&self, event: u64) -> Activation {
        let placement = if self.append { "append" } else { "fresh" };
        let config = json!({"history": {"summary": "digest"}, "workspace": {"placement": placement}});
        let mut again = activation(if self.open.is_some() { Vec::new() } else { vec![service(event, 0)] });
        again.config = Arc::new(AgentConfig::from_json(&config).unwrap());
        again.life.commit_n = self.commits;
        again.life.head_seq = self.entries.len() as u64;
        again.life.open.clone_from(&self.open);
        again.view = self.view.clone();
        let shown = self.entries.iter().filter(|entry| self.view.shows(entry.seq));
        again.window = Window::Loaded(shown.cloned().map(Arc::new).collect());
        again.facts = self.facts();
        let open = self.open.as_ref().map(|open| open.id);
        let sent = self
            .layers
            .iter()
            .filter(|(cycle, layer)| layer.view == self.view.rev && (self.append || Some(*cycle) == open));
        again.layers = sent.map(|(_, layer)| layer.clone()).collect();
        again
    }

    fn commit(&mut self, changes: &Changes) {
        self.commits += 1;
        self.entries.extend(changes.entries.iter().cloned());
        self.layers.extend(changes.layers.iter().map(|layer| (changes.cycle, layer.clone())));
        self.view = changes.view.clone().unwrap_or_else(|| self.view.clone());
        self.open.clone_from(&changes.open);
    }

    /// What every request must show.
    fn check(&mut self, cycle: &Cycle, prompt: &Prompt) -> PromptParts {
        let layers: Vec<&str> = prompt
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Layer(text) => Some(&**text),
                Item::Entry(_) => None,
            })
            .collect();
        let of = |head: &str| -> Vec<u64> {
            let texts = layers.iter().filter(|text| text.starts_with(head));
            texts.map(|text| u64::from(crate::tokens::estimate(text))).collect()
        };
        let (wholes, updates) = (of("[WORKSPACE — facts"), of("[WORKSPACE — what has changed"));
        assert_eq!(wholes.len(), 1, "one whole workspace: {layers:?}");
        let tail: u64 = updates.iter().sum();
        assert!(
            tail <= (wholes[0] / limits::WORKSPACE_TAIL_SHARE).max(limits::WORKSPACE_TAIL_MIN_TOKENS),
            "changes of {tail} tokens behind {}",
            wholes[0]
        );
        assert_eq!(cycle.missing_pins(prompt), Vec::<String>::new(), "{layers:?}");
        for memory in self.memories.values().filter(|memory| memory.pinned) {
            assert!(cycle.outside.facts.memories.contains(memory), "the machine knows it");
            self.seen.0 += 1;
        }
        self.seen.1 += updates.len();
        let parts = prompt.parts();
        if let Some((view, before, shown)) = &self.last
            && *view == prompt.view
            && (self.append || *before == prompt.cycle)
        {
            assert_eq!(parts.first_difference(shown), None, "each request extends the one before");
        }
        parts
    }

    /// One activation: a cycle, or a part of it before the process dies.
    fn live(&mut self, event: u64) {
        let (id, dies) = (CycleId(Uuid::from_u128(1_000 + u128::from(event))), self.dice.chance(10));
        let again = self.activation(event);
        let Window::Loaded(window) = again.window.clone() else { panic!() };
        let tools = vec![
            tool(names::DONE, Effect::Inward),
            tool("note", Effect::Inward),
            tool("look", Effect::ReadOnly),
        ];
        let model = ModelInfo {
            name: "scripted".into(),
            provider: "scripted".into(),
            context_window: self.window,
            max_output: 500,
            ..ModelInfo::default()
        };
        let setup =
            Setup { tools: tools.into(), model, others: Vec::new(), new_cycle: id, unstored: Vec::new() };
        let now = at(i64::try_from(event).unwrap() * 100_000);
        let mut cycle = Cycle::begin(again, window, setup, now);
        let mut asked = None;
        for _ in 0..200 {
            let next = match cycle.next(now) {
                Next::Open(changes) => {
                    let prompt = cycle.prompt_while_opening(now);
                    self.commit(&changes);
                    cycle.committed(done(self.glance()), now);
                    prompt.map_or_else(|| cycle.next(now), Next::Think)
                }
                next => next,
            };
            match next {
                Next::Commit(changes) => {
                    self.commit(&changes);
                    if changes.kind == CommitKind::Decide {
                        for change in &changes.inward.memories {
                            self.make(&change.clone());
                        }
                        let (view, cycle, parts): (u64, CycleId, PromptParts) =
                            asked.take().expect("a decision follows a request");
                        let view = changes.view.as_ref().map_or(view, |view| view.rev);
                        self.last = Some((view, cycle, parts));
                    }
                    self.seen.2 +=
                        usize::from(changes.view.as_ref().is_some_and(|view| view.compaction.is_none()));
                    if self.dice.chance(10) {
                        let change = self.change();
                        self.make(&change);
                    }
                    cycle.committed(done(self.glance()), now);
                }
                Next::Think(prompt) => {
                    let parts = self.check(&cycle, &prompt);
                    asked = Some((prompt.view, prompt.cycle, parts));
                    if dies && self.dice.chance(20) {
                        return;
                    }
                    let parts = match self.dice.below(10) {
                        0..=1 => vec![call(names::DONE)],
                        2..=4 => vec![call("note")],
                        5..=6 => vec![call("note"), text(&"said ".repeat(self.dice.below(300) as usize))],
                        _ => vec![call("look"), text(&"seen ".repeat(self.dice.below(100) as usize))],
                    };
                    cycle.replied(Ok(reply(parts)), now);
                }
                Next::Inward(rows) => {
                    let results = rows.iter().map(|row| {
                        let memories = if row.tool == "note" { vec![self.change()] } else { Vec::new() };
                        let inward = Inward { memories, ..Inward::default() };
                        Ok(Done { outcome: Outcome::ok("done"), inward })
                    });
                    cycle.acted(results.collect::<Vec<_>>());
                }
                Next::Outward(rows) => {
                    for row in rows {
                        cycle.settled(
                            row.id.clone(),
                            Outcome::ok("a line of text ".repeat(self.dice.below(40) as usize)),
                        );
                    }
                }
                Next::Look => {
                    let facts = Some(self.facts());
                    cycle.looked(Some(News { glance: self.glance(), facts, ..News::default() }));
                }
                Next::Finished(_) => return,
                other => panic!("{other:?}"),
            }
        }
        panic!("the cycle does not end");
    }

    fn glance(&self) -> Glance {
        Glance { facts_rev: self.facts_rev, ..Glance::default() }
    }
}

fn memory(key: &str, value: &str, pinned: bool) -> Memory {
    Memory {
        key: key.into(),
        value: value.into(),
        importance: Importance::Normal,
        pinned,
        updated_at: at(0),
        used_at: at(0),
        trust: Trust::Operator,
    }
}

#[test]
fn every_request_shows_one_whole_workspace_with_every_pin_and_changes_of_at_most_a_quarter() {
    let mut seen = (0, 0, 0);
    for seed in 0..12 {
        let mut lived = Lived::new(seed);
        for event in 1..25 {
            lived.live(event);
        }
        seen = (seen.0 + lived.seen.0, seen.1 + lived.seen.1, seen.2 + lived.seen.2);
    }
    let (pins, updates, anew) = seen;
    assert!(pins > 200 && updates > 60 && anew > 20, "the lives have what is promised: {seen:?}");
}
