//! The commands: each is a function that returns the exit code.

pub(crate) mod agents;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod doctor;
pub(crate) mod entities;
pub(crate) mod event;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod memories;
pub(crate) mod models;
pub(crate) mod pages;
pub(crate) mod ps;
pub(crate) mod recall;
pub(crate) mod say;
pub(crate) mod scenario;
pub(crate) mod secrets;
pub(crate) mod show;
pub(crate) mod spaces;
pub(crate) mod tail;
pub(crate) mod tools;
pub(crate) mod top;
pub(crate) mod transfer;
pub(crate) mod up;
pub(crate) mod upkeep;
pub(crate) mod watch;
