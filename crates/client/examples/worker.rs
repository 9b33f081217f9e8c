//! Serves the tool `resize`. Beside a running `viv up` with `tools/resize.toml`:
//!
//! ```sh
//! VIV_URL=http://127.0.0.1:7878 VIV_KEY=viv_… cargo run -p client --example worker
//! ```

use client::{Client, Worker};
use serde_json::json;

/// A worker of this server.
pub(crate) fn resizer(client: Client) -> Worker {
    Worker::new(client).tool("resize", "1", |call| async move {
        let width = call.arguments["width"].as_u64().ok_or("wanted a width")?;
        // The call's id is the same if the call is repeated: use it as the key of what is done.
        Ok(json!({"url": format!("https://images.example/{}-{width}.png", call.call)}))
    })
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test uses only `resizer`")]
async fn main() -> client::Result<()> {
    resizer(Client::find(".viv".into())?).run().await
}
