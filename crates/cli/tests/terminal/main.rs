//! The terminal, as people and scripts meet it: the built binary, whole output and exit codes.

mod chat;
mod mishaps;
mod pty;
mod talking;
mod world;
