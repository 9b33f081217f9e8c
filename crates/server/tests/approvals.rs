//! Calls that wait for people: who sees and answers them, and what each wrong answer is told.

use agent::approval::{Approval, AskKind, Patience, RequestedBy, hash_of};
use agent::call::{CallRow, Runner};
use agent::event::Principal;
use agent::id::CallId;
use agent::limits;
use axum::http::Method;
use runtime::node::Signal;
use serde_json::{Value, json};

use crate::calls::open_row;
use crate::world::{ADMIN, Answer, World};

/// An open call of `fire` that waits for a person in the home space.
pub(crate) async fn asked(world: &World, change: impl FnOnce(Approval) -> Approval) -> CallId {
    let now = world.ports.clock.now();
    let row = |row: CallRow| {
        let row = CallRow { arguments: r#"{"note":"one"}"#.into(), ..row };
        let patience = Patience { pause_ms: limits::PAUSE_MS, expires_ms: limits::APPROVAL_MS };
        let hash = hash_of(&row.tool, &row.tool_version, &row.arguments);
        let asked = Approval::wanted(AskKind::Approval, "it costs money".into(), hash, patience, now);
        let asked = change(Approval { space: Some(world.home), ..asked });
        let runner = if asked.question { Runner::Person } else { Runner::Node };
        CallRow { runner, approval: Some(Box::new(asked)), ..row }
    };
    open_row(world, "fire", Runner::Node, row).await
}

async fn answer(world: &World, key: &str, id: &CallId, body: Value) -> Answer {
    world.ask(Method::POST, &format!("/v1/approvals/{id}/answer"), key, Some(body)).await
}

#[tokio::test]
async fn a_call_that_waits_is_listed_shown_approved_once_and_gone_from_the_list() {
    let world = World::new().await;
    assert_eq!(world.get("/v1/approvals").await.json, json!({"items": [], "next": null}));
    let id = asked(&world, |asked| asked).await;
    let list = world.get("/v1/approvals?agent=muhammad").await.json["items"].clone();
    let one = &list[0];
    assert_eq!(
        (&one["call"], &one["state"], &one["arguments"]),
        (&json!(id), &json!("wanted"), &json!(r#"{"note":"one"}"#))
    );
    assert_eq!(
        (&one["tool"], &one["why"], &one["agent_handle"]),
        (&json!("fire"), &json!("it costs money"), &json!("muhammad"))
    );
    assert_eq!(&world.get(&format!("/v1/approvals/{id}")).await.json, one);
    world.signals();
    let body =
        json!({"verdict": "approve", "arguments": {"note": "two"}, "reason": "cheaper", "hash": one["hash"]});
    let granted = answer(&world, ADMIN, &id, body).await;
    assert_eq!((granted.status, &granted.json["state"]), (200, &json!("granted")), "{granted:?}");
    assert_eq!(granted.json["asked_arguments"], r#"{"note":"one"}"#);
    assert!(world.signals().contains(&Signal::Granted));
    let late = answer(&world, ADMIN, &id, json!({"verdict": "refuse"})).await;
    assert_eq!((late.status, late.code()), (409, "answered_already"));
    assert!(late.json["detail"].as_str().unwrap().contains("granted by an operator"), "{late:?}");
    assert!(late.json["hint"].as_str().unwrap().contains("`GET /v1/approvals/CALL`"), "{late:?}");
    assert_eq!(world.get("/v1/approvals").await.json["items"], json!([]));
    assert_eq!(world.get("/v1/approvals?all=true").await.json["items"][0]["state"], "granted");
}

#[tokio::test]
async fn a_person_sees_and_answers_what_is_asked_in_its_spaces_and_a_stranger_nothing() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    world.post("/v1/entities", json!({"handle": "stranger"})).await;
    let stranger = world.key(json!({"scope": "person", "entity": "stranger"})).await.1;
    let path = format!("/v1/approvals/{id}");
    assert_eq!(world.ask(Method::GET, &path, &stranger, None).await.code(), "not_found");
    assert_eq!(world.ask(Method::GET, "/v1/approvals", &stranger, None).await.json["items"], json!([]));
    let yes = json!({"verdict": "approve"});
    for given in [&yes, &json!({"verdict": "maybe"}), &json!({"verdict": "approve", "sender": "you"})] {
        assert_eq!(answer(&world, &stranger, &id, given.clone()).await.code(), "not_found", "{given}");
    }
    let first = world.ask(Method::GET, "/v1/approvals?limit=1&all=true", &stranger, None).await.json;
    assert_eq!(first, json!({"items": [], "next": null}), "no page is empty with another behind it");
    for (sender, code) in [("stranger", "not_yours"), ("muhammad", "not_human"), ("nobody", "not_found")] {
        let body = json!({"verdict": "approve", "sender": sender});
        assert_eq!(answer(&world, ADMIN, &id, body).await.code(), code, "{sender}");
    }
    let yours = world.your_key().await;
    assert_eq!(
        world.ask(Method::GET, "/v1/approvals", &yours, None).await.json["items"][0]["call"],
        json!(id)
    );
    let tainted =
        json!({"verdict": "approve", "remember_until": "2026-11-22T14:00:00Z", "remember_tainted": true});
    assert_eq!(answer(&world, &yours, &id, tainted).await.code(), "forbidden");
    let granted = answer(&world, &yours, &id, yes).await;
    assert_eq!((granted.status, &granted.json["by"]), (200, &json!("you")), "{granted:?}");
}

#[tokio::test]
async fn all_who_see_a_call_read_who_caused_it_and_only_operators_what_the_model_wrote_beside_it() {
    let world = World::new().await;
    let by = |principal, name| RequestedBy::new(principal, name);
    let id = asked(&world, |asked| Approval {
        requested_by: vec![
            by(Principal::Entity(world.you), "you"),
            by(Principal::Webhook("ci".into()), "ci"),
        ],
        said: Some("it hangs".into()),
        ..asked
    })
    .await;
    let (yours, path) = (world.your_key().await, format!("/v1/approvals/{id}"));
    let readers = world.key(json!({"scope": "operator:read"})).await.1;
    for (key, said) in [(ADMIN, true), (&readers, true), (&yours, false)] {
        let one = world.ask(Method::GET, &path, key, None).await.json;
        let list = world.ask(Method::GET, "/v1/approvals", key, None).await.json["items"][0].clone();
        for shown in [one, list] {
            assert_eq!(shown["requested_by"], json!(["you", "ci"]));
            assert_eq!(shown["said"], if said { json!("it hangs") } else { Value::Null }, "{shown}");
        }
    }
    let answered = answer(&world, &yours, &id, json!({"verdict": "refuse"})).await;
    assert_eq!((answered.status, &answered.json["said"]), (200, &Value::Null));
}

#[tokio::test]
async fn each_wrong_answer_is_told_what_was_wrong_and_nothing_is_lost() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    for (body, code) in [
        (json!({}), "bad_answer"),
        (json!({"verdict": "maybe"}), "bad_answer"),
        (json!({"verdict": "approve", "answer": "yes"}), "bad_answer"),
        (json!({"answer": "yes"}), "bad_answer"),
        (json!({"verdict": "refuse", "arguments": {}}), "bad_answer"),
        (json!({"verdict": "approve", "remember_tainted": true}), "bad_answer"),
        (json!({"verdict": "refuse", "remember_tainted": false}), "bad_answer"),
        (json!({"verdict": "approve", "arguments": "no object"}), "bad_answer"),
        (json!({"verdict": "approve", "arguments": {"wrong": 1}}), "bad_answer"),
        (json!({"verdict": "approve", "arguments": {"note": "x".repeat(20_000)}}), "bad_answer"),
        (json!({"verdict": "approve", "reason": "x".repeat(20_000)}), "bad_answer"),
        (json!({"verdict": "approve", "remember_until": "2020-01-01T00:00:00Z"}), "bad_answer"),
        (json!({"verdict": "approve", "hash": "other"}), "call_changed"),
        (json!({"verdict": "approve", "note": "x".repeat(2 << 20)}), "body_too_large"),
    ] {
        let refused = answer(&world, ADMIN, &id, body.clone()).await;
        assert_eq!(refused.code(), code, "{body:.80}: {refused:?}");
        let hinted = code != "bad_answer" || refused.json["hint"].as_str().unwrap().contains("/v1/approvals");
        assert!(hinted, "{refused:?}");
    }
    assert_eq!(world.get("/v1/approvals").await.json["items"][0]["state"], "wanted");
    let unknown = answer(&world, ADMIN, &CallId("c0".into()), json!({"verdict": "approve"})).await;
    assert_eq!(unknown.code(), "not_found");
    world.clock.advance(std::time::Duration::from_millis(limits::APPROVAL_MS));
    let late = answer(&world, ADMIN, &id, json!({"verdict": "approve"})).await;
    assert_eq!((late.status, late.code()), (409, "call_over"), "{late:?}");
}

#[tokio::test]
async fn a_question_is_answered_by_one_of_its_options() {
    let world = World::new().await;
    let choice = |asked| {
        let options = vec!["red".to_owned(), "blue".to_owned()];
        Approval { question: true, kind: AskKind::Choice, options, ..asked }
    };
    let id = asked(&world, choice).await;
    let wrong = answer(&world, ADMIN, &id, json!({"answer": "green"})).await;
    assert_eq!((wrong.status, wrong.code()), (422, "bad_answer"));
    assert!(wrong.json["detail"].as_str().unwrap().contains("blue"), "{wrong:?}");
    let right = answer(&world, ADMIN, &id, json!({"answer": "blue"})).await;
    assert_eq!(
        (&right.json["state"], &right.json["status"]),
        (&json!("answered"), &json!("ok")),
        "{right:?}"
    );
}

#[tokio::test]
async fn rules_are_listed_and_deleted() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let body = json!({"verdict": "approve", "remember_until": "2026-11-22T14:00:00Z"});
    assert_eq!(answer(&world, ADMIN, &id, body).await.status, 200);
    let rules = world.get("/v1/approval-rules?agent=muhammad").await.json["items"].clone();
    assert_eq!((&rules[0]["tool"], &rules[0]["tainted"]), (&json!("fire"), &json!(false)), "{rules}");
    let path = "/v1/approval-rules/muhammad/fire";
    assert_eq!(world.ask(Method::DELETE, path, ADMIN, None).await.status, 204);
    assert_eq!(world.ask(Method::DELETE, path, ADMIN, None).await.code(), "not_found");
    assert_eq!(world.get("/v1/approval-rules").await.json["items"], json!([]));
}

#[tokio::test]
async fn whoever_gives_a_rule_learns_that_the_guard_asks_all_the_same_and_the_list_says_it_as_long_as_it_does()
 {
    let until = "2026-11-22T14:00:00Z";
    let once = World::new().await;
    let id = asked(&once, |asked| Approval { tainted: true, ..asked }).await;
    let given = answer(&once, ADMIN, &id, json!({"verdict": "approve"})).await;
    assert_eq!((given.status, &given.json["guard_asks"]), (200, &Value::Null), "no rule was given");
    let mut world = once;
    for (tainted, for_that, asks) in [(true, false, true), (true, true, false), (false, false, false)] {
        world = World::new().await;
        let id = asked(&world, |asked| Approval { tainted, ..asked }).await;
        let body = json!({"verdict": "approve", "remember_until": until, "remember_tainted": for_that});
        let given = answer(&world, ADMIN, &id, body).await;
        assert_eq!((given.status, &given.json["guard_asks"]), (200, &json!(asks)), "{given:?}");
    }
    let asks = async || world.get("/v1/approval-rules").await.json["items"][0]["guard_asks"].clone();
    assert_eq!(asks().await, false);
    let path = "/v1/agents/muhammad/memories/note";
    let copy = json!({"value": "strangers' text", "trust": "outside"});
    assert_eq!(world.ask(Method::PUT, path, ADMIN, Some(copy)).await.json["trust"], "outside");
    assert_eq!(asks().await, true);
    assert_eq!(world.ask(Method::DELETE, path, ADMIN, None).await.status, 204);
    assert_eq!(asks().await, false);
    let nothing =
        world.ask(Method::PUT, path, ADMIN, Some(json!({"trust": "outside", "pinned": true}))).await;
    assert_eq!(nothing.code(), "bad_value", "what is there already keeps its trust");
}

#[tokio::test]
async fn a_person_lists_and_deletes_the_own_rules_which_are_for_the_space_that_was_asked() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let yours = world.your_key().await;
    let body = json!({"verdict": "approve", "remember_until": "2026-11-22T14:00:00Z"});
    assert_eq!(answer(&world, &yours, &id, body).await.status, 200);
    world.post("/v1/entities", json!({"handle": "stranger"})).await;
    let stranger = world.key(json!({"scope": "person", "entity": "stranger"})).await.1;
    let list =
        async |key: &str| world.ask(Method::GET, "/v1/approval-rules", key, None).await.json["items"].clone();
    assert_eq!(list(&stranger).await, json!([]));
    let rules = list(&yours).await;
    assert_eq!((&rules[0]["space"], &rules[0]["by"]), (&json!(world.home), &json!("you")), "{rules}");
    assert!(rules[0]["version"].is_string() && rules[0]["space_handle"] == "home", "{rules}");
    assert_eq!(list(ADMIN).await, rules);
    let path = "/v1/approval-rules/muhammad/fire";
    assert_eq!(world.ask(Method::DELETE, path, &stranger, None).await.code(), "not_found");
    assert_eq!(world.ask(Method::DELETE, path, &yours, None).await.status, 204);
    assert_eq!(list(ADMIN).await, json!([]));
}

#[tokio::test]
async fn only_approvers_of_now_answer_a_call_whose_agent_names_some_from_whatever_space() {
    let world = World::new().await;
    world.post("/v1/entities", json!({"handle": "boss"})).await;
    let boss = world.key(json!({"scope": "person", "entity": "boss"})).await.1;
    let id = asked(&world, |asked| Approval { approvers: vec!["you".into()], ..asked }).await;
    let (yes, yours) = (json!({"verdict": "approve"}), world.your_key().await);
    assert_eq!(answer(&world, &boss, &id, yes.clone()).await.code(), "not_found");
    configure(&world, json!({"approvers": ["boss"]})).await;
    let refused = answer(&world, &yours, &id, yes.clone()).await;
    assert_eq!(refused.code(), "not_yours");
    assert!(refused.problem_text().ends_with("ask `boss`, or an operator"), "{refused:?}");
    let list = world.ask(Method::GET, "/v1/approvals", &boss, None).await.json["items"].clone();
    assert_eq!((&list[0]["call"], &list[0]["approver_handles"]), (&json!(id), &json!(["you"])), "{list}");
    assert_eq!(world.ask(Method::GET, &format!("/v1/approvals/{id}"), &boss, None).await.status, 200);
    let granted = answer(&world, &boss, &id, yes).await;
    assert_eq!((granted.status, &granted.json["by"]), (200, &json!("boss")), "{granted:?}");
}

#[tokio::test]
async fn a_call_of_a_tool_that_its_agent_no_longer_has_is_not_approved() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    configure(&world, json!({"tools": ["look"]})).await;
    let refused = answer(&world, ADMIN, &id, json!({"verdict": "approve"})).await;
    assert_eq!((refused.status, refused.code()), (409, "call_changed"), "{refused:?}");
    assert!(
        refused.json["detail"].as_str().unwrap().contains("does not have the tool `fire`"),
        "{refused:?}"
    );
    assert_eq!(answer(&world, ADMIN, &id, json!({"verdict": "refuse"})).await.status, 200);
}

#[tokio::test]
async fn rules_come_in_pages() {
    let world = World::new().await;
    let yours = world.your_key().await;
    let id = asked(&world, |asked| asked).await;
    let body = json!({"verdict": "approve", "remember_until": "2026-11-22T14:00:00Z"});
    assert_eq!(answer(&world, &yours, &id, body).await.status, 200);
    let page = world.get("/v1/approval-rules?limit=1").await.json;
    assert_eq!((&page["items"][0]["by"], &page["next"]), (&json!("you"), &json!(null)), "{page}");
    let other = world.get("/v1/approval-rules?cursor=nonsense").await;
    assert_eq!(other.code(), "bad_query", "{other:?}");
}

async fn configure(world: &World, config: Value) {
    let body = json!({"config": config});
    let changed = world.ask(Method::PATCH, "/v1/agents/muhammad", ADMIN, Some(body)).await;
    assert_eq!(changed.status, 200, "{changed:?}");
}
