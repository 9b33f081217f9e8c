//! Speaking and reading what was said.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use agent::entity::{Entity, EntityKind, Space};
use agent::event::EventProgress;
use agent::id::{EntityId, EventId, MessageId};
use agent::limits;
use agent::port::{Accept, Accepted, Denial, StoreError};
use agent::space::Spoken;
use agent::update::{Topic, Update};
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::entities::called;
use super::events::{publish_progress, reused};
use crate::api::{MessageJson, NewMessageJson, PageJson, TimelineQuery};
use crate::app_state::{AppState, HallState};
use crate::auth::{Caller, InSpace, membership};
use crate::extract::{At, Body, Idempotency, Query, rows, to_the_end};
use crate::problem::{Code, Made, Problem};

/// Says something in a space. Durable when answered; sent again with the same `id` or the same
/// `Idempotency-Key` it is said once.
#[utoipa::path(post, path = "/v1/spaces/{space}/messages", tag = "messages", request_body = NewMessageJson,
    params(("space" = String, Path, description = "Id or handle."),
           ("idempotency-key" = Option<String>, Header, description = "1 to 200 printable characters.")),
    responses((status = 201, description = "Said.", body = MessageJson),
              (status = 200, description = "Said before: the original.", body = MessageJson)))]
pub(super) async fn say(
    State(app): HallState,
    caller: Caller,
    InSpace(space): InSpace,
    idempotency: Idempotency,
    body: Body<NewMessageJson>,
) -> Result<Made<MessageJson>, Problem> {
    let request = idempotency.request(caller.credential.id, &format!("say {}", space.id), &body.raw);
    let sender = sender(&app, &caller, &body.value).await?;
    let new = checked(&app, &space, &sender, body.value).await?;
    let own_key = caller.entity().is_some();
    to_the_end(async move {
        let topic = Topic::Space(space.id);
        match app.ports.store.accept(Accept::Message(new), request).await? {
            Accepted::Fresh { message: Some(message), wake } => {
                failpoint::hit!("accept.committed");
                // The agents first: watchers can wait a microsecond longer than they.
                app.node.signal(&wake);
                let spoken = Spoken {
                    message: message.clone(),
                    sender_name: sender.display_name,
                    sender_kind: sender.kind,
                };
                app.ports.live.bus().publish(&[topic], Arc::new(Update::Message { message: spoken.clone() }));
                for waken in &wake {
                    let event = EventId(message.id.to_string());
                    publish_progress(&app, waken.agent, event, EventProgress::Waiting);
                }
                let place = format!("/v1/messages/{}", message.id);
                Ok(Made::At(place, spoken.into()))
            }
            Accepted::Duplicate { message: Some(message) } => {
                let original = named(&app, vec![message]).await?.into_iter().next();
                original.map(Made::Before).ok_or_else(|| Problem::internal(&"one message became none"))
            }
            Accepted::Fresh { message: None, .. } | Accepted::Duplicate { message: None } => {
                Err(Problem::internal(&"the store accepted a message and gave none back"))
            }
            Accepted::Conflict => Err(reused()),
            // Removed in this very moment: like a stranger.
            Accepted::Denied(Denial::NotMember { .. }) if own_key => {
                Err(Problem::not_found("space", &space.name))
            }
            Accepted::Denied(denial) => Err(denial.into()),
        }
    })
    .await
}

/// Who speaks: named with an admin key, the key's own with an entity's.
async fn sender(app: &AppState, caller: &Caller, new: &NewMessageJson) -> Result<Entity, Problem> {
    let sender = match (caller.entity(), &new.sender) {
        (None, Some(name)) => called(app, name).await?,
        (None, None) => {
            return Err(Problem::new(Code::SenderRequired, "an admin key speaks for a member")
                .hint("name the member in `sender`"));
        }
        (Some(_), Some(_)) => {
            return Err(Problem::new(Code::SenderRefused, "this key speaks for its own entity")
                .hint("leave out `sender`"));
        }
        (Some(own), None) => match &caller.member {
            Some(member) => Entity::clone(member),
            None => called(app, &own.to_string()).await?,
        },
    };
    if sender.kind != EntityKind::Human {
        let detail = format!("`{}` is an agent, and agents speak by themselves", sender.name);
        return Err(Problem::new(Code::NotHuman, detail));
    }
    Ok(sender)
}

async fn checked(
    app: &AppState,
    space: &Space,
    sender: &Entity,
    new: NewMessageJson,
) -> Result<agent::space::NewMessage, Problem> {
    let NewMessageJson { text, mentions, urgent, id, data, .. } = new;
    if text.trim().is_empty() {
        return Err(Problem::new(Code::BadValue, "`text` must say something"));
    }
    let text = crate::extract::text("text", text, limits::MESSAGE_MAX_BYTES)?;
    let mentions = mentioned(app, space, &mentions).await?;
    let id = MessageId(chosen_id(id)?.unwrap_or_else(|| app.ports.ids.uuid()));
    let new = agent::space::NewMessage::of_person(id, space.id, sender.id, text, app.ports.clock.now());
    Ok(agent::space::NewMessage { mentions, urgent, data, ..new })
}

/// What an agent says has an id that anyone can compute beforehand (version 8); a client that could
/// take it would silence the agent.
fn chosen_id(id: Option<Uuid>) -> Result<Option<Uuid>, Problem> {
    match id {
        Some(id) if !matches!(id.get_version_num(), 4 | 7) => {
            Err(Problem::new(Code::BadId, format!("`id` must be a UUID of version 4 or 7, got `{id}`")))
        }
        id => Ok(id),
    }
}

async fn mentioned(app: &AppState, space: &Space, names: &[String]) -> Result<Vec<EntityId>, Problem> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    if names.len() > limits::MENTIONS_MAX {
        let detail = format!("`mentions` must be at most {}, got {}", limits::MENTIONS_MAX, names.len());
        return Err(Problem::new(Code::BadValue, detail));
    }
    let members = app.ports.reader.members(space.id).await?;
    let mut ids: Vec<EntityId> = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        let id = name.parse::<EntityId>().ok();
        let lower = name.to_lowercase();
        let found = members.iter().find(|m| Some(m.entity.id) == id || m.entity.name == lower);
        let found = found.ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            Problem::new(Code::BadMention, format!("`mentions[{i}]`: no member is called `{shown}`"))
        })?;
        if !ids.contains(&found.entity.id) {
            ids.push(found.entity.id);
        }
    }
    Ok(ids)
}

/// Messages of a space, oldest first. `next` continues in the direction of the question: as `after`
/// where `after` was given, else as `before`.
#[utoipa::path(get, path = "/v1/spaces/{space}/messages", tag = "messages",
    params(("space" = String, Path, description = "Id or handle."), TimelineQuery),
    responses((status = 200, description = "A page.", body = PageJson<MessageJson>)))]
pub(super) async fn list(
    State(app): HallState,
    InSpace(space): InSpace,
    Query(query): Query<TimelineQuery>,
) -> Result<Json<PageJson<MessageJson>>, Problem> {
    let limit = rows(query.limit)?;
    let found = app.ports.reader.messages(space.id, query.after, query.before, limit).await?;
    let full = found.len() as u64 >= u64::from(limit);
    let edge = if query.after.is_some() { found.last() } else { found.first() };
    let next = edge.map(|message| message.seq.to_string()).filter(|_| full);
    Ok(Json(PageJson { items: named(&app, found).await?, next }))
}

/// One message.
#[utoipa::path(get, path = "/v1/messages/{message}", tag = "messages",
    params(("message" = String, Path, description = "The message's id.")),
    responses((status = 200, description = "The message.", body = MessageJson)))]
pub(super) async fn get(
    State(app): HallState,
    caller: Caller,
    At(id): At<String>,
) -> Result<Json<MessageJson>, Problem> {
    let missing = || Problem::not_found("message", &id);
    let message: MessageId = id.parse().map_err(|_| missing())?;
    let found = app.ports.reader.message(message).await?.ok_or_else(missing)?;
    if let Some(entity) = caller.entity() {
        let space = app.ports.reader.space(found.space.to_string()).await?.ok_or_else(missing)?;
        membership(&app, &space, entity).await?.ok_or_else(missing)?;
    }
    let mut shown = named(&app, vec![found]).await?;
    Ok(Json(shown.pop().ok_or_else(missing)?))
}

/// The messages with their senders' names, as answers have them.
pub(super) async fn named(
    app: &AppState,
    messages: Vec<agent::space::Message>,
) -> Result<Vec<MessageJson>, Problem> {
    Ok(spoken(app, messages).await?.into_iter().map(MessageJson::from).collect())
}

/// The messages with their senders' names; each sender is looked up once.
pub(crate) async fn spoken(
    app: &AppState,
    messages: Vec<agent::space::Message>,
) -> Result<Vec<Spoken>, StoreError> {
    let mut senders: HashMap<EntityId, (String, EntityKind)> = HashMap::new();
    let mut out = Vec::with_capacity(messages.len());
    for message in messages {
        let (sender_name, sender_kind) = match senders.entry(message.sender) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => {
                let entity = app.ports.reader.entity(message.sender.to_string()).await?;
                let missing = || StoreError::Broken(format!("no entity `{}` that spoke", message.sender));
                let entity = entity.ok_or_else(missing)?;
                place.insert((entity.display_name, entity.kind)).clone()
            }
        };
        out.push(Spoken { message, sender_name, sender_kind });
    }
    Ok(out)
}
