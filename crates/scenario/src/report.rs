//! What came of running scenario files, as JSON and in a sentence. This module must not know a terminal.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::play::PlayResult;
use crate::scene::Scenario;

/// Characters that are shown before the first difference of two long texts.
const BEFORE_DIFFERENCE: usize = 10;

/// A scenario file and all its runs.
#[derive(Debug)]
pub struct Played {
    /// The file, as shown to people.
    pub file: String,
    /// Its scenario.
    pub scenario: Arc<Scenario>,
    /// The result of each run.
    pub outcomes: Vec<PlayResult>,
}

impl Played {
    /// The number of runs that passed.
    pub fn passed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.passed()).count()
    }

    /// Whether all runs passed.
    pub fn is_good(&self) -> bool {
        self.outcomes.iter().all(PlayResult::passed)
    }

    /// The results. The transcripts of runs that passed are left out unless `transcripts` is set.
    pub fn to_json(&self, transcripts: bool) -> Value {
        let run = |outcome: &PlayResult| {
            let mut run = json!(outcome);
            run["ok"] = outcome.passed().into();
            if let Some(run) = run.as_object_mut().filter(|_| !transcripts && outcome.passed()) {
                run.remove("transcript");
            }
            run
        };
        let runs: Vec<Value> = self.outcomes.iter().map(run).collect();
        let (passed, ok) = (self.passed(), self.is_good());
        json!({"file": self.file, "scenario": self.scenario.name, "passed": passed, "ok": ok, "runs": runs})
    }
}

/// The number of runs, and how many of them passed.
pub fn counts(all: &[Played]) -> (usize, usize) {
    all.iter().fold((0, 0), |(runs, passed), one| (runs + one.outcomes.len(), passed + one.passed()))
}

/// One sentence about all files: the number of scenarios and how many passed. `at_least` is the share of runs, in
/// percent, that must pass.
pub fn summary(all: &[Played], at_least: u8, took: Duration) -> String {
    let (runs, passed) = counts(all);
    let tokens = all.iter().flat_map(|played| &played.outcomes).filter_map(|outcome| outcome.tokens);
    let tokens = tokens.fold(0, u64::saturating_add);
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let scenarios = plural(all.len(), "scenario");
    let seconds = took.as_secs_f64();
    if runs > all.len() {
        let percent = passed * 100 / runs.max(1);
        let wanted = if at_least < 100 { format!(", wanted {at_least}%") } else { String::new() };
        let runs = plural(runs, "run");
        format!("{scenarios}, {runs}: {passed} passed, {percent}%{wanted} ({seconds:.1} s, {tokens} tokens)")
    } else {
        let failed = runs - passed;
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        format!("{scenarios}: {passed} passed{failed} ({seconds:.1} s)")
    }
}

/// Two texts, and how many bytes at their beginning are equal. If the first difference is not within `room`
/// characters, both texts begin shortly before it.
pub fn around_difference(texts: [&str; 2], room: usize) -> ([String; 2], usize) {
    let equal = || texts[0].chars().zip(texts[1].chars()).take_while(|(a, b)| a == b);
    let same = equal().count();
    let from = if same + BEFORE_DIFFERENCE > room { same.saturating_sub(BEFORE_DIFFERENCE) } else { 0 };
    let dots = if from > 0 { "..." } else { "" };
    let cut =
        |text: &str| text.chars().skip(from).fold(dots.to_owned(), |cut, c| cut + c.encode_utf8(&mut [0; 4]));
    let shown: usize = equal().skip(from).map(|(c, _)| c.len_utf8()).sum();
    (texts.map(cut), dots.len() + shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_begin_shortly_before_their_first_difference() {
        let (texts, same) = around_difference(["good evening", "good morning"], 40);
        assert_eq!((texts[0].as_str(), texts[1].as_str(), same), ("good evening", "good morning", 5));
        let long = "ä".repeat(60);
        let (texts, same) = around_difference([&format!("{long}x"), &format!("{long}y")], 40);
        assert_eq!(texts[0], format!("...{}x", "ä".repeat(10)));
        assert_eq!(&texts[1][same..], "y");
    }
}
