//! What a long memory costs: counting its tokens, assembling a request, one more step, the tokens of a long life beside a
//! baseline without compaction, searching the archive, and indexing it.

mod archive;
pub(crate) mod life;
pub(crate) mod lives;
pub(crate) mod recall;
pub(crate) mod request;
pub(crate) mod step;
pub(crate) mod tailer;
