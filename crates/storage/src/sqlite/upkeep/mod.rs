//! What an operator does with a store as a whole: copy it while it is in use, put a copy in place,
//! have it judged, take one agent out or in. All of it but an import opens the file beside whoever has it
//! and, but for the copy, writes nothing.
//!
//! This module must not know what rows mean: that is `verify`.

mod backup;
mod beside;
mod export;
mod frame;
mod import;
mod look;
mod partial;
mod records;
mod restore;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use agent::port::StoreError;
use rusqlite::Connection;

pub use self::backup::{Backup, backup};
use self::beside::Beside;
pub use self::export::{Exported, export};
pub use self::import::{Import, Imported, LineFlaw, import};
pub use self::look::{Looked, look};
use self::partial::Partial;
pub use self::partial::left_behind;
pub use self::restore::{Restored, restore};
use super::engine::fault::Outcome;
use super::engine::schema::{OpenError, kind};
use super::tables::rows::{first, u64_at};
use super::verify::{Flaw, Verified, judge};

/// Why a store could not be copied, put in place or judged.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The file cannot be opened as a store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing.
    #[error("there is no store at `{}`", file.display())]
    Missing {
        /// Where it was looked for.
        file: PathBuf,
    },
    /// Nobody is called that.
    #[error("no agent is called `{name}`")]
    NoAgent {
        /// What was asked for.
        name: String,
    },
    /// Its tables must be brought up to date before.
    #[error("the tables of `{}` are of version {version}, this viv writes out those of version {ours}", file.display())]
    Older {
        /// The store.
        file: PathBuf,
        /// What they are.
        version: i64,
        /// What this version knows.
        ours: i64,
    },
    /// Nothing is written over.
    #[error("`{}` is there already", file.display())]
    Exists {
        /// What is in the way.
        file: PathBuf,
    },
    /// A store is put into an empty directory only.
    #[error("the directory `{}` is not empty: `{what}` is in it", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// What is in it.
        what: String,
        /// Whether that is a store, which could be replaced.
        store: bool,
    },
    /// A copy was read back and is not as it should be.
    #[error("the copy of `{}` is damaged: {why}", file.display())]
    Unsound {
        /// What was copied.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// Only files are read: whatever else has a name might never end, or never begin.
    #[error("cannot read `{}`: it is {what}, not a file", file.display())]
    NoFile {
        /// What was named.
        file: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The operating system refuses.
    #[error("cannot {doing} `{}`: {source}", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        file: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// The store cannot be read to its end.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Agents, retired ones too.
    pub agents: u64,
    /// Spaces, closed ones too.
    pub spaces: u64,
    /// Messages.
    pub messages: u64,
    /// Accepted events, whatever became of them.
    pub events: u64,
    /// Entries of all logs.
    pub entries: u64,
    /// Commits of all lives.
    pub commits: u64,
}

impl Figures {
    pub(super) fn read(db: &Connection) -> Outcome<Self> {
        let sql = "SELECT (SELECT count(*) FROM agent), (SELECT count(*) FROM space), (SELECT count(*) FROM message), \
                   (SELECT count(*) FROM event), (SELECT count(*) FROM entry), (SELECT count(*) FROM commits)";
        let found = first(db, sql, [], |row| {
            Ok(Self {
                agents: u64_at(row, 0)?,
                spaces: u64_at(row, 1)?,
                messages: u64_at(row, 2)?,
                events: u64_at(row, 3)?,
                entries: u64_at(row, 4)?,
                commits: u64_at(row, 5)?,
            })
        })?;
        Ok(found.unwrap_or_default())
    }
}

/// What a flaw of the log beside the file is told under.
const LOG: &str = "log";

/// Judges the store in a data directory, or a backup's file: beside a running server as well as without one.
/// Writes nothing.
pub fn verify(place: &Path) -> Result<Verified, UpkeepError> {
    let beside = Beside::open(place)?;
    let mut found = judge(&beside.db, beside.version, true).map_err(StoreError::from)?;
    let lost = beside.lost_frames();
    if lost > 0 {
        let what = format!("{lost} frames stand behind a damaged one: what they held is lost");
        found.flaws.insert(0, Flaw { agent: None, table: super::verify::FILE, id: LOG.to_owned(), what });
    }
    Ok(found)
}

/// Copies all that `from` holds as of one moment into `to`, which must be an empty file, and reads the
/// copy back: what is wrong with records is told, a file that is no whole database is an error.
fn copy(from: &Beside, to: &Path) -> Result<Verified, UpkeepError> {
    let io = |doing, source| UpkeepError::Io { doing, file: to.to_owned(), source };
    let path = to.to_str().ok_or_else(|| io("write", io::Error::other("its name is not UTF-8")))?;
    from.db.execute("VACUUM INTO ?", [path]).map_err(|error| from.failed(to, &error))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|source| io("write", source))?;
    let copied = Beside::open(to)?;
    let verified = judge(&copied.db, copied.version, false).map_err(StoreError::from)?;
    match verified.flaws.iter().find(|flaw| flaw.table == super::verify::FILE) {
        Some(flaw) => Err(UpkeepError::Unsound { file: from.file.clone(), why: flaw.what.clone() }),
        None => Ok(verified),
    }
}

/// What is known of a file that is to be read, which must be one.
fn regular(file: &Path) -> Result<(), UpkeepError> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) => Err(UpkeepError::NoFile { file: file.to_owned(), what: kind(&found) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(UpkeepError::Missing { file: file.to_owned() })
        }
        Err(source) => Err(UpkeepError::Io { doing: "read", file: file.to_owned(), source }),
    }
}

/// A name is durable once its folder is.
fn sync_dir(file: &Path) -> io::Result<()> {
    File::open(folder(file))?.sync_all()
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
