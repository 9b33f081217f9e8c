//! The agent files of a server: read before anything is written, applied before any agent wakes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use runtime::clock::SystemClock;

use super::watch::Watch;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::listen;
use crate::model::{self, Chosen};
use crate::output::Screen;
use crate::settings::{Origin, Settings};
use project::agent_file::{AgentFile, FileProblem, Stamp, Vetting, load, scan, shown};
use project::reconcile::{ExistingFiles, ReconcileReport, Reconciler};

/// Problems that are listed; more are counted.
const SHOWN: usize = 20;

/// The agent files, parsed.
pub(super) struct Files {
    dir: PathBuf,
    /// Whether the folder exists.
    folder_exists: bool,
    stamps: BTreeMap<PathBuf, Stamp>,
    agents: Vec<AgentFile>,
    vetting: Vetting,
}

/// Checks settings and files as `viv up` would; returns the agents' names and the model.
pub(crate) async fn check_start(settings: &Settings) -> Result<(Vec<String>, String)> {
    listen::permitted(settings.get("listen"), settings.flag("allow_remote"))?;
    super::log_filter(settings.text("log"))?;
    let chosen = model::choose(settings, Arc::new(SystemClock::new())).await?;
    let files = Files::read(settings, &chosen, false)?;
    Ok((files.names().map(str::to_owned).collect(), chosen.info.name.clone()))
}

impl Files {
    /// Reads and checks all files; reports all problems at once.
    pub(super) fn read(settings: &Settings, chosen: &Chosen, prune: bool) -> Result<Self> {
        let dir = settings.agents_dir();
        let vetting = Vetting { models: Arc::clone(&chosen.models), toolbox: Arc::new(tools::prebuilt()) };
        let found = scan(dir).map_err(|problem| refused(vec![problem]))?;
        let named = settings.get("agents_dir").origin != Origin::Default;
        if found.is_none() && (named || prune) {
            // A wrong path must not look like a folder whose files were all removed.
            let message = format!("there is no folder of agent files `{}`", shown(dir));
            return Err(Failure::usage(message).hint("create it, or write a project with `viv init`"));
        }
        let folder_exists = found.is_some();
        let stamps = found.unwrap_or_default();
        let (mut agents, mut problems) = (Vec::new(), Vec::new());
        for found in load(&stamps, &|config| vetting.check(config)) {
            match found.read {
                Ok(agent) => agents.push(agent),
                Err(mut wrong) => problems.append(&mut wrong),
            }
        }
        if problems.is_empty() {
            Ok(Self { dir: dir.to_owned(), folder_exists, stamps, agents, vetting })
        } else {
            Err(refused(problems))
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Whether agent files are not used here.
    pub(super) fn is_unused(&self) -> bool {
        !self.folder_exists
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|agent| agent.name.as_str())
    }

    /// Reports conflicts with the store before anything is written.
    pub(super) async fn check(&self, reconciler: &Reconciler) -> Result<()> {
        let problems = reconciler.conflicts(&self.agents).await?;
        if problems.is_empty() { Ok(()) } else { Err(refused(problems)) }
    }

    /// Asks before agents are retired because their files are gone.
    pub(super) async fn confirm_prune(
        &self,
        reconciler: &Reconciler,
        screen: &Screen,
        yes: bool,
    ) -> Result<()> {
        let gone = reconciler.prunable(&self.existing()).await?;
        if gone.is_empty() {
            return Ok(());
        }
        let what =
            format!("the files of {} are gone: retiring these agents cannot be undone", gone.join(", "));
        input::confirm(screen, &what, yes, Some("leave out --prune"))
    }

    pub(super) async fn apply(&self, reconciler: &Reconciler, prune: bool) -> Result<ReconcileReport> {
        Ok(reconciler.apply(&self.agents, &self.existing(), prune).await?)
    }

    fn existing(&self) -> ExistingFiles {
        ExistingFiles { names: self.names().map(str::to_owned).collect(), broken: BTreeSet::new() }
    }

    /// The watcher that applies the files again when they change.
    pub(super) fn watch(self, reconciler: Reconciler, mut report: ReconcileReport) -> Watch {
        Watch {
            dir: self.dir,
            reconciler,
            vetting: self.vetting,
            seen: self.stamps,
            reported: report.drop_reported(&BTreeSet::new()),
            broken: BTreeSet::new(),
            last_failure: None,
        }
    }
}

fn refused(problems: Vec<FileProblem>) -> Failure {
    let message = match problems.as_slice() {
        [one] => one.to_string(),
        all => {
            let mut message = format!("the agent files have {} problems", all.len());
            for problem in all.iter().take(SHOWN) {
                message.push_str(&format!("\n  {problem}"));
            }
            if all.len() > SHOWN {
                message.push_str(&format!("\n  and {} more", all.len() - SHOWN));
            }
            message
        }
    };
    Failure::new(Exit::Usage, "bad_agent_file", message)
        .hint("nothing was changed; all keys: `viv config keys --agent`")
}
