//! What is followed: everything, a space, or some agents and the messages around them. Knows which streams
//! contain it and which of their updates belong to it.

use std::collections::{HashMap, HashSet};

use agent::event::EventProgress;
use agent::id::{AgentId, CycleId, SpaceId};
use agent::run::Ending;
use agent::update::Update;
use api::{FactsJson, MemberJson, SpaceJson, Whoami};

use crate::error::{ClientError, ErrorClass, Result};
use crate::http::{Client, agent_path};
use crate::stream::Snapshot;
use crate::target;

/// The path of the server's stream.
const EVERYTHING: &str = "/v1/stream";

/// The stream that an update came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The subject's own stream.
    Own,
    /// The server's stream, for updates that the subject's own stream does not contain.
    Everything,
}

/// What is followed.
#[derive(Debug)]
pub enum Subject {
    /// The whole server.
    Everything,
    /// A space, with the cycles that touched it.
    Space {
        /// The space.
        space: Box<SpaceJson>,
        /// Its members when it was found.
        members: Vec<MemberJson>,
        /// The running cycles that touched it.
        cycles: HashMap<AgentId, CycleId>,
        /// Whether the key is an admin key.
        admin: bool,
    },
    /// Agents, with the spaces that they are members of.
    Agents {
        /// The agents.
        agents: Vec<AgentId>,
        /// The spaces.
        spaces: HashSet<SpaceId>,
    },
}

impl Subject {
    /// Finds what `wanted` names. Without a name: everything, or the only space if the key is a member's.
    pub async fn find(client: &Client, wanted: Option<&str>, all: bool) -> Result<Self> {
        let who: Whoami = client.get_as("/v1/whoami").await?;
        let admin = who.entity.is_none() && !who.scope.starts_with("service:");
        match wanted {
            None if admin || all => Ok(Self::Everything),
            None => {
                let target = target::resolve(client, None, None, None).await?;
                Ok(Self::in_space(target.space, target.members, admin))
            }
            Some(wanted) => Self::named(client, wanted, admin).await,
        }
    }

    async fn named(client: &Client, wanted: &str, admin: bool) -> Result<Self> {
        let (kind, name) = wanted.split_once(':').unwrap_or(("", wanted));
        let (may_be_space, may_be_agent) = (["", "space"].contains(&kind), ["", "agent"].contains(&kind));
        let space = if may_be_space { optional(client.space(name).await)? } else { None };
        let agent = if may_be_agent && admin { optional(client.agent(name).await)? } else { None };
        match (space, agent) {
            (Some(space), None) => {
                let members = target::members(client, &space).await?;
                Ok(Self::in_space(space, members, admin))
            }
            (None, Some(agent)) => Self::agents(client, vec![agent.id]).await,
            (Some(_), Some(_)) => {
                let message = format!("`{name}` is the handle of a space and of an agent");
                Err(ClientError::usage(message).hint(format!("write `space:{name}` or `agent:{name}`")))
            }
            (None, None) => {
                let message = format!("`{wanted}` is neither a space nor an agent that this key may watch");
                Err(ClientError::not_found(message).hint(match admin {
                    true => "`viv ps` lists the agents; without a name everything is watched",
                    false => {
                        "a person's key may watch the spaces that the person is in, an admin key everything"
                    }
                }))
            }
        }
    }

    /// A space whose members are known.
    pub fn in_space(space: SpaceJson, members: Vec<MemberJson>, admin: bool) -> Self {
        Self::Space { space: Box::new(space), members, cycles: HashMap::new(), admin }
    }

    /// Follows some agents.
    pub async fn agents(client: &Client, agents: Vec<AgentId>) -> Result<Self> {
        let mut spaces = HashSet::new();
        for agent in &agents {
            let facts: FactsJson = client.get_as(&agent_path(*agent, "/facts")).await?;
            spaces.extend(facts.spaces.iter().map(|space| space.id));
        }
        Ok(Self::Agents { agents, spaces })
    }

    /// The streams that contain the subject's updates.
    pub fn streams(&self) -> Vec<(Source, String)> {
        let everything = || EVERYTHING.to_owned();
        match self {
            Self::Everything => vec![(Source::Own, everything())],
            Self::Space { space, admin, .. } => {
                let own = (Source::Own, format!("/v1/spaces/{}/stream", space.id));
                // A space's stream contains no calls.
                if *admin { vec![own, (Source::Everything, everything())] } else { vec![own] }
            }
            Self::Agents { agents, .. } => match agents[..] {
                // An agent's stream contains no messages.
                [agent] => {
                    vec![(Source::Own, agent_path(agent, "/stream")), (Source::Everything, everything())]
                }
                _ => vec![(Source::Own, everything())],
            },
        }
    }

    /// The space, if the subject is one.
    pub fn space(&self) -> Option<SpaceId> {
        match self {
            Self::Space { space, .. } => Some(space.id),
            _ => None,
        }
    }

    /// The path of the recent past; `None` for a space, whose stream itself reports what was missed.
    pub fn past(&self) -> Option<String> {
        match self {
            Self::Everything => Some("/v1/recent?".to_owned()),
            Self::Space { .. } => None,
            Self::Agents { agents, .. } => {
                let ids: Vec<String> = agents.iter().map(ToString::to_string).collect();
                Some(format!("/v1/recent?agents={}&", ids.join(",")))
            }
        }
    }

    /// Takes the running cycles from a snapshot.
    pub fn snapshot(&mut self, snapshot: &Snapshot) {
        if let Self::Space { cycles, .. } = self {
            cycles.extend(snapshot.agents.iter().map(|now| (now.agent, now.cycle)));
        }
    }

    /// Whether an update belongs to the subject.
    pub fn includes(&mut self, source: Source, update: &Update) -> bool {
        match self {
            Self::Everything => true,
            Self::Space { cycles, .. } => match update {
                Update::ToolStarted { agent, cycle, .. }
                | Update::ToolDone { agent, cycle, .. }
                | Update::ToolError { agent, cycle, .. } => {
                    source == Source::Everything && cycles.get(agent) == Some(cycle)
                }
                Update::EventProgress { agent, progress: EventProgress::Dead, .. } => {
                    cycles.contains_key(agent)
                }
                // A cycle that did nothing in the space ends only in the server's stream, although its
                // activation was shown here. Such a cycle posts nothing that would have to be shown before
                // its end.
                Update::CycleEnded { agent, cycle, ending: Ending::Skipped, .. } => {
                    source == Source::Own || cycles.get(agent) == Some(cycle)
                }
                Update::State { agent, cycle: Some(cycle), .. } if source == Source::Own => {
                    cycles.insert(*agent, *cycle);
                    true
                }
                _ => source == Source::Own,
            },
            Self::Agents { agents, spaces } => {
                let alone = agents.len() == 1;
                match update {
                    Update::Member { space, entity, joined, .. } => {
                        let about = agents.iter().any(|agent| agent.entity() == *entity);
                        if about && *joined {
                            spaces.insert(*space);
                        }
                        about || spaces.contains(space)
                    }
                    Update::Message { message } => {
                        spaces.contains(&message.space)
                            || agents.iter().any(|agent| agent.entity() == message.sender)
                    }
                    other => {
                        let by_one = other.agent().is_some_and(|agent| agents.contains(&agent));
                        by_one && (source == Source::Own || !alone)
                    }
                }
            }
        }
    }
}

/// The item, or `None` if there is none with this name or the key may not know it.
fn optional<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(optional) => Ok(Some(optional)),
        Err(failure) if matches!(failure.class, ErrorClass::NotFound | ErrorClass::Refused) => Ok(None),
        Err(failure) => Err(failure),
    }
}
