//! What an operator does with a store as a whole: copy it while it is in use, put a copy in place,
//! have it judged, take one agent out or in. All of it but an import opens the file beside whoever has it
//! and, but for the copy, writes nothing.
//!
//! This module must not know what rows mean: that is `verify`.

mod backup;
mod beside;
mod copy;
mod error;
mod export;
mod files;
mod frame;
mod import;
mod look;
mod partial;
mod records;
mod restore;

pub use self::backup::{Backup, backup};
pub use self::copy::verify;
pub use self::error::UpkeepError;
pub use self::export::{Exported, export};
pub use self::import::{Import, Imported, LineFlaw, import};
pub use self::look::{Looked, look};
pub use self::partial::left_behind;
pub use self::restore::{Restored, restore};
