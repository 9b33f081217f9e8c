//! One file per port, helpers beside it: each verb is one command or one question.
//!
//! What is decided is asked of `agent`; what is stored is known to `tables`.

pub(in crate::sqlite) mod apart;
pub(in crate::sqlite) mod calls;
pub(in crate::sqlite) mod lookup;
pub(in crate::sqlite) mod reader;
pub(in crate::sqlite) mod registry;
pub(in crate::sqlite) mod store;
