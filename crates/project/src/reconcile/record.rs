//! Which agents came from a file and which files have mistakes, kept as `files.json` in the data directory. Losing it harms no agent: the
//! next start finds agents with a file by their names, and only `--prune` no longer recognizes agents whose
//! file is gone.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use agent::id::{AgentId, ContentRef};
use serde::{Deserialize, Serialize};

use super::Result;
use crate::ProjectError;
use crate::agent_file::FileProblem;

const FILE: &str = "files.json";

/// An agent that came from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) id: AgentId,
    pub(super) name: String,
    /// The file, as shown to people.
    pub(super) file: String,
    /// The config revision that the file created.
    pub(super) rev: u64,
    /// The spaces that the file named.
    pub(super) spaces: Vec<String>,
    /// What the file said; `None` if an earlier version wrote this.
    #[serde(default)]
    pub(super) text: Option<ContentRef>,
}

/// All agents that came from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) agents: Vec<Known>,
    /// Mistakes in files, which are not in use because of them.
    #[serde(default)]
    pub(super) problems: Vec<FileProblem>,
}

impl Record {
    /// Reads the record; empty if it is missing or damaged.
    pub(super) fn read(data_dir: &Path) -> Result<Self> {
        match fs::read(data_dir.join(FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed(data_dir, "read", &error)),
        }
    }

    /// Writes the record completely or not at all.
    pub(super) fn write(&self, data_dir: &Path) -> Result<()> {
        let draft = data_dir.join(format!("{FILE}.new"));
        let text = serde_json::to_vec(self).unwrap_or_default();
        let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, data_dir.join(FILE)));
        written.map_err(|error| failed(data_dir, "write", &error))
    }

    pub(super) fn of(&self, id: AgentId) -> Option<&Known> {
        self.agents.iter().find(|known| known.id == id)
    }

    /// Adds an agent. A retired one of the same name is forgotten.
    pub(super) fn put(&mut self, known: Known) {
        self.agents.retain(|other| other.id != known.id && other.name != known.name);
        self.agents.push(known);
    }
}

fn failed(data_dir: &Path, what: &str, error: &std::io::Error) -> ProjectError {
    let message = format!("cannot {what} `{}`: {error}", data_dir.join(FILE).display());
    let hint = "may this user write there, and is there space on the disk?";
    ProjectError { code: "data_dir_unusable", message, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_survives_restarts_and_a_damaged_one_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), Record::default());
        let id: AgentId = serde_json::from_str("\"0192d3e4-0000-7000-8000-000000000000\"").unwrap();
        let mut record = Record::default();
        for rev in [1, 2] {
            let (name, file) = ("ada".to_owned(), "agents/ada.md".to_owned());
            record.put(Known { id, name, file, rev, spaces: vec!["home".to_owned()], text: None });
        }
        assert_eq!((record.agents.len(), record.of(id).unwrap().rev), (1, 2));
        record.write(dir.path()).unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), record);
        fs::write(dir.path().join(FILE), "{\"agents\": [").unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), Record::default());
    }
}
