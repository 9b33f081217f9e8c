//! The task of one client of a stream: receives updates, keeps their order, reads lost ones from the store, and ends
//! the stream when necessary.
//!
//! The ids that a client receives never decrease. An update with the next id is sent. If its id is greater, the
//! updates in between are on their way or lost, and they are read from the store. If its id is less, the update was
//! sent already.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use agent::id::{EntityId, MessageId};
use agent::limits;
use agent::port::{BoxFuture, Published, StoreError};
use agent::update::Update;

use super::frame::{self, Frame};
use super::outbox::Outbox;
use super::relay::Subscription;
use super::shared_frames::{SharedFrame, SharedFrames};
use super::subject::{Shown, Subject, visible};
use super::subscriber::{Delivery, DeliveryMode};
use crate::app_state::AppState;
use crate::auth::{Caller, valid_credential};
use crate::problem::Code;
use crate::quota::StreamSlot;
use crate::reads::Read;
use api::{Closed, Gap};

/// Why the server ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseReason {
    SlowReader,
    NotMember,
    KeyRevoked,
    KeyExpired,
    Shutdown,
    Store,
}

impl CloseReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::SlowReader => "slow_reader",
            Self::NotMember => "not_member",
            Self::KeyRevoked => "key_revoked",
            Self::KeyExpired => "key_expired",
            Self::Shutdown => "shutdown",
            Self::Store => "store",
        }
    }
}

impl From<StoreError> for CloseReason {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a stream cannot read from the store");
        Self::Store
    }
}

/// Why the task of a stream woke up.
enum WakeReason {
    /// The server stops, or the key was revoked or is expired.
    Ended,
    /// It is time to check the client and its key.
    Tick,
    /// The buffer has room for updates that the client missed.
    Room,
    Delivered(Option<Delivery>),
}

/// The task of one client.
pub(super) struct Pump {
    app: Arc<AppState>,
    caller: Caller,
    _slot: StreamSlot,
    subject: Subject,
    outbox: Arc<Outbox>,
    shared: Arc<SharedFrames>,
    /// The id of the last durable update that the client was sent or has through its snapshot.
    last: u64,
    /// The length in characters of the drafts in the client's snapshot: earlier pieces of them are not sent again.
    drafts: HashMap<MessageId, u64>,
    /// Messages that were read from the store before the bus delivered them: pieces of their drafts that are still on
    /// their way are not sent.
    sent_early: VecDeque<(u64, MessageId)>,
    /// Durable updates after `last` must be read from the store.
    behind: bool,
    /// Other updates were lost: the client needs a snapshot.
    needs_snapshot: bool,
    /// The client has no state yet: its first snapshot sets `last`.
    first_snapshot: bool,
    /// Frames that waited at the last ping, and frames taken until then.
    progress: (usize, u64),
}

impl Pump {
    pub(super) fn new(
        app: Arc<AppState>,
        (caller, slot): (Caller, StreamSlot),
        subject: Subject,
        outbox: Arc<Outbox>,
        shared: Arc<SharedFrames>,
    ) -> Self {
        Self {
            app,
            caller,
            _slot: slot,
            subject,
            outbox,
            shared,
            last: 0,
            drafts: HashMap::new(),
            sent_early: VecDeque::new(),
            behind: false,
            needs_snapshot: true,
            first_snapshot: true,
            progress: (0, 0),
        }
    }

    /// Runs until the stream ends, and adds its last frame. The caller must drop this future when the client disconnects.
    pub(super) async fn run(mut self, subscription: Subscription, last_seen: Option<u64>) {
        let end = self.run_until_closed(subscription, last_seen).await;
        self.outbox.end(|last_id| {
            Frame::new("closed", None, &Closed { reason: end.as_str().to_owned(), last_id }, false)
        });
    }

    async fn run_until_closed(&mut self, subscription: Subscription, last_seen: Option<u64>) -> CloseReason {
        self.last = last_seen.unwrap_or(0);
        self.first_snapshot = last_seen.is_none();
        if let Err(end) = self.catch_up().await {
            return end;
        }
        let shutdown = &self.app.options.shutdown.clone();
        let streams = self.app.stream_ends.of(&self.caller.credential, shutdown, &self.app.ports.clock);
        let ended = streams.ended();
        // Created once: registering a waiter costs more than polling it.
        let mut ended = pin!(ended.cancelled());
        // The key may have been revoked before its streams could be ended.
        if let Err(end) = Box::pin(self.check_key()).await {
            return end;
        }
        let outbox = Arc::clone(&self.outbox);
        let mut tick = self.tick();
        let mut turns = 0;
        loop {
            let behind = self.behind || self.needs_snapshot;
            let wakeup = {
                let mut room = pin!(outbox.wait_for_room());
                poll_fn(|cx| {
                    if ended.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(WakeReason::Ended);
                    }
                    if tick.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(WakeReason::Tick);
                    }
                    if behind && room.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(WakeReason::Room);
                    }
                    subscription.poll_delivered(cx).map(WakeReason::Delivered)
                })
                .await
            };
            let done = match wakeup {
                WakeReason::Ended if shutdown.is_cancelled() => Err(CloseReason::Shutdown),
                WakeReason::Ended => {
                    Err(Box::pin(self.check_key()).await.err().unwrap_or(CloseReason::KeyRevoked))
                }
                WakeReason::Tick => {
                    tick = self.tick();
                    Box::pin(self.check_client()).await
                }
                WakeReason::Room => self.catch_up().await,
                WakeReason::Delivered(delivered) => self.handle(delivered).await,
            };
            if let Err(end) = done {
                return end;
            }
            turns += 1;
            if turns % limits::STREAM_TURN == 0 {
                // Let the writer run, so that the buffered frames are written.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn handle(&mut self, delivered: Option<Delivery>) -> Result<(), CloseReason> {
        match delivered {
            Some(Delivery::Update(published, mode)) => self.forward(&published, &mode).await,
            Some(Delivery::Missed(count)) => {
                tracing::debug!(count, "a client of a stream missed updates");
                self.needs_snapshot = true;
                Ok(())
            }
            None => Err(CloseReason::Shutdown),
        }
    }

    fn tick(&self) -> BoxFuture<'static, ()> {
        self.app.ports.clock.sleep(Duration::from_millis(limits::STREAM_PING_MS))
    }

    /// Brings the client up to date: sends a snapshot if one is due, then durable updates in order, as many as there
    /// is room for.
    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), CloseReason>> {
        // Boxed, because it is large and seldom needed: each client's task would hold its memory.
        Box::pin(self.catch_up_now())
    }

    async fn catch_up_now(&mut self) -> Result<(), CloseReason> {
        if self.needs_snapshot {
            if let Some(entity) = self.caller.entity() {
                self.check_membership(entity).await?;
            }
            let read = self.read().await;
            let now =
                self.subject.snapshot(&self.app, self.is_operator()).await?.ok_or(CloseReason::Store)?;
            drop(read);
            if self.first_snapshot {
                (self.last, self.first_snapshot) = (now.mark, false);
            }
            // The id does not exist yet, or it is too old for a replay.
            let replayable = self.last <= now.mark && now.mark - self.last <= limits::STREAM_REPLAY_MAX;
            if !replayable {
                let gap = Gap { from: self.last, to: now.mark };
                if !self.outbox.offer(Frame::new("gap", None, &gap, false)) {
                    return Ok(());
                }
                self.last = now.mark;
            }
            if !self.outbox.offer(Frame::new("snapshot", None, &now.data, false)) {
                return Ok(());
            }
            self.drafts = now.drafts.into_iter().collect();
            (self.needs_snapshot, self.behind) = (false, true);
        }
        while self.behind {
            let (missed, more) = self.missed().await?;
            if let Some(entity) = self.caller.entity() {
                // Checked after the page was read: a removed member must not receive later updates.
                self.check_membership(entity).await?;
            }
            for SharedFrame { id, message, bytes } in missed {
                if !self.outbox.offer(Frame::from_bytes(bytes, Some(id), false)) {
                    return Ok(());
                }
                if let Some(message) = message {
                    if self.sent_early.len() == limits::STREAM_BUFFER {
                        self.sent_early.pop_front();
                    }
                    self.sent_early.push_back((id, message));
                }
                self.last = id;
            }
            self.behind = more;
        }
        Ok(())
    }

    /// The durable updates that follow `last`, and whether there may be more: those that clients share, or a page of
    /// the store. They are the same for every client.
    async fn missed(&self) -> Result<(Vec<SharedFrame>, bool), CloseReason> {
        let kept = self.shared.after(self.last);
        if !kept.is_empty() {
            return Ok((kept, true));
        }
        let _read = self.read().await;
        let (page, more) = self.subject.since(&self.app, self.last).await?;
        Ok((page.iter().map(|(id, update)| self.shared.of(*id, update)).collect(), more))
    }

    /// Waits for the turn of a read, as requests with the same key do.
    async fn read(&self) -> Read {
        self.app.reads.turn(self.caller.credential.id, self.is_operator()).await
    }

    /// Sends an update from the bus.
    async fn forward(&mut self, published: &Arc<Published>, mode: &DeliveryMode) -> Result<(), CloseReason> {
        let update: &Update = published;
        if let (Update::Member { entity, joined: false, .. }, Some(own)) = (update, self.caller.entity())
            && *entity == own
        {
            Box::pin(self.check_membership(own)).await?;
        }
        if self.needs_snapshot {
            // The snapshot that is due contains the update or a later state.
            return Ok(());
        }
        let id = self.subject.id_of(update);
        if self.behind || id.is_some_and(|id| id > self.last + 1) {
            // No update may overtake a durable one: the end of a cycle must come after the cycle's messages.
            self.behind = true;
            // A client that does not read must not make the server read for it.
            if self.outbox.has_room() {
                self.catch_up().await?;
            }
        }
        let Some(id) = id else {
            self.forward_transient(published, mode);
            return Ok(());
        };
        self.forget_draft(update);
        self.sent_early.retain(|(ahead, _)| *ahead > id);
        let member = matches!(update, Update::Member { .. });
        match update {
            // Member updates are not replayed from the store: the client needs a snapshot.
            _ if self.behind => self.needs_snapshot |= member,
            Update::Member { space, entity, rev, .. } if id <= self.last => {
                // Published late: the order is unknown, so the current membership is sent.
                let joined = Box::pin(self.subject.has_member(&self.app, *entity)).await?;
                let update = Update::Member { space: *space, entity: *entity, joined, rev: *rev };
                self.needs_snapshot |= !self.send(Some(self.last), &update);
            }
            _ if id <= self.last => {}
            _ if self.send_shared(Some(id), published, mode) => self.last = id,
            _ => (self.behind, self.needs_snapshot) = (true, member),
        }
        Ok(())
    }

    /// Removes the draft's length: from here on all its pieces are new, or there are no more.
    fn forget_draft(&mut self, update: &Update) {
        let message = match update {
            Update::Draft { message, .. } | Update::ToolInput { message, .. } => *message,
            Update::DraftReset { message, .. } => *message,
            Update::Message { message } => message.id,
            Update::CycleEnded { .. } if self.subject.shows_thoughts() => return self.drafts.clear(),
            _ => return,
        };
        self.drafts.remove(&message);
    }

    /// Sends an update that is not durable, or drops it.
    fn forward_transient(&mut self, published: &Arc<Published>, mode: &DeliveryMode) {
        let update: &Update = published;
        let mut rest = None;
        if let Update::Draft { message, chars, .. } | Update::ToolInput { message, chars, .. } = update {
            match self.drafts.get(message) {
                _ if self.sent_early.iter().any(|(_, ahead)| ahead == message) => return,
                Some(known) if chars <= known => return,
                Some(known) => rest = frame::unseen_part(update, *known),
                None => {}
            }
        }
        self.forget_draft(update);
        let sent = match rest {
            _ if self.behind => false,
            Some(rest) => self.send(None, &rest),
            None => self.send_shared(None, published, mode),
        };
        // What was lost cannot be read from the store: the client needs a snapshot.
        self.needs_snapshot |= !sent && !published.is_transient();
    }

    /// Sends an update that has this form for this client only.
    fn send(&self, id: Option<u64>, update: &Update) -> bool {
        let frame = |shown: &Update| Frame::new(shown.name(), id, shown, shown.is_transient());
        match visible(update, self.subject.shows_thoughts(), self.is_operator()) {
            Shown::Not => true,
            Shown::AsItIs => self.outbox.offer(frame(update)),
            Shown::As(other) => self.outbox.offer(frame(&other)),
        }
    }

    /// Sends an update that the bus delivered to all clients.
    fn send_shared(&self, id: Option<u64>, published: &Arc<Published>, mode: &DeliveryMode) -> bool {
        match mode {
            DeliveryMode::PerClient => self.send(id, published),
            DeliveryMode::Shared { .. } => mode
                .bytes(self.is_operator())
                .is_none_or(|bytes| self.outbox.offer(Frame::shared(published, bytes.clone(), id))),
        }
    }

    fn is_operator(&self) -> bool {
        self.caller.is_operator()
    }

    /// Checks at every ping whether the client reads and whether it still has access.
    async fn check_client(&mut self) -> Result<(), CloseReason> {
        let (waiting, taken) = self.outbox.progress();
        // Frames have waited for a whole interval, and none was taken.
        if waiting > 0 && self.progress.0 > 0 && taken == self.progress.1 {
            return Err(CloseReason::SlowReader);
        }
        self.progress = (waiting, taken);
        self.check_key().await?;
        if let Some(entity) = self.caller.entity() {
            self.check_membership(entity).await?;
        }
        if waiting == 0 {
            self.outbox.offer(Frame::ping());
        }
        Ok(())
    }

    /// Checks that the key is still valid.
    async fn check_key(&self) -> Result<(), CloseReason> {
        let refused = valid_credential(&self.app, &self.caller.hash).await.err();
        refused.map_or(Ok(()), |problem| {
            Err(match problem.code() {
                Code::KeyExpired => CloseReason::KeyExpired,
                Code::KeyInvalid => CloseReason::KeyRevoked,
                _ => CloseReason::Store,
            })
        })
    }

    async fn check_membership(&self, entity: EntityId) -> Result<(), CloseReason> {
        match self.subject.has_member(&self.app, entity).await? {
            true => Ok(()),
            false => Err(CloseReason::NotMember),
        }
    }
}
