//! Ids. Every kind of id is a type of its own, so that they cannot be confused.
//!
//! Ids are passed in (see [`crate::port::Ids`]) or derived by hashing existing ids; nothing here uses randomness.

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
    /// An agent. The UUID is the same as that of its entity: one identity, two roles.
    AgentId
);
uuid_id!(
    /// A shared timeline.
    SpaceId
);
uuid_id!(
    /// A message in a space. The id of an agent's message is derived from the call that sent it.
    MessageId
);
uuid_id!(
    /// One cycle, from taking the events until the agent sleeps again. Its run has the same id.
    CycleId
);
uuid_id!(
    /// A scheduled activation that an agent planned for itself.
    PlanId
);
uuid_id!(
    /// A long-term goal of an agent.
    GoalId
);
uuid_id!(
    /// The right of one worker to run one call, until another worker gets it.
    ClaimId
);
uuid_id!(
    /// An API key; the secret itself is stored as a hash.
    CredentialId
);

impl AgentId {
    /// The entity as which this agent is a member of spaces.
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
    /// The id of the message that a `send_message` call sends. It is the same however often the call is replayed, so
    /// that the message is posted exactly once.
    pub fn of_call(call: &CallId) -> Self {
        Self(hashed_uuid(&["message", &call.0]))
    }

    /// The id of the message that shows a call or asks people about it. The call itself may post another one.
    pub fn of_card(call: &CallId) -> Self {
        Self(hashed_uuid(&["card", &call.0]))
    }

    /// The id of the message that reminds people of a call.
    pub fn of_reminder(call: &CallId) -> Self {
        Self(hashed_uuid(&["reminder", &call.0]))
    }

    /// The id of the message that posts the text of a step without calls. It is the same however often the step is
    /// decided.
    pub fn of_text(cycle: CycleId, step: u32) -> Self {
        Self(hashed_uuid(&["text", &cycle.to_string(), &step.to_string()]))
    }
}

impl GoalId {
    /// The id of the goal that a call creates at this index of its list. It is the same however often the call is
    /// replayed.
    pub fn of_call(call: &CallId, index: usize) -> Self {
        Self(hashed_uuid(&["goal", &call.0, &index.to_string()]))
    }
}

impl PlanId {
    /// The id of the plan that a call creates at this index of its list. It is the same however often the call is
    /// replayed.
    pub fn of_call(call: &CallId, index: usize) -> Self {
        Self(hashed_uuid(&["plan", &call.0, &index.to_string()]))
    }

    /// The id of the plan with this name in an agent's config.
    pub fn of_config(agent: AgentId, name: &str) -> Self {
        Self(hashed_uuid(&["plan of config", &agent.to_string(), name]))
    }
}

/// Identity of an accepted event, unique per agent, forever: a message's id, `plan:<id>:<time>`, `result:<call id>`,
/// `api:<hash of the sender and its Idempotency-Key>` or a UUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub String);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of one tool call. It is our id, not the vendor's, and the idempotency key of the call's effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl CallId {
    /// A hash of agent, cycle, step and index. It is the same in every replay of a step, so that a tool recognises a
    /// repeated call.
    pub fn derive(agent: AgentId, cycle: CycleId, step: u32, index: u32) -> Self {
        let position = format!("{agent}/{cycle}/{step}/{index}");
        Self(format!("c{}", &hex(&Sha256::digest(position.as_bytes()))[..Self::DIGITS]))
    }

    /// Hexadecimal digits behind the `c`.
    const DIGITS: usize = 24;

    /// Whether a text is a whole id of a call, and not a part of one.
    pub fn is_whole(text: &str) -> bool {
        let digits = text.strip_prefix('c').unwrap_or_default();
        digits.len() == Self::DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
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

/// The first message or event of a causal chain. Agent messages are counted per root, so that two agents cannot answer
/// each other forever. It is text, because a root can be a message id, an event id or a cycle id.
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

/// The bytes of a hexadecimal text in either case; `None` if it is none.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_text_is_read_in_either_case_and_nothing_else_is() {
        let bytes = [0x00, 0x1f, 0xab, 0xff];
        assert_eq!(unhex(&hex(&bytes)), Some(bytes.to_vec()));
        assert_eq!((unhex("aB"), unhex("")), (Some(vec![0xab]), Some(Vec::new())));
        for bad in ["a", "abc", "+f", " 1", "0x", "é", "1é1", "zz"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_call_id_depends_only_on_agent_cycle_step_and_index() {
        let (agent, cycle) = (AgentId(Uuid::from_u128(1)), CycleId(Uuid::from_u128(2)));
        let id = CallId::derive(agent, cycle, 0, 1);
        assert_eq!(id, CallId::derive(agent, cycle, 0, 1));
        assert_ne!(id, CallId::derive(agent, cycle, 1, 0));
        let messages = [MessageId::of_call, MessageId::of_card, MessageId::of_reminder].map(|of| of(&id));
        assert_eq!(
            messages,
            [MessageId::of_call, MessageId::of_card, MessageId::of_reminder].map(|of| of(&id))
        );
        assert!(messages[0] != messages[1] && messages[1] != messages[2] && messages[0] != messages[2]);
    }
}
