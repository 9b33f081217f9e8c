//! Messages: post and read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use agent::entity::{Entity, EntityKind, Space};
use agent::event::EventProgress;
use agent::id::{EntityId, EventId, MessageId};
use agent::limits;
use agent::port::{Accept, Accepted, Denial, MessageFilter, Page, RequestKey, StoreError};
use agent::space::PostedMessage;
use agent::update::{Topic, Update};
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::denied::{denied, wanted};
use super::entities::find_entity;
use super::events::publish_progress;
use crate::app_state::{AppState, SharedState};
use crate::auth::{Caller, InSpace, membership};
use crate::extract::{Exact, PathParam, Sent, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done, key_reused};
use crate::problem::{Code, Problem, WriteResponse};
use api::{MessageJson, NewMessageJson, PageJson, TimelineQuery};

/// Posts a message in a space. After the response the message is on disk. Sent again with the same `id` or the same
/// `Idempotency-Key`, it is posted only once.
#[utoipa::path(post, path = "/v1/spaces/{space}/messages", tag = "messages", request_body = NewMessageJson,
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 201, description = "The new message.", body = MessageJson),
              (status = 200, description = "The message was posted before.", body = MessageJson)))]
pub(super) async fn post_message(
    State(app): SharedState,
    caller: Caller,
    InSpace(space): InSpace,
    Change { body: Sent(new), once }: Change<Sent<NewMessageJson>>,
) -> Result<Done<WriteResponse<MessageJson>>, Problem> {
    let posted = match once.noted() {
        // The same request: whoever it mentions may have left since.
        Some(id) => app.ports.reader.message(MessageId(id)).await?,
        None => None,
    };
    if let Some(posted) = posted {
        return once.in_store(async |_| original(&app, posted).await).await;
    }
    let sender = sender(&app, &caller, &new).await?;
    let new = validate(&app, &space, &sender, new).await?;
    let own_key = caller.entity().is_some();
    run_to_completion(async move {
        once.in_store(async |request| post(&app, &space, (sender, own_key), new, request).await).await
    })
    .await
}

async fn post(
    app: &AppState,
    space: &Space,
    (sender, own_key): (Entity, bool),
    new: agent::space::NewMessage,
    request: Option<RequestKey>,
) -> Result<WriteResponse<MessageJson>, Problem> {
    match app.ports.store.accept(Accept::Message(new), request).await? {
        Accepted::Fresh { message: Some(message), wake, answered } => {
            failpoint::hit!("accept.committed");
            // Agents are signaled before streams are updated: their latency matters more.
            app.node.signal(&wake);
            let posted = PostedMessage::new(message.clone(), sender.display_name, sender.kind)
                .with_handle(sender.name);
            let update = Arc::new(Update::Message { message: posted.clone() });
            app.ports.live.bus().publish(&[Topic::Space(space.id)], update);
            app.node.notify(answered);
            for wakeup in &wake {
                let event = EventId(message.id.to_string());
                publish_progress(app, wakeup.agent, event, EventProgress::Waiting);
            }
            let location = format!("/v1/messages/{}", message.id);
            Ok(WriteResponse::Created(location, posted.into()))
        }
        Accepted::Duplicate { message: Some(message) } => original(app, message).await,
        Accepted::Fresh { message: None, .. } | Accepted::Duplicate { message: None } => {
            Err(Problem::internal(&"the store accepted a message and returned none"))
        }
        Accepted::Conflict => Err(key_reused()),
        // The sender was removed from the space in the meantime: it must not learn that the space exists.
        Accepted::Denied(Denial::NotMember { .. }) if own_key => {
            Err(Problem::not_found("space", &space.name))
        }
        Accepted::Denied(denial) => Err(denied(app, denial).await),
    }
}

/// The answer to a message that was posted before.
async fn original(
    app: &AppState,
    message: agent::space::Message,
) -> Result<WriteResponse<MessageJson>, Problem> {
    let original = messages_json(app, vec![message]).await?.into_iter().next();
    original.map(WriteResponse::Existing).ok_or_else(|| Problem::internal(&"the original message is missing"))
}

/// The sender of a message: `sender` with an admin key, the key's own entity otherwise.
async fn sender(app: &AppState, caller: &Caller, new: &NewMessageJson) -> Result<Entity, Problem> {
    let sender = match (caller.entity(), &new.sender) {
        (None, Some(name)) => find_entity(app, name).await?,
        (None, None) => {
            return Err(Problem::new(Code::SenderRequired, "with an admin key a message needs a sender")
                .hint("name a member of the space in `sender`"));
        }
        (Some(_), Some(_)) => {
            return Err(Problem::new(Code::SenderRefused, "this key can post only as its own entity")
                .hint("leave out `sender`"));
        }
        (Some(own), None) => match &caller.member {
            Some(member) => Entity::clone(member),
            None => find_entity(app, &own.to_string()).await?,
        },
    };
    if sender.kind != EntityKind::Human {
        let detail = format!("`{}` is an agent; only people can post through the API", sender.name);
        return Err(Problem::new(Code::NotHuman, detail));
    }
    Ok(sender)
}

async fn validate(
    app: &AppState,
    space: &Space,
    sender: &Entity,
    new: NewMessageJson,
) -> Result<agent::space::NewMessage, Problem> {
    let NewMessageJson { text, mentions, urgent, id, data, .. } = new;
    if text.trim().is_empty() {
        return Err(Problem::new(Code::BadValue, "`text` must not be blank"));
    }
    let text = crate::extract::bounded_text("text", text, limits::MESSAGE_MAX_BYTES)?;
    if let Some(size) =
        data.as_ref().map(|data| data.to_string().len()).filter(|size| *size > limits::DATA_MAX_BYTES)
    {
        let most = limits::DATA_MAX_BYTES;
        let detail = format!("`data` must be at most {most} bytes of JSON, got {size}");
        return Err(Problem::new(Code::BadValue, detail).hint("store it elsewhere and send a reference"));
    }
    let mentions = resolve_mentions(app, space, &mentions).await?;
    let id = MessageId(chosen_id(id)?.unwrap_or_else(|| app.ports.ids.uuid()));
    let new = agent::space::NewMessage::of_person(id, space.id, sender.id, text, app.ports.clock.now());
    Ok(agent::space::NewMessage { mentions, urgent, data, ..new })
}

/// Checks the version of an id chosen by the client. The ids of agents' messages (version 8) can be computed in
/// advance; a client that used one first would block that message.
fn chosen_id(id: Option<Uuid>) -> Result<Option<Uuid>, Problem> {
    match id {
        Some(id) if !matches!(id.get_version_num(), 4 | 7) => {
            Err(Problem::new(Code::BadId, format!("`id` must be a UUID of version 4 or 7, got `{id}`")))
        }
        id => Ok(id),
    }
}

async fn resolve_mentions(app: &AppState, space: &Space, names: &[String]) -> Result<Vec<EntityId>, Problem> {
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

/// Lists messages of a space: the newest page first, or with `after` the oldest one after it. Each page is ordered from
/// old to new.
#[utoipa::path(get, path = "/v1/spaces/{space}/messages", tag = "messages",
    params(("space" = String, Path, description = "Id or handle."), TimelineQuery),
    responses((status = 200, description = "A page of messages.", body = PageJson<MessageJson>)))]
pub(super) async fn list(
    State(app): SharedState,
    caller: Caller,
    InSpace(space): InSpace,
    list: List<TimelineQuery>,
) -> Result<Listed<MessageJson>, Problem> {
    let TimelineQuery { mut after, mut before, sender, kind, since, .. } = list.filters.clone();
    let edge = list.number();
    match after {
        Some(_) => after = edge.or(after),
        None => before = edge.or(before),
    }
    let sender = match sender {
        Some(name) => match wanted(&caller, find_entity(&app, &name).await)? {
            Some(entity) => Some(entity.id),
            None => return Ok(list.empty()),
        },
        None => None,
    };
    let filter = MessageFilter { after, before, sender, kind, since };
    let Page { items, next } = app.ports.reader.messages(space.id, filter, list.page.limit).await?;
    let items = messages_json(&app, items).await?;
    Ok(list.answer(Page { items, next }, |message| message))
}

/// Returns a message.
#[utoipa::path(get, path = "/v1/messages/{message}", tag = "messages",
    params(("message" = String, Path, description = "The message's id.")),
    responses((status = 200, description = "The message.", body = MessageJson)))]
pub(super) async fn get(
    State(app): SharedState,
    caller: Caller,
    PathParam(id): PathParam<Exact>,
) -> Result<Json<MessageJson>, Problem> {
    let missing = || Problem::not_found("message", &id);
    let message: MessageId = id.parse().map_err(|_| missing())?;
    let found = app.ports.reader.message(message).await?.ok_or_else(missing)?;
    if let Some(entity) = caller.entity() {
        let space = app.ports.reader.space(found.space.to_string()).await?.ok_or_else(missing)?;
        membership(&app, &space, entity).await?.ok_or_else(missing)?;
    }
    let mut shown = messages_json(&app, vec![found]).await?;
    Ok(Json(shown.pop().ok_or_else(missing)?))
}

/// The JSON of messages, with the names of their senders.
pub(super) async fn messages_json(
    app: &AppState,
    messages: Vec<agent::space::Message>,
) -> Result<Vec<MessageJson>, Problem> {
    Ok(with_senders(app, messages).await?.into_iter().map(MessageJson::from).collect())
}

/// Messages with the names of their senders; each sender is read once.
pub(crate) async fn with_senders(
    app: &AppState,
    messages: Vec<agent::space::Message>,
) -> Result<Vec<PostedMessage>, StoreError> {
    let mut senders: HashMap<EntityId, (String, EntityKind, String)> = HashMap::new();
    let mut out = Vec::with_capacity(messages.len());
    for message in messages {
        let (display_name, sender_kind, handle) = match senders.entry(message.sender) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(vacant) => {
                let entity = app.ports.reader.entity(message.sender.to_string()).await?;
                let missing =
                    || StoreError::Broken(format!("the sender `{}` does not exist", message.sender));
                let entity = entity.ok_or_else(missing)?;
                vacant.insert((entity.display_name, entity.kind, entity.name)).clone()
            }
        };
        out.push(PostedMessage::new(message, display_name, sender_kind).with_handle(handle));
    }
    Ok(out)
}
