//! Names of the entities and spaces in updates, which contain ids. Each name is requested once; a name that cannot be
//! found is shown as the beginning of its id.

use std::collections::HashMap;
use std::time::Duration;

use agent::id::{AgentId, EntityId, SpaceId};
use agent::update::Update;
use api::MemberJson;
use client::{Client, Subject};
use tokio::time::timeout;
use uuid::Uuid;

use crate::output::Screen;
use crate::written_by;

/// Maximum number of names that are kept; further ones are shown by id.
const NAMES_MAX: usize = 20_000;
/// How long a name is waited for: the updates behind it wait, too.
const WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Names as people write them instead of handles.
    displayed: bool,
    known: HashMap<Uuid, String>,
    /// Handles, where the names are others.
    handles: HashMap<Uuid, String>,
}

impl Names {
    /// No names yet. They will be handles, or names as people write them if they are `displayed`.
    pub(crate) fn new(displayed: bool) -> Self {
        Self { displayed, ..Self::default() }
    }

    pub(crate) fn of_subject(&mut self, screen: &Screen, subject: &Subject) {
        let Subject::Space { space, members, .. } = subject else { return };
        for MemberJson { entity, .. } in members {
            let name = if self.displayed { &entity.display_name } else { &entity.handle };
            self.add(screen, entity.id.0, name);
            self.add_handle(screen, entity.id.0, &entity.handle);
        }
        self.add(screen, space.id.0, &space.handle);
    }

    pub(crate) fn add(&mut self, screen: &Screen, id: Uuid, name: &str) {
        if self.known.len() < NAMES_MAX {
            self.known.insert(id, written_by::name(screen, name));
        }
    }

    pub(super) fn add_handle(&mut self, screen: &Screen, id: Uuid, handle: &str) {
        if self.displayed && self.handles.len() < NAMES_MAX {
            self.handles.insert(id, screen.clean_line(handle));
        }
    }

    /// What commands call an entity: its handle, or its id if the handle is unknown.
    pub(crate) fn handle(&self, id: Uuid) -> String {
        match self.displayed {
            true => self.handles.get(&id).cloned().unwrap_or_else(|| id.to_string()),
            false => self.of(id),
        }
    }

    pub(crate) fn of(&self, id: Uuid) -> String {
        self.known.get(&id).cloned().unwrap_or_else(|| short(&id.to_string()))
    }

    /// Requests the names in an update that are not known yet. A failure costs only the name.
    pub(crate) async fn fetch_missing(&mut self, client: &Client, screen: &Screen, update: &Update) {
        let (entity, space) = named_in(update);
        let entity = entity.map(|id| (id.0, format!("/v1/entities/{id}")));
        let space = space.map(|id| (id.0, format!("/v1/spaces/{id}")));
        let field = if self.displayed { "display_name" } else { "handle" };
        for (id, path) in entity.into_iter().chain(space) {
            if self.known.contains_key(&id) {
                continue;
            }
            let found = timeout(WAIT, client.get(&path)).await.ok().and_then(Result::ok);
            if let Some(handle) = found.as_ref().and_then(|found| found["handle"].as_str()) {
                self.add_handle(screen, id, handle);
            }
            let name = found.and_then(|found| found[field].as_str().map(str::to_owned));
            let name = name.unwrap_or_else(|| match update {
                // A member cannot look up who left the space; the message has the sender's name.
                Update::Message { message } if message.sender.0 == id => message.sender_display_name.clone(),
                _ => short(&id.to_string()),
            });
            self.add(screen, id, &name);
        }
    }
}

fn named_in(update: &Update) -> (Option<EntityId>, Option<SpaceId>) {
    match update {
        Update::Message { message } => (Some(message.sender), Some(message.space)),
        Update::Member { entity, space, .. } => (Some(*entity), Some(*space)),
        Update::Draft { agent, space, .. } => (Some(agent.entity()), Some(*space)),
        other => (other.agent().map(AgentId::entity), None),
    }
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}
