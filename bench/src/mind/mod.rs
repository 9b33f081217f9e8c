//! What a long memory costs: counting its tokens, assembling a request, one more step, and the tokens of a long life beside a
//! baseline without compaction, and searching the archive.

pub(crate) mod life;
pub(crate) mod recall;
pub(crate) mod request;
pub(crate) mod step;
