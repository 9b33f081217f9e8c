//! The store in one SQLite file: one writer thread that owns the only writable connection, a few
//! read-only ones, an exclusive lock on the data directory. For tests and simulation the same code
//! runs inline on `:memory:`, synchronously on its caller.
//!
//! From below: `engine` moves commands and keeps the file, `tables` has rows in and rows out, `ports` answers what
//! `agent` asks, `upkeep` and `verify` are for whoever keeps a store running. None imports what overrides it
//! (tidy). A later backend keeps these names.

mod engine;
mod ports;
mod tables;
mod upkeep;
mod verify;

pub use self::engine::open_error::OpenError;
pub use self::engine::writer::Stats;
pub use self::ports::Sqlite;
pub use self::upkeep::{
    Backup, Exported, Import, Imported, LineFlaw, Looked, Restored, UpkeepError, backup, export, import,
    left_behind, look, restore, verify,
};
pub use self::verify::{Figures, Flaw, Verified};
