//! What a verified delivery says: its id, its answer, and the event that the templates make of it. Must not know secrets.

use agent::guard::Vouched;
use agent::limits;
use agent::port::{DeliveryHead, DeliveryId, HookEvent, HookKind, HookReading, HookRefusal, RawDelivery};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::declare::{HookDeclaration, WHOLE_BODY};
use super::sign::one;
use crate::arguments::bounded_json;
use crate::json::mended;
use crate::template::{self, NoFields, Slot};

/// Headers that templates do not see, because they can be credentials.
const HIDDEN: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// A delivery that its hook's verifier has let pass: only [`super::verify`] makes one.
pub(super) struct Verified<'a> {
    delivery: RawDelivery<'a>,
    /// The header with the secret, if it has one.
    secret_header: Option<String>,
}

impl<'a> Verified<'a> {
    /// For the verifier alone.
    pub(super) fn by_verifier(delivery: RawDelivery<'a>, secret_header: Option<String>) -> Self {
        Self { delivery, secret_header }
    }
}

/// How a body is written.
#[derive(Clone, Copy)]
pub(super) enum BodyType {
    Json,
    Form,
    /// JSON in the field `payload` of a form, as GitHub sends it unless it is told otherwise.
    Payload,
}

/// The type of the delivery's body, if this kind of hook reads it.
pub(super) fn body_type(kind: HookKind, head: &DeliveryHead<'_>) -> Result<BodyType, HookRefusal> {
    let given = one(head.headers, "content-type").unwrap_or_default();
    let given = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json =
        given == "application/json" || (given.starts_with("application/") && given.ends_with("+json"));
    match (given.as_str(), kind) {
        _ if is_json => Ok(BodyType::Json),
        ("application/x-www-form-urlencoded", HookKind::Slack) => Ok(BodyType::Form),
        ("application/x-www-form-urlencoded", HookKind::Github) => Ok(BodyType::Payload),
        _ => {
            let shown: String = given.chars().take(80).collect();
            let or_form =
                if kind == HookKind::Github { " or `application/x-www-form-urlencoded`" } else { "" };
            let why = format!("wanted the content type `application/json`{or_form}, got `{shown}`");
            Err(HookRefusal::Type(why))
        }
    }
}

/// Reads a verified delivery.
pub(super) fn read(hook: &HookDeclaration, body_type: BodyType, verified: &Verified<'_>) -> HookReading {
    let delivery = &verified.delivery;
    let refused =
        |id: Option<DeliveryId>, why| HookReading::Refused { delivery: id.and_then(DeliveryId::name), why };
    let body = match read_body(body_type, delivery.body) {
        Ok(body) => body,
        // Its head may name it.
        Err(why) => return refused(delivery_id(hook.kind, &Value::Null, delivery).ok(), why),
    };
    if is_question(hook.kind, &body, delivery) {
        return HookReading::Question(body["challenge"].as_str().map(str::to_owned));
    }
    let id = match delivery_id(hook.kind, &body, delivery) {
        Ok(id) => id,
        Err(why) => return refused(None, why),
    };
    match mapped(hook, body, verified) {
        Ok(Some((payload, urgent, vouched))) => {
            HookReading::Event(HookEvent { delivery: id, payload, urgent, vouched })
        }
        Ok(None) => HookReading::Nothing { delivery: id.name() },
        Err(why) => refused(Some(id), why),
    }
}

fn read_body(body_type: BodyType, body: &[u8]) -> Result<Value, HookRefusal> {
    let body = std::str::from_utf8(body).map_err(|_| unreadable("the body is not UTF-8"))?;
    let body = body.strip_prefix('\u{feff}').unwrap_or(body);
    match body_type {
        BodyType::Json => {
            bounded_json(&mended(body)).map_err(|error| unreadable(&format!("the body is not JSON: {error}")))
        }
        BodyType::Form => form(body),
        BodyType::Payload => match form(body)? {
            Value::Object(mut fields) => fields.swap_remove("payload"),
            _ => None,
        }
        .ok_or_else(|| {
            unreadable("wanted JSON in the form's field `payload`, or the content type `application/json`")
        }),
    }
}

/// What the hook's templates make of a delivery; `None` if that is nothing.
fn mapped(
    hook: &HookDeclaration,
    body: Value,
    verified: &Verified<'_>,
) -> Result<Option<Written>, HookRefusal> {
    let Verified { delivery, secret_header } = verified;
    let is_seen = |name: &str| !HIDDEN.contains(&name) && Some(name) != secret_header.as_deref();
    let headers = delivery.head.headers.iter().filter(|(name, _)| is_seen(name));
    let headers: Map<String, Value> = headers.map(|(name, value)| (name.clone(), json!(value))).collect();
    let Some(written) = written(hook, body, headers)? else { return Ok(None) };
    let size = written.0.to_string().len();
    if size > limits::PAYLOAD_MAX_BYTES {
        let most = limits::PAYLOAD_MAX_BYTES;
        return Err(unmapped(&format!("its event has {size} bytes, and at most {most} are accepted")));
    }
    Ok(Some(written))
}

/// The payload of an event, whether it is urgent, and whether the operator answers for it.
type Written = (Value, bool, Vouched);

/// What the templates write. A rule that is not true leaves the delivery out, and so does a template
/// that writes nothing, or a value that is absent. A rule that cannot be decided refuses it: nothing is lost unseen.
fn written(
    hook: &HookDeclaration,
    body: Value,
    headers: Map<String, Value>,
) -> Result<Option<Written>, HookRefusal> {
    let is_whole = hook.template == WHOLE_BODY;
    if is_whole && hook.urgent.is_none() && hook.only_if.is_none() {
        return Ok(Some((body, false, Vouched::No)));
    }
    let parts = json!({"body": body, "headers": headers});
    let context = template::context(&parts);
    if let Some(rule) = &hook.only_if {
        let wanted = template::is_true(rule, &context).map_err(|why| {
            HookRefusal::Unmapped(format!("the hook's `only_if` cannot be decided with this delivery: {why}"))
        })?;
        if !wanted {
            return Ok(None);
        }
    }
    let urgent = hook.urgent.as_ref().is_some_and(|rule| {
        template::is_true(rule, &context).unwrap_or_else(|why| {
            tracing::warn!("a rule for urgent deliveries cannot be used, so one is not urgent: {why}");
            false
        })
    });
    if is_whole {
        return Ok(Some((body, urgent, Vouched::No)));
    }
    let fields = hook.trusted.then(|| template::fields_of(&hook.template, body_of(&context)));
    let (payload, vouched) = match fields {
        Some(Ok(payload)) => (payload, Vouched::Fields),
        None => (of_all(hook, &context)?, Vouched::No),
        // It arrives, and counts as what strangers wrote.
        Some(Err(why)) => (of_all(hook, &context)?, Vouched::Beyond(not_trusted(why))),
    };
    let is_nothing = |payload: &Value| payload.as_str().is_some_and(|text| text.trim().is_empty());
    Ok(payload.filter(|payload| !is_nothing(payload)).map(|payload| (payload, urgent, vouched)))
}

/// What the hook's template makes of all that it may see of a delivery.
fn of_all(hook: &HookDeclaration, context: &minijinja::Value) -> Result<Option<Value>, HookRefusal> {
    let written = template::value(&hook.template, Slot::Event, context);
    let written = written.and_then(|value| value.map(|value| template::json_of(&value)).transpose());
    written.map_err(|why| unmapped(&why))
}

fn body_of(context: &minijinja::Value) -> minijinja::Value {
    context.get_attr("body").unwrap_or_default()
}

fn not_trusted(why: NoFields) -> String {
    let what = match why {
        NoFields::Beyond(what) => what,
        NoFields::NotWritten => "the template takes more than single fields".to_owned(),
    };
    format!("not trusted: {what}")
}

/// Whether the service only asks if the hook is there.
fn is_question(kind: HookKind, body: &Value, delivery: &RawDelivery<'_>) -> bool {
    match kind {
        HookKind::Github => one(delivery.head.headers, "x-github-event") == Some("ping"),
        HookKind::Slack => body["type"] == "url_verification",
        _ => false,
    }
}

fn delivery_id(kind: HookKind, body: &Value, delivery: &RawDelivery<'_>) -> Result<DeliveryId, HookRefusal> {
    let header = |name| one(delivery.head.headers, name);
    let (place, id) = match kind {
        HookKind::Standard => ("the header `webhook-id`", header("webhook-id")),
        HookKind::Github => ("the header `x-github-delivery`", header("x-github-delivery")),
        HookKind::Stripe => ("`id` in the body", body["id"].as_str()),
        HookKind::Slack => {
            let ids = [&body["event_id"], &body["trigger_id"], &body["payload"]["trigger_id"]];
            ("`event_id` in the body", ids.into_iter().find_map(Value::as_str))
        }
        HookKind::SharedSecret | HookKind::Key => {
            let key = header("idempotency-key").map(str::to_owned);
            return Ok(key.map_or(DeliveryId::None, DeliveryId::OfSender));
        }
    };
    let is_id = |id: &&str| {
        (1..=limits::KEY_MAX_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
    };
    let id = id.filter(is_id).ok_or_else(|| {
        let most = limits::KEY_MAX_BYTES;
        unreadable(&format!("wanted the delivery's id as {place}: 1 to {most} visible ASCII characters"))
    })?;
    Ok(DeliveryId::OfService(id.to_owned()))
}

/// A form as an object of texts. Slack writes JSON into the field `payload`.
fn form(body: &str) -> Result<Value, HookRefusal> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().map(|text| text.into_owned())
    };
    let mut fields = Map::new();
    for (name, value) in body.split('&').filter_map(|pair| pair.split_once('=')) {
        let (Ok(name), Ok(value)) = (decoded(name), decoded(value)) else {
            return Err(unreadable("the form is not UTF-8"));
        };
        let value = match name.as_str() {
            "payload" => bounded_json(&mended(&value))
                .map_err(|error| unreadable(&format!("`payload` is not JSON: {error}")))?,
            _ => Value::String(value),
        };
        fields.insert(name, value);
    }
    Ok(Value::Object(fields))
}

fn unreadable(why: &str) -> HookRefusal {
    HookRefusal::Unreadable(why.to_owned())
}

fn unmapped(why: &str) -> HookRefusal {
    HookRefusal::Unmapped(format!("the hook's template cannot be written with this delivery: {why}"))
}
