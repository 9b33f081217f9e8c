//! Helpers of these tests: read and run a text.

use std::sync::Arc;
use std::time::Duration;

use agent::port::{Clock, Hooks, Ids, Models, Toolbox as _};
use runtime::Ports;
use runtime::clock::SystemClock;
use scenario::file;
use scenario::flaw::FileFlaw;
use scenario::play::PlayResult;
use scenario::scene::Scenario;
use scenario::simulate::simulate;
use scenario::transcript::{Line, LineContent, LineKind};
use storage::sqlite::Sqlite;
use tools::hook::ServerHooks;
use tools::secret::NoSecrets;

/// A file with one person, one scripted agent and one space.
pub(crate) fn file(script: &str, story: &str, expect: &str) -> String {
    format!(
        "scenario: A test\npeople: [husam]\nagents:\n  ada:\n    script:\n{script}\
         spaces:\n  lobby: [husam, ada]\nstory:\n{story}expect:\n{expect}"
    )
}

/// Reads a file, as `viv scenario` does.
pub(crate) fn read(text: &str) -> Result<Scenario, Vec<FileFlaw>> {
    let tools = tools::prebuilt().names();
    file::read_with(text.as_bytes(), &tools, &|_, _| Err(Vec::new()), &*hooks())
}

/// Runs a file.
pub(crate) async fn played(text: &str) -> PlayResult {
    let scenario = read(text).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    simulate(Arc::new(scenario), ports, Duration::from_secs(60)).await.unwrap()
}

pub(crate) fn ports(
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    models: Arc<dyn Models>,
) -> Result<Ports, String> {
    let store = Sqlite::in_memory(Arc::clone(&clock)).map_err(|error| error.to_string())?;
    let ports = Ports::new(Arc::new(store), models, Arc::new(tools::prebuilt()), clock, ids);
    Ok(Ports { hooks: hooks(), ..ports })
}

/// Hooks without secrets.
fn hooks() -> Arc<dyn Hooks> {
    Arc::new(ServerHooks::new(Arc::new(NoSecrets), Arc::new(SystemClock::new())))
}

/// A short form of a transcript.
pub(crate) fn shown(lines: &[Line]) -> Vec<String> {
    let shown = |line: &Line| {
        let LineContent { kind, tool, text } = &line.what;
        let (tool, text) = (tool.as_deref().unwrap_or_default(), text.as_deref().unwrap_or_default());
        let what = match kind {
            LineKind::Said => format!("says {text}"),
            LineKind::Thought => format!("thinks {text}"),
            LineKind::Called => format!("calls {tool} {text}"),
            LineKind::Returned => format!("{tool} returns {text}"),
            LineKind::Failed => format!("{tool} failed"),
            LineKind::Skipped => format!("skips: {text}"),
            LineKind::Cycle | LineKind::Happened => text.to_owned(),
        };
        format!("{} {} {what}", line.at.as_millis(), line.who.as_deref().unwrap_or("-"))
    };
    lines.iter().map(shown).collect()
}
