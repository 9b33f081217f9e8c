//! The client crate's example, run against a real server.

use crate::world::Server;

#[path = "../../../client/examples/ask.rs"]
mod ask;

#[test]
fn the_example_of_the_client_crate_prints_the_agents_reply() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reply = runtime.block_on(ask::ask(server.dir.path().to_owned(), "Good morning!"));
    assert!(reply.unwrap().unwrap().contains("Good morning!"));
}
