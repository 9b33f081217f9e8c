//! The initial data of a store: the person `owner`, one agent unless there are agent files, one space, and
//! the keys for them.

use agent::config::{AgentConfig, WakeOn};
use agent::id::{AgentId, CredentialId, EntityId, SpaceId};
use agent::life::Standing;
use agent::limits;
use agent::port::{
    AgentCard, Clock, Credential, Founding, Ids, NewAgent, NewCredential, NewHuman, NewSpace, Scope,
};
use agent::port::{Registry, RegistryError, StoreError};
use runtime::Ports;
use server::keys;

use crate::errors::{Exit, Failure, Result};
use client::ApiKey;
use project::OWNER;

/// The label of the admin key that the first start prints.
const ADMIN_LABEL: &str = keys::RESERVED_LABELS[0];
/// The label of the key that each start creates for the commands on this machine.
pub(crate) const CLI_LABEL: &str = keys::RESERVED_LABELS[1];

const INSTRUCTIONS: &str = "\
Be warm, curious and plain-spoken. Answer in a few sentences, in the language of the person you answer, and say \
so when you do not know something.";

pub(crate) const AGENT: &str = "ada";
pub(crate) const SPACE: &str = "home";

pub(crate) fn first_config() -> AgentConfig {
    AgentConfig {
        description: "the first agent of this server".to_owned(),
        instructions: INSTRUCTIONS.to_owned(),
        ..AgentConfig::default()
    }
}

/// Creates the initial data, once per store. The agent `ada` is left out if there are agent files or if
/// agents were imported before; imported agents join the first space. With agent files there is no space but theirs. Returns the admin key if it created
/// the data, else `None`.
pub(crate) async fn found(ports: &Ports, with_agent: bool, here: &[AgentCard]) -> Result<Option<ApiKey>> {
    let with_space = with_agent || !here.is_empty();
    let with_agent = with_agent && here.is_empty();
    let at = ports.clock.now();
    let (key, admin) = admin(&*ports.clock, &*ports.ids, ADMIN_LABEL, false)?;
    let human = EntityId(ports.ids.uuid());
    let agent = with_agent.then(|| AgentId(ports.ids.uuid()));
    let config = first_config();
    let imported = here.iter().filter(|card| card.standing != Standing::Retired).map(|card| card.id);
    let mut members = vec![human];
    members.extend(agent.into_iter().chain(imported).map(AgentId::entity));
    let founding = Founding {
        human: NewHuman { display_name: login(), ..NewHuman::new(human, OWNER, at) },
        agent: agent
            .map(|id| NewAgent { display_name: "Ada".to_owned(), ..NewAgent::new(id, AGENT, config, at) }),
        space: with_space.then(|| NewSpace {
            id: SpaceId(ports.ids.uuid()),
            name: SPACE.to_owned(),
            display_name: "Home".to_owned(),
            description: "the first space".to_owned(),
            wake_on: WakeOn::All,
            members,
            at,
        }),
        admin,
    };
    let founded = ports.registry.found(founding).await.map_err(store_failure)?;
    Ok(founded.then_some(key))
}

/// The display name of the first person: the login name if it looks like a person's.
fn login() -> String {
    let plain = |name: &String| !name.is_empty() && name.chars().all(char::is_alphanumeric) && name != "root";
    let logins = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let name = logins.into_iter().find(plain).unwrap_or_else(|| OWNER.to_owned());
    let (first, rest) = name.split_at(name.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase().chars().chain(rest.chars()).take(limits::DISPLAY_NAME_MAX_BYTES / 4).collect()
}

/// Creates the key of this start for the commands on this machine and revokes the previous one. `None` if
/// the disk is full: the previous key stays valid then.
pub(crate) async fn local_key(ports: &Ports) -> Result<Option<ApiKey>> {
    let (key, credential) = admin(&*ports.clock, &*ports.ids, CLI_LABEL, true)?;
    match ports.registry.add_credential(credential, None).await {
        Err(RegistryError::Store(StoreError::Full(_))) => Ok(None),
        added => added.map(|_| Some(key)).map_err(store_failure),
    }
}

/// Replaces the admin key that the first start printed; the old one stops working.
pub(crate) async fn new_admin_key(
    registry: &dyn Registry,
    clock: &dyn Clock,
    ids: &dyn Ids,
) -> Result<ApiKey> {
    let (key, credential) = admin(clock, ids, ADMIN_LABEL, true)?;
    registry.add_credential(credential, None).await.map_err(store_failure)?;
    Ok(key)
}

fn admin(
    clock: &dyn Clock,
    ids: &dyn Ids,
    label: &str,
    replace_label: bool,
) -> Result<(ApiKey, NewCredential)> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random).map_err(|error| {
        Failure::new(Exit::Failed, "no_randomness", format!("the system provides no randomness: {error}"))
    })?;
    let key = keys::key(&random);
    let credential = NewCredential {
        credential: Credential::new(CredentialId(ids.uuid()), Scope::Admin, label),
        secret_hash: keys::hash(&key),
        at: clock.now(),
        replace_label,
    };
    Ok((ApiKey::new(key), credential))
}

fn store_failure(error: RegistryError) -> Failure {
    let hint = match &error {
        RegistryError::Store(StoreError::Damaged(_) | StoreError::Broken(_)) => {
            "`viv verify` checks whether the store is intact; `viv restore` restores a backup"
        }
        _ => "is there space on the disk? `viv doctor` checks",
    };
    Failure::new(Exit::Failed, "store_failed", format!("cannot write to the store: {error}")).hint(hint)
}
