//! Programs that this process starts. The only module that may: what it starts ends with this process, however that ends,
//! and so does all that a child has started itself.
//!
//! Between this process and each child stands a holder, this program again, which has nothing to do but to notice that either of
//! them has ended. Must not know what the programs are for.

mod holder;
mod orphans;
mod spawn;
mod wall;

pub use self::holder::hold_if_asked;
pub use self::orphans::reap_orphans;
pub use self::spawn::{Ended, HeldChild, HeldCommand, Holder, Output};
pub(crate) use self::wall::search_path;
pub use self::wall::{Wall, WallPolicy};
