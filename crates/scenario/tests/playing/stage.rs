//! Helpers of these tests: read and run a text.

use std::sync::Arc;
use std::time::Duration;

use agent::port::{Clock, Toolbox};
use runtime::Ports;
use scenario::clock::{SimClock, SimIds};
use scenario::file;
use scenario::model::Scripts;
use scenario::play::{PlayResult, ReplySource, play};
use scenario::transcript::{Line, LineContent};
use scenario::world::World;
use storage::sqlite::Sqlite;

/// A file with one person, one scripted agent and one space.
pub(crate) fn file(script: &str, story: &str, expect: &str) -> String {
    format!(
        "scenario: A test\npeople: [husam]\nagents:\n  ada:\n    script:\n{script}\
         spaces:\n  lobby: [husam, ada]\nstory:\n{story}expect:\n{expect}"
    )
}

/// Runs a file.
pub(crate) async fn played(text: &str) -> PlayResult {
    let toolbox: Arc<dyn Toolbox> = Arc::new(tools::prebuilt());
    let scenario = file::read(text.as_bytes(), &toolbox.names()).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
    let time: Arc<dyn Clock> = Arc::new(clock.clone());
    let sqlite = Sqlite::in_memory(Arc::clone(&time)).unwrap();
    let scripts = Arc::new(Scripts::of(&scenario, &time));
    let ids = Arc::new(SimIds::new(7, clock.clone()));
    let ports = Ports::new(Arc::new(sqlite), scripts, toolbox, time, ids);
    play(&scenario, World::new(ports, clock), ReplySource::Scripts, Duration::from_secs(86_400)).await
}

/// A short form of a transcript.
pub(crate) fn shown(lines: &[Line]) -> Vec<String> {
    let shown = |line: &Line| {
        let what = match &line.what {
            LineContent::Said(text) => format!("says {text}"),
            LineContent::Thought(text) => format!("thinks {text}"),
            LineContent::Called(tool, arguments) => format!("calls {tool} {arguments}"),
            LineContent::Failed(tool, _) => format!("{tool} failed"),
            LineContent::Cycle(words) => words.clone(),
            LineContent::Skipped(reason) => format!("skips: {}", reason.as_deref().unwrap_or_default()),
            LineContent::Happened(what) => what.clone(),
        };
        format!("{} {} {what}", line.at.as_millis(), line.who.as_deref().unwrap_or("-"))
    };
    lines.iter().map(shown).collect()
}
