//! Plans of agents, set, listed and deleted by operators.

use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::world::{ADMIN, World};

const PATH: &str = "/v1/agents/muhammad/plans";

fn daily() -> Value {
    json!({"name": "daily", "instruction": "look", "cron": "0 9 * * *", "zone": "Europe/Berlin"})
}

#[tokio::test]
async fn a_plan_can_be_set_read_listed_and_deleted() {
    let world = World::new().await;
    let set = world.post(PATH, daily()).await;
    assert_eq!((set.status, &set.json["source"]), (201, &json!("operator")), "{set:?}");
    let schedule = json!({"kind": "cron", "expression": "0 9 * * *", "zone": "Europe/Berlin"});
    assert_eq!((&set.json["schedule"], &set.json["trust"]), (&schedule, &json!("operator")));
    let path = set.headers["location"].to_str().unwrap().to_owned();
    assert_eq!(world.get(&path).await.json, set.json);
    assert_eq!(world.get(PATH).await.json["items"], json!([set.json]));
    let card = world.get("/v1/agents/muhammad").await;
    assert_eq!(card.json["next_plan_at"], set.json["next_at"]);
    assert_eq!(world.ask(Method::DELETE, &path, ADMIN, None).await.status, 204);
    assert_eq!(world.get(PATH).await.json["items"], json!([]));
    assert_eq!(world.get(&path).await.json["next_at"], Value::Null);
    let again = world.ask(Method::DELETE, &path, ADMIN, None).await;
    assert_eq!((again.status, again.code()), (404, "not_found"), "{again:?}");
}

#[tokio::test]
async fn a_plan_that_cannot_be_right_is_refused_with_the_reason() {
    let world = World::new().await;
    for (change, why) in [
        (json!({"cron": "* * * * * *"}), "`cron`: wanted five fields"),
        (json!({"cron": "0 0 30 2 *"}), "never fires"),
        (json!({"zone": "Nowhere/Land"}), "not an IANA time zone"),
        (json!({"cron": null, "zone": null, "at": "2001-01-01T00:00:00Z"}), "`at` must be ahead"),
        (json!({"cron": null, "zone": null, "every": "1s"}), "wanted at least 1m"),
        (json!({"cron": null, "zone": null}), "wanted one of `at`, `after`, `every` and `cron`"),
        (json!({"name": " "}), "needs its `name`"),
        (json!({"instruction": "x".repeat(5_000)}), "at most 4096 bytes"),
    ] {
        let mut plan = daily();
        plan.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = world.post(PATH, plan).await;
        assert_eq!((refused.status, refused.code()), (422, "bad_plan"), "{refused:?}");
        assert!(refused.problem_text().contains(why), "{refused:?}");
    }
    let unknown = world.post("/v1/agents/nobody/plans", daily()).await;
    assert_eq!((unknown.status, unknown.code()), (404, "not_found"));
    world.post("/v1/agents/muhammad/retire", json!({})).await;
    let retired = world.post(PATH, daily()).await;
    assert_eq!((retired.status, retired.code()), (409, "agent_retired"), "{retired:?}");
}

#[tokio::test]
async fn a_repeated_request_sets_one_plan_even_after_that_was_deleted() {
    let world = World::new().await;
    let request = |body: &Value| {
        let request = Request::builder().method(Method::POST).uri(PATH).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {ADMIN}"));
        let request = request.header("content-type", "application/json").header("idempotency-key", "k-1");
        request.body(body.to_string().into()).unwrap()
    };
    let first = world.send(request(&daily())).await;
    let second = world.send(request(&daily())).await;
    assert_eq!((first.status, second.status, &second.json), (201, 200, &first.json));
    let other = world.send(request(&json!({"name": "x", "instruction": "y", "after": "5m"}))).await;
    assert_eq!(other.status, 409, "{other:?}");
    let path = first.headers["location"].to_str().unwrap();
    assert_eq!(world.ask(Method::DELETE, path, ADMIN, None).await.status, 204);
    let third = world.send(request(&daily())).await;
    assert_eq!((third.status, &third.json["next_at"]), (200, &Value::Null), "{third:?}");
    assert_eq!(world.get(PATH).await.json["items"], json!([]));
}

#[tokio::test]
async fn a_plan_that_is_set_again_replaces_the_one_of_its_name_and_a_repeated_request_does_not() {
    let world = World::new().await;
    let set = async |key: &str, body: Value| {
        let request = Request::builder().method(Method::POST).uri(PATH).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {ADMIN}"));
        let request = request.header("content-type", "application/json").header("idempotency-key", key);
        world.send(request.body(body.to_string().into()).unwrap()).await
    };
    let first = set("k-1", daily()).await;
    let mut later = daily();
    later["cron"] = json!("0 10 * * *");
    let second = set("k-2", later).await;
    assert_eq!((second.status, world.get(PATH).await.json["items"].clone()), (201, json!([second.json])));
    let again = set("k-1", daily()).await;
    assert_eq!(
        (again.status, &again.json["id"], &again.json["next_at"]),
        (200, &first.json["id"], &Value::Null)
    );
    assert_eq!(world.get(PATH).await.json["items"], json!([second.json]));
}

#[tokio::test]
async fn plans_of_a_config_are_changed_only_with_it() {
    let world = World::new().await;
    let patch = |plans: Value| {
        world.ask(Method::PATCH, "/v1/agents/muhammad", ADMIN, Some(json!({"config": {"plans": plans}})))
    };
    assert_eq!(patch(json!([daily()])).await.status, 200);
    let listed = world.get(PATH).await.json["items"][0].clone();
    assert_eq!(listed["source"], "config");
    let path = format!("{PATH}/{}", listed["id"].as_str().unwrap());
    let denied = world.ask(Method::DELETE, &path, ADMIN, None).await;
    assert_eq!((denied.status, denied.code()), (409, "plan_of_config"), "{denied:?}");
    let bad = patch(json!([{"name": "x", "instruction": "y", "after": "5m"}])).await;
    assert_eq!((bad.status, bad.code()), (422, "bad_config"), "{bad:?}");
    assert_eq!(patch(json!([])).await.status, 200);
    assert_eq!(world.get(PATH).await.json["items"], json!([]));
}

#[tokio::test]
async fn a_plan_fires_when_an_operator_says_so_and_its_schedule_stays() {
    let world = World::new().await;
    let set = world.post(PATH, daily()).await.json;
    world.signals();
    let fire = format!("{PATH}/{}/fire", set["id"].as_str().unwrap());
    let request = |key: &str| {
        let request = Request::builder().method(Method::POST).uri(&fire).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {ADMIN}"));
        request.header("idempotency-key", key).body(axum::body::Body::empty()).unwrap()
    };
    let first = world.send(request("k-1")).await;
    let event = world.get(first.headers["location"].to_str().unwrap()).await.json;
    assert_eq!(
        (first.status, &event["kind"], &event["data"]["instruction"]),
        (201, &json!("plan"), &json!("look"))
    );
    assert_eq!(world.signals().len(), 1);
    let again = world.send(request("k-1")).await;
    assert_eq!((again.status, &again.json["id"]), (200, &first.json["id"]), "{again:?}");
    // Another request, and one without a key, is another firing.
    assert_eq!(world.send(request("k-2")).await.status, 201);
    assert_eq!(world.ask(Method::POST, &fire, ADMIN, None).await.status, 201);
    let events =
        async || world.get("/v1/agents/muhammad/events").await.json["items"].as_array().unwrap().len();
    assert_eq!(events().await, 3);
    assert_eq!(world.get(PATH).await.json["items"], json!([set]), "the schedule stays");

    let plan = format!("{PATH}/{}", set["id"].as_str().unwrap());
    assert_eq!(world.ask(Method::DELETE, &plan, ADMIN, None).await.status, 204);
    let again = world.send(request("k-1")).await;
    assert_eq!((again.status, &again.json["id"]), (200, &first.json["id"]), "{again:?}");
    let over = world.send(request("k-3")).await;
    assert_eq!((over.status, over.code(), events().await), (409, "plan_over", 3), "{over:?}");
    for (path, status) in [(format!("{PATH}/none/fire"), 404), ("/v1/agents/nobody/plans/x/fire".into(), 404)]
    {
        assert_eq!(world.ask(Method::POST, &path, ADMIN, None).await.status, status, "{path}");
    }
}
