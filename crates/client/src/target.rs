//! Who posts, to which agent, in which space: the only agent and the only space if none is named. Errors
//! list the choices.

use agent::entity::EntityKind;
use agent::id::SpaceId;
use agent::life::Standing;
use api::{Agent, EntityJson, FactsJson, MemberJson, SpaceJson, Whoami};

use crate::error::{ClientError, ErrorClass, Result};
use crate::http::{Client, segment};

/// Names that are shown of a longer list.
const LISTED: usize = 8;
/// Rows that are read to find a default.
const CANDIDATES_MAX: usize = 200;
/// The sender with an admin key if none is named: the first person of every server.
const OWNER: &str = "owner";
/// What to do if there is no space.
const OPEN_ONE: &str = "open one with `viv spaces open NAME --members owner,AGENT`";

/// A space to post in.
#[derive(Debug)]
pub struct Target {
    /// The space.
    pub space: SpaceJson,
    /// All its members.
    pub members: Vec<MemberJson>,
    /// The value of `sender` in requests; `None` if the key already determines the sender.
    pub sender: Option<String>,
    /// Whether the key is an admin key.
    pub admin: bool,
}

impl Target {
    /// The agents in this space.
    pub fn agents(&self) -> impl Iterator<Item = &EntityJson> {
        self.members.iter().map(|member| &member.entity).filter(|entity| entity.kind == EntityKind::Agent)
    }

    /// Refuses a sender that is not a member: the space takes no message from it.
    ///
    /// # Errors
    /// Class `Refused`.
    pub fn check_sender(&self) -> Result<()> {
        let Some(sender) = &self.sender else { return Ok(()) };
        if self.members.iter().any(|member| is_called(&member.entity, sender)) {
            return Ok(());
        }
        let space = &self.space.handle;
        let message = format!("`{sender}` is not a member of the space `{space}`");
        Err(ClientError::new(ErrorClass::Refused, "not_member", message)
            .hint(format!("add it with `viv spaces add {space} {sender}`, or name another with --as")))
    }

    /// The agent named, else the only one.
    pub fn agent(&self, wanted: Option<&str>) -> Result<&EntityJson> {
        let space = &self.space.handle;
        if let Some(wanted) = wanted {
            return self.agents().find(|entity| is_called(entity, wanted)).ok_or_else(|| {
                let message = format!("`{wanted}` is not an agent in the space `{space}`");
                let here = names(self.agents().map(|agent| agent.handle.clone()));
                ClientError::not_found(message).hint(format!("agents there: {here}"))
            });
        }
        let named = self.agents().map(|agent| (agent.handle.clone(), agent)).collect();
        let none = (format!("there is no agent in the space `{space}`"), "name another with --space");
        only(named, "agent", none, "name one with --agent")
    }
}

/// Finds the space that `space` and `agent` name, or the only one.
pub async fn resolve(
    client: &Client,
    space: Option<&str>,
    agent: Option<&str>,
    sender: Option<&str>,
) -> Result<Target> {
    let who: Whoami = client.get_as("/v1/whoami").await?;
    let admin = who.entity.is_none();
    if let Some(agent) = agent.filter(|_| admin) {
        crate::refuse_retired(client, agent).await?;
    }
    let space = match (space, agent.filter(|_| admin)) {
        (Some(space), _) => client.space(space).await?,
        (None, None) => only_space(client, "name one with --space").await?,
        (None, Some(agent)) => {
            let you = sender.unwrap_or(OWNER);
            let join = format!(
                "`viv spaces add SPACE {agent}` adds it to one, \
                 `viv spaces open NAME --members {you},{agent}` opens another"
            );
            let none = (format!("`{agent}` is in no space"), join.as_str());
            let id = only(spaces(client, Some(agent)).await?, "space", none, "name one with --space")?;
            client.space(&id.to_string()).await?
        }
    };
    let members = members(client, &space).await?;
    let sender = match who.entity {
        Some(entity) if sender.is_none_or(|wanted| is_called(&entity, wanted)) => None,
        Some(entity) => {
            let message = format!("this key can only post as `{}`", entity.handle);
            let refused = ClientError::new(ErrorClass::Refused, "sender_refused", message);
            return Err(refused.hint("leave out --as"));
        }
        None => Some(sender.unwrap_or(OWNER).to_owned()),
    };
    Ok(Target { space, members, sender, admin })
}

/// The space named, else the only one that is open.
pub async fn space(client: &Client, wanted: Option<&str>) -> Result<SpaceJson> {
    match wanted {
        Some(wanted) => client.space(wanted).await,
        None => only_space(client, "name one").await,
    }
}

async fn only_space(client: &Client, how: &str) -> Result<SpaceJson> {
    let none = ("there is no open space".to_owned(), OPEN_ONE);
    let id = only(spaces(client, None).await?, "space", none, how)?;
    client.space(&id.to_string()).await
}

/// The handles and ids of the open spaces, or of those that an agent is in (admin keys only).
pub async fn spaces(client: &Client, agent: Option<&str>) -> Result<Vec<(String, SpaceId)>> {
    if let Some(agent) = agent {
        let facts: FactsJson = client.get_as(&format!("/v1/agents/{}/facts", segment(agent))).await?;
        return Ok(facts.spaces.into_iter().map(|space| (space.handle, space.id)).collect());
    }
    let spaces: Vec<SpaceJson> = client.list_as("/v1/spaces", CANDIDATES_MAX).await?;
    let open = spaces.into_iter().filter(|space| !space.closed);
    Ok(open.map(|space| (space.handle, space.id)).collect())
}

/// The members of a space.
pub async fn members(client: &Client, space: &SpaceJson) -> Result<Vec<MemberJson>> {
    client.all_as(&format!("/v1/spaces/{}/members", space.id)).await
}

/// The only one. `none` is the error if there is none, and what to do then; `how` is how to name one.
fn only<T>(mut all: Vec<(String, T)>, what: &str, none: (String, &str), how: &str) -> Result<T> {
    match all.len() {
        1 => Ok(all.remove(0).1),
        0 => Err(ClientError::not_found(none.0).hint(none.1)),
        n => {
            let message = format!("wanted one {what}, but there are {n}");
            let there = names(all.into_iter().map(|(name, _)| name));
            Err(ClientError::usage(message).hint(format!("{how}: {there}")))
        }
    }
}

/// The agent named, else the only one that is not retired.
pub async fn agent(client: &Client, wanted: Option<&str>) -> Result<Agent> {
    if let Some(wanted) = wanted {
        return client.agent(wanted).await;
    }
    let agents: Vec<Agent> = client.list_as("/v1/agents", CANDIDATES_MAX).await?;
    let active = agents.into_iter().filter(|agent| agent.standing != Standing::Retired);
    let none = ("there is no agent".to_owned(), "create one with `viv agents create NAME --space SPACE`");
    only(active.map(|agent| (agent.handle.clone(), agent)).collect(), "agent", none, "name one")
}

fn is_called(entity: &EntityJson, wanted: &str) -> bool {
    entity.handle == wanted.to_lowercase() || entity.id.to_string() == wanted.to_lowercase()
}

fn names(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.map(|name| format!("`{name}`")).collect();
    match all.len() {
        0 => "none".to_owned(),
        n if n > LISTED => format!("{} and {} more", all[..LISTED].join(", "), n - LISTED),
        _ => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::id::EntityId;
    use uuid::Uuid;

    fn entity(n: u128, name: &str, kind: EntityKind) -> MemberJson {
        let (id, name) = (EntityId(Uuid::from_u128(n)), name.to_owned());
        let at = jiff::Timestamp::UNIX_EPOCH;
        let display_name = name.clone();
        let entity = EntityJson { id, kind, handle: name, display_name, external_id: None, created_at: at };
        MemberJson { entity, role: String::new(), since: at }
    }

    fn home(members: Vec<MemberJson>) -> Target {
        let space = SpaceJson {
            id: SpaceId(Uuid::from_u128(9)),
            handle: "home".into(),
            display_name: "Home".into(),
            description: String::new(),
            head_seq: 0,
            rev: 0,
            closed: false,
            wake_on: agent::config::WakeOn::All,
            created_at: jiff::Timestamp::UNIX_EPOCH,
        };
        Target { space, members, sender: Some(OWNER.into()), admin: true }
    }

    #[test]
    fn the_only_agent_needs_no_name() {
        let target = home(vec![entity(1, OWNER, EntityKind::Human), entity(2, "ada", EntityKind::Agent)]);
        assert_eq!(target.agent(None).unwrap().handle, "ada");
        assert_eq!(target.agent(Some("ADA")).unwrap().handle, "ada");
        assert_eq!(target.agent(Some(OWNER)).unwrap_err().class, ErrorClass::NotFound);
    }

    #[test]
    fn with_several_agents_the_error_lists_them() {
        let target = home(vec![entity(2, "ada", EntityKind::Agent), entity(3, "bob", EntityKind::Agent)]);
        let failure = target.agent(None).unwrap_err();
        assert_eq!(failure.class, ErrorClass::Usage);
        assert_eq!(failure.hint.unwrap(), "name one with --agent: `ada`, `bob`");
        assert_eq!(home(Vec::new()).agent(None).unwrap_err().class, ErrorClass::NotFound);
    }

    #[test]
    fn the_only_space_needs_no_name() {
        let named = |names: &[&str]| names.iter().map(|name| (name.to_string(), ())).collect::<Vec<_>>();
        let only = |all| only(named(all), "space", ("none".to_owned(), OPEN_ONE), "name one with --space");
        assert!(only(&["a"]).is_ok());
        assert_eq!(only(&[]).unwrap_err().class, ErrorClass::NotFound);
        let two = only(&["a", "b"]).unwrap_err();
        assert_eq!(
            (two.class, two.hint.unwrap().as_str()),
            (ErrorClass::Usage, "name one with --space: `a`, `b`")
        );
    }
}
