//! Reads the current state of a stream's subject, and the updates that a client missed. Must not know buffers or
//! sockets.

use agent::entity::Space;
use agent::id::{EntityId, MessageId};
use agent::life::IdleUntil;
use agent::limits;
use agent::port::StoreError;
use agent::update::{Topic, Update};
use runtime::live::{Activity, Draft};
use serde_json::Value;

use super::subject::Subject;
use crate::app_state::AppState;
use crate::handlers::agents::{CurrentState, current_state, cycle_of};
use crate::handlers::messages::with_senders;
use api::{AgentNow, AgentSnapshot, DraftNow, IdleNow, MemberJson, ServerSnapshot, SpaceSnapshot};

/// The state of a subject at one moment.
pub(super) struct Snapshot {
    pub(super) data: Value,
    /// The id of the last durable update that it contains.
    pub(super) mark: u64,
    /// The drafts in it, with their lengths in characters.
    pub(super) drafts: Vec<(MessageId, u64)>,
}

impl Subject {
    /// The current state as an `operator` or a member may see it; `None` if the subject does not exist.
    pub(super) async fn snapshot(
        self,
        app: &AppState,
        operator: bool,
    ) -> Result<Option<Snapshot>, StoreError> {
        match self {
            Self::Space(id) => match app.ports.reader.space(id.to_string()).await? {
                Some(space) => Ok(Some(space_snapshot(app, space, operator).await?)),
                None => Ok(None),
            },
            Self::Agent(id) => {
                let Some(card) = app.ports.reader.agent(id).await? else { return Ok(None) };
                let (drafts, lengths) = drafts(app, self.topic()).await?;
                let CurrentState { state, reason, why, .. } =
                    current_state(app, &card, app.ports.clock.now());
                let cycle = cycle_of(app, &card);
                let commit_n = card.commit_n;
                let reason = reason.map(str::to_owned);
                let data = AgentSnapshot { agent: id, state, reason, why, cycle, commit_n, drafts };
                Ok(Some(Snapshot { data: json(&data), mark: commit_n, drafts: lengths }))
            }
            Self::Everything => {
                let agents = now(app.node.live().awake());
                let (drafts, lengths) = drafts(app, self.topic()).await?;
                let data = ServerSnapshot { agents, drafts };
                Ok(Some(Snapshot { data: json(&data), mark: 0, drafts: lengths }))
            }
        }
    }

    /// A page of the durable updates after `id`, oldest first, and whether there may be more. For a space these are
    /// its messages; members are in the snapshot only.
    pub(super) async fn since(
        self,
        app: &AppState,
        id: u64,
    ) -> Result<(Vec<(u64, Update)>, bool), StoreError> {
        let limit = limits::STREAM_REPLAY_PAGE;
        match self {
            Self::Space(space) => {
                let bytes = limits::STREAM_BUFFER_BYTES;
                let page = app.ports.reader.messages_since_rev(space, id, limit, bytes).await?;
                let messages = with_senders(app, page.items).await?.into_iter();
                let updates = messages.map(|message| (message.rev, Update::Message { message })).collect();
                Ok((updates, page.next.is_some()))
            }
            Self::Agent(agent) => {
                let rows = app.ports.reader.commits(agent, id, limit).await?;
                let more = rows.len() == limit as usize;
                let update = |row: agent::port::CommitRow| {
                    let agent::port::CommitRow { n, cycle, step, kind, .. } = row;
                    (n, Update::Commit { agent, n, cycle, step, kind })
                };
                Ok((rows.into_iter().map(update).collect(), more))
            }
            Self::Everything => Ok((Vec::new(), false)),
        }
    }

    /// Whether the entity is a member of the space; `false` for other subjects.
    pub(super) async fn has_member(self, app: &AppState, entity: EntityId) -> Result<bool, StoreError> {
        let Self::Space(space) = self else { return Ok(false) };
        let members = app.ports.reader.members(space).await?;
        Ok(members.iter().any(|member| member.entity.id == entity))
    }
}

/// Reads the rows before the drafts: a message that is committed in between is missing in both, and its update, with
/// an id greater than `rev`, follows.
async fn space_snapshot(app: &AppState, space: Space, operator: bool) -> Result<Snapshot, StoreError> {
    let members = app.ports.reader.members(space.id).await?;
    let live = app.node.live();
    let agents = now(live.active_in(space.id));
    let (drafts, lengths) = drafts(app, Topic::Space(space.id)).await?;
    let idle = app.ports.reader.idle_agents(space.id, app.ports.clock.now()).await?;
    let busy = |agent| agents.iter().any(|now| now.agent == agent);
    let idle = idle.into_iter().filter(|(agent, _)| !busy(*agent));
    let idle = idle.map(|(agent, IdleUntil { reason, until })| {
        // The reason as text is for operators only, as in updates.
        let why = operator.then(|| live.idle_reason(agent, until)).flatten();
        IdleNow { agent, reason, until, why }
    });
    let idle = idle.collect();
    let mark = space.rev;
    let data = SpaceSnapshot {
        rev: space.rev,
        head_seq: space.head_seq,
        space: space.into(),
        members: members.into_iter().map(|member| MemberJson::shown(member, operator, None)).collect(),
        drafts,
        agents,
        idle,
    };
    Ok(Snapshot { data: json(&data), mark, drafts: lengths })
}

/// The messages that are being written, and their lengths in characters.
async fn drafts(app: &AppState, of: Topic) -> Result<(Vec<DraftNow>, Vec<(MessageId, u64)>), StoreError> {
    let (mut drafts, mut lengths) = (Vec::new(), Vec::new());
    for draft in app.node.live().drafts(of) {
        // A message that is already committed is not a draft, although its end was not published yet.
        if app.ports.reader.message(draft.message).await?.is_none() {
            lengths.push((draft.message, draft.chars));
            let Draft { space, message, agent, tool, text, .. } = draft;
            drafts.push(DraftNow { space, message, agent, tool, text });
        }
    }
    Ok((drafts, lengths))
}

fn now(activities: Vec<Activity>) -> Vec<AgentNow> {
    let shown =
        |activity: Activity| AgentNow { agent: activity.agent, state: activity.state, cycle: activity.cycle };
    activities.into_iter().map(shown).collect()
}

fn json(data: &impl serde::Serialize) -> Value {
    // These types always serialise.
    serde_json::to_value(data).expect("a snapshot serialises")
}
