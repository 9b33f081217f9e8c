//! Handles of the entities and spaces in updates, which contain ids. Each name is requested once; a name
//! that cannot be found is shown as the beginning of its id.

use std::collections::HashMap;

use agent::id::{AgentId, EntityId, SpaceId};
use agent::update::Update;
use api::{EntityJson, MemberJson, SpaceJson};

use crate::errors::Result;
use crate::output::Screen;
use client::{Client, typed};

/// Maximum number of names of each kind that are read at the start; others are requested when they appear.
const AT_START: usize = 1_000;
/// Maximum number of names that are kept; further ones are shown by id.
const NAMES_MAX: usize = 20_000;

/// Handles by id.
#[derive(Debug, Default)]
pub(crate) struct Names {
    entities: HashMap<EntityId, String>,
    spaces: HashMap<SpaceId, String>,
}

impl Names {
    /// Stores the handles of a space's members.
    pub(crate) fn members(&mut self, screen: &Screen, members: &[MemberJson]) {
        members.iter().for_each(|member| self.entity(screen, member.entity.id, &member.entity.name));
    }

    /// Stores an entity's handle.
    pub(crate) fn entity(&mut self, screen: &Screen, id: EntityId, name: &str) {
        if self.entities.len() < NAMES_MAX {
            self.entities.insert(id, screen.clean_line(name));
        }
    }

    /// Stores a space's handle.
    pub(crate) fn space(&mut self, screen: &Screen, id: SpaceId, name: &str) {
        if self.spaces.len() < NAMES_MAX {
            self.spaces.insert(id, screen.clean_line(name));
        }
    }

    /// Whether the entity's handle is known.
    pub(crate) fn knows(&self, id: EntityId) -> bool {
        self.entities.contains_key(&id)
    }

    /// The handle of an entity.
    pub(crate) fn of(&self, id: EntityId) -> String {
        self.entities.get(&id).cloned().unwrap_or_else(|| short(&id.to_string()))
    }

    /// The handle of a space.
    pub(crate) fn of_space(&self, id: SpaceId) -> String {
        self.spaces.get(&id).cloned().unwrap_or_else(|| short(&id.to_string()))
    }

    /// Reads the names of the server (admin keys only).
    pub(crate) async fn read(&mut self, client: &Client, screen: &Screen) -> Result<()> {
        let entities = client.list("/v1/entities", AT_START).await?;
        for entity in typed::<Vec<EntityJson>>("/v1/entities", entities.into())? {
            self.entity(screen, entity.id, &entity.name);
        }
        let spaces = client.list("/v1/spaces", AT_START).await?;
        for space in typed::<Vec<SpaceJson>>("/v1/spaces", spaces.into())? {
            self.space(screen, space.id, &space.name);
        }
        Ok(())
    }

    /// Requests the names in an update that are not known yet. A failure costs only the name.
    pub(crate) async fn fetch_missing(&mut self, client: &Client, screen: &Screen, update: &Update) {
        let (entity, space) = named_in(update);
        if let Some(id) = entity.filter(|id| !self.entities.contains_key(id)) {
            let found = client.get_as::<EntityJson>(&format!("/v1/entities/{id}")).await;
            self.entity(screen, id, &found.map_or_else(|_| short(&id.to_string()), |entity| entity.name));
        }
        if let Some(id) = space.filter(|id| !self.spaces.contains_key(id)) {
            let found = client.get_as::<SpaceJson>(&format!("/v1/spaces/{id}")).await;
            self.space(screen, id, &found.map_or_else(|_| short(&id.to_string()), |space| space.name));
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
