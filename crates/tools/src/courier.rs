//! Sends targets what they are told, signed as in Standard Webhooks, through the one way out. Must not know what a delivery
//! says.

use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use agent::port::{BoxFuture, Courier, SendFailure, StoredTarget, TargetDelivery};
use jiff::Timestamp;
use reqwest::{Method, Url};

use crate::connector::{AllowList, Connector, Outgoing, TrafficLimits};
use crate::hook::SignatureScheme;
use crate::http::retry_after;
use crate::secret::{SecretValue, Secrets};

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
        delivery: &TargetDelivery,
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
            let more =
                SignatureScheme::Standard.sign(&secret, &delivery.id, now, delivery.body.as_bytes())?;
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
    ) -> Result<(u16, Option<Duration>), String> {
        let signed = self.signed(target, delivery, now).await?;
        let mut request = request(target)?.body(delivery.body.clone());
        for (name, value) in signed.into_iter().chain([("content-type", "application/json".to_owned())]) {
            request = request.header(name, &value, false).map_err(|error| error.to_string())?;
        }
        let answer = self.connector.send(request).await.map_err(|error| error.to_string())?;
        Ok((answer.status, retry_after(answer.header("retry-after"), now)))
    }
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
            crate::template::check_secret_name(name).map_err(|why| format!("`secrets`: {why}"))?;
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
        self.connector.check_own(&request(target)?).map_err(|error| format!("`url`: {error}"))
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
                Ok((200..=299, _)) => Ok(()),
                Ok((410, _)) => Err(SendFailure::Gone),
                Ok((status, Some(wait))) => {
                    Err(SendFailure::Busy { why: format!("it answered {status}"), wait })
                }
                Ok((status, None)) => Err(SendFailure::Failed(format!("it answered {status}"))),
                Err(why) => Err(SendFailure::Failed(why)),
            }
        })
    }
}
