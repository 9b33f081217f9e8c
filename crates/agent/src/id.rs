//! Identities. Every id is a type of its own, so that one cannot stand where another is meant.
//!
//! Ids are handed in (see [`crate::port::Ids`]) or derived by hashing from ids that exist already;
//! nothing here draws randomness.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_id!(
    /// A member of spaces: a human or an agent.
    EntityId
);
uuid_id!(
    /// A living agent. The same UUID as its entity's: one identity, two roles.
    AgentId
);
uuid_id!(
    /// A shared timeline.
    SpaceId
);
uuid_id!(
    /// Something said in a space. For an agent's own message it derives from the call that said it.
    MessageId
);
uuid_id!(
    /// One activation, from taking the events to rest. Its run, the run, has the same id.
    CycleId
);
uuid_id!(
    /// An agent's own alarm.
    PlanId
);
uuid_id!(
    /// A standing intention.
    GoalId
);
uuid_id!(
    /// A key of the API; the secret itself is stored hashed.
    CredentialId
);

impl AgentId {
    /// The entity that this agent is in spaces.
    pub fn entity(self) -> EntityId {
        EntityId(self.0)
    }
}

impl EntityId {
    /// The agent that this entity is; only meaningful where its kind is `agent`.
    pub fn agent(self) -> AgentId {
        AgentId(self.0)
    }
}

impl MessageId {
    /// The id of the message that a `send_message` call says: the same however often the call is
    /// replayed, so that what an agent says is said exactly once.
    pub fn of_call(call: &CallId) -> Self {
        Self(hashed_uuid(&["message", &call.0]))
    }
}

impl GoalId {
    /// The id of the goal that a call makes at this place of its list: the same however often the
    /// call is replayed.
    pub fn of_call(call: &CallId, index: usize) -> Self {
        Self(hashed_uuid(&["goal", &call.0, &index.to_string()]))
    }
}

/// Identity of an accepted event, unique per agent for ever: a message's id,
/// `plan:<id>:<time>`, `result:<call id>`, `api:<credential>:<Idempotency-Key>` or a UUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub String);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of one tool call: ours, not the vendor's, and the idempotency key of its effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl CallId {
    /// A hash of agent, cycle, step and index: stable over every replay of a step, so that a tool recognises
    /// a repeat.
    pub fn derive(agent: AgentId, cycle: CycleId, step: u32, index: u32) -> Self {
        let place = format!("{agent}/{cycle}/{step}/{index}");
        Self(format!("c{}", &hex(&Sha256::digest(place.as_bytes()))[..24]))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Address of bytes by their content: lower-case hex of SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentRef(pub String);

impl ContentRef {
    /// The address of `content`.
    pub fn of(content: &[u8]) -> Self {
        Self(hex(&Sha256::digest(content)))
    }
}

impl fmt::Display for ContentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The happening that a chain of messages goes back to; agent messages are counted per root,
/// so that no two agents answer each other for ever. Text, since roots are message ids, event ids and cycle ids alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RootId(pub String);

impl fmt::Display for RootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A UUID (version 8) that is a function of `parts`.
pub fn hashed_uuid(parts: &[&str]) -> Uuid {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_is_a_function_of_its_place() {
        let (agent, cycle) = (AgentId(Uuid::from_u128(1)), CycleId(Uuid::from_u128(2)));
        let id = CallId::derive(agent, cycle, 0, 1);
        assert_eq!(id, CallId::derive(agent, cycle, 0, 1));
        assert_ne!(id, CallId::derive(agent, cycle, 1, 0));
        assert_eq!(MessageId::of_call(&id), MessageId::of_call(&id));
    }
}
