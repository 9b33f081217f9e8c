//! What an operator does with a whole store: back it up while it is in use, restore a backup, verify it, export
//! or import one agent. Backup, verification and export work while a server is running and only read the store.
//!
//! This module must not know what rows mean: `verify` does.

mod backup;
mod copy;
mod error;
mod export;
mod files;
mod frame;
mod import;
mod index;
mod look;
mod partial;
mod read_only;
mod records;
mod restore;

pub use self::backup::{Backup, backup};
pub use self::copy::verify;
pub use self::error::UpkeepError;
pub use self::export::{Exported, export};
pub use self::import::{Import, Imported, LineFlaw, import};
pub use self::index::{Indexed, rebuild_index};
pub use self::look::{Looked, check, key, look, tools};
pub use self::partial::left_behind;
pub use self::restore::{Restored, restore};
