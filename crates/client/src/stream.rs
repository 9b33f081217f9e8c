//! Receives a stream of updates across restarts of the server: reconnects with growing pauses and
//! `Last-Event-ID`, and reports when the connection is lost and restored. Passes updates on without judging
//! them.

use std::sync::Arc;
use std::time::Duration;

use agent::id::CycleId;
use agent::update::{AgentState, Update};
use api::{AgentNow, Closed, DraftNow, Gap, IdleNow};
use futures_util::{Stream, StreamExt};
use net::sse::{Sse, SseEvent};
use reqwest::Response;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::error::{ClientError, ErrorClass, Result};
use crate::http::Client;

/// Updates buffered for a slow reader before the connection itself is held back.
const BUFFER: usize = 1024;
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// An item of the stream.
#[derive(Debug)]
pub enum StreamEvent {
    /// The current state; the first item after every connection.
    Snapshot(Snapshot),
    /// One update.
    Update(Box<Update>),
    /// Too many durable updates were missed to be replayed; a snapshot follows.
    Gap(Gap),
    /// The server ends the stream and gives the reason.
    Closed(Closed),
    /// The connection is lost; reconnecting.
    Lost,
    /// The server refuses; there is no reconnect.
    Refused(ClientError),
}

/// The current state of a space, an agent or the server. Fields that do not apply are absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The seq of the last message.
    pub head_seq: u64,
    /// Messages being written.
    pub drafts: Vec<DraftNow>,
    /// Agents at work in the space or the server.
    pub agents: Vec<AgentNow>,
    /// Agents that cannot run at the moment although something in the space waits for them.
    pub idle: Vec<IdleNow>,
    /// The agent's state.
    pub state: Option<AgentState>,
    /// Why it sleeps.
    pub reason: Option<String>,
    /// Its open cycle.
    pub cycle: Option<CycleId>,
}

/// Receives updates from `path` until the receiver is dropped or the server refuses. Connects before it
/// returns, so that no later message is missed.
pub async fn listen(client: Arc<Client>, path: String) -> Result<mpsc::Receiver<StreamEvent>> {
    let response = client.open_stream(&path, None).await?;
    let (sender, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(run(client, path, response, sender));
    Ok(receiver)
}

async fn run(client: Arc<Client>, path: String, first: Response, out: mpsc::Sender<StreamEvent>) {
    let mut last_id = None;
    let mut response = first;
    loop {
        let bytes = Box::pin(response.bytes_stream());
        if read(bytes, &mut last_id, &out).await.is_err() || out.send(StreamEvent::Lost).await.is_err() {
            return;
        }
        response = match reconnect(&client, &path, last_id.as_deref(), &out).await {
            Ok(response) => response,
            Err(error) => {
                // A receiver that is gone needs no explanation.
                let _ = out.send(StreamEvent::Refused(error)).await;
                return;
            }
        };
    }
}

/// The receiver is gone.
struct ReceiverGone;

/// Reads one connection to its end.
async fn read<S, B, E>(
    mut bytes: S,
    last_id: &mut Option<String>,
    out: &mpsc::Sender<StreamEvent>,
) -> std::result::Result<(), ReceiverGone>
where
    S: Stream<Item = std::result::Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
{
    let (mut parser, mut events) = (Sse::new(), Vec::new());
    loop {
        let next = tokio::select! {
            next = bytes.next() => next,
            () = out.closed() => return Err(ReceiverGone),
        };
        let Some(Ok(chunk)) = next else { return Ok(()) };
        // What is larger than any event of a server ends the connection, as a broken one does.
        let fits = parser.feed(chunk.as_ref(), &mut events);
        for event in events.drain(..) {
            if let Some(id) = &event.id {
                *last_id = Some(id.clone());
            }
            if event.name == "gap" {
                // A snapshot follows; the id that could not be replayed is useless now.
                *last_id = None;
            }
            if let Some(received) = parse(&event) {
                out.send(received).await.map_err(|_| ReceiverGone)?;
            }
        }
        if fits.is_err() {
            return Ok(());
        }
    }
}

/// Parses an event; `None` if this version does not know it.
fn parse(event: &SseEvent) -> Option<StreamEvent> {
    let data = event.data.as_str();
    match event.name.as_str() {
        "snapshot" => serde_json::from_str(data).ok().map(StreamEvent::Snapshot),
        "gap" => serde_json::from_str(data).ok().map(StreamEvent::Gap),
        "closed" => serde_json::from_str(data).ok().map(StreamEvent::Closed),
        _ => serde_json::from_str(data).ok().map(|update| StreamEvent::Update(Box::new(update))),
    }
}

async fn reconnect(
    client: &Client,
    path: &str,
    last_id: Option<&str>,
    out: &mpsc::Sender<StreamEvent>,
) -> Result<Response> {
    let mut pause = PAUSE_FIRST;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = out.closed() => return Err(ClientError::new(ErrorClass::Failed, "closed", "the reader of the output is gone")),
        }
        pause = (pause * 2).min(PAUSE_MAX);
        client.refresh();
        match client.open_stream(path, last_id).await {
            Ok(response) => return Ok(response),
            // Just after a restart the key may still be the old one: try again.
            Err(error) if error.is_temporary() => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    async fn received(wire: &str, chunk: usize) -> (Vec<StreamEvent>, Option<String>) {
        let (out, mut received) = mpsc::channel(16);
        let mut last_id = None;
        let chunks: Vec<std::result::Result<Vec<u8>, std::io::Error>> =
            wire.as_bytes().chunks(chunk).map(|bytes| Ok(bytes.to_vec())).collect();
        assert!(read(stream::iter(chunks), &mut last_id, &out).await.is_ok());
        drop(out);
        let mut all = Vec::new();
        while let Some(one) = received.recv().await {
            all.push(one);
        }
        (all, last_id)
    }

    const WIRE: &str = ": ping\n\nevent: snapshot\ndata: {\"space\":\"x\",\"rev\":3,\"head_seq\":2,\
        \"drafts\":[],\"agents\":[]}\n\nevent: member\nid: 4\ndata: {\"type\":\"member\",\
        \"space\":\"00000000-0000-0000-0000-000000000001\",\
        \"entity\":\"00000000-0000-0000-0000-000000000002\",\"joined\":true,\"rev\":4}\n\n\
        event: from_the_future\ndata: {\"type\":\"from_the_future\"}\n\n";

    #[tokio::test]
    async fn a_stream_is_read_the_same_in_chunks_of_any_size() {
        for chunk in [1, 7, 4096] {
            let (all, last_id) = received(WIRE, chunk).await;
            assert!(
                matches!(&all[..], [StreamEvent::Snapshot(s), StreamEvent::Update(_)] if s.head_seq == 2)
            );
            assert_eq!(last_id.as_deref(), Some("4"));
        }
    }

    #[tokio::test]
    async fn a_truncated_update_is_ignored() {
        let (all, _) = received(&WIRE[..WIRE.find("joined").unwrap()], 64).await;
        assert!(matches!(&all[..], [StreamEvent::Snapshot(_)]));
    }

    #[tokio::test]
    async fn a_gap_clears_the_id_that_cannot_be_replayed() {
        let wire = format!("{WIRE}event: gap\ndata: {{\"from\":1,\"to\":9}}\n\n");
        assert_eq!(received(&wire, 64).await.1, None);
    }
}
