//! Deliveries to targets on the loopback: what they get, and what of their answers counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::id::SpaceId;
use agent::port::{Courier as _, NewsKind, NewsOf, SendFailure, StoredTarget, TargetDelivery};
use jiff::Timestamp;
use serde_json::{Value, json};
use tools::connector::{Connector, OwnAddress};
use tools::courier::SignedCourier;
use tools::secret::SecretValue;
use uuid::Uuid;

use crate::loopback::Loopback;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const NEXT: &str = "whsec_bmV4dC1uZXh0LW5leHQtbmV4dA==";

/// Of the server whose courier it is. Nothing listens there.
const OWN_PORT: u16 = 9;

fn courier() -> SignedCourier {
    let secrets = [("right", SECRET), ("next", NEXT), ("wrong", "canary")];
    let secrets: BTreeMap<String, SecretValue> =
        secrets.into_iter().map(|(name, value)| (name.to_owned(), SecretValue::new(value))).collect();
    let own = OwnAddress::new(&["viv.example".to_owned()], ([127, 0, 0, 1], OWN_PORT).into());
    SignedCourier::new(Arc::new(Connector::default().sparing(own)), Arc::new(secrets))
}

fn target(url: String, secret: &str, allow: &[String]) -> StoredTarget {
    StoredTarget {
        name: "t".into(),
        url,
        secrets: secret.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        allow: allow.to_vec(),
        on: vec![NewsKind::Message],
        of: NewsOf::Space(SpaceId(Uuid::nil())),
        only_if: None,
        body: None,
        off: None,
        at: Timestamp::UNIX_EPOCH,
    }
}

async fn send(target: &StoredTarget) -> Result<(), SendFailure> {
    let delivery = TargetDelivery {
        id: "msg_1".into(),
        body: r#"{"id":"evt_1","type":"invoice.paid","event_id":"Ev1","text":"hé"}"#.into(),
        at: Timestamp::UNIX_EPOCH,
        attempts: 0,
        why: None,
    };
    courier().send(target, &delivery, Timestamp::from_second(1_700_000_000).expect("a time")).await
}

/// The outcome of a delivery to a server that says this.
async fn answered(answer: &str) -> Result<(), SendFailure> {
    let server = Loopback::says(answer).await;
    let target = target(format!("http://{}/in", server.address), "right", &[server.address.to_string()]);
    send(&target).await
}

#[tokio::test]
async fn a_target_gets_the_bytes_signed_as_standard_webhooks_does() {
    let server = Loopback::says("HTTP/1.1 204 No Content\r\n\r\n").await;
    let target =
        target(format!("http://{}/in?key=1", server.address), "right", &[server.address.to_string()]);
    assert_eq!(send(&target).await, Ok(()));
    let request = server.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /in?key=1 HTTP/1.1\r\n"), "{head}");
    // As the Python package `standardwebhooks` signs it.
    for line in [
        "webhook-id: msg_1",
        "webhook-timestamp: 1700000000",
        "webhook-signature: v1,yP31zuJn+Q/J3Q1ggozFjuuECwHhMYT3Vxv2EXBv41k=",
        "content-type: application/json",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert!(body.contains("invoice.paid") && !request.contains("whsec_"), "{request}");
}

#[tokio::test]
async fn each_secret_that_can_sign_signs_so_that_either_side_can_change_first() {
    let signatures = async |secrets: &str| {
        let server = Loopback::says("HTTP/1.1 204 No Content\r\n\r\n").await;
        let target = target(format!("http://{}/", server.address), secrets, &[server.address.to_string()]);
        assert_eq!(send(&target).await, Ok(()), "{secrets}");
        let request = server.requests().remove(0);
        let found = request.lines().find_map(|line| line.strip_prefix("webhook-signature: "));
        found.unwrap().split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let (old, new) = (signatures("right").await, signatures("next").await);
    assert!(old.len() == 1 && old != new);
    assert_eq!(signatures("right,next").await, [old.clone(), new].concat());
    assert_eq!(signatures("none,right,wrong").await, old);
}

#[tokio::test]
async fn only_the_status_of_an_answer_counts_and_no_redirect_is_followed() {
    assert_eq!(answered("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno").await, Ok(()));
    assert_eq!(answered("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n").await, Err(SendFailure::Gone));
    for (answer, words) in [
        ("HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n", "it answered 500"),
        ("HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n", "it answered 404"),
        ("nonsense\r\n\r\n", "gave no answer"),
    ] {
        let Err(SendFailure::Failed(why)) = answered(answer).await else { panic!("{answer}") };
        assert!(why.contains(words), "{why}");
    }
    let elsewhere = Loopback::says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for (head, seconds) in [
        ("429 Too Many Requests\r\nretry-after: 120", 120),
        ("503 Unavailable\r\nRetry-After:  7 ", 7),
        ("503 Unavailable\r\nretry-after: 99999999999", 99_999_999_999),
    ] {
        let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n");
        let Err(SendFailure::Busy { why, wait }) = answered(&answer).await else { panic!("{answer}") };
        assert_eq!((why, wait.as_secs()), (format!("it answered {}", &head[..3]), seconds));
    }
    let soon = "HTTP/1.1 503 x\r\nretry-after: soon\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(answered(soon).await, Err(SendFailure::Failed("it answered 503".into())));
    for status in [301, 302, 307, 308] {
        let to = format!(
            "HTTP/1.1 {status} x\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
            elsewhere.address
        );
        let Err(SendFailure::Failed(why)) = answered(&to).await else { panic!("{status}") };
        assert!(why.contains("redirects to"), "{why}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn nothing_is_sent_inside_that_is_not_allowed_or_without_a_secret() {
    let server = Loopback::says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let (url, inside) = (format!("http://{}/in", server.address), server.address.to_string());
    let mut refused = Vec::new();
    for (secret, allow) in [
        ("right", &[][..]),
        ("none", std::slice::from_ref(&inside)),
        ("wrong", std::slice::from_ref(&inside)),
    ] {
        let Err(SendFailure::Failed(why)) = send(&target(url.clone(), secret, allow)).await else {
            panic!("{secret}")
        };
        refused.push(why);
    }
    assert!(refused[0].contains("not the public internet"), "{refused:?}");
    assert!(refused[0].contains("with `--allow`") && !refused[0].contains("tool"), "{refused:?}");
    assert!(refused[1].contains("it is not set") && refused[2].contains("whsec_"), "{refused:?}");
    assert!(!refused.concat().contains("canary") && server.requests().is_empty(), "{refused:?}");
}

#[tokio::test]
async fn nothing_is_sent_to_the_api_of_the_own_server() {
    for place in ["viv.example", "localhost:9", "localhost.:9", "127.0.0.1:9", "[::ffff:127.0.0.1]:9"] {
        let url = format!("http://{place}/v1/hooks/ci");
        let Err(SendFailure::Failed(why)) = send(&target(url, "right", &["127.0.0.0/8".to_owned()])).await
        else {
            panic!("{place}")
        };
        assert!(why.contains("the API of the server itself"), "{place}: {why}");
    }
}

#[tokio::test]
async fn a_wrong_target_is_found_before_anything_is_sent() {
    let check = |url: &str, secret: &str, allow: &[&str]| {
        let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
        courier().check(&target(url.to_owned(), secret, &allow))
    };
    assert_eq!(check("https://example.com/in", "right", &["10.0.0.0/8"]), Ok(()));
    for (url, secret, allow, words) in [
        ("ftp://example.com", "right", &[][..], "`http` or `https`"),
        ("https://me:pw@example.com", "right", &[], "the signature proves who sends"),
        ("https://example.com/in#part", "right", &[], "without `#`"),
        ("https://viv.example/v1/hooks/ci", "right", &[], "the API of the server itself"),
        ("http://localhost:9/v1/hooks/ci", "right", &["127.0.0.1"], "the API of the server itself"),
        ("http://127.1:9/v1/hooks/ci", "right", &["127.0.0.1"], "a target is another server"),
        ("", "right", &[], "`url`"),
        ("https://example.com", "a b", &[], "`secrets`"),
        ("https://example.com", "", &[], "wanted 1 to 4 names of secrets, got 0"),
        ("https://example.com", "a,b,c,d,e", &[], "wanted 1 to 4 names of secrets, got 5"),
        ("https://example.com", "right", &["a b"], "`allow`"),
    ] {
        let why = check(url, secret, allow).unwrap_err();
        assert!(why.contains(words), "{url}: {why}");
    }
    assert!(check(&format!("https://a/{}", "x".repeat(3_000)), "right", &[]).is_err());
    assert_eq!(courier().unusable_secret("right").await, None);
    assert!(courier().unusable_secret("none").await.is_some());
}

/// What a server gets of the news that a message was posted: the type of the body and the body; `None` if it gets nothing.
async fn told(only_if: Option<&str>, body: Option<Value>) -> Option<(String, String)> {
    let server = Loopback::says("HTTP/1.1 204 No Content\r\n\r\n").await;
    let at = target(format!("http://{}/in", server.address), "right", &[server.address.to_string()]);
    let target = StoredTarget { only_if: only_if.map(str::to_owned), body, ..at };
    courier().check(&target).expect("the target is fine");
    let news = json!({
        "type": "message", "timestamp": "2026-01-02T03:04:05Z",
        "data": {"sender_handle": "ada", "text": "\"}, {\"a\": 1 \n\u{1f600}", "urgent": true, "seq": 7},
    });
    let delivery = TargetDelivery {
        id: "msg_1".into(),
        body: news.to_string(),
        at: Timestamp::UNIX_EPOCH,
        attempts: 0,
        why: None,
    };
    courier()
        .send(&target, &delivery, Timestamp::from_second(1_700_000_000).expect("a time"))
        .await
        .expect("it is taken");
    let request = server.requests().into_iter().next()?;
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).expect("a type");
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    Some((kind.to_owned(), body.to_owned()))
}

#[tokio::test]
async fn a_target_is_sent_what_its_rule_and_its_template_make_of_the_news() {
    let text = "\"}, {\"a\": 1 \n\u{1f600}";
    for (body, wanted) in [
        // No text leaves the place where it stands, and what is one value keeps its type.
        (
            json!({"text": "{{ data.sender_handle }}: {{ data.text }}", "n": "{{ data.seq }}", "fixed": [1, null]}),
            Some(json!({"text": format!("ada: {text}"), "n": 7, "fixed": [1, null]})),
        ),
        (json!(["{{ data.urgent }}", "{{ data.none }}"]), Some(json!([true]))),
        (json!({"all": "{{ data }}"}), None),
    ] {
        let (kind, sent) = told(None, Some(body)).await.unwrap();
        let sent: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(kind, "application/json");
        match wanted {
            Some(wanted) => assert_eq!(sent, wanted),
            None => assert_eq!(sent["all"]["text"], text),
        }
    }
    let plain = ("text/plain; charset=utf-8".to_owned(), format!("ada {text}"));
    assert_eq!(told(None, Some(json!("{{ data.sender_handle }} {{ data.text }}"))).await, Some(plain));
    for nothing in ["{{ data.none }}", "{% if data.seq > 9 %}{{ data.text }}{% endif %}"] {
        assert_eq!(told(None, Some(json!(nothing))).await, None, "{nothing}");
    }
    assert!(told(Some("data.urgent and type == 'message'"), None).await.unwrap().1.contains("2026-01-02"));
    for rule in ["not data.urgent", "data.nothing.at_all", "data.sender_handle == 'bob'"] {
        assert_eq!(told(Some(rule), None).await, None, "{rule}");
    }
}

#[tokio::test]
async fn a_rule_or_template_of_a_target_that_cannot_be_is_refused_and_one_that_cannot_be_written_sends_nothing()
 {
    let with = |only_if: Option<String>, body: Option<Value>| StoredTarget {
        only_if,
        body,
        ..target("https://example.com/in".into(), "right", &[])
    };
    let long = "x".repeat(20_000);
    for (target, words) in [
        (with(Some("dat.text".into()), None), "`only_if`: `dat` is no part"),
        (with(Some("data.seq >".into()), None), "`only_if`: this is no valid template"),
        (with(Some("true }} {{ false".into()), None), "`only_if`: this is no valid template"),
        (with(Some(long.clone()), None), "`only_if`: wanted at most 16384 bytes"),
        (with(None, Some(json!({"a": ["{{ data.text"]}))), "`body`: in `a`: in item 0: this is no valid"),
        (with(None, Some(json!("{{ secret('right') }}"))), "so it has no secrets"),
        (with(None, Some(json!(long))), "`body`: wanted at most 16384 bytes"),
    ] {
        let why = courier().check(&target).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
    let server = Loopback::says("HTTP/1.1 204 No Content\r\n\r\n").await;
    let at = target(format!("http://{}/", server.address), "right", &[server.address.to_string()]);
    for target in [
        StoredTarget { only_if: Some("type + 1".into()), ..at.clone() },
        StoredTarget { body: Some(json!({"n": "{{ type + 1 }}"})), ..at.clone() },
        StoredTarget { body: Some(json!("{% for n in range(99999) %}{{ type }}{% endfor %}")), ..at },
    ] {
        courier().check(&target).unwrap();
        let Err(SendFailure::Failed(why)) = send(&target).await else { panic!("{target:?}") };
        assert!(why.contains("so nothing was sent"), "{why}");
    }
    assert!(server.requests().is_empty());
}
