//! Names of the entities and spaces in updates, which contain ids. Each name is requested once; a name that cannot be
//! found is shown as the beginning of its id.

use std::collections::HashMap;
use std::time::Duration;

use agent::id::{AgentId, EntityId, SpaceId};
use agent::update::Update;
use api::{EntityJson, MemberJson, SpaceJson};
use client::Client;
use tokio::time::timeout;

use crate::output::Screen;

/// Maximum number of names of each kind that are kept; further ones are shown by id.
const NAMES_MAX: usize = 20_000;
/// How long a name is waited for: the updates behind it wait, too.
const WAIT: Duration = Duration::from_secs(2);

/// Names by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Names as people write them instead of handles.
    displayed: bool,
    entities: HashMap<EntityId, String>,
    spaces: HashMap<SpaceId, String>,
}

impl Names {
    /// No names yet. They will be handles, or names as people write them if they are `displayed`.
    pub(crate) fn new(displayed: bool) -> Self {
        Self { displayed, ..Self::default() }
    }

    /// Stores the names of a space's members.
    pub(crate) fn members(&mut self, screen: &Screen, members: &[MemberJson]) {
        for MemberJson { entity, .. } in members {
            let name = if self.displayed { &entity.display_name } else { &entity.name };
            self.entity(screen, entity.id, name);
        }
    }

    /// Stores an entity's name.
    pub(crate) fn entity(&mut self, screen: &Screen, id: EntityId, name: &str) {
        if self.entities.len() < NAMES_MAX {
            self.entities.insert(id, screen.clean_line(name));
        }
    }

    /// Stores a space's name.
    pub(crate) fn space(&mut self, screen: &Screen, id: SpaceId, name: &str) {
        if self.spaces.len() < NAMES_MAX {
            self.spaces.insert(id, screen.clean_line(name));
        }
    }

    /// The name of an entity.
    pub(crate) fn of(&self, id: EntityId) -> String {
        self.entities.get(&id).cloned().unwrap_or_else(|| short(&id.to_string()))
    }

    /// The name of a space.
    pub(crate) fn of_space(&self, id: SpaceId) -> String {
        self.spaces.get(&id).cloned().unwrap_or_else(|| short(&id.to_string()))
    }

    /// Requests the names in an update that are not known yet. A failure costs only the name.
    pub(crate) async fn fetch_missing(&mut self, client: &Client, screen: &Screen, update: &Update) {
        let (entity, space) = named_in(update);
        if let Some(id) = entity.filter(|id| !self.entities.contains_key(id)) {
            let path = format!("/v1/entities/{id}");
            let name = match (timeout(WAIT, client.get_as::<EntityJson>(&path)).await, update) {
                (Ok(Ok(entity)), _) if self.displayed => entity.display_name,
                (Ok(Ok(entity)), _) => entity.name,
                // A member cannot look up who left the space; the message has the sender's name.
                (_, Update::Message { message }) => message.sender_name.clone(),
                _ => short(&id.to_string()),
            };
            self.entity(screen, id, &name);
        }
        if let Some(id) = space.filter(|id| !self.spaces.contains_key(id)) {
            let path = format!("/v1/spaces/{id}");
            let found = timeout(WAIT, client.get_as::<SpaceJson>(&path)).await;
            let name = found.ok().and_then(Result::ok).map(|space| space.name);
            self.space(screen, id, &name.unwrap_or_else(|| short(&id.to_string())));
        }
    }
}

fn named_in(update: &Update) -> (Option<EntityId>, Option<SpaceId>) {
    match update {
        Update::Message { message } => (Some(message.sender), Some(message.space)),
        Update::Member { entity, space, .. } => (Some(*entity), Some(*space)),
        Update::Draft { agent, space, .. }
        | Update::DraftReset { agent, space, .. }
        | Update::ToolInput { agent, space, .. } => (Some(agent.entity()), Some(*space)),
        other => (other.agent().map(AgentId::entity), None),
    }
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}
