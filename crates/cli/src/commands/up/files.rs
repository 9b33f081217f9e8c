//! The agent files of a server, on the command line: what is refused, asked and printed.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use agent::port::Toolbox;
use agent::tool::SERVER_END;
use runtime::clock::SystemClock;
use serde_json::json;

use super::report;
use crate::assemble;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::listen;
use crate::model::{self, Chosen};
use crate::output::Screen;
use crate::settings::{Origin, Settings};
use project::agent_file::{self, FileProblem, Vetting, shown};
use project::live::{AgentFolder, FollowedFiles};
use project::reconcile::Reconciler;
use project::tool_files::{FollowedTools, ToolFolder, ToolNews};
use tools::ToolKit;

/// The target of the log's lines about agent files.
pub(super) const LOG_TARGET: &str = "viv::files";
const KEYS_HINT: &str = "correct the files; `viv config keys --agent` lists all keys";

/// Checks settings and files as `viv up` would; returns the files and the model.
pub(crate) async fn check_start(settings: &Settings) -> Result<(AgentFolder, String)> {
    listen::permitted(settings.get("listen"), settings.flag("allow_remote"))?;
    super::log_filter(settings.text("log"))?;
    let chosen = model::choose(settings, Arc::new(SystemClock::new())).await?;
    let kit = assemble::kit(settings, None)?;
    read_tools(settings, &kit, &BTreeSet::new())?;
    Ok((read(settings, &chosen, kit, false, &BTreeSet::new())?, chosen.info.name.clone()))
}

/// The files whose mistakes do not stop a start on this data directory: whatever a running server tolerates, its next start does.
pub(super) fn in_use(settings: &Settings) -> BTreeSet<String> {
    let data_dir = settings.data_dir();
    let tools = storage::sqlite::tools(data_dir).unwrap_or_default().into_iter().filter_map(|tool| tool.file);
    project::reconcile::files_in_use(data_dir).into_iter().chain(tools).collect()
}

/// Reads and checks all files; reports all problems at once. A mistake in a file that is `in_use` stops nothing.
pub(crate) fn read(
    settings: &Settings,
    chosen: &Chosen,
    toolbox: Arc<dyn Toolbox>,
    prune: bool,
    in_use: &BTreeSet<String>,
) -> Result<AgentFolder> {
    let dir = settings.agents_dir();
    let vetting = Vetting { models: Arc::clone(&chosen.models), toolbox };
    let files = AgentFolder::read(dir, vetting, in_use).map_err(refused)?;
    let named = settings.get("agents_dir").origin != Origin::Default;
    if !files.folder_exists && (named || prune) {
        // A wrong path must not look like a folder whose files were all removed.
        let message = format!("there is no folder of agent files `{}`", shown(dir));
        return Err(Failure::usage(message).hint("create it, or write a project with `viv init`"));
    }
    Ok(files)
}

/// Reads and checks the tool files; reports all problems at once. A mistake in a file that is `in_use` stops nothing. From here
/// on the kit has their tools and those that the store keeps, so that agent files can name them.
pub(crate) fn read_tools(
    settings: &Settings,
    kit: &ToolKit,
    in_use: &BTreeSet<String>,
) -> Result<ToolFolder> {
    let dir = settings.tools_dir();
    if settings.get("tools_dir").origin != Origin::Default && !dir.is_dir() {
        let message = format!("there is no folder of tool files `{}`", shown(dir));
        return Err(Failure::usage(message).hint("create it, or leave `tools_dir` out"));
    }
    let folder = ToolFolder::read(dir, kit, in_use).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::new(Exit::Usage, "bad_tool_file", lines.join("\n"))
            .hint("docs/tools.md lists all keys of a declaration")
    })?;
    // Without a store, or with one that cannot be read, there are none; opening it says why.
    let stored = storage::sqlite::tools(settings.data_dir()).unwrap_or_default();
    let kept = stored.into_iter().filter(|tool| tool.file.as_ref().is_none_or(|file| folder.is_broken(file)));
    let kept = kept.filter(|tool| folder.tools.iter().all(|other| other.name != tool.name));
    kit.declare(&kept.chain(folder.tools.iter().cloned()).collect::<Vec<_>>());
    for server in kit.servers() {
        let begins = format!("{server}{SERVER_END}");
        if !kit.names().iter().any(|name| name.starts_with(&begins)) {
            tracing::warn!(target: LOG_TARGET, "no tool of the MCP server `{server}` is approved: see `viv mcp approve {server}`");
        }
    }
    Ok(folder)
}

/// Applies changes of the tool files and prints them; without a terminal, as lines of the log. Runs forever; drop it to
/// stop.
pub(super) async fn follow_tools(mut tools: FollowedTools, screen: &Screen) -> Infallible {
    loop {
        match tools.next().await {
            Ok(ToolNews { changed, gone, problems }) => {
                let changed = changed.iter().map(|name| (name, "changed"));
                for (name, what) in changed.chain(gone.iter().map(|name| (name, "removed"))) {
                    let news = format!("the tool `{name}` was {what}; used from the next cycle on");
                    match !screen.json && screen.width.is_none() {
                        true => tracing::info!(target: LOG_TARGET, "{news}"),
                        false => screen.note(&news),
                    }
                }
                for problem in problems {
                    let failure = Failure::new(Exit::Usage, "bad_tool_file", problem.to_string());
                    screen.failure(&failure.hint(problem.while_running()));
                }
            }
            Err(error) => screen.failure(&error.into()),
        }
    }
}

/// Reports conflicts with the store before anything is written. With `prune`, asks before agents are retired because
/// their files are gone.
pub(super) async fn check(
    files: &mut AgentFolder,
    reconciler: &Reconciler,
    screen: &Screen,
    in_use: &BTreeSet<String>,
    (prune, yes): (bool, bool),
) -> Result<()> {
    let conflicts = reconciler.conflicts(&files.agents).await?;
    files.set_aside(conflicts, in_use).map_err(refused)?;
    let gone = if prune { reconciler.prunable(&files.existing()).await? } else { Vec::new() };
    if gone.is_empty() {
        return Ok(());
    }
    let what = format!("the files of {} are gone: retiring these agents cannot be undone", gone.join(", "));
    input::confirm(screen, &what, yes, Some("leave out --prune"))
}

/// Says which files are not in use because of mistakes in them, before anything else is said: in the log as an error.
pub(super) fn report_broken(files: &AgentFolder, tools: &ToolFolder, screen: &Screen) {
    let agents =
        files.broken.iter().map(|one| (one, "bad_agent_file", "its agent goes on with its last good config"));
    let tools = tools.broken.iter().map(|one| (one, "bad_tool_file", "its tool stays as it was"));
    for (problem, code, so) in agents.chain(tools) {
        let message = format!("{problem}; {so}");
        tracing::error!(target: LOG_TARGET, "{message}");
        if screen.json || screen.width.is_some() {
            screen.failure(&Failure::new(Exit::Usage, code, message).hint(problem.while_running()));
        }
    }
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
            for one in change.report.news() {
                // A file that could be a renamed one has made a second agent.
                match one.verb == "created" && !one.details.is_empty() {
                    true => tracing::warn!(target: LOG_TARGET, "{one}"),
                    false => tracing::info!(target: LOG_TARGET, "{one}"),
                }
            }
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
