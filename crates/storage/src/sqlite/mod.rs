//! The store in one SQLite file: one writer thread owns the only writable connection, a few
//! connections only read, and the data directory is locked exclusively. For tests and simulation
//! the same code runs inline on `:memory:`, synchronously on the caller's thread.
//!
//! From the bottom up: `engine` runs commands and manages the file, `tables` reads and writes rows, `index`
//! searches texts, `ports` implements the ports of `agent`, `upkeep` and `verify` are for operators. No folder imports one above it
//! (tidy checks that). Another backend would keep these names.

mod engine;
mod index;
mod ports;
mod tables;
mod upkeep;
mod verify;

pub use self::engine::check::Checked;
pub use self::engine::open_error::OpenError;
pub use self::engine::writer::Stats;
pub use self::ports::Sqlite;
pub use self::upkeep::{
    Backup, Exported, Import, Imported, Indexed, LineFlaw, Looked, Restored, UpkeepError, backup, check,
    export, import, key, left_behind, look, rebuild_index, restore, tools, verify,
};
pub use self::verify::{Figures, Flaw, Verified};
