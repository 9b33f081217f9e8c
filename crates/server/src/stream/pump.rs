//! The task behind one client of a stream: listens, keeps order, catches up from the store where
//! something was lost, and ends the stream where it must end.
//!
//! Ids never go back. An update whose id is the next one is passed on; a later id means that the
//! ones between are on their way or lost, and the store is asked; an earlier one was sent already.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use agent::id::{EntityId, MessageId};
use agent::limits;
use agent::port::{BoxFuture, Clock, Delivered, Published, StoreError};
use agent::update::Update;

use super::frame::{self, Frame};
use super::outbox::Outbox;
use super::relay::StreamPosition;
use super::subject::{Shown, Subject, visible};
use crate::api::{Closed, Gap};
use crate::app_state::AppState;
use crate::auth::{Caller, known};

/// Why a stream ends, other than by its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    SlowReader,
    NotMember,
    KeyRevoked,
    Shutdown,
    Store,
}

impl End {
    fn as_str(self) -> &'static str {
        match self {
            Self::SlowReader => "slow_reader",
            Self::NotMember => "not_member",
            Self::KeyRevoked => "key_revoked",
            Self::Shutdown => "shutdown",
            Self::Store => "store",
        }
    }
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a stream cannot read");
        Self::Store
    }
}

/// What a stream wakes up for.
enum Turn {
    Shutdown,
    /// Time to look after the client.
    Tick,
    /// There is room again for what it has missed.
    Room,
    Delivered(Option<Delivered>),
}

/// The task behind one client.
pub(super) struct Pump {
    app: Arc<AppState>,
    caller: Caller,
    subject: Subject,
    outbox: Arc<Outbox>,
    /// The last durable change that the client was sent, or has by its snapshot.
    last: u64,
    /// Length of the drafts that the client has by its snapshot: what led there is not repeated.
    drafts: HashMap<MessageId, u64>,
    /// Messages that were read from the store, of which the bus may not have told yet: pieces of them that are
    /// still on their way are no news.
    ahead: VecDeque<(u64, MessageId)>,
    /// Durable changes after `last` are to be read from the store.
    behind: bool,
    /// More than that was lost: the client needs a snapshot.
    stale: bool,
    /// The client has seen nothing of the subject yet: its first snapshot is where it stands.
    fresh: bool,
    /// Frames that waited at the last ping, and frames taken by then.
    progress: (usize, u64),
    /// The last durable change that went past this stream to the client.
    handed: Option<u64>,
}

impl Pump {
    pub(super) fn new(app: Arc<AppState>, caller: Caller, subject: Subject, outbox: Arc<Outbox>) -> Self {
        Self {
            app,
            caller,
            subject,
            outbox,
            last: 0,
            drafts: HashMap::new(),
            ahead: VecDeque::new(),
            behind: false,
            stale: true,
            fresh: true,
            progress: (0, 0),
            handed: None,
        }
    }

    /// Time.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.app.ports.clock
    }

    /// Runs until the stream must end, and its end was taken or nobody takes it. A client that leaves
    /// is noticed by whoever runs this.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` would keep room for the pump twice")]
    pub(super) fn run(mut self, place: StreamPosition, last_seen: Option<u64>) -> impl Future<Output = ()> {
        async move {
            let end = self.live(place, last_seen).await;
            let handed = self.handed;
            self.outbox.end(|last_id| {
                let last_id = last_id.max(handed);
                Frame::new("closed", None, &Closed { reason: end.as_str().to_owned(), last_id }, false)
            });
            // A client that does not take even this much is gone.
            let patience = self.clock().sleep(Duration::from_millis(limits::STREAM_FAREWELL_MS));
            tokio::select! {
                () = self.outbox.empty() => {}
                () = patience => {}
            }
        }
    }

    async fn live(&mut self, place: StreamPosition, last_seen: Option<u64>) -> End {
        self.last = last_seen.unwrap_or(0);
        self.fresh = last_seen.is_none();
        if let Err(end) = self.catch_up().await {
            return end;
        }
        let shutdown = self.app.options.shutdown.clone();
        // Made once: to take one's place among a thousand who wait costs more than to look.
        let mut shutdown = pin!(shutdown.cancelled());
        let outbox = Arc::clone(&self.outbox);
        let mut tick = self.tick();
        let mut in_a_row = 0;
        loop {
            let behind = self.behind || self.stale;
            let idle = !behind && self.drafts.is_empty() && self.ahead.is_empty();
            let turn = {
                let mut room = pin!(outbox.room());
                let last = &mut self.last;
                let handed = &mut self.handed;
                poll_fn(|cx| {
                    // From here on nothing goes past this stream.
                    if let Some(passed) = place.seat().shut().filter(|passed| passed != last) {
                        (*last, *handed) = (passed, Some(passed));
                    }
                    if shutdown.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Turn::Shutdown);
                    }
                    if tick.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Turn::Tick);
                    }
                    if behind && room.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Turn::Room);
                    }
                    let heard = place.poll_delivered(cx).map(Turn::Delivered);
                    if idle && heard.is_pending() {
                        place.seat().ready(*last);
                    }
                    heard
                })
                .await
            };
            let done = match turn {
                Turn::Shutdown => Err(End::Shutdown),
                Turn::Tick => {
                    tick = self.tick();
                    Box::pin(self.look_after()).await
                }
                Turn::Room => self.catch_up().await,
                Turn::Delivered(heard) => self.hear(heard).await,
            };
            if let Err(end) = done {
                return end;
            }
            in_a_row += 1;
            if in_a_row % limits::STREAM_TURN == 0 {
                // What was put in is written before more is.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn hear(&mut self, heard: Option<Delivered>) -> Result<(), End> {
        match heard {
            Some(Delivered::Update(published)) => self.pass(&published).await,
            Some(Delivered::Missed(_)) => {
                self.stale = true;
                Ok(())
            }
            None => Err(End::Shutdown),
        }
    }

    fn tick(&self) -> BoxFuture<'static, ()> {
        self.app.ports.clock.sleep(Duration::from_millis(limits::STREAM_PING_MS))
    }

    /// Brings the client up to now: a snapshot where one is due, then durable changes in order, as
    /// many as there is room for.
    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), End>> {
        // Seldom needed and large: it must not lie in the task of everyone who listens.
        Box::pin(self.catch_up_now())
    }

    async fn catch_up_now(&mut self) -> Result<(), End> {
        if self.stale {
            if let Some(entity) = self.caller.entity() {
                self.still_member(entity).await?;
            }
            let now = self.subject.snapshot(&self.app, self.is_operator()).await?.ok_or(End::Store)?;
            if self.fresh {
                (self.last, self.fresh) = (now.mark, false);
            }
            // From the future, or too far back to be replayed.
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
            (self.stale, self.behind) = (false, true);
        }
        while self.behind {
            let missed = self.subject.since(&self.app, self.last).await?;
            if let Some(entity) = self.caller.entity() {
                // After the page was read: who was sent away before is shown nothing of what came then.
                self.still_member(entity).await?;
            }
            let whole = missed.len() < limits::STREAM_REPLAY_PAGE as usize;
            for (id, update) in missed {
                if !self.send(Some(id), &update) {
                    return Ok(());
                }
                if let Update::Message { message } = &update {
                    if self.ahead.len() == limits::STREAM_BUFFER {
                        self.ahead.pop_front();
                    }
                    self.ahead.push_back((id, message.id));
                }
                self.last = id;
            }
            self.behind = !whole;
        }
        Ok(())
    }

    /// Passes an update on.
    async fn pass(&mut self, published: &Arc<Published>) -> Result<(), End> {
        let update: &Update = published;
        if let (Update::Member { entity, joined: false, .. }, Some(own)) = (update, self.caller.entity())
            && *entity == own
        {
            Box::pin(self.still_member(own)).await?;
        }
        if self.stale {
            // The snapshot that is due contains it, or what was published after it does.
            return Ok(());
        }
        let id = self.subject.id_of(update);
        if self.behind || id.is_some_and(|id| id > self.last + 1) {
            // Nothing overtakes what is durable: an end of a cycle comes after what it said.
            self.behind = true;
            self.catch_up().await?;
        }
        let Some(id) = id else {
            self.pass_passing(published);
            return Ok(());
        };
        self.forget_draft(update);
        self.ahead.retain(|(ahead, _)| *ahead > id);
        let member = matches!(update, Update::Member { .. });
        match update {
            // Members are not replayed from the store: the snapshot has them.
            _ if self.behind => self.stale |= member,
            Update::Member { space, entity, rev, .. } if id <= self.last => {
                // Published late: the order is not known, but how it is now.
                let joined = Box::pin(self.subject.has_member(&self.app, *entity)).await?;
                let update = Update::Member { space: *space, entity: *entity, joined, rev: *rev };
                self.stale |= !self.send(Some(self.last), &update);
            }
            _ if id <= self.last => {}
            _ if self.send_on(Some(id), published) => self.last = id,
            _ => (self.behind, self.stale) = (true, member),
        }
        Ok(())
    }

    /// From here on every piece of the draft is news, or none comes any more.
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

    /// Passes on what is not durable, or drops it.
    fn pass_passing(&mut self, published: &Arc<Published>) {
        let update: &Update = published;
        let mut rest = None;
        if let Update::Draft { message, chars, .. } | Update::ToolInput { message, chars, .. } = update {
            match self.drafts.get(message) {
                _ if self.ahead.iter().any(|(_, ahead)| ahead == message) => return,
                Some(known) if chars <= known => return,
                Some(known) => rest = frame::behind(update, *known),
                None => {}
            }
        }
        self.forget_draft(update);
        let passed = match rest {
            _ if self.behind => false,
            Some(rest) => self.send(None, &rest),
            None => self.send_on(None, published),
        };
        // Only a snapshot can tell what else was lost.
        self.stale |= !passed && !published.is_transient();
    }

    /// Sends what was read for this client alone.
    fn send(&self, id: Option<u64>, update: &Update) -> bool {
        let frame = |shown: &Update| Frame::new(shown.name(), id, shown, shown.is_transient());
        match self.visible(update) {
            Shown::Not => true,
            Shown::AsItIs => self.outbox.offer(frame(update)),
            Shown::As(other) => self.outbox.offer(frame(&other)),
        }
    }

    /// Sends what all clients were told.
    fn send_on(&self, id: Option<u64>, published: &Arc<Published>) -> bool {
        match self.visible(published) {
            Shown::Not => true,
            Shown::AsItIs => self.outbox.offer(Frame::shared(published, id)),
            Shown::As(other) => self.send(id, &other),
        }
    }

    fn visible(&self, update: &Update) -> Shown {
        visible(update, self.subject.shows_thoughts(), self.is_operator())
    }

    fn is_operator(&self) -> bool {
        self.caller.entity().is_none()
    }

    /// At every ping: does the client read, and may it still?
    async fn look_after(&mut self) -> Result<(), End> {
        let (waiting, taken) = self.outbox.progress();
        // It waited for a whole interval, not only since a moment ago.
        if waiting > 0 && self.progress.0 > 0 && taken == self.progress.1 {
            return Err(End::SlowReader);
        }
        self.progress = (waiting, taken);
        match known(&self.app, &self.caller.hash).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(End::KeyRevoked),
            Err(_) => return Err(End::Store),
        }
        if let Some(entity) = self.caller.entity() {
            self.still_member(entity).await?;
        }
        if waiting == 0 {
            self.outbox.offer(Frame::ping());
        }
        Ok(())
    }

    async fn still_member(&self, entity: EntityId) -> Result<(), End> {
        match self.subject.has_member(&self.app, entity).await? {
            true => Ok(()),
            false => Err(End::NotMember),
        }
    }
}
