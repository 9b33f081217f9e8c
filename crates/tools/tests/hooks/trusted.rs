//! Hooks whose operator answers for what their template takes: single plain fields, and nothing else.

use agent::event::Trust;
use agent::guard::{Vouched, trust_of_delivery};
use agent::limits;
use agent::port::Hooks as _;
use serde_json::{Value, json};

use super::{SIGNED_AT, event, hooks, secrets, send};
use tools::hook::SignatureScheme;

const TEMPLATE: &str = "{{ body.alert.service }}: {{ body.alert.rate }}";

fn trusted(template: &str) -> Value {
    json!({"kind": "github", "secrets": ["github"], "template": template, "trusted": true})
}

/// What becomes of a delivery, and whether its operator answers for it.
async fn made(template: &str, body: Value) -> (Value, Vouched) {
    let hook = hooks().check(&trusted(template)).unwrap_or_else(|wrong| panic!("{template}: {wrong:?}"));
    let body = body.to_string();
    let now = jiff::Timestamp::from_second(SIGNED_AT).expect("a time");
    let signed =
        SignatureScheme::Github.sign(&secrets()["github"], "gh-1", now, body.as_bytes()).expect("a secret");
    let mut headers: Vec<_> = signed.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("content-type", "application/json"));
    let read =
        event(send(&hook.declaration, &headers, body.as_bytes(), SIGNED_AT).await.expect("it is verified"));
    (read.payload, read.vouched)
}

#[tokio::test]
async fn only_plain_fields_are_what_the_operator_answers_for() {
    let alert = |service: Value| json!({"alert": {"service": service, "rate": 7.5}, "rest": "x"});
    let long = "x".repeat(limits::HOOK_FIELD_MAX_CHARS + 1);
    for (template, body, payload) in [
        (TEMPLATE, alert(json!("db")), json!("db: 7.5")),
        ("{{ body['alert']['service'] }}", alert(json!("db")), json!("db")),
        (
            "{{ {\"s\": body.alert.service, \"r\": body.alert.rate} }}",
            alert(json!("db")),
            json!({"s": "db", "r": 7.5}),
        ),
        ("{{ body.alert.service ~ '/' ~ body.n }}", alert(json!("db")), json!("db/")),
        ("{{ body.alerts[0].name | upper }}", json!({"alerts": [{"name": "cpu"}]}), json!("CPU")),
        (
            "{% for one in body.alerts %}{{ one.name }},{% endfor %} {{ body.alerts | length }}",
            json!({"alerts": [{"name": "cpu", "note": long}, {"name": "disk"}]}),
            json!("cpu,disk, 2"),
        ),
        ("{{ body.tags }}", json!({"tags": ["a", 1, true, null]}), json!(["a", 1, true, null])),
        ("{% if body.alert %}{{ body.alert.rate }}{% endif %}", alert(json!("db")), json!("7.5")),
        ("fired", alert(json!("db")), json!("fired")),
    ] {
        assert_eq!(made(template, body).await, (payload, Vouched::Fields), "{template}");
    }
}

/// Such a delivery arrives as before, and counts as what a stranger wrote.
#[tokio::test]
async fn whatever_is_more_than_plain_fields_is_what_strangers_wrote() {
    let of = |name: &str| format!("{{{{ body.{name} }}}}");
    let many: Vec<String> = (0..=limits::HOOK_FIELDS_MAX_CHARS / 100).map(|_| "x".repeat(100)).collect();
    let long = "x".repeat(limits::HOOK_FIELD_MAX_CHARS + 1);
    for (template, body, what) in [
        (of("text"), json!({"text": long}), "`body.text` is a long text"),
        (of("text[:5]"), json!({"text": long}), "`body.text` is a long text"),
        (of("text"), json!({"text": "a\nb"}), "`body.text` is a text of several lines"),
        (of("text"), json!({"text": "a\u{202e}b"}), "hidden characters"),
        (of("alert"), json!({"alert": {"note": "x"}}), "`body.alert` is taken as a whole"),
        (of("alert | tojson"), json!({"alert": {"note": "x"}}), "`body.alert` is taken as a whole"),
        (of("alert | items | list"), json!({"alert": {"note": "x"}}), "`body.alert` is taken as a whole"),
        (of("alerts"), json!({"alerts": [{"note": "x"}]}), "`body.alerts[0]` is taken as a whole"),
        (of("tags | join(' ')"), json!({"tags": many}), "is one of so many texts"),
        (
            "{% for key in body.alert %}{{ key }}{% endfor %}".into(),
            json!({"alert": {"do this": 1}}),
            "as a whole",
        ),
        (
            "{% set all = body %}{% if all.x %}{{ all }}{% endif %}".into(),
            json!({"x": 1, "y": "z"}),
            "`body` is taken as a whole",
        ),
        (
            "{% if body.x %}{{ {\"all\": body} | tojson }}{% endif %}".into(),
            json!({"x": 1, "y": "z"}),
            "`body` is taken as a whole",
        ),
        (
            "{% if body.x %}{{ body | string }}{% endif %}".into(),
            json!({"x": 1, "y": "z"}),
            "`body` is taken as a whole",
        ),
        (
            "{% if body.x %}{{ body ~ '' }}{% endif %}".into(),
            json!({"x": 1, "y": "z"}),
            "`body` is taken as a whole",
        ),
        (
            "{% if body.x %}{{ dict(body) | tojson }}{% endif %}".into(),
            json!({"x": 1, "y": "z"}),
            "`body` is taken as a whole",
        ),
    ] {
        let (payload, vouched) = made(&template, body.clone()).await;
        let plain = json!({"kind": "github", "secrets": ["github"], "template": template});
        let plain = hooks().check(&plain).unwrap().declaration;
        assert_eq!(plain.get("trusted"), None);
        assert_eq!(trust_of_delivery(&vouched), Trust::Outside, "{template}");
        assert!(matches!(&vouched, Vouched::Beyond(why) if why.contains(what)), "{template}: {vouched:?}");
        assert!(!payload.is_null() && payload != "", "{template}: {payload}");
    }
}

#[test]
fn a_hook_is_trusted_only_with_a_verifier_and_a_template_of_single_fields() {
    assert_eq!(hooks().check(&trusted(TEMPLATE)).unwrap().declaration["trusted"], true);
    for template in [
        "{{ body }}",
        "{{ body | tojson }}",
        "x {{ body }}",
        "{{ {\"all\": body} }}",
        "{{ [body] }}",
        "{{ body ~ '' }}",
        "{% for key in body %}{{ key }}{% endfor %}",
        "{% set all = body %}{{ all }}",
        "{{ body | items | list }}",
        "{{ dict(body) }}",
        "{{ headers['x-github-event'] }} {{ body.ref }}",
        "{{ headers }}",
    ] {
        let wrong = hooks().check(&trusted(template)).expect_err(template).join("\n");
        assert!(wrong.contains("`template`: `") && wrong.contains("single fields"), "{template}: {wrong}");
    }
    let whole = json!({"kind": "key", "trusted": true});
    assert!(
        hooks().check(&whole).unwrap_err()[0].contains("`body` is taken as a whole"),
        "without a template"
    );
    let unverified = json!({"kind": "github", "template": TEMPLATE, "trusted": true});
    assert!(hooks().check(&unverified).unwrap_err()[0].contains("at least one secret"));
}
