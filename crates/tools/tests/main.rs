//! Tests of every prebuilt tool against a small world in memory, and of tools that reach the world against servers on the
//! loopback.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]

mod prebuilt {
    mod ending;
    mod enter_space;
    mod get_my_runs;
    mod goals;
    mod kit;
    mod memories;
    mod plans;
    mod read_messages;
    mod read_outcome;
    mod recall;
    mod schema;
    mod send_message;
}
mod connector {
    mod exchange;
    mod guard;
}
mod declared {
    pub(crate) mod calling;
    mod forge;
    mod openapi;
    mod reading;
    pub(crate) mod secrets;
    mod version;
}
mod mcp {
    pub(crate) mod fake;
    mod process;
    pub(crate) mod web;
}
mod child;
mod courier;
mod fetch_page;
mod hooks;
mod last_look;
mod loopback;
mod world;
