//! Agents at work, tested from outside: whole worlds on a simulated clock, with SQLite in memory and scripted models.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop at once")]

mod approval;
mod awareness;
mod calls;
mod changed_tools;
mod crowd;
mod detached;
mod earlier_messages;
mod failing_server;
mod failure_table;
mod failures;
mod fairness;
mod fixture;
mod garbage;
mod goals;
mod inbox;
mod injections;
mod last_look;
mod links;
mod outage;
mod people;
mod people_meanwhile;
mod plans;
mod poison;
mod prefix;
mod random_histories;
mod recorded;
mod sent_requests;
mod shown_events;
mod stops;
mod store_bugs;
mod store_wrapper;
mod stories;
mod streaming;
mod stub_vendor;
mod summaries;
mod targets;
mod traces;
mod unstored;
mod wire_prefixes;
mod workers;
