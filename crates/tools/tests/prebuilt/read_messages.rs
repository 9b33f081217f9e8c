//! `read_messages`: pages, membership, pending messages.

use agent::event::{NamedMessage, Trust};
use agent::limits;
use serde_json::{Value, json};

use crate::world::{FAMILY, HUSAM, SCOUT, SECRET, SUPPORT, World, stored_message, texts, to};

#[tokio::test]
async fn a_message_is_shown_with_its_sender_time_and_seq() {
    let mut world = World::new();
    world.store.messages =
        vec![stored_message(FAMILY, 1, HUSAM, "hi"), stored_message(FAMILY, 2, SCOUT.entity(), "hello")];
    let reply = world.reply("read_messages", to("family")).await;
    let first = json!({
        "seq": 1,
        "at": "2026-11-21T14:03:05Z",
        "sender": "Husam",
        "handle": "husam",
        "kind": "human",
        "text": "hi",
    });
    assert_eq!(reply["messages"][0], first);
    assert_eq!(
        (&reply["messages"][1]["you"], &reply["messages"][1]["kind"]),
        (&json!(true), &json!("agent"))
    );
    assert_eq!((&reply["total"], &reply["next_before"]), (&json!(2), &Value::Null));
}

#[tokio::test]
async fn what_is_read_is_trusted_as_its_least_trusted_sender_apart_from_the_agent() {
    let mut world = World::new();
    let own = stored_message(FAMILY, 1, SCOUT.entity(), "mine");
    for tool in ["read_messages", "enter_space"] {
        world.store.messages = vec![own.clone()];
        assert_eq!(world.ask(tool, to("family")).await.unwrap().outcome.trust, None, "that of its cycle");
        world.store.messages.push(stored_message(FAMILY, 2, HUSAM, "hi"));
        assert_eq!(world.ask(tool, to("family")).await.unwrap().outcome.trust, Some(Trust::Member));
        let by_hook = NamedMessage { trust: Trust::Outside, ..stored_message(FAMILY, 3, HUSAM, "x") };
        world.store.messages.push(by_hook);
        assert_eq!(world.ask(tool, to("family")).await.unwrap().outcome.trust, Some(Trust::Outside));
    }
    world.store.messages = vec![NamedMessage { trust: Trust::Outside, ..own.clone() }];
    let repeated = world.ask("read_messages", to("family")).await.unwrap();
    assert_eq!(repeated.outcome.trust, Some(Trust::Outside), "a stranger's words in its own mouth");
    world.store.messages = vec![own, stored_message(FAMILY, 2, HUSAM, "hi")];
    world
        .store
        .messages
        .push(NamedMessage { trust: Trust::Outside, ..stored_message(FAMILY, 3, HUSAM, "x") });
    let older = world.ask("read_messages", json!({"space": "family", "before": 3})).await.unwrap();
    assert_eq!(older.outcome.trust, Some(Trust::Member), "only what is shown counts");
}

#[tokio::test]
async fn pages_cover_all_messages_without_gap_or_repeat() {
    let mut world = World::new().with_messages(FAMILY, 7);
    let (mut before, mut seen) = (Value::Null, Vec::new());
    loop {
        let arguments = json!({"space": "family", "limit": 3, "before": before});
        let reply = world.reply("read_messages", arguments).await;
        seen.splice(0..0, texts(&reply).into_iter().map(str::to_owned));
        before = reply["next_before"].clone();
        if before.is_null() {
            break;
        }
    }
    assert_eq!(seen, ["m1", "m2", "m3", "m4", "m5", "m6", "m7"]);
}

#[tokio::test]
async fn without_a_space_it_reads_the_active_one() {
    let mut world = World::new().with_messages(SUPPORT, 1);
    world.active = Some(SUPPORT);
    assert_eq!(texts(&world.reply("read_messages", json!({})).await), ["m1"]);
    world.active = None;
    let error = world.refusal("read_messages", json!({})).await;
    assert!(error.contains("enter_space") && error.contains("`support`"), "{error}");
    world.facts.spaces.remove(0);
    assert_eq!(texts(&world.reply("read_messages", json!({})).await), ["m1"], "it is in one space only");
}

#[tokio::test]
async fn a_space_of_others_cannot_be_read_under_any_name() {
    let mut world = World::new().with_messages(SECRET, 3);
    world.active = Some(SECRET);
    for arguments in [to(&SECRET.to_string()), to("secret"), json!({})] {
        let error = world.refusal("read_messages", arguments).await;
        assert!(!error.contains("m1"), "{error}");
    }
}

#[tokio::test]
async fn the_store_is_asked_for_the_membership_too() {
    let mut world = World::new().with_messages(FAMILY, 3);
    world.store.member_of.clear();
    let error = world.refusal("read_messages", to("family")).await;
    assert!(error.contains("no member of the space"), "{error}");
}

#[tokio::test]
async fn pending_messages_are_the_newest_and_older_pages_do_not_repeat_them() {
    let mut world = World::new().with_messages(FAMILY, 4);
    for text in ["p1", "p2"] {
        world.ask("send_message", json!({"space": "family", "text": text})).await.unwrap();
    }
    world.ask("send_message", json!({"space": "support", "text": "elsewhere"})).await.unwrap();
    let newest = world.reply("read_messages", json!({"space": "family", "limit": 3})).await;
    assert_eq!(texts(&newest), ["m4", "p1", "p2"]);
    assert_eq!((&newest["total"], &newest["next_before"]), (&json!(6), &json!(4)));
    let only = world.reply("read_messages", json!({"space": "family", "limit": 1})).await;
    assert_eq!((texts(&only), &only["next_before"]), (vec!["p2"], &json!(5)));
    let older = world.reply("read_messages", json!({"space": "family", "before": 5})).await;
    assert_eq!((texts(&older), &older["total"]), (vec!["m1", "m2", "m3", "m4"], &json!(6)));
}

#[tokio::test]
async fn a_page_holds_as_many_messages_as_fit_into_an_outcome() {
    let mut world = World::new();
    for seq in 1..=40 {
        world.store.messages.push(stored_message(FAMILY, seq, HUSAM, &"x".repeat(2_000)));
    }
    let done = world.ask("read_messages", json!({"space": "family", "limit": 40})).await.unwrap();
    assert_eq!(done.outcome.shown(), done.outcome.text);
    let reply: Value = serde_json::from_str(&done.outcome.text).unwrap();
    let shown = reply["messages"].as_array().unwrap();
    assert!((5..10).contains(&shown.len()), "got {}", shown.len());
    assert_eq!(shown.last().unwrap()["seq"], 40);
    assert_eq!(reply["next_before"], shown[0]["seq"]);
}

#[tokio::test]
async fn errors_name_the_limits_of_numbers() {
    let mut world = World::new();
    for (arguments, wanted) in [
        (json!({"limit": limits::READ_MESSAGES_MAX + 1}), "at `/limit`: wanted at most 200, got `201`"),
        (json!({"limit": 0}), "at `/limit`: wanted at least 1, got `0`"),
        (json!({"before": "x"}), "at `/before`: wanted "),
        (json!({"offset": 3}), "wanted only `space`, `before`, `limit`, got `offset`"),
    ] {
        let error = world.refusal("read_messages", arguments).await;
        assert!(error.contains(wanted), "wanted `{wanted}` in `{error}`");
    }
}

#[tokio::test]
async fn absurd_numbers_are_answered_without_a_panic() {
    let mut world = World::new().with_messages(FAMILY, 2);
    let largest = json!({"space": "family", "before": u64::MAX});
    assert_eq!(texts(&world.reply("read_messages", largest).await), ["m1", "m2"]);
    for number in ["1e300", "-1", "1.5", "99999999999999999999999999"] {
        let arguments = format!(r#"{{"space":"family","before":{number}}}"#);
        assert!(world.call("read_messages", &arguments).await.is_err(), "`{number}` should be refused");
    }
}

#[tokio::test]
async fn a_busy_store_is_reported_differently_to_model_and_operator() {
    let mut world = World::new();
    world.store.broken = true;
    let error = world.refusal("read_messages", to("family")).await;
    assert!(error.contains("try again") && !error.contains("disk"), "{error}");
}

#[tokio::test]
async fn invisible_and_direction_changing_characters_are_escaped() {
    let mut world = World::new();
    let words = "a\u{2028}b\u{2029}c\u{85}d\u{7f}e\u{9b}f\u{202e}g\u{2066}h";
    world.store.messages = vec![stored_message(FAMILY, 1, HUSAM, words)];
    let text = world.ask("read_messages", to("family")).await.unwrap().outcome.text;
    let hides = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}');
    assert!(!text.contains(hides), "{text}");
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(texts(&read), [words]);
}
