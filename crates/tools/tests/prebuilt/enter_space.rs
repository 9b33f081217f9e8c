//! `enter_space`: the space it enters and what it shows.

use agent::changes::Inward;
use agent::entity::EntityKind;
use agent::id::{EntityId, SpaceId};
use agent::limits;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{FAMILY, HUSAM, SECRET, World, entity, husam, scout, space, stored_message, texts, to};

#[tokio::test]
async fn it_sets_the_active_space_and_shows_its_members_and_latest_messages() {
    let mut world = World::new().with_messages(FAMILY, 50);
    let done = world.ask("enter_space", to("family")).await.unwrap();
    assert_eq!(done.inward, Inward { active_space: Some(FAMILY), ..Inward::default() });
    let reply: Value = serde_json::from_str(&done.outcome.text).unwrap();
    assert_eq!(reply["space"], json!({"name": "family", "display_name": "Family"}));
    let members: Vec<_> = reply["members"].as_array().unwrap().iter().map(|m| &m["name"]).collect();
    assert_eq!(members, ["scout", "husam", "muhammad"]);
    assert_eq!((&reply["members"][0]["you"], &reply["members"][1]["you"]), (&json!(true), &Value::Null));
    assert_eq!(reply["total"], 50, "the total counts all messages");
    let shown = texts(&reply);
    assert_eq!((shown.len(), shown[0], shown[19]), (limits::ENTER_HISTORY as usize, "m31", "m50"));
    assert_eq!(reply["next_before"], 31);
}

#[tokio::test]
async fn a_space_is_found_by_id_handle_or_display_name() {
    for name in [&FAMILY.to_string(), "family", "FAMILY", " Family ", "Support \"24/7\""] {
        let wanted = if name.contains("Support") { "support" } else { "family" };
        assert_eq!(World::new().reply("enter_space", to(name)).await["space"]["name"], wanted);
    }
}

#[tokio::test]
async fn the_error_for_an_unknown_space_lists_the_known_ones() {
    for name in ["nope", &SECRET.to_string(), ""] {
        let error = World::new().refusal("enter_space", to(name)).await;
        for part in ["wanted one of your spaces", "`family`", "Family", r#"\"24/7\""#] {
            assert!(error.contains(part), "wanted `{part}` in `{error}`");
        }
        assert!(!error.contains("secret"));
    }
    let mut nowhere = World::new();
    nowhere.facts.spaces.clear();
    assert!(nowhere.refusal("enter_space", to("x")).await.contains("you are a member of no space"));
}

#[tokio::test]
async fn a_display_name_of_two_spaces_is_refused() {
    let mut world = World::new();
    world.facts.spaces.push(space(SECRET, "family-2", "family ", &[]));
    world.facts.spaces.last_mut().unwrap().space.display_name = "Home".into();
    world.facts.spaces[0].space.display_name = "Home".into();
    let error = world.refusal("enter_space", to("home")).await;
    assert!(error.contains("several of your spaces") && error.contains("`family-2`"), "{error}");
    assert_eq!(world.reply("enter_space", to("family")).await["space"]["name"], "family");
}

#[tokio::test]
async fn a_space_cannot_be_entered_after_the_membership_ended() {
    let mut world = World::new().with_messages(FAMILY, 3);
    world.store.member_of.clear();
    let error = world.refusal("enter_space", to("family")).await;
    assert!(error.contains("no member of the space") && world.pending.is_empty(), "{error}");
}

#[tokio::test]
async fn messages_of_the_same_step_are_shown() {
    let mut world = World::new().with_messages(FAMILY, 2);
    world.ask("send_message", json!({"space": "family", "text": "on my way"})).await.unwrap();
    let reply = world.reply("enter_space", to("family")).await;
    assert_eq!(texts(&reply), ["m1", "m2", "on my way"]);
    assert_eq!((&reply["total"], &reply["messages"][2]["pending"]), (&json!(3), &json!(true)));
    assert_eq!(reply["messages"][2]["handle"], "scout");
    assert_eq!(reply["messages"][2].get("seq"), None, "the store assigns the seq later");
}

#[tokio::test]
async fn a_space_with_many_members_and_messages_fits_into_an_outcome() {
    let mut world = World::new();
    for n in 0..limits::SPACE_MEMBERS_MAX as u128 {
        let id = EntityId(Uuid::from_u128(0xB000 + n));
        let member = entity(id, EntityKind::Human, &format!("member-{n}"), &"\u{1}".repeat(200));
        world.facts.spaces[0] = {
            let mut facts = world.facts.spaces[0].clone();
            facts.members.push(agent::entity::Member { entity: member, ..facts.members[0].clone() });
            facts
        };
    }
    world.facts.spaces[0].space.description = "d".repeat(100_000);
    for seq in 1..=20 {
        let text = "\u{2}é\"".repeat(16_000);
        world.store.messages.push(stored_message(FAMILY, seq, HUSAM, &text));
    }
    let done = world.ask("enter_space", to("family")).await.unwrap();
    assert_eq!(done.outcome.shown(), done.outcome.text, "{} bytes", done.outcome.text.len());
    let reply: Value = serde_json::from_str(&done.outcome.text).unwrap();
    assert_eq!(reply["members_total"], 259);
    assert_eq!((&reply["total"], &reply["next_before"]), (&json!(20), &reply["messages"][0]["seq"]));
    assert_eq!(reply["messages"][0]["bytes"], 64_000);
}

#[tokio::test]
async fn an_unlisted_space_is_found_by_id_and_handle_but_not_by_display_name() {
    let mut world = World::new();
    world.facts.more_spaces = 3;
    let hidden = SpaceId(Uuid::from_u128(0xF9));
    world.store.unlisted.push(space(hidden, "attic", "Attic", &[scout(), husam()]));
    world.store.member_of.push(hidden);
    for name in ["attic".to_owned(), hidden.to_string()] {
        let reply = world.reply("enter_space", to(&name)).await;
        assert_eq!(reply["space"]["name"], "attic");
    }
    // It is the active space now.
    let reply = world.reply("send_message", json!({"text": "anybody here?"})).await;
    assert_eq!(reply["space"], "attic");
    let error = world.refusal("enter_space", to("Attic")).await;
    assert!(error.contains("wanted one of your spaces") && error.ends_with(" and more"), "{error}");
    // A listed space is not found by its display name either, since an unlisted one may have the same.
    let error = world.refusal("enter_space", to("Support \"24/7\"")).await;
    assert!(error.contains("wanted a handle, got the display name"), "{error}");
}
