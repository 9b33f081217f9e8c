//! The voices through the real client, against stubs that are as strict as the vendors, and against
//! recorded streams of real servers.

mod anthropic;
mod corpus;
mod cuts;
mod errors;
mod json_mode;
mod local;
mod memo;
mod openai;
mod support;
mod voices;
