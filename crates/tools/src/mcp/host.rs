//! Where the processes of MCP servers run: behind one wall, each in a home of its own that lasts, so that what a server has
//! downloaded is still there at its next start.

use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;

use crate::child::{HeldCommand, Holder, Wall, WallPolicy, search_path};

/// Only its owner may look into a home.
const HOME_MODE: u32 = 0o700;

/// What all servers of a machine have in common.
pub struct McpHost {
    /// What holds their processes.
    holder: Holder,
    /// What a process must not see.
    hidden: Vec<PathBuf>,
    /// What a process must not change, whatever its settings name.
    kept: Vec<PathBuf>,
    /// The folder of their homes.
    homes: PathBuf,
    wall: OnceCell<Option<Wall>>,
}

impl McpHost {
    /// Servers whose homes are in the folder `homes`, and whose processes must not see the paths `hidden`.
    pub fn new(holder: Holder, homes: PathBuf, hidden: Vec<PathBuf>) -> Self {
        Self { holder, hidden, kept: Vec::new(), homes, wall: OnceCell::new() }
    }

    /// The same with paths that no process may change, since this server reads them.
    #[must_use]
    pub fn keeping(self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let kept = paths.into_iter().map(|path| std::path::absolute(&path).unwrap_or(path)).collect();
        Self { kept, ..self }
    }

    fn policy<'a>(&'a self, home: Option<&'a Path>, writable: &'a [PathBuf]) -> WallPolicy<'a> {
        WallPolicy { home, writable, kept: &self.kept, hidden: &self.hidden }
    }

    /// What this server reads, and a process that may write there could make.
    pub(super) async fn makeable(&self, writable: &[PathBuf]) -> Option<PathBuf> {
        self.wall().await.and_then(|_| self.policy(None, writable).makeable())
    }

    /// The wall, if this machine has one.
    pub(super) async fn wall(&self) -> Option<&Wall> {
        self.wall.get_or_init(|| Wall::find(&self.holder)).await.as_ref()
    }

    /// What runs a program in this home, behind the wall if there is one, with few variables.
    pub(super) async fn command(
        &self,
        command: &[OsString],
        home: &Path,
        writable: &[PathBuf],
    ) -> io::Result<HeldCommand> {
        let mut held = match self.wall().await {
            Some(wall) => wall.command(&self.policy(Some(home), writable), command)?,
            None => {
                let (name, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
                let mut held = self.holder.command(name)?;
                held.args(arguments);
                held
            }
        };
        held.env_clear().current_dir(home).process_group(0);
        held.env("PATH", search_path()).env("HOME", home);
        held.env("LANG", std::env::var_os("LANG").unwrap_or_else(|| "C.UTF-8".into()));
        Ok(held)
    }

    /// The home of a server, which only this user may look into. It stays when the server ends.
    pub(super) fn home(&self, server: &str) -> io::Result<PathBuf> {
        let home = self.homes.join(server);
        DirBuilder::new().recursive(true).mode(HOME_MODE).create(&home)?;
        // They may be older, or made by hand.
        for folder in [&self.homes, &home] {
            set_permissions(folder, Permissions::from_mode(HOME_MODE))?;
        }
        home.canonicalize()
    }
}
