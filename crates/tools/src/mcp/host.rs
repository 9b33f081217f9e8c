//! Where the processes of MCP servers run: behind one wall, each in a home of its own that lasts, so that what a server has
//! downloaded is still there at its next start.

use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;

use crate::child::{Holder, Room, Wall};

/// Only its owner may look into a home.
const HOME_MODE: u32 = 0o700;

/// What all servers of a machine have in common.
pub struct McpHost {
    /// What holds their processes.
    pub(super) holder: Holder,
    /// What a process must not see.
    hidden: Vec<PathBuf>,
    /// The folder of their homes.
    homes: PathBuf,
    wall: OnceCell<Option<Wall>>,
}

impl McpHost {
    /// Servers whose homes are in the folder `homes`, and whose processes must not see the paths `hidden`.
    pub fn new(holder: Holder, homes: PathBuf, hidden: Vec<PathBuf>) -> Self {
        Self { holder, hidden, homes, wall: OnceCell::new() }
    }

    /// The wall, if this machine has one.
    pub(super) async fn wall(&self) -> Option<&Wall> {
        self.wall.get_or_init(|| Wall::find(&self.holder)).await.as_ref()
    }

    pub(super) fn room<'a>(&'a self, home: &'a Path, writable: &'a [PathBuf]) -> Room<'a> {
        Room { home: Some(home), writable, hidden: &self.hidden }
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
