//! Promises about what administrators and people change.

use agent::changes::MemoryChange;
use agent::config::{AgentConfig, WakeOn};
use agent::entity::{EntityKind, Member};
use agent::id::{AgentId, CredentialId, CycleId, EntityId, SpaceId};
use agent::life::Standing;
use agent::limits;
use agent::memory::Memory;
use agent::port::{
    Credential, CredentialRow, Denial, Founding, KeyAdded, MessageFilter, NewAgent, NewCredential, NewHuman,
    NewSpace, Page, PageRequest, RegistryError, RequestKey, Rotation, Scope, SpaceChange,
};
use agent::registry::former_name;
use serde_json::json;
use uuid::Uuid;

use super::Backend;
use super::world::{at, everything, fresh, space, world};

fn denied<T: std::fmt::Debug>(result: Result<T, RegistryError>) -> Denial {
    match result {
        Err(RegistryError::Denied(denial)) => denial,
        other => panic!("wanted a denial, got {other:?}"),
    }
}

fn human(name: &str) -> NewHuman {
    NewHuman {
        id: EntityId(fresh()),
        name: name.into(),
        display_name: name.into(),
        external_id: Some("sso-7".into()),
        at: at(0),
    }
}

fn key(hash: &str, label: &str, scope: Scope) -> NewCredential {
    NewCredential {
        credential: Credential::new(CredentialId(fresh()), scope, label),
        secret_hash: hash.into(),
        at: at(0),
        replace_label: true,
    }
}

/// Everything is created together, and never twice.
pub async fn the_first_world_is_created_once(b: Backend) {
    let founding = || {
        let human = human("you");
        let agent = NewAgent {
            id: AgentId(fresh()),
            name: "viv".into(),
            display_name: "Viv".into(),
            config: AgentConfig::default(),
            at: at(0),
        };
        let space = NewSpace {
            id: SpaceId(fresh()),
            name: "home".into(),
            display_name: "Home".into(),
            description: "where it begins".into(),
            wake_on: WakeOn::All,
            members: vec![human.id, agent.id.entity()],
            at: at(0),
        };
        Founding { human, agent: Some(agent), space: Some(space), admin: key("hash", "admin", Scope::Admin) }
    };
    assert!(b.registry.found(founding()).await.unwrap());
    assert!(!b.registry.found(founding()).await.unwrap());
    let totals = b.reader.totals().await.unwrap();
    assert_eq!((totals.agents, totals.spaces), (1, 1));
    let home = b.reader.space("home".into()).await.unwrap().unwrap();
    let members = b.reader.members(home.id).await.unwrap();
    assert_eq!(members.iter().map(|member| member.entity.name.as_str()).collect::<Vec<_>>(), ["you", "viv"]);
    assert!(b.registry.credential("hash".into()).await.unwrap().is_some());
    // A new admin key replaces the admin key of the same label, but not a person's key of that label.
    let you = b.reader.entity("you".into()).await.unwrap().unwrap().id;
    b.registry.add_credential(key("yours", "admin", Scope::Person(you)), None).await.unwrap();
    b.registry.add_credential(key("second", "admin", Scope::Admin), None).await.unwrap();
    for (hash, holds) in [("hash", false), ("yours", true), ("second", true)] {
        assert_eq!(b.registry.credential(hash.into()).await.unwrap().is_some(), holds, "{hash}");
    }
}

/// Each denial names the entity, space or agent.
pub async fn handles_are_unique_and_unknown_ids_are_named(b: Backend) {
    let w = world(b).await;
    let taken = w.b.registry.create_human(human("ada")).await;
    assert_eq!(denied(taken), Denial::NameTaken { what: "entity", name: "ada".into() });
    let twin = NewSpace {
        id: SpaceId(fresh()),
        name: "family".into(),
        display_name: String::new(),
        description: String::new(),
        wake_on: WakeOn::All,
        members: Vec::new(),
        at: at(0),
    };
    let taken = w.b.registry.open_space(twin).await;
    assert_eq!(denied(taken), Denial::NameTaken { what: "space", name: "family".into() });
    let nobody = fresh();
    let unknown = w.b.registry.add_member(w.team, EntityId(nobody), String::new(), at(1)).await;
    assert_eq!(denied(unknown), Denial::NotFound { what: "entity", name: nobody.to_string() });
    let unknown = w.b.registry.set_space_closed(SpaceId(nobody), true).await;
    assert_eq!(denied(unknown), Denial::NotFound { what: "space", name: nobody.to_string() });
    let person = w.b.registry.amend_agent(w.husam.agent(), None, None, at(1)).await;
    assert_eq!(denied(person), Denial::NotFound { what: "agent", name: w.husam.to_string() });
    let husam = w.b.reader.entity("HUSAM".into()).await.unwrap().unwrap();
    assert_eq!((husam.id, husam.kind), (w.husam, EntityKind::Human));
    assert_eq!(w.b.reader.entity(w.husam.to_string()).await.unwrap(), Some(husam));
    let people = w.b.reader.entities(Some(EntityKind::Human), everything()).await.unwrap();
    assert_eq!(people.items.len(), 1);
}

/// A retired agent is no member that anybody can reach: neither for clients nor in what other agents see.
pub async fn a_retired_agent_is_not_counted_among_the_members_of_a_space(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let is_there = |members: &[Member]| members.iter().any(|member| member.entity.id == w.ada.entity());
    let before = w.wake(w.bob).await.facts;
    assert!(before.spaces.iter().any(|space| is_there(&space.members)));
    assert!(is_there(&w.b.reader.members(w.family).await.unwrap()));
    w.b.registry.set_standing(w.ada, Standing::Retired, at(5)).await.unwrap();
    let after = w.wake(w.bob).await.facts;
    assert!(after.rev > before.rev, "what bob sees is read again");
    assert!(after.spaces.iter().all(|space| !is_there(&space.members) && space.more_members == 0));
    assert!(!is_there(&w.b.reader.members(w.family).await.unwrap()));
    let closed = w.b.registry.remove_member(w.family, w.ada.entity()).await;
    assert!(closed.is_ok(), "it can still be taken out: {closed:?}");
}

/// The handle leads to the living one; the retired agent and the closed space keep their ids under a marked name.
pub async fn the_handles_of_a_retired_agent_and_a_closed_space_can_be_taken(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let before = w.wake(w.bob).await.facts;
    w.b.registry.set_standing(w.ada, Standing::Retired, at(5)).await.unwrap();
    let create = async |name: &str| {
        let new = NewAgent::new(AgentId(fresh()), name, AgentConfig::default(), at(6));
        let id = new.id;
        (id, w.b.registry.create_agent(new).await)
    };
    let (second, created) = create("ada").await;
    assert_eq!(created.unwrap().name, "ada");
    assert_eq!(denied(create("ada").await.1), Denial::NameTaken { what: "entity", name: "ada".into() });
    let entity = async |name: String| w.b.reader.entity(name).await.unwrap().unwrap();
    assert_eq!(entity("ada".into()).await.id, second.entity());
    let first = entity(w.ada.to_string()).await;
    assert_eq!(first.name, former_name("ada", w.ada.0));
    assert!(first.display_name.ends_with(former_name("", w.ada.0).as_str()), "{}", first.display_name);
    assert_eq!(entity(first.name.to_uppercase()).await, first);
    assert!(w.wake(w.bob).await.facts.rev > before.rev, "who shares a space with it sees the new name");
    w.b.registry.set_standing(second, Standing::Retired, at(7)).await.unwrap();
    w.b.registry.create_human(human("ada")).await.unwrap();
    assert_eq!(entity("ada".into()).await.kind, EntityKind::Human);

    w.b.registry.set_space_closed(w.family, true).await.unwrap();
    let twin = space(&w.b, "family", &[]).await;
    let found = async |name: String| w.b.reader.space(name).await.unwrap().unwrap();
    assert_eq!(found("family".into()).await.id, twin);
    let old = found(w.family.to_string()).await;
    assert_eq!((old.name.clone(), old.closed), (former_name("family", w.family.0), true));
    assert_eq!(w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items.len(), 1);
    let taken = w.b.registry.set_space_closed(w.family, false).await;
    assert_eq!(denied(taken), Denial::NameTaken { what: "space", name: "family".into() });
    assert_eq!(found(w.family.to_string()).await, old, "a denial changes nothing");
    w.b.registry.set_space_closed(twin, true).await.unwrap();
    let again = w.b.registry.set_space_closed(w.family, false).await.unwrap();
    assert_eq!((again.name.as_str(), again.closed), ("family", false));
    assert_eq!(found(twin.to_string()).await.name, former_name("family", twin.0));
}

/// It keeps its history and its members, and accepts messages again. A repeat changes nothing.
pub async fn a_closed_space_is_opened_again(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let members = w.b.reader.members(w.family).await.unwrap();
    let set = |closed| w.b.registry.set_space_closed(w.family, closed);
    let closed = set(true).await.unwrap();
    assert_eq!(set(true).await.unwrap(), closed);
    let open = set(false).await.unwrap();
    assert_eq!((open.closed, open.rev, open.name.as_str()), (false, closed.rev + 1, "family"));
    assert_eq!(set(false).await.unwrap(), open);
    assert_eq!(w.b.reader.members(w.family).await.unwrap(), members);
    w.post(w.family, "are you back?").await;
    let messages = w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items;
    assert_eq!(
        messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>(),
        ["hello", "are you back?"]
    );
}

/// Its commits go on, it is shown the change, and of two changes of one key the later one wins.
pub async fn an_operators_change_of_a_memory_leaves_an_open_cycle_valid(b: Backend) {
    let w = world(b).await;
    let set = |key: &str, value: &str| MemoryChange::set(key, value);
    let delete = |key: &str| MemoryChange::Delete { key: key.into() };
    let change = |change| w.b.registry.change_memory(w.ada, change, at(5));
    let page = |cursor| w.b.reader.memories(w.ada, PageRequest { cursor, limit: 2 });
    // Before its first commit, too.
    change(set("tea", "green")).await.unwrap();
    change(set("tea", "black")).await.unwrap();
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let known = w.facts(driver.lease).await;
    assert_eq!(known.memories.len(), 1);
    for key in ["city", "name"] {
        change(set(key, "set by an operator")).await.unwrap();
    }
    let news = w.b.store.glance(driver.lease, known.known_rev()).await.unwrap().unwrap();
    assert_eq!(news.facts.unwrap().memories.len(), 3);
    let mut decision = driver.decision();
    decision.inward.memories = vec![set("city", "Rome"), delete("tea")];
    driver.commit(&w, decision).await;
    change(set("name", "Ada")).await.unwrap();
    change(delete("city")).await.unwrap();
    let unknown = Denial::NotFound { what: "memory", name: "city".into() };
    assert_eq!(denied(change(delete("city")).await), unknown);
    change(set("city", "Oslo")).await.unwrap();
    driver.commit(&w, driver.closing()).await;
    for key in ["sun", "tea"] {
        change(set(key, "after the cycle")).await.unwrap();
    }
    let (first, second) = (page(None).await.unwrap(), page(Some("name".into())).await.unwrap());
    let shown = |page: &Page<Memory>| {
        page.items.iter().map(|memory| format!("{} {}", memory.key, memory.value)).collect::<Vec<_>>()
    };
    assert_eq!(
        (shown(&first), first.next.as_deref()),
        (vec!["city Oslo".into(), "name Ada".into()], Some("name"))
    );
    assert_eq!(
        (shown(&second), second.next),
        (vec!["sun after the cycle".into(), "tea after the cycle".into()], None)
    );
    assert_eq!(w.wake(w.ada).await.facts.memories.len(), 4);
    assert_eq!(page(Some("tea".into())).await.unwrap().items, []);
}

/// Revisions are append-only, and a cycle keeps the one with which it was opened.
pub async fn changing_an_agent_creates_a_revision_only_if_a_cycle_uses_the_old_one(b: Backend) {
    let w = world(b).await;
    let amend =
        |name: Option<&str>, config| w.b.registry.amend_agent(w.ada, name.map(Into::into), config, at(5));
    assert_eq!(amend(Some("Ada L."), None).await.unwrap(), 1);
    assert_eq!(amend(None, Some(json!({"limits": {"max_steps": 20}}))).await.unwrap(), 1);
    w.post(w.family, "hello").await;
    w.open(w.ada).await;
    assert_eq!(amend(None, Some(json!({"limits": {"max_steps": 3}}))).await.unwrap(), 2);
    let bad = amend(None, Some(json!({"limit": 1}))).await;
    assert!(matches!(bad, Err(RegistryError::Config(_))), "{bad:?}");
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.config_rev, card.config.limits.max_steps), (2, 3));
    assert_eq!(card.entity.display_name, "Ada L.");
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.config_rev, activation.config.limits.max_steps), (1, limits::MAX_STEPS));
    assert_eq!(w.wake(w.bob).await.facts.space(w.team).unwrap().members[1].entity.display_name, "Ada L.");
    w.b.registry.set_standing(w.ada, Standing::Retired, at(6)).await.unwrap();
    for (name, patch) in [(Some("Ada"), None), (None, Some(json!({"debounce": 5})))] {
        let retired = amend(name, patch).await;
        let refused = matches!(retired, Err(RegistryError::Denied(Denial::Retired(agent))) if agent == w.ada);
        assert!(refused, "{retired:?}");
    }
}

/// Readers and members see the new values at once. An empty change changes nothing.
pub async fn a_space_is_updated_only_if_something_changes(b: Backend) {
    let w = world(b).await;
    let before = w.b.reader.space("family".into()).await.unwrap().unwrap();
    assert_eq!(before.wake_on, WakeOn::All);
    let amend = |change| w.b.registry.amend_space(w.family, change);
    let quiet = || SpaceChange { wake_on: Some(WakeOn::Mention), ..SpaceChange::default() };
    assert_eq!(amend(SpaceChange::default()).await.unwrap(), before);
    let after = amend(quiet()).await.unwrap();
    assert_eq!((after.wake_on, after.rev, &after.name), (WakeOn::Mention, before.rev + 1, &before.name));
    assert_eq!(amend(quiet()).await.unwrap(), after);
    let named = SpaceChange {
        display_name: Some("The family".into()),
        description: Some("at home".into()),
        ..SpaceChange::default()
    };
    let named = amend(named).await.unwrap();
    assert_eq!((named.display_name.as_str(), named.description.as_str()), ("The family", "at home"));
    assert_eq!((named.wake_on, named.rev), (WakeOn::Mention, after.rev + 1));
    assert_eq!(w.b.reader.space("family".into()).await.unwrap(), Some(named.clone()));
    w.post(w.family, "hello").await;
    let seen = w.wake(w.ada).await.facts.space(w.family).unwrap().space.clone();
    assert_eq!((seen.wake_on, seen.display_name), (WakeOn::Mention, named.display_name));
    let nowhere = SpaceId(fresh());
    let unknown = w.b.registry.amend_space(nowhere, SpaceChange::default()).await;
    assert_eq!(denied(unknown), Denial::NotFound { what: "space", name: nowhere.to_string() });
}

/// Adding a member again changes the role. Removing one twice is denied.
pub async fn membership_changes_raise_the_rev_and_a_full_space_accepts_no_more(b: Backend) {
    let w = world(b).await;
    let rev = w.b.reader.space("family".into()).await.unwrap().unwrap().rev;
    let founders = w.b.reader.members(w.family).await.unwrap();
    assert!(founders.iter().all(|member| member.role == "member"), "{founders:?}");
    let add = |role: &str| w.b.registry.add_member(w.family, w.bob.entity(), role.into(), at(1));
    assert_eq!(add("guest").await.unwrap(), rev + 1);
    assert_eq!(add("owner").await.unwrap(), rev + 2);
    let members = w.b.reader.members(w.family).await.unwrap();
    assert_eq!((members.len(), members[2].role.as_str()), (3, "owner"));
    assert_eq!(w.b.registry.remove_member(w.family, w.bob.entity()).await.unwrap(), rev + 3);
    let again = w.b.registry.remove_member(w.family, w.bob.entity()).await;
    assert_eq!(denied(again), Denial::NotMember { entity: w.bob.entity(), space: w.family });
    let hall = space(&w.b, "hall", &[]).await;
    for n in 0..limits::SPACE_MEMBERS_MAX {
        let new = human(&format!("h{n}"));
        let id = new.id;
        w.b.registry.create_human(new).await.unwrap();
        w.b.registry.add_member(hall, id, String::new(), at(1)).await.unwrap();
    }
    let full = w.b.registry.add_member(hall, w.husam, String::new(), at(1)).await;
    assert_eq!(denied(full), Denial::SpaceFull(hall));
}

/// The secret itself is not stored.
pub async fn a_key_is_found_by_its_hash_and_replaced_by_its_label(b: Backend) {
    let w = world(b).await;
    let scopes = || {
        [
            Scope::Person(w.husam),
            Scope::Admin,
            Scope::Read,
            Scope::Service("a".into()),
            Scope::Service("b".into()),
        ]
    };
    for scope in scopes() {
        w.b.registry.add_credential(key(&format!("first {scope:?}"), "cli", scope), None).await.unwrap();
    }
    for scope in scopes() {
        let found = w.b.registry.credential(format!("first {scope:?}")).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{scope:?}: another scope with its label replaced it"));
        assert_eq!((&found.scope, found.label.as_str()), (&scope, "cli"));
        w.b.registry
            .add_credential(key(&format!("second {scope:?}"), "cli", scope.clone()), None)
            .await
            .unwrap();
        assert_eq!(w.b.registry.credential(format!("first {scope:?}")).await.unwrap(), None);
    }
    let nobody = Scope::Person(EntityId(Uuid::from_u128(7)));
    assert!(w.b.registry.add_credential(key("third", "x", nobody), None).await.is_err());
}

fn added(answer: Result<KeyAdded, RegistryError>) -> CredentialRow {
    match answer.unwrap() {
        KeyAdded::Added(row) => row,
        other => panic!("wanted a new key, got {other:?}"),
    }
}

/// An expired key is found with its expiry: the caller compares it with the clock. The latest use is kept.
pub async fn a_key_keeps_its_expiry_and_its_last_use(b: Backend) {
    let mut new = key("first", "x", Scope::Read);
    new.credential.expires_at = Some(at(9));
    let id = new.credential.id;
    assert_eq!(added(b.registry.add_credential(new.clone(), None).await).credential, new.credential);
    for used in [at(5), at(4)] {
        b.registry.credential_used(id, used).await.unwrap();
    }
    let found = b.registry.credential("first".into()).await.unwrap().unwrap();
    assert_eq!((found.expires_at, found.used_at), (Some(at(9)), Some(at(5))));
    assert!(!found.is_expired(at(8)) && found.is_expired(at(9)));
}

/// The old key stays valid until the overlap is over, and the new one has its scope, its label and its lifetime.
pub async fn a_rotated_key_has_a_successor_and_expires(b: Backend) {
    let (mut old, mut endless) = (key("old", "x", Scope::Read), key("endless", "y", Scope::Admin));
    (old.credential.expires_at, old.at, endless.at) = (Some(at(50)), at(10), at(10));
    let rotation = |old: &NewCredential, hash: &str, until, now| Rotation {
        old: old.credential.id,
        old_until: at(until),
        new: CredentialId(fresh()),
        secret_hash: hash.into(),
        at: at(now),
        expires_at: None,
    };
    for new in [&old, &endless] {
        b.registry.add_credential(new.clone(), None).await.unwrap();
    }
    let next = added(b.registry.rotate_credential(rotation(&old, "next", 30, 20), None).await);
    assert_eq!((&next.credential.scope, next.credential.label.as_str()), (&Scope::Read, "x"));
    assert_eq!((next.created_at, next.credential.expires_at), (at(20), Some(at(60))));
    assert_eq!(b.registry.credential("next".into()).await.unwrap(), Some(next.credential));
    // A later end does not prolong it.
    b.registry.rotate_credential(rotation(&old, "again", 40, 21), None).await.unwrap();
    assert_eq!(b.registry.credential("old".into()).await.unwrap().unwrap().expires_at, Some(at(30)));
    let late = b.registry.rotate_credential(rotation(&old, "late", 90, 30), None).await;
    assert_eq!(denied(late), Denial::KeyOver(old.credential.id));
    let next = added(b.registry.rotate_credential(rotation(&endless, "n", 30, 20), None).await);
    assert_eq!(next.credential.expires_at, None);
    b.registry.revoke_credential(endless.credential.id, at(21)).await.unwrap();
    let revoked = b.registry.rotate_credential(rotation(&endless, "r", 30, 22), None).await;
    assert_eq!(denied(revoked), Denial::KeyOver(endless.credential.id));
    let unknown =
        b.registry.rotate_credential(rotation(&key("u", "u", Scope::Read), "v", 30, 22), None).await;
    assert!(matches!(denied(unknown), Denial::NotFound { what: "key", .. }));
}

/// A repeat returns the key that the first request created, as it is now. The same idempotency key with another
/// body is a conflict, and creates nothing.
pub async fn a_request_for_a_key_creates_one_key_however_often_it_is_repeated(b: Backend) {
    let request = |key: &str, body: &str| {
        Some(RequestKey { principal: "admin".into(), key: key.into(), body_hash: body.into(), at: at(0) })
    };
    let first = added(b.registry.add_credential(key("first", "x", Scope::Admin), request("a", "1")).await);
    let again = b.registry.add_credential(key("second", "x", Scope::Admin), request("a", "1")).await.unwrap();
    assert_eq!(again, KeyAdded::Repeated(first.clone()));
    let other = b.registry.add_credential(key("third", "y", Scope::Admin), request("a", "2")).await.unwrap();
    assert_eq!(other, KeyAdded::Conflict);
    let rotation = |hash: &str| Rotation {
        old: first.credential.id,
        old_until: at(90),
        new: CredentialId(fresh()),
        secret_hash: hash.into(),
        at: at(2),
        expires_at: None,
    };
    let next = added(b.registry.rotate_credential(rotation("next"), request("b", "3")).await);
    let again = b.registry.rotate_credential(rotation("later"), request("b", "3")).await.unwrap();
    assert_eq!(again, KeyAdded::Repeated(next));
    for hash in ["second", "third", "later"] {
        assert_eq!(b.registry.credential(hash.into()).await.unwrap(), None, "{hash}");
    }
}

/// If a cycle is named, it must be the open one.
pub async fn only_an_open_cycle_can_be_canceled(b: Backend) {
    let w = world(b).await;
    assert_eq!(denied(w.b.registry.cancel(w.ada, None).await), Denial::NoOpenCycle(w.ada));
    w.post(w.family, "hello").await;
    let driver = w.open(w.ada).await;
    let other = Some(CycleId(fresh()));
    assert_eq!(denied(w.b.registry.cancel(w.ada, other).await), Denial::OtherCycle(w.ada));
    assert!(!w.news(driver.lease).await.glance.cancel);
    assert_eq!(w.b.registry.cancel(w.ada, Some(driver.open.id)).await.unwrap(), driver.open.id);
    assert!(w.news(driver.lease).await.glance.cancel);
}

/// Revoking is final, and a repeat changes nothing.
pub async fn a_revoked_key_is_listed_and_not_found(b: Backend) {
    let w = world(b).await;
    let page = |cursor| PageRequest { cursor, limit: 1 };
    let mut expected = w.b.reader.credentials(PageRequest { cursor: None, limit: 100 }).await.unwrap().items;
    for (hash, kind) in [("first", Scope::Admin), ("second", Scope::Person(w.husam))] {
        let new = NewCredential { at: at(7), ..key(hash, hash, kind) };
        let row = CredentialRow { credential: new.credential.clone(), created_at: at(7), revoked_at: None };
        expected.insert(0, row);
        w.b.registry.add_credential(new, None).await.unwrap();
    }
    expected.sort_by_key(|row| std::cmp::Reverse(row.credential.id.0));
    let (id, hash) = {
        let row = expected.iter_mut().find(|row| row.credential.label == "second").unwrap();
        row.revoked_at = Some(at(9));
        (row.credential.id, "second".to_owned())
    };
    for now in [9, 30] {
        let revoked = w.b.registry.revoke_credential(id, at(now)).await.unwrap();
        assert_eq!((revoked.credential.id, revoked.revoked_at), (id, Some(at(9))));
    }
    assert_eq!(w.b.registry.credential(hash).await.unwrap(), None);
    assert!(w.b.registry.credential("first".into()).await.unwrap().is_some());
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..=expected.len() {
        let next = w.b.reader.credentials(page(cursor)).await.unwrap();
        found.extend(next.items);
        cursor = next.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, expected, "a page at a time, the newest first");
    let unknown = w.b.registry.revoke_credential(CredentialId(fresh()), at(9)).await;
    assert!(
        matches!(unknown, Err(RegistryError::Denied(Denial::NotFound { what: "key", .. }))),
        "{unknown:?}"
    );
}
