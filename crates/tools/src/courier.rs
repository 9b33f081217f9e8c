//! Sends targets what they are told, signed as in Standard Webhooks, through the one way out. Must not know what a delivery
//! says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use agent::port::{BoxFuture, Courier, SendFailure, StoredTarget, TargetDelivery};
use jiff::Timestamp;
use reqwest::{Method, Url};
use serde_json::Value;

use crate::connector::{AllowList, Connector, Outgoing, TrafficLimits, refused_by_name};
use crate::hook::SignatureScheme;
use crate::http::retry_after;
use crate::secret::{SecretValue, Secrets};
use crate::template::{self, Slot};

/// What news consist of, as templates read them.
const NEWS_PARTS: [&str; 3] = ["type", "timestamp", "data"];
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Sends through a connector.
pub struct SignedCourier {
    connector: Arc<Connector>,
    secrets: Arc<dyn Secrets>,
}

impl SignedCourier {
    /// A courier that signs with these secrets.
    pub fn new(connector: Arc<Connector>, secrets: Arc<dyn Secrets>) -> Self {
        Self { connector, secrets }
    }

    async fn secret(&self, name: &str) -> Result<SecretValue, String> {
        let secret = self.secrets.secret(name).await.ok_or("it is not set")?;
        SignatureScheme::Standard.key(&secret).map(|_| secret)
    }

    /// The headers with the signature of each secret that can sign.
    async fn signed(
        &self,
        target: &StoredTarget,
        id: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let (mut signed, mut unusable) = (Vec::<(&str, String)>::new(), Vec::new());
        for name in &target.secrets {
            let secret = match self.secret(name).await {
                Ok(secret) => secret,
                Err(why) => {
                    unusable.push(format!("the secret `{name}` cannot sign, so nothing was sent: {why}"));
                    continue;
                }
            };
            let more = SignatureScheme::Standard.sign(&secret, id, now, body)?;
            match signed.last_mut().zip(more.last()) {
                // The signature is the last one of the headers, and there may be several of it.
                Some(((_, signatures), (_, signature))) => *signatures = format!("{signatures} {signature}"),
                None => signed = more,
            }
        }
        if signed.is_empty() { Err(unusable.join("; ")) } else { Ok(signed) }
    }

    async fn attempt(
        &self,
        target: &StoredTarget,
        delivery: &TargetDelivery,
        now: Timestamp,
    ) -> Result<Option<(u16, Option<Duration>)>, String> {
        let Some((body, content_type)) = written(target, &delivery.body)? else { return Ok(None) };
        let signed = self.signed(target, &delivery.id, body.as_bytes(), now).await?;
        let mut request = request(target)?.body(body);
        for (name, value) in signed.into_iter().chain([("content-type", content_type.to_owned())]) {
            request = request.header(name, &value, false).map_err(|error| error.to_string())?;
        }
        let answer = self.connector.send(request).await.map_err(|error| error.to_string())?;
        Ok(Some((answer.status, retry_after(answer.header("retry-after"), now))))
    }
}

/// What is sent of these news, and its type; `None` if that is nothing.
fn written(target: &StoredTarget, news: &str) -> Result<Option<(String, &'static str)>, String> {
    if target.only_if.is_none() && target.body.is_none() {
        return Ok(Some((news.to_owned(), JSON)));
    }
    let parts: Value = serde_json::from_str(news).map_err(|error| error.to_string())?;
    let context = template::context(&parts);
    if let Some(rule) = &target.only_if {
        let wanted = template::is_true(rule, &context);
        if !wanted.map_err(|why| format!("`only_if` cannot be decided, so nothing was sent: {why}"))? {
            return Ok(None);
        }
    }
    let Some(source) = &target.body else { return Ok(Some((news.to_owned(), JSON))) };
    let body = template::structured(source, Slot::Event, &context);
    let body = body.map_err(|why| format!("`body` cannot be written, so nothing was sent: {why}"))?;
    Ok(match body {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => (!text.trim().is_empty()).then_some((text, TEXT)),
        Some(other) => Some((other.to_string(), JSON)),
    })
}

/// Checks what of the news a target is sent, and how it is written.
fn check_written(target: &StoredTarget) -> Result<(), String> {
    let known = BTreeSet::from(NEWS_PARTS);
    let bounded = |key: &str, size: usize| match size > limits::TARGET_TEMPLATE_MAX_BYTES {
        true => Err(format!("`{key}`: wanted at most {} bytes", limits::TARGET_TEMPLATE_MAX_BYTES)),
        false => Ok(()),
    };
    if let Some(rule) = &target.only_if {
        bounded("only_if", rule.len())?;
        template::check_rule(rule, &known).map_err(|why| format!("`only_if`: {why}"))?;
    }
    if let Some(body) = &target.body {
        bounded("body", body.to_string().len())?;
        template::check_structured(body, Slot::Event, &known).map_err(|why| format!("`body`: {why}"))?;
    }
    Ok(())
}

/// The request without its body and headers.
fn request(target: &StoredTarget) -> Result<Outgoing, String> {
    let request = Outgoing::new(Method::POST, &target.url).map_err(|error| format!("`url`: {error}"))?;
    let allow = target.allow.iter().map(|entry| entry.parse().map_err(|why| format!("`allow`: {why}")));
    let total = Duration::from_millis(limits::TARGET_MS);
    let connect = Duration::from_millis(limits::TARGET_CONNECT_MS);
    // Of the answer only the status counts, and a redirect is a failure: the news are for this address.
    let limits = TrafficLimits {
        connect,
        head: total,
        idle: total,
        total,
        body_bytes: 0,
        redirects: 0,
        ..TrafficLimits::default()
    };
    let request = request
        .allowed_by("if it may be told, add the target again, with `--allow` and its address")
        .instead("a target is another server; to let an agent see messages, make it a member of the space");
    Ok(request.allow(AllowList::new(allow.collect::<Result<_, String>>()?)).limits(limits))
}

impl Courier for SignedCourier {
    fn check(&self, target: &StoredTarget) -> Result<(), String> {
        if target.url.len() > limits::TARGET_URL_MAX_BYTES {
            return Err(format!("`url`: wanted at most {} bytes", limits::TARGET_URL_MAX_BYTES));
        }
        if target.allow.len() > limits::TARGET_ALLOW_MAX {
            return Err(format!("`allow`: wanted at most {} entries", limits::TARGET_ALLOW_MAX));
        }
        let most = limits::TARGET_SECRETS_MAX;
        if target.secrets.is_empty() || target.secrets.len() > most {
            return Err(format!(
                "`secrets`: wanted 1 to {most} names of secrets, got {}",
                target.secrets.len()
            ));
        }
        for name in &target.secrets {
            template::check_secret_name(name).map_err(|why| format!("`secrets`: {why}"))?;
        }
        if let Ok(url) = Url::parse(&target.url) {
            if !url.username().is_empty() || url.password().is_some() {
                return Err(
                    "`url`: wanted one without a user name and password; the signature proves who sends, \
                            and a target can have a key of its own in the query"
                        .to_owned(),
                );
            }
            if url.fragment().is_some() {
                return Err("`url`: wanted one without `#` and what follows, which is never sent".to_owned());
            }
        }
        check_written(target)?;
        self.connector.check_own(&request(target)?).map_err(|error| format!("`url`: {error}"))
    }

    fn refused(&self, target: &StoredTarget) -> Option<String> {
        refused_by_name(&request(target).ok()?)
    }

    fn unusable_secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.secret(name).await.err() })
    }

    fn send<'a>(
        &'a self,
        target: &'a StoredTarget,
        delivery: &'a TargetDelivery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), SendFailure>> {
        Box::pin(async move {
            match self.attempt(target, delivery, now).await {
                Ok(None | Some((200..=299, _))) => Ok(()),
                Ok(Some((410, _))) => Err(SendFailure::Gone),
                Ok(Some((status, Some(wait)))) => {
                    Err(SendFailure::Busy { why: format!("it answered {status}"), wait })
                }
                Ok(Some((status, None))) => Err(SendFailure::Failed(format!("it answered {status}"))),
                Err(why) => Err(SendFailure::Failed(why)),
            }
        })
    }
}
