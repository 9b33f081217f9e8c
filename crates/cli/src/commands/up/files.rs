//! The agent files of a server, on the command line: what is refused, asked and printed.

use std::convert::Infallible;
use std::sync::Arc;

use runtime::clock::SystemClock;
use serde_json::json;

use super::report;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::listen;
use crate::model::{self, Chosen};
use crate::output::Screen;
use crate::settings::{Origin, Settings};
use project::agent_file::{self, FileProblem, Vetting, shown};
use project::live::{AgentFolder, FollowedFiles};
use project::reconcile::Reconciler;

/// The target of the log's lines about agent files.
pub(super) const LOG_TARGET: &str = "viv::files";
const KEYS_HINT: &str = "correct the files; `viv config keys --agent` lists all keys";

/// Checks settings and files as `viv up` would; returns the files and the model.
pub(crate) async fn check_start(settings: &Settings) -> Result<(AgentFolder, String)> {
    listen::permitted(settings.get("listen"), settings.flag("allow_remote"))?;
    super::log_filter(settings.text("log"))?;
    let chosen = model::choose(settings, Arc::new(SystemClock::new())).await?;
    Ok((read(settings, &chosen, false)?, chosen.info.name.clone()))
}

/// Reads and checks all files; reports all problems at once.
pub(crate) fn read(settings: &Settings, chosen: &Chosen, prune: bool) -> Result<AgentFolder> {
    let dir = settings.agents_dir();
    let vetting = Vetting { models: Arc::clone(&chosen.models), toolbox: Arc::new(tools::prebuilt()) };
    let files = AgentFolder::read(dir, vetting).map_err(refused)?;
    let named = settings.get("agents_dir").origin != Origin::Default;
    if !files.folder_exists && (named || prune) {
        // A wrong path must not look like a folder whose files were all removed.
        let message = format!("there is no folder of agent files `{}`", shown(dir));
        return Err(Failure::usage(message).hint("create it, or write a project with `viv init`"));
    }
    Ok(files)
}

/// Reports conflicts with the store before anything is written. With `prune`, asks before agents are retired because
/// their files are gone.
pub(super) async fn check(
    files: &AgentFolder,
    reconciler: &Reconciler,
    screen: &Screen,
    prune: bool,
    yes: bool,
) -> Result<()> {
    let problems = reconciler.conflicts(&files.agents).await?;
    if !problems.is_empty() {
        return Err(refused(problems));
    }
    let gone = if prune { reconciler.prunable(&files.existing()).await? } else { Vec::new() };
    if gone.is_empty() {
        return Ok(());
    }
    let what = format!("the files of {} are gone: retiring these agents cannot be undone", gone.join(", "));
    input::confirm(screen, &what, yes, Some("leave out --prune"))
}

/// Applies changes of the files and prints them; without a terminal, as lines of the log. Runs forever; drop it to
/// stop.
pub(super) async fn follow(mut files: FollowedFiles, screen: &Screen) -> Infallible {
    let logged = !screen.json && screen.width.is_none();
    let wrong = |failure: Failure| match logged {
        true => tracing::warn!(target: LOG_TARGET, "{}; {}", failure.message, failure.advice()),
        false => screen.failure(&failure),
    };
    loop {
        let change = match files.next().await {
            Ok(change) => change,
            Err(error) => {
                wrong(error.into());
                continue;
            }
        };
        for problem in &change.problems {
            let failure = Failure::new(Exit::Usage, "bad_agent_file", problem.to_string());
            wrong(failure.hint(problem.while_running()));
        }
        if logged {
            change.report.news().iter().for_each(|one| tracing::info!(target: LOG_TARGET, "{one}"));
        } else if screen.json && !change.report.is_empty() {
            screen.json_line(&json!({"files": change.report}));
        } else {
            report::print_changes(&change.report, screen);
        }
    }
}

fn refused(problems: Vec<FileProblem>) -> Failure {
    Failure::new(Exit::Usage, "bad_agent_file", agent_file::summary(&problems)).hint(KEYS_HINT)
}
