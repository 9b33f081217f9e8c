//! What may pass between a server and the client library: answers to requests that were made, and nothing else.
//!
//! The library keeps a task, a log line or an entry for everything that a server sends. So answers without a request,
//! notifications and requests of the server end here: they are counted, and a server that sends too many is stopped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::limits;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientResult, ErrorCode, ErrorData, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerRequest,
};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::mend::LeftOut;
use super::reading::names_id;

/// What is known of one connection beside its answers.
pub(super) struct Gate {
    server: String,
    /// Why the connection must end, once that is so.
    ended: Mutex<Option<String>>,
    wake: Notify,
    noise: Mutex<Noise>,
    is_changed: AtomicBool,
    answering: AtomicUsize,
    /// Requests without an answer.
    expected: Mutex<HashMap<String, RequestId>>,
    /// What of its list could not be used.
    left_out: Mutex<LeftOut>,
}

/// What a server sent that answers nothing.
struct Noise {
    since: Instant,
    messages: u32,
    bytes: usize,
}

impl Gate {
    pub(super) fn new(server: &str) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            ended: Mutex::default(),
            wake: Notify::new(),
            noise: Mutex::new(Noise { since: Instant::now(), messages: 0, bytes: 0 }),
            is_changed: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
            expected: Mutex::default(),
            left_out: Mutex::default(),
        })
    }

    /// Ends the connection; the first reason counts.
    pub(super) fn end(&self, why: impl Into<String>) {
        lock(&self.ended).get_or_insert_with(|| why.into());
        self.wake.notify_one();
    }

    /// Why the connection was ended, if it was.
    pub(super) fn end_reason(&self) -> Option<String> {
        lock(&self.ended).clone()
    }

    /// Whether the server has said since the last question that its tools changed.
    pub(super) fn take_changed(&self) -> bool {
        self.is_changed.swap(false, Ordering::AcqRel)
    }

    /// Says again that they changed, because the list could not be read.
    pub(super) fn set_changed(&self) {
        self.is_changed.store(true, Ordering::Release);
    }

    pub(super) fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Acquire)
    }

    /// Counts a message, or bytes, that may answer nothing. An answer forgives what came before it.
    pub(super) fn count(&self, messages: u32, bytes: usize) {
        let mut noise = lock(&self.noise);
        if noise.since.elapsed() > Duration::from_millis(limits::MCP_FLOOD_MS) {
            *noise = Noise { since: Instant::now(), messages: 0, bytes: 0 };
        }
        noise.messages = noise.messages.saturating_add(messages);
        noise.bytes = noise.bytes.saturating_add(bytes);
        if noise.messages > limits::MCP_FLOOD_MESSAGES || noise.bytes > limits::MCP_FLOOD_BYTES {
            drop(noise);
            self.end("it sent far more than it was asked for");
        }
    }

    /// Whether a request with this id has no answer yet.
    pub(super) fn waits_for(&self, id: &RequestId) -> bool {
        lock(&self.expected).contains_key(&id.to_string())
    }

    /// The request without an answer that a text names.
    pub(super) fn named_in(&self, text: &str) -> Option<RequestId> {
        lock(&self.expected).values().find(|id| names_id(text, id)).cloned()
    }

    /// Notes what of a message could not be used.
    pub(super) fn leave_out(&self, more: LeftOut) {
        let mut left_out = lock(&self.left_out);
        let room = limits::MCP_LISTED_MAX.saturating_sub(left_out.len());
        left_out.extend(more.into_iter().take(room));
    }

    /// What could not be used since the last question.
    pub(super) fn take_left_out(&self) -> LeftOut {
        std::mem::take(&mut lock(&self.left_out))
    }

    async fn wait_for_end(&self) {
        while lock(&self.ended).is_none() {
            self.wake.notified().await;
        }
    }

    fn sending(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                lock(&self.expected).insert(request.id.to_string(), request.id.clone());
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.expected).remove(&id.to_string());
                }
            }
            _ => {}
        }
    }

    /// Whether this answers a request.
    fn is_expected(&self, id: Option<&RequestId>) -> bool {
        let is_expected = id.is_some_and(|id| lock(&self.expected).remove(&id.to_string()).is_some());
        if is_expected {
            *lock(&self.noise) = Noise { since: Instant::now(), messages: 0, bytes: 0 };
        } else {
            tracing::debug!(server = self.server, "an MCP server answered what was not asked");
        }
        is_expected
    }

    fn notified(&self, notification: &ServerNotification) {
        let server = &self.server;
        match notification {
            ServerNotification::ToolListChangedNotification(_) => self.set_changed(),
            ServerNotification::ProgressNotification(progress) => {
                let (done, total) = (progress.params.progress, progress.params.total);
                tracing::debug!(
                    server,
                    done,
                    total,
                    said = progress.params.message,
                    "progress of an MCP call"
                );
            }
            _ => tracing::trace!(server, "an MCP server sent a notification that is not used"),
        }
    }
}

/// A transport behind the gate.
pub(super) struct Gated<T> {
    pub(super) inner: T,
    pub(super) gate: Arc<Gate>,
}

impl<T: Transport<RoleClient>> Gated<T> {
    /// Answers a request of the server: nothing but `ping` was offered to it.
    fn answer(&mut self, request: &ServerRequest, id: RequestId) {
        if self.gate.answering.load(Ordering::Acquire) >= limits::MCP_ANSWERS_MAX {
            return;
        }
        let answer = if matches!(request, ServerRequest::PingRequest(_)) {
            ClientJsonRpcMessage::response(ClientResult::empty(()), id)
        } else {
            let why = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this client does not offer that", None);
            ClientJsonRpcMessage::error(why, Some(id))
        };
        let (gate, sending) = (Arc::clone(&self.gate), self.inner.send(answer));
        gate.answering.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(async move {
            // A server that cannot be answered is noticed by the next call.
            let _ = sending.await;
            gate.answering.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Gated<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.gate.sending(&item);
        let id = match &item {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let (gate, sending) = (Arc::clone(&self.gate), self.inner.send(item));
        async move {
            let sent = sending.await;
            if let (Err(_), Some(id)) = (&sent, id) {
                lock(&gate.expected).remove(&id.to_string());
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let gate = Arc::clone(&self.gate);
            let message = tokio::select! {
                biased;
                () = gate.wait_for_end() => return None,
                message = self.inner.receive() => message?,
            };
            match &message {
                ServerJsonRpcMessage::Response(answer) if gate.is_expected(Some(&answer.id)) => {
                    return Some(message);
                }
                ServerJsonRpcMessage::Error(answer) if gate.is_expected(answer.id.as_ref()) => {
                    return Some(message);
                }
                ServerJsonRpcMessage::Request(request) => self.answer(&request.request, request.id.clone()),
                ServerJsonRpcMessage::Notification(notification) => gate.notified(&notification.notification),
                _ => {}
            }
            gate.count(1, 0);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn noise_within_a_span_ends_the_connection_and_an_answer_forgives_it() {
        let gate = Gate::new("x");
        gate.count(limits::MCP_FLOOD_MESSAGES, 0);
        tokio::time::advance(Duration::from_millis(limits::MCP_FLOOD_MS + 1)).await;
        gate.count(limits::MCP_FLOOD_MESSAGES, 0);
        assert_eq!(gate.end_reason(), None);
        lock(&gate.expected).insert("1".into(), RequestId::Number(1));
        assert!(gate.is_expected(Some(&RequestId::Number(1))));
        gate.count(limits::MCP_FLOOD_MESSAGES, limits::MCP_FLOOD_BYTES);
        assert_eq!(gate.end_reason(), None);
        gate.count(0, 1);
        assert!(gate.end_reason().is_some());
        gate.wait_for_end().await;
    }
}
