//! Applies agent files to the store: creates missing agents, changes differing ones, and leaves agents
//! whose file is gone unless `--prune` is given. Each change is a separate commit, so the next start
//! completes whatever a crash left undone.
//!
//! A file defines its agent completely at the moment it is applied: at the start, and whenever the file
//! changes. Changes over the API last until then.

mod record;
mod rename;
mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::approver::Approver;
use agent::entity::{EntityKind, Member, Space};
use agent::id::{AgentId, EntityId, SpaceId};
use agent::life::Standing;
use agent::port::{AgentCard, NewAgent, NewSpace, RegistryError, StoreError};
use agent::update::{Topic, Update};
use runtime::Ports;

use crate::ProjectError;
use crate::agent_file::{AgentFile, FileProblem};
use crate::tool_files;

type Result<T> = std::result::Result<T, ProjectError>;
use crate::OWNER;
use record::{Known, Record};

pub use report::{AgentNews, Changed, ChangedKey, Created, Left, ReconcileReport, Retired};

/// Applies agent files.
#[derive(Clone)]
pub struct Reconciler {
    /// The store of the agents, and the bus for updates.
    pub ports: Ports,
    /// The directory with the record of agents that came from a file.
    pub data_dir: PathBuf,
}

/// The files that exist, whether they are applied now or not.
#[derive(Clone, Debug, Default)]
pub struct ExistingFiles {
    /// Names of the agents in valid files.
    pub names: BTreeSet<String>,
    /// Files that are invalid now: which agents they define is unknown.
    pub broken: BTreeSet<String>,
    /// What is wrong with them, and with valid files.
    pub problems: Vec<FileProblem>,
    /// Files that were saved since the server looked at them before.
    pub saved: BTreeSet<String>,
}

impl ExistingFiles {
    /// Whether the file of an agent is gone.
    fn lack(&self, known: &Known) -> bool {
        !self.names.contains(&known.name) && !self.broken.contains(&known.file)
    }
}

/// The file that defines an agent of the server on this data directory.
pub fn file_of(data_dir: &Path, agent: AgentId) -> Option<String> {
    Record::read(data_dir).ok()?.of(agent).map(|known| known.file.clone())
}

/// The files whose mistakes stop no start, by the names that people are shown: their agents are in the store of this data
/// directory, or a server went on although they have mistakes.
pub fn files_in_use(data_dir: &Path) -> BTreeSet<String> {
    let known = Record::read(data_dir).unwrap_or_default().agents.into_iter().map(|known| known.file);
    known.chain(problems(data_dir).into_iter().map(|problem| problem.file)).collect()
}

/// The mistakes in the agent files and tool files of the server that runs on this data directory, as it last saw them.
pub fn problems(data_dir: &Path) -> Vec<FileProblem> {
    let mut problems = Record::read(data_dir).unwrap_or_default().problems;
    problems.extend(tool_files::problems(data_dir));
    problems
}

impl Reconciler {
    /// Conflicts between these files and the store. Changes nothing.
    pub async fn conflicts(&self, files: &[AgentFile]) -> Result<Vec<FileProblem>> {
        let mut problems = Vec::new();
        for file in files {
            let found = self.ports.reader.entity(file.name.clone()).await.map_err(failed)?;
            if found.is_some_and(|entity| entity.kind == EntityKind::Human) {
                let what = format!("`{}` is already a person; give the agent another `name`", file.name);
                problems.push(FileProblem::new(&file.file, None, what));
            }
            for handle in file.config.approvers.iter().filter_map(|entry| Approver::of(entry).handle()) {
                let found = self.ports.reader.entity(handle.to_owned()).await.map_err(failed)?;
                if found.is_some_and(|entity| entity.kind == EntityKind::Agent) {
                    let what = format!("`approvers`: `{handle}` is an agent; only people approve");
                    problems.push(FileProblem::new(&file.file, None, what));
                }
            }
        }
        Ok(problems)
    }

    /// Approvers that are nobody yet: a warning only, since a person may be added at any time. It is not noted with the files,
    /// which do not change then.
    async fn absent_approvers(&self, files: &[AgentFile]) -> Result<Vec<FileProblem>> {
        let mut absent = Vec::new();
        for file in files {
            for handle in file.config.approvers.iter().filter_map(|entry| Approver::of(entry).handle()) {
                if self.ports.reader.entity(handle.to_owned()).await.map_err(failed)?.is_none() {
                    let what = format!(
                        "`approvers`: `{handle}` is nobody, so only operators answer in that place; \
                         `viv entities add {handle}` adds a person"
                    );
                    absent.push(FileProblem { warning: true, ..FileProblem::new(&file.file, None, what) });
                }
            }
        }
        Ok(absent)
    }

    /// Names of the agents that pruning would retire. Changes nothing.
    pub async fn prunable(&self, existing: &ExistingFiles) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for known in Record::read(&self.data_dir)?.agents.into_iter().filter(|known| existing.lack(known)) {
            let card = self.ports.reader.agent(known.id).await.map_err(failed)?;
            if card.is_some_and(|card| card.standing != Standing::Retired) {
                names.push(known.name);
            }
        }
        Ok(names)
    }

    /// Applies the files. Agents whose file is gone are retired if `prune` is set, else only reported.
    pub async fn apply(
        &self,
        files: &[AgentFile],
        existing: &ExistingFiles,
        prune: bool,
    ) -> Result<ReconcileReport> {
        let mut record = Record::read(&self.data_dir)?;
        let before = record.clone();
        let mut report = ReconcileReport::default();
        for file in files {
            let saved = existing.saved.contains(&file.file);
            self.apply_file(file, saved, &mut record, &mut report).await?;
        }
        self.handle_missing_files(existing, prune, &mut record, &mut report).await?;
        self.guess_renames(files, existing, &record, &mut report).await?;
        record.problems.clone_from(&existing.problems);
        record.problems.extend(report.left.iter().filter_map(Left::gone));
        report.warnings = existing.problems.iter().filter(|one| one.warning).cloned().collect();
        report.warnings.extend(self.absent_approvers(files).await?);
        if record != before {
            record.write(&self.data_dir)?;
        }
        Ok(report)
    }

    /// Applies one file; `saved` is whether it was saved since the server looked at it before.
    async fn apply_file(
        &self,
        file: &AgentFile,
        saved: bool,
        record: &mut Record,
        report: &mut ReconcileReport,
    ) -> Result<()> {
        let found = self.ports.reader.entity(file.name.clone()).await.map_err(failed)?;
        let (id, rev, created) = match found {
            None => (self.create(file).await?, 1, true),
            Some(entity) if entity.kind == EntityKind::Human => {
                let why = "a person already has that name; give the agent another `name`";
                report.leave(&file.name, &file.file, why);
                return Ok(());
            }
            Some(entity) => {
                let id = AgentId(entity.id.0);
                let card = self.ports.reader.agent(id).await.map_err(failed)?;
                let known = record.of(id).cloned();
                match (card.filter(|card| card.standing != Standing::Retired), known) {
                    (Some(card), known) => {
                        let rev = known.map(|known| known.rev);
                        let Some(rev) = self.change(file, &card, rev, report).await? else { return Ok(()) };
                        (id, rev, false)
                    }
                    // Somebody has ended the agent of this very file: as it is, the file does not bring it back.
                    (None, Some(known))
                        if !saved && known.text.as_ref().is_none_or(|was| *was == file.text) =>
                    {
                        record.put(Known { text: Some(file.text.clone()), ..known });
                        report.leave(&file.name, &file.file, report::RETIRED);
                        return Ok(());
                    }
                    (None, _) => (self.create(file).await?, 1, true),
                }
            }
        };
        let old = record.of(id).map(|known| known.spaces.clone()).unwrap_or_default();
        let joined = self.join_spaces(file, id).await?;
        let departed = self.leave_spaces(&old, file, id).await?;
        if created {
            let AgentFile { name, file, spaces, .. } = file.clone();
            report.created.push(Created { name, file, spaces, was: None });
        } else {
            report.spaces_changed(file, joined, departed);
        }
        record.put(Known {
            id,
            name: file.name.clone(),
            file: file.file.clone(),
            rev,
            spaces: file.spaces.clone(),
            text: Some(file.text.clone()),
        });
        Ok(())
    }

    async fn create(&self, file: &AgentFile) -> Result<AgentId> {
        let id = AgentId(self.ports.ids.uuid());
        let new = NewAgent {
            id,
            name: file.name.clone(),
            display_name: file.display_name.clone(),
            config: file.config.clone(),
            at: self.ports.clock.now(),
        };
        self.ports.registry.create_agent(new).await.map_err(refused)?;
        Ok(id)
    }

    /// Changes an agent to match its file; returns the current config revision. `known` is the revision
    /// that the file created last. An agent with a damaged record is left unchanged, so that it does not
    /// stop the others.
    async fn change(
        &self,
        file: &AgentFile,
        card: &AgentCard,
        known: Option<u64>,
        report: &mut ReconcileReport,
    ) -> Result<Option<u64>> {
        let renamed = (card.entity.display_name != file.display_name).then(|| file.display_name.clone());
        let differs = *card.config != file.config;
        let amended_since = known.is_some_and(|known| known != card.config_rev);
        if renamed.is_none() && !differs {
            report.compare(file, card, amended_since);
            return Ok(Some(card.config_rev));
        }
        // The patch contains all keys, so it replaces the config.
        let patch = differs.then(|| file.config.to_json());
        let now = self.ports.clock.now();
        match self.ports.registry.amend_agent(card.id, renamed, patch, now).await {
            Err(RegistryError::Store(StoreError::Damaged(why))) => {
                let why = why.replace(&card.id.to_string(), &card.entity.name);
                let why = format!("a record of it is damaged ({why}); `viv verify` lists what is wrong");
                report.leave(&file.name, &file.file, &why);
                Ok(None)
            }
            amended => {
                let rev = amended.map_err(refused)?;
                report.compare(file, card, amended_since);
                Ok(Some(rev))
            }
        }
    }

    /// Opens the file's missing spaces and joins those that the agent is not in.
    async fn join_spaces(&self, file: &AgentFile, id: AgentId) -> Result<Vec<String>> {
        let mut joined = Vec::new();
        for name in &file.spaces {
            let found = self.ports.reader.space(name.clone()).await.map_err(failed)?;
            let Some(space) = found else {
                self.open(name, id).await?;
                joined.push(name.clone());
                continue;
            };
            if !self.is_in(&space, id.entity()).await? {
                let (role, now) = (Member::ROLE.to_owned(), self.ports.clock.now());
                let added = self.ports.registry.add_member(space.id, id.entity(), role, now).await;
                let rev = added.map_err(refused)?;
                self.publish(space.id, id.entity(), true, rev);
                joined.push(name.clone());
            }
        }
        Ok(joined)
    }

    async fn open(&self, name: &str, id: AgentId) -> Result<()> {
        let owner = self.ports.reader.entity(OWNER.to_owned()).await.map_err(failed)?;
        let owner = owner.filter(|owner| owner.kind == EntityKind::Human).map(|owner| owner.id);
        let members = owner.into_iter().chain([id.entity()]).collect();
        let new = NewSpace::new(SpaceId(self.ports.ids.uuid()), name, members, self.ports.clock.now());
        self.ports.registry.open_space(new).await.map(drop).map_err(refused)
    }

    /// Leaves the spaces that the file named before and no longer names.
    async fn leave_spaces(&self, before: &[String], file: &AgentFile, id: AgentId) -> Result<Vec<String>> {
        let mut departed = Vec::new();
        for name in before.iter().filter(|name| !file.spaces.contains(name)) {
            let Some(space) = self.ports.reader.space(name.clone()).await.map_err(failed)? else { continue };
            if self.is_in(&space, id.entity()).await? {
                let rev = self.ports.registry.remove_member(space.id, id.entity()).await.map_err(refused)?;
                self.publish(space.id, id.entity(), false, rev);
                departed.push(name.clone());
            }
        }
        Ok(departed)
    }

    async fn is_in(&self, space: &Space, entity: EntityId) -> Result<bool> {
        let members = self.ports.reader.members(space.id).await.map_err(failed)?;
        Ok(members.iter().any(|member| member.entity.id == entity))
    }

    fn publish(&self, space: SpaceId, entity: EntityId, joined: bool, rev: u64) {
        let update = Update::Member { space, entity, joined, rev };
        self.ports.live.bus().publish(&[Topic::Space(space)], Arc::new(update));
    }

    async fn handle_missing_files(
        &self,
        existing: &ExistingFiles,
        prune: bool,
        record: &mut Record,
        report: &mut ReconcileReport,
    ) -> Result<()> {
        let all: Vec<Known> = record.agents.iter().filter(|known| existing.lack(known)).cloned().collect();
        for known in all {
            let card = self.ports.reader.agent(known.id).await.map_err(failed)?;
            if card.is_none_or(|card| card.standing == Standing::Retired) {
                record.agents.retain(|other| other.id != known.id);
            } else if prune {
                let now = self.ports.clock.now();
                self.ports.registry.set_standing(known.id, Standing::Retired, now).await.map_err(refused)?;
                record.agents.retain(|other| other.id != known.id);
                report.retired.push(Retired { name: known.name, file: known.file });
            } else {
                report.leave(&known.name, &known.file, report::GONE);
            }
        }
        Ok(())
    }
}

fn failed(error: StoreError) -> ProjectError {
    refused(error.into())
}

fn refused(error: RegistryError) -> ProjectError {
    let message = format!("cannot apply the agent files: {error}");
    let hint =
        "changes made so far are kept, and the next start applies the rest; `viv doctor` checks the disk";
    ProjectError { code: "store_failed", message, hint }
}
