//! Looks at the agent files once a second and applies what changed, for as long as the server runs.
//! A file that is broken leaves its agent as it is, and is complained about once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Reconciler, There};
use crate::agent_file::{AgentFile, FoundFile, Problem, Stamp, Vetting, load, scan};
use crate::errors::{Exit, Failure};
use crate::output::Screen;

/// Between two looks. A file is applied when two of them found it the same, so that a half-written
/// one is not.
const LOOK: Duration = Duration::from_secs(1);

type Stamps = BTreeMap<PathBuf, Stamp>;

/// What watches.
pub(crate) struct Watch {
    /// The folder.
    pub(crate) dir: PathBuf,
    /// Applies files.
    pub(crate) reconciler: Reconciler,
    /// Judges them.
    pub(crate) vetting: Vetting,
    /// The files as they were when they were last read.
    pub(crate) seen: Stamps,
    /// Agents that were said to be left without a file.
    pub(crate) told: BTreeSet<String>,
    /// Files that are broken.
    pub(crate) broken: BTreeSet<PathBuf>,
    /// What was complained about last.
    pub(crate) complaint: Option<Failure>,
}

impl Watch {
    /// Goes on for ever; to stop, drop it.
    pub(crate) async fn run(mut self, screen: &Screen) {
        let mut before = self.seen.clone();
        loop {
            tokio::time::sleep(LOOK).await;
            let stamps = match self.look().await {
                Ok(stamps) => stamps,
                Err(failure) => {
                    self.complain(screen, failure);
                    continue;
                }
            };
            if stamps == before && stamps != self.seen {
                match self.apply(&stamps, screen).await {
                    Ok(()) => {
                        self.seen.clone_from(&stamps);
                        self.complaint = None;
                    }
                    // Tried again at the next look.
                    Err(failure) => self.complain(screen, failure),
                }
            }
            before = stamps;
        }
    }

    async fn look(&self) -> Result<Stamps, Failure> {
        let dir = self.dir.clone();
        let unread = |why: String| Failure::new(Exit::Failed, "agent_files_unreadable", why);
        let found = tokio::task::spawn_blocking(move || scan(&dir)).await;
        let found = found.map_err(|error| unread(error.to_string()))?;
        Ok(found.map_err(|problem| unread(problem.to_string()))?.unwrap_or_default())
    }

    async fn apply(&mut self, stamps: &Stamps, screen: &Screen) -> Result<(), Failure> {
        let stamped = stamps.clone();
        let vetting = self.vetting.clone();
        let read = tokio::task::spawn_blocking(move || load(&stamped, &|config| vetting.judge(config))).await;
        // It panicked, which is told where it happened; the agents stay as they are.
        let Ok(all) = read else { return Ok(()) };
        let mut news = News::default();
        for found in all {
            let changed = self.seen.get(&found.path) != stamps.get(&found.path);
            news.take(found, changed, &self.broken);
        }
        let mut report = self.reconciler.apply(&news.apply, &news.there, false).await?;
        self.broken = news.broken;
        self.told = report.leave_out(&self.told);
        for problem in &news.problems {
            let failure = Failure::new(Exit::Usage, "bad_agent_file", problem.to_string());
            screen.failure(&failure.hint("no agent was changed by it; mend the file and save it"));
        }
        if screen.json {
            if !report.is_quiet() {
                screen.json_line(&json!({"files": report.to_json()}));
            }
        } else if !report.is_quiet() {
            report.print_news(screen);
        }
        Ok(())
    }

    fn complain(&mut self, screen: &Screen, failure: Failure) {
        if self.complaint.as_ref() != Some(&failure) {
            screen.failure(&failure);
            self.complaint = Some(failure);
        }
    }
}

/// What a look brought.
#[derive(Default)]
struct News {
    apply: Vec<AgentFile>,
    there: There,
    problems: Vec<Problem>,
    broken: BTreeSet<PathBuf>,
}

impl News {
    /// A file is applied if it changed, or if it was broken by another that changed.
    fn take(&mut self, found: FoundFile, changed: bool, broken_before: &BTreeSet<PathBuf>) {
        let was_broken = broken_before.contains(&found.path);
        match found.read {
            Ok(agent) => {
                self.there.names.insert(agent.name.clone());
                if changed || was_broken {
                    self.apply.push(agent);
                }
            }
            Err(problems) => {
                self.there.broken.insert(found.file);
                if changed || !was_broken {
                    self.problems.extend(problems);
                }
                self.broken.insert(found.path);
            }
        }
    }
}
