//! Deliveries to hooks: what each kind of service signs, and what is refused. The signatures were made by other programs: the
//! Python packages `standardwebhooks` and `stripe`, `openssl dgst -sha256 -hmac`, and the documents of GitHub and Slack.

mod trusted;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::limits;
use agent::port::{
    BoxFuture, DeliveryHead, DeliveryId, HookEvent, HookReading, HookRefusal, Hooks as _, RawDelivery,
};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use scenario::clock::SimClock;
use serde_json::{Value, json};
use tools::hook::{ServerHooks, SignatureScheme};
use tools::secret::{SecretValue, Secrets};

const BODY: &str = r#"{"id":"evt_1","type":"invoice.paid","event_id":"Ev1","text":"hé"}"#;
const SIGNED_AT: i64 = 1_700_000_000;
const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
const STANDARD: &[(&str, &str)] = &[
    JSON,
    ("webhook-id", "msg_1"),
    ("webhook-timestamp", "1700000000"),
    ("webhook-signature", "v1,yP31zuJn+Q/J3Q1ggozFjuuECwHhMYT3Vxv2EXBv41k="),
];
const STRIPE: &[(&str, &str)] = &[
    JSON,
    ("stripe-signature", "t=1700000000,v1=db3672bd11a30313cded150705378e75436c5138ef676ed091db277766edc9ae"),
];
const GITHUB: &[(&str, &str)] = &[
    JSON,
    ("x-github-event", "push"),
    ("x-github-delivery", "gh-1"),
    ("x-hub-signature-256", "sha256=6b5d1d8aa50408234a7605dcf95cb91bc0468e9e44d8afb6d69de7c0daf1c6fe"),
];
const SLACK: &[(&str, &str)] = &[
    JSON,
    ("x-slack-request-timestamp", "1700000000"),
    ("x-slack-signature", "v0=d4e08eaaa40b92705bb3348fb746405f4af49bfed8dc2eb18b183a2fa24618e0"),
];
/// The kind, the delivery's id, and its headers.
type Signed = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
const SIGNED: [Signed; 4] = [
    ("standard", "msg_1", STANDARD),
    ("stripe", "evt_1", STRIPE),
    ("github", "gh-1", GITHUB),
    ("slack", "Ev1", SLACK),
];

fn secrets() -> BTreeMap<String, SecretValue> {
    let all = [
        ("standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("stripe", "whsec_stripe_test"),
        ("github", "github-secret"),
        ("slack", "slack-secret"),
        ("slack_docs", "8f742231b10e8888abcd99yyyzzz85a5"),
        ("github_docs", "It's a Secret to Everybody"),
        ("other", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ("short", "abc"),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), SecretValue::new(value))).collect()
}

fn hooks() -> ServerHooks {
    ServerHooks::new(Arc::new(secrets()), Arc::new(SimClock::new(Timestamp::UNIX_EPOCH)))
}

fn declared(kind: &str) -> Value {
    json!({"kind": kind, "secrets": [kind], "template": "{{ body }}"})
}

async fn send(
    hook: &Value,
    headers: &[(&str, &str)],
    body: &[u8],
    at: i64,
) -> Result<HookReading, HookRefusal> {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let now = Timestamp::from_second(at).expect("a time");
    let head = DeliveryHead { headers: &headers, now, by_key: false };
    hooks().read(hook, RawDelivery { head, body }).await
}

fn event(reading: HookReading) -> HookEvent {
    match reading {
        HookReading::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

fn with<'a>(headers: &[(&'a str, &'a str)], name: &str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let change = |(header, old): &(&'a str, &'a str)| (*header, if *header == name { value } else { *old });
    headers.iter().map(change).collect()
}

#[tokio::test]
async fn what_other_programs_sign_is_verified_and_becomes_an_event() {
    for (kind, id, headers) in SIGNED {
        let read = event(send(&declared(kind), headers, BODY.as_bytes(), SIGNED_AT).await.unwrap());
        assert_eq!(read.delivery, DeliveryId::OfService(id.to_owned()), "{kind}");
        assert_eq!((read.payload["type"].as_str(), read.urgent), (Some("invoice.paid"), false), "{kind}");
    }
    let hook = json!({"kind": "github", "secrets": ["github_docs"]});
    let header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let refused = send(&hook, &with(GITHUB, "x-hub-signature-256", header), b"Hello, World!", 0).await;
    let Ok(HookReading::Refused { delivery, why: HookRefusal::Unreadable(_) }) = refused else {
        panic!("it is verified, and no JSON: {refused:?}")
    };
    assert_eq!(delivery.as_deref(), Some("gh-1"));
    let form = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let hook = json!({"kind": "slack", "secrets": ["slack_docs"], "template": "{{ body.command }}"});
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("x-slack-request-timestamp", "1531420618"),
        ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
    ];
    let read = event(send(&hook, &headers, form.as_bytes(), 1_531_420_618).await.unwrap());
    let id = "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c".to_owned();
    assert_eq!((read.payload, read.delivery), (json!("/webhook-collect"), DeliveryId::OfService(id)));
}

#[tokio::test]
async fn no_changed_bit_of_a_delivery_is_verified() {
    for (kind, _, headers) in SIGNED {
        let forged = |result: Result<HookReading, HookRefusal>| {
            assert!(matches!(result, Err(HookRefusal::Forged(_))), "{kind}: {result:?}");
        };
        for bit in 0..BODY.len() * 8 {
            let mut body = BODY.as_bytes().to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            forged(send(&declared(kind), headers, &body, SIGNED_AT).await);
        }
        forged(send(&declared(kind), headers, &BODY.as_bytes()[1..], SIGNED_AT).await);
        for (name, value) in headers.iter().filter(|(name, _)| name.contains("signature")) {
            let last = value.len() - 2;
            let changed = format!(
                "{}{}{}",
                &value[..last],
                if &value[last..=last] == "0" { "1" } else { "0" },
                &value[last + 1..]
            );
            forged(send(&declared(kind), &with(headers, name, &changed), BODY.as_bytes(), SIGNED_AT).await);
        }
        let other = json!({"kind": kind, "secrets": ["other"]});
        forged(send(&other, headers, BODY.as_bytes(), SIGNED_AT).await);
    }
    let later = with(STANDARD, "webhook-timestamp", "1700000001");
    let named = with(STANDARD, "webhook-id", "msg_2");
    let slack = with(SLACK, "x-slack-request-timestamp", "1700000001");
    let stripe = "t=1700000001,v1=db3672bd11a30313cded150705378e75436c5138ef676ed091db277766edc9ae";
    let stripe = with(STRIPE, "stripe-signature", stripe);
    for (kind, headers) in [("standard", later), ("standard", named), ("slack", slack), ("stripe", stripe)] {
        let result = send(&declared(kind), &headers, BODY.as_bytes(), SIGNED_AT).await;
        assert!(matches!(result, Err(HookRefusal::Forged(_))), "{kind}: {result:?}");
    }
}

#[tokio::test]
async fn an_old_delivery_and_one_from_the_future_are_refused() {
    let window = (limits::HOOK_WINDOW_MS / 1000) as i64;
    for (kind, _, headers) in SIGNED.into_iter().filter(|(kind, ..)| *kind != "github") {
        for (off, is_old) in [(window, false), (-window, false), (window + 1, true), (-window - 1, true)] {
            let result = send(&declared(kind), headers, BODY.as_bytes(), SIGNED_AT + off).await;
            assert_eq!(matches!(result, Err(HookRefusal::Old(_))), is_old, "{kind} {off}: {result:?}");
        }
    }
    let strange = with(STANDARD, "webhook-timestamp", "-9223372036854775808");
    let result = send(&declared("standard"), &strange, BODY.as_bytes(), SIGNED_AT).await;
    assert!(matches!(result, Err(HookRefusal::Old(_))), "{result:?}");
}

#[tokio::test]
async fn what_the_head_alone_tells_is_refused_before_there_is_a_body() {
    let now = Timestamp::from_second(SIGNED_AT).unwrap();
    let admit = async |hook: &Value, headers: &[(&str, &str)], at: Timestamp, by_key: bool| {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        hooks().admit(hook, DeliveryHead { headers: &headers, now: at, by_key }).await
    };
    for (kind, _, headers) in SIGNED {
        let hook = declared(kind);
        assert_eq!(admit(&hook, headers, now, false).await, Ok(()), "{kind}: its body decides");
        let none = admit(&hook, &[JSON], now, true).await;
        assert!(matches!(none, Err(HookRefusal::Unsigned(_))), "{kind}: {none:?}");
        let typed = admit(&hook, &with(headers, "content-type", "text/plain"), now, false).await;
        assert!(matches!(typed, Err(HookRefusal::Type(_))), "{kind}: {typed:?}");
        let old = admit(&hook, headers, Timestamp::UNIX_EPOCH, false).await;
        assert_eq!(matches!(old, Err(HookRefusal::Old(_))), kind != "github", "{kind}: {old:?}");
        let unready = admit(&json!({"kind": kind, "secrets": ["gone"]}), headers, now, false).await;
        assert!(matches!(unready, Err(HookRefusal::Unready(_))), "{kind}: {unready:?}");
    }
    let shared = json!({"kind": "shared_secret", "secrets": ["github"]});
    let secret = |value| [JSON, ("x-webhook-secret", value)];
    assert_eq!(admit(&shared, &secret("github-secret"), now, false).await, Ok(()));
    let wrong = admit(&shared, &secret("github-secrets"), now, true).await;
    assert!(matches!(wrong, Err(HookRefusal::Forged(_))), "{wrong:?}");
    let key = json!({"kind": "key"});
    assert_eq!(admit(&key, &[JSON], now, true).await, Ok(()));
    assert_eq!(admit(&key, &[JSON], now, false).await, Err(HookRefusal::KeyWanted));
}

#[tokio::test]
async fn a_delivery_without_a_signature_that_can_be_read_is_refused() {
    for (kind, _, headers) in SIGNED {
        let unsigned = |headers: Vec<(&'static str, &'static str)>| async move {
            let result = send(&declared(kind), &headers, BODY.as_bytes(), SIGNED_AT).await;
            matches!(result, Err(HookRefusal::Unsigned(_) | HookRefusal::Forged(_)))
        };
        for at in 1..headers.len() {
            let mut left: Vec<_> = headers.to_vec();
            let (name, value) = left.remove(at);
            if !name.starts_with("x-github-") {
                assert!(unsigned(left).await, "{kind} without {name}");
            }
            let mut twice: Vec<_> = headers.to_vec();
            twice.push((name, value));
            if !name.starts_with("x-github-") {
                assert!(unsigned(twice).await, "{kind} with {name} twice");
            }
        }
        let signature = headers.iter().find(|(name, _)| name.contains("signature")).unwrap().0;
        for strange in
            ["", "v1", "v1,", "sha256=", "sha256=é", "v0=zz", "t=,v1=", "t=1,t=1700000000,v1=00", "v2,x"]
        {
            assert!(unsigned(with(headers, signature, strange)).await, "{kind} {strange}");
        }
    }
}

#[tokio::test]
async fn each_of_several_secrets_and_of_several_signatures_counts() {
    let hook = json!({"kind": "standard", "secrets": ["other", "gone", "standard"]});
    assert!(send(&hook, STANDARD, BODY.as_bytes(), SIGNED_AT).await.is_ok());
    let (_, right) = STANDARD[3];
    let several = format!("v1,AAAA v1a,{right} {right}");
    let headers = with(STANDARD, "webhook-signature", &several);
    assert!(send(&declared("standard"), &headers, BODY.as_bytes(), SIGNED_AT).await.is_ok());
    let many = format!("{}{right}", "v1,AAAA ".repeat(limits::HOOK_SIGNATURES_MAX));
    let headers = with(STANDARD, "webhook-signature", &many);
    assert!(send(&declared("standard"), &headers, BODY.as_bytes(), SIGNED_AT).await.is_err());
}

#[tokio::test]
async fn a_hook_without_a_usable_secret_accepts_nothing_and_says_why_to_its_operator() {
    for (kind, secret, why) in [
        ("standard", "gone", "not set"),
        ("standard", "github", "whsec_"),
        ("github", "short", "at least 6 bytes"),
        ("shared_secret", "short", "at least 6 bytes"),
    ] {
        let hook = json!({"kind": kind, "secrets": [secret]});
        let missing = hooks().missing_secrets(&hook).await;
        assert!(missing.len() == 1 && missing[0].1.contains(why), "{missing:?}");
        let result = send(&hook, STANDARD, BODY.as_bytes(), SIGNED_AT).await;
        let Err(HookRefusal::Unready(text)) = result else { panic!("{result:?}") };
        assert!(!text.contains(secret), "{text}");
    }
}

/// Never finds the secret `slow`, and counts how often each is asked for.
#[derive(Default)]
struct SlowSecrets(Mutex<Vec<String>>);

impl Secrets for SlowSecrets {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<SecretValue>> {
        self.0.lock().expect("no test panics meanwhile").push(name.to_owned());
        let found = secrets().get(name).cloned();
        Box::pin(async move { if name == "slow" { std::future::pending().await } else { found } })
    }
}

#[tokio::test]
async fn a_secret_that_does_not_come_holds_back_only_the_hooks_that_want_it() {
    let (clock, asked) = (SimClock::new(Timestamp::UNIX_EPOCH), Arc::new(SlowSecrets::default()));
    let hooks = Arc::new(ServerHooks::new(asked.clone(), Arc::new(clock.clone())));
    let now = Timestamp::from_second(SIGNED_AT).unwrap();
    let headers: Vec<_> = GITHUB.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let slow = json!({"kind": "github", "secrets": ["slow"]});
    for _ in 0..2 {
        // The first sender leaves, which ends no look-up that others wait for.
        let waiting = hooks.admit(&slow, DeliveryHead { headers: &headers, now, by_key: false });
        assert!(waiting.now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        let head = DeliveryHead { headers: &headers, now, by_key: false };
        let (other, delivery) = (declared("github"), RawDelivery { head, body: BODY.as_bytes() });
        let read = hooks.read(&other, delivery);
        let read = tokio::time::timeout(Duration::from_secs(20), read).await.expect("it is not held back");
        assert!(read.is_ok(), "{read:?}");
    }
    assert_eq!(*asked.0.lock().unwrap(), ["slow", "github"], "each is asked for once");
    let listed = json!({"kind": "github", "secrets": ["slow", "github", "gone"]});
    let missing = clock.run_until(hooks.missing_secrets(&listed)).await.unwrap();
    let missing: Vec<_> = missing.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    assert_eq!(missing, [("slow", "it was not found within 2 s"), ("gone", "it is not set")]);
    clock.advance(Duration::from_millis(limits::HOOK_SECRET_AGE_MS));
    hooks.admit(&declared("github"), DeliveryHead { headers: &headers, now, by_key: false }).await.unwrap();
    assert_eq!(*asked.0.lock().unwrap(), ["slow", "github", "gone", "github"], "a changed one counts then");
}

#[tokio::test]
async fn a_shared_secret_is_wanted_whole_and_hidden_from_the_template() {
    let hook = json!({
        "kind": "shared_secret", "secrets": ["github"], "header": "X-Gitlab-Token", "template": "{{ headers }}",
    });
    let token = |value| [JSON, ("x-gitlab-token", value), ("authorization", "Bearer x"), ("x-other", "1")];
    for wrong in ["", "github-secre", "github-secrets", "github-Secret"] {
        let result = send(&hook, &token(wrong), b"{}", 0).await;
        assert!(matches!(result, Err(HookRefusal::Forged(_))), "{wrong}: {result:?}");
    }
    assert!(matches!(send(&hook, &[JSON], b"{}", 0).await, Err(HookRefusal::Unsigned(_))));
    let read = event(send(&hook, &token("github-secret"), b"{}", 0).await.unwrap());
    assert_eq!(read.payload, json!({"content-type": JSON.1, "x-other": "1"}));
    assert_eq!(read.delivery, DeliveryId::None, "no id is invented");
    let named = [&token("github-secret")[..], &[("idempotency-key", "k 1")]].concat();
    let read = event(send(&hook, &named, b"{}", 0).await.unwrap());
    assert_eq!(read.delivery, DeliveryId::OfSender("k 1".into()));
}

#[tokio::test]
async fn a_hook_of_keys_believes_only_who_has_checked_one() {
    let hook = json!({"kind": "key"});
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    let head = DeliveryHead { headers: &headers, now: Timestamp::UNIX_EPOCH, by_key: false };
    let delivery = RawDelivery { head, body: b"{}" };
    assert_eq!(hooks().read(&hook, delivery).await, Err(HookRefusal::KeyWanted));
    let signed = RawDelivery { head: DeliveryHead { by_key: true, ..head }, ..delivery };
    assert!(hooks().read(&hook, signed).await.is_ok());
    let result = hooks().read(&declared("github"), signed).await;
    assert!(matches!(result, Err(HookRefusal::Unsigned(_))), "a key is no signature: {result:?}");
}

#[tokio::test]
async fn questions_of_services_are_answered_once_they_are_verified() {
    let ping = with(GITHUB, "x-github-event", "ping");
    let read = send(&declared("github"), &ping, BODY.as_bytes(), SIGNED_AT).await.unwrap();
    assert_eq!(read, HookReading::Question(None));
    let question = br#"{"type":"url_verification","challenge":"c1"}"#;
    let now = Timestamp::from_second(SIGNED_AT).unwrap();
    let signed = SignatureScheme::Slack.sign(&secrets()["slack"], "", now, question).unwrap();
    let headers: Vec<_> = [JSON].into_iter().chain(signed.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    let read = send(&declared("slack"), &headers, question, SIGNED_AT).await.unwrap();
    assert_eq!(read, HookReading::Question(Some("c1".into())));
    assert!(send(&declared("slack"), &[JSON], question, SIGNED_AT).await.is_err());
}

#[tokio::test]
async fn half_a_character_costs_no_delivery() {
    let body = r#"{"id":"evt_1","type":"cut \ud83d","data":{}}"#;
    let now = Timestamp::from_second(SIGNED_AT).unwrap();
    let signed = SignatureScheme::Stripe.sign(&secrets()["stripe"], "", now, body.as_bytes()).unwrap();
    let headers: Vec<_> = [JSON].into_iter().chain(signed.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    let read = send(&declared("stripe"), &headers, body.as_bytes(), SIGNED_AT).await.unwrap();
    let HookReading::Event(event) = read else { panic!("{read:?}") };
    assert!(event.payload.to_string().contains("cut \u{fffd}"), "{}", event.payload);
}

#[tokio::test]
async fn what_is_verified_and_cannot_be_read_is_refused() {
    let signed = |body: &str, name: &'static str| {
        let now = Timestamp::from_second(SIGNED_AT).unwrap();
        let scheme = if name == "slack" { SignatureScheme::Slack } else { SignatureScheme::Stripe };
        scheme.sign(&secrets()[name], "", now, body.as_bytes()).unwrap()
    };
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    for (body, words) in [
        ("", "not JSON"),
        ("{", "not JSON"),
        (r#"{"id":"a","id":"b"}"#, "not JSON"),
        (&deep, "deeper than 64"),
        ("{}", "`id` in the body"),
        (r#"{"id":7}"#, "`id` in the body"),
        (r#"{"id":"a b"}"#, "`id` in the body"),
    ] {
        let headers = signed(body, "stripe");
        let headers: Vec<_> =
            [JSON].into_iter().chain(headers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
        let result = send(&declared("stripe"), &headers, body.as_bytes(), SIGNED_AT).await;
        let Ok(HookReading::Refused { delivery: None, why: HookRefusal::Unreadable(why) }) = result else {
            panic!("{body}: {result:?}")
        };
        assert!(why.contains(words), "{body}: {why}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"] {
        let result =
            send(&declared("stripe"), &with(STRIPE, "content-type", kind), BODY.as_bytes(), SIGNED_AT).await;
        assert!(matches!(result, Err(HookRefusal::Type(_))), "{kind}: {result:?}");
    }
}

#[tokio::test]
async fn templates_make_the_event_and_rules_say_whether_it_is_one_and_urgent() {
    let made = |event: &str, urgent: Option<&str>| {
        let mut hook = declared("github");
        hook["template"] = json!(event);
        if let Some(rule) = urgent {
            hook["urgent"] = json!(rule);
        }
        assert!(hooks().check(&hook).is_ok(), "{hook}");
        async move { send(&hook, GITHUB, BODY.as_bytes(), SIGNED_AT).await }
    };
    let text = event(made("{{ headers['x-github-event'] }}: {{ body.text }}", None).await.unwrap());
    assert_eq!(text.payload, json!("push: hé"));
    let part = event(made("{{ {'type': body.type, 'n': [1]} }}", None).await.unwrap());
    assert_eq!(part.payload, json!({"type": "invoice.paid", "n": [1]}));
    for (rule, urgent) in [
        ("body.type == 'invoice.paid'", true),
        ("body.type == 'x'", false),
        ("body.none.at.all == 'x'", false),
        ("body.type - 1 == 5", false),
        ("body.type in ['a', 'invoice.paid'] and headers['x-github-event'] == 'push'", true),
        ("true", true),
    ] {
        assert_eq!(event(made("{{ body }}", Some(rule)).await.unwrap()).urgent, urgent, "{rule}");
    }
    let partly = event(made("{{ body.type }} {{ body.none.at.all }}!", None).await.unwrap());
    assert_eq!(partly.payload, json!("invoice.paid !"), "what this kind of event lacks is empty");
    let nothing = HookReading::Nothing { delivery: Some("gh-1".to_owned()) };
    for empty in
        ["{{ body.none }}", " {{ body.none }}\n", "{% if body.type == 'x' %}x{% endif %}", "{{ '' }}"]
    {
        assert_eq!(made(empty, Some("true")).await.unwrap(), nothing, "{empty}");
    }
    let filtered = |rule: &str| {
        let mut hook = declared("github");
        (hook["only_if"], hook["urgent"]) = (json!(rule), json!("true"));
        assert!(hooks().check(&hook).is_ok(), "{hook}");
        async move { send(&hook, GITHUB, BODY.as_bytes(), SIGNED_AT).await.unwrap() }
    };
    for rule in ["body.type == 'invoice.paid'", "headers['x-github-event'] in ['push']", "body.text"] {
        assert!(event(filtered(rule).await).urgent, "{rule}");
    }
    for rule in ["body.type == 'x'", "body.none.at.all == 'x'", "body.none", "not body.text", "none"] {
        assert_eq!(filtered(rule).await, nothing, "{rule}");
    }
    // Nothing is lost because of a mistake: the service keeps what the rule cannot decide.
    let HookReading::Refused { delivery, why } = filtered("body.type - 1 == 5").await else { panic!() };
    assert!(delivery.as_deref() == Some("gh-1") && why.to_string().contains("`only_if`"), "{why}");
    // As it was stored before.
    let stored = json!({"kind": "github", "secrets": ["github"], "event": "{{ body.text }}"});
    assert_eq!(event(send(&stored, GITHUB, BODY.as_bytes(), SIGNED_AT).await.unwrap()).payload, "hé");
    let result = made("{{ body.type - 1 }}", None).await;
    let Ok(HookReading::Refused { delivery, why: HookRefusal::Unmapped(_) }) = result else {
        panic!("{result:?}")
    };
    assert_eq!(delivery.as_deref(), Some("gh-1"));
}

#[tokio::test]
async fn github_may_send_a_form_and_a_body_may_begin_with_a_byte_order_mark() {
    let read = |kind: &'static str, body: String| async move {
        let now = Timestamp::from_second(SIGNED_AT).unwrap();
        let signed = SignatureScheme::Github.sign(&secrets()["github"], "", now, body.as_bytes()).unwrap();
        let headers: Vec<_> =
            [("content-type", kind), ("x-github-delivery", "gh-2"), ("x-github-event", "push")]
                .into_iter()
                .chain(
                    signed
                        .iter()
                        .filter(|(name, _)| name.contains("signature"))
                        .map(|(n, v)| (*n, v.as_str())),
                )
                .collect();
        send(&declared("github"), &headers, body.as_bytes(), SIGNED_AT).await
    };
    const FORM: &str = "application/x-www-form-urlencoded";
    let wanted = json!({"ref": "a b&c", "n": true});
    for (kind, body) in [
        (FORM, "payload=%7B%22ref%22%3A%22a+b%26c%22%2C%22n%22%3Atrue%7D"),
        (
            "application/x-www-form-urlencoded; charset=utf-8",
            "x=1&payload=%7B%22ref%22:%22a%20b%26c%22,%22n%22:true%7D",
        ),
        ("application/json", "\u{feff}{\"ref\":\"a b&c\",\"n\":true}"),
    ] {
        let read = event(read(kind, body.to_owned()).await.unwrap());
        assert_eq!(read.payload, wanted, "{body}: the templates for both are the same");
        assert_eq!(read.delivery, DeliveryId::OfService("gh-2".into()));
    }
    for body in ["", "other=1", "payload=x"] {
        let read = read(FORM, body.to_owned()).await;
        assert!(
            matches!(&read, Ok(HookReading::Refused { why: HookRefusal::Unreadable(_), .. })),
            "{body}: {read:?}"
        );
    }
}

#[test]
fn a_mistake_in_a_declaration_is_found_before_any_delivery() {
    for (hook, words) in [
        (json!({"kind": "github"}), "at least one secret"),
        (json!({"kind": "shared_secret", "secrets": []}), "at least one secret"),
        (json!({"kind": "key", "secrets": ["a"]}), "leave the secrets out"),
        (json!({"secrets": ["a"]}), "kind"),
        (json!({"kind": "none"}), "wanted one of `standard`"),
        (json!({"kind": "github", "secrets": ["a b"]}), "secret's name"),
        (json!({"kind": "github", "secrets": ["a", "b", "c", "d", "e"]}), "at most 4"),
        (json!({"kind": "github", "secrets": ["a"], "header": "x-a"}), "shared_secret"),
        (json!({"kind": "shared_secret", "secrets": ["a"], "header": "x a"}), "name of a header"),
        (json!({"kind": "shared_secret", "secrets": ["a"], "header": "Host"}), "`host` has a meaning"),
        (json!({"kind": "shared_secret", "secrets": ["a"], "header": "te"}), "`te` has a meaning"),
        (json!({"kind": "shared_secret", "secrets": ["a"], "header": "origin"}), "`origin` has a meaning"),
        (
            json!({"kind": "shared_secret", "secrets": ["a"], "header": "idempotency-key"}),
            "meaning of its own",
        ),
        (
            json!({"kind": "shared_secret", "secrets": ["a"], "header": "X-Forwarded-For"}),
            "meaning of its own",
        ),
        (json!({"kind": "github", "secrets": ["a"], "template": "{{ bdy }}"}), "did you mean `body`?"),
        (json!({"kind": "github", "secrets": ["a"], "template": "{{ secret('a') }}"}), "no secrets"),
        (json!({"kind": "github", "secrets": ["a"], "template": " "}), "wanted a template"),
        (json!({"kind": "github", "secrets": ["a"], "template": "{{ body | nope }}"}), "nope"),
        (json!({"kind": "github", "secrets": ["a"], "urgent": "body.x =="}), "`urgent`"),
        (json!({"kind": "github", "secrets": ["a"], "only_if": "body.x =="}), "`only_if`"),
        (json!({"kind": "github", "secrets": ["a"], "only_if": "true }} {{ false"}), "`only_if`"),
        (json!({"kind": "github", "secrets": ["a"], "only_if": "bdy.x"}), "did you mean `body`?"),
        (json!({"kind": "github", "secrets": ["a"], "agents": []}), "unknown field"),
    ] {
        let wrong = hooks().check(&hook).unwrap_err().join("\n");
        assert!(wrong.contains(words), "{hook}: wanted `{words}` in {wrong}");
    }
}

#[test]
fn no_secret_is_put_into_a_header_that_servers_show() {
    let secret = SecretValue::new("canary-0815");
    let signed = |header| {
        let kind = agent::port::HookKind::SharedSecret;
        tools::hook::signed_headers(kind, Some(header), Some(&secret), "1", Timestamp::UNIX_EPOCH, b"{}")
    };
    assert_eq!(signed("x-token").unwrap()[0], ("x-token".to_owned(), "canary-0815".to_owned()));
    let why = signed("host").unwrap_err();
    assert!(why.contains("`host`") && !why.contains("canary"), "{why}");
}
