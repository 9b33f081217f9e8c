//! Sends one message to an agent and prints its reply. Beside a running `viv up`:
//!
//! ```sh
//! cargo run -p client --example ask -- "Good morning!"
//! ```

use std::sync::Arc;
use std::time::Duration;

use client::{AgentWatch, Client};

/// Asks the first agent of the server in the first space.
pub(crate) async fn ask(client: Client, text: &str) -> client::Result<Option<String>> {
    let client = Arc::new(client);
    let agents: api::PageJson<api::Agent> = client.get_as("/v1/agents").await?;
    let spaces: api::PageJson<api::SpaceJson> = client.get_as("/v1/spaces").await?;
    let (Some(agent), Some(space)) = (agents.items.first(), spaces.items.first()) else { return Ok(None) };

    // The watch begins before the message is sent, so that it misses nothing.
    let mut watch = AgentWatch::begin(Arc::clone(&client), agent.id, &agent.handle).await?;
    let message = client::fresh_id()?;
    client::post(&client, space.id, Some("owner"), message, text).await?;
    let exchange = watch.wait(message, space.id, Duration::from_secs(60)).await?;
    Ok(exchange.reply)
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, dead_code, reason = "an example prints; a test uses only `ask`")]
async fn main() -> client::Result<()> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "Good morning!".to_owned());
    // The server of `VIV_URL` and `VIV_KEY`, else the one on this data directory. `Client::new` takes both directly.
    let reply = ask(Client::find(".viv".into())?, &text).await?;
    println!("{}", reply.unwrap_or_else(|| "(no reply)".to_owned()));
    Ok(())
}
