//! The client crate's example, run against a real server.

use client::{ApiKey, Client, Credentials};

use crate::world::Server;

#[path = "../../../client/examples/ask.rs"]
mod ask;

#[test]
fn the_example_of_the_client_crate_prints_the_agents_reply() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let credentials = Credentials { url: format!("{}/", server.url()), key: ApiKey::new(server.key()) };
    let client = Client::new(credentials).unwrap();
    let reply = runtime.block_on(ask::ask(client, "Good morning!"));
    assert!(reply.unwrap().unwrap().contains("Good morning!"));
}

#[test]
fn an_address_that_is_none_is_refused_before_anything_is_sent() {
    let wrong = Credentials { url: "nonsense".to_owned(), key: ApiKey::new("k") };
    assert!(Client::new(wrong).err().unwrap().message.contains("got `nonsense`"));
}
