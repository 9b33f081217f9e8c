//! Handles of those who appear in updates, which name them by id. Asked for once each; who cannot be
//! found is shown by the beginning of the id.

use std::collections::HashMap;

use agent::id::{AgentId, EntityId, SpaceId};
use agent::update::Update;
use server::api::{EntityJson, MemberJson, SpaceJson};

use crate::client::{Client, typed};
use crate::errors::Result;
use crate::output::Screen;

/// Names read at the start, of each kind; others are asked for when they appear.
const AT_START: usize = 1_000;
/// Names that are kept; beyond that new ones are shown by id.
const KEPT: usize = 20_000;

/// Handles by id.
#[derive(Debug, Default)]
pub(crate) struct Names {
    entities: HashMap<EntityId, String>,
    spaces: HashMap<SpaceId, String>,
}

impl Names {
    /// Learns the members of a space.
    pub(crate) fn members(&mut self, screen: &Screen, members: &[MemberJson]) {
        members.iter().for_each(|member| self.entity(screen, member.entity.id, &member.entity.name));
    }

    /// Learns who somebody is.
    pub(crate) fn entity(&mut self, screen: &Screen, id: EntityId, name: &str) {
        if self.entities.len() < KEPT {
            self.entities.insert(id, screen.clean_line(name));
        }
    }

    /// Learns what a space is called.
    pub(crate) fn space(&mut self, screen: &Screen, id: SpaceId, name: &str) {
        if self.spaces.len() < KEPT {
            self.spaces.insert(id, screen.clean_line(name));
        }
    }

    /// Whether it is known who that is.
    pub(crate) fn knows(&self, id: EntityId) -> bool {
        self.entities.contains_key(&id)
    }

    /// Who it is.
    pub(crate) fn of(&self, id: EntityId) -> String {
        self.entities.get(&id).cloned().unwrap_or_else(|| short(&id.to_string()))
    }

    /// What the space is called.
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

    /// Asks for the names in an update that are not known yet. A failure costs nothing but the name.
    pub(crate) async fn learn(&mut self, client: &Client, screen: &Screen, update: &Update) {
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
