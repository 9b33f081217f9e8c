//! Hooks: deliveries of other services, verified byte for byte before they are read, and what becomes of them.
//!
//! There is no hook without a verifier: a declaration becomes a `Verifier` or an error, and only what a `Verifier` has let
//! pass is read (invariant 12). A hook whose secrets are missing refuses everything. This module must not know requests.

mod declare;
mod reading;
mod secrets;
mod sign;

use std::sync::Arc;

use agent::limits;
use agent::port::{
    BoxFuture, Clock, DeclaredHook, DeliveryHead, HookKind, HookReading, HookRefusal, Hooks, RawDelivery,
};
use futures_util::future::join_all;
use jiff::Timestamp;
use ring::hmac;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

pub use self::declare::HookDeclaration;
pub use self::sign::SignatureScheme;

use self::declare::{SECRET_HEADER, SecretNames, Verifier, scheme};
use self::reading::Verified;
use self::secrets::HookSecrets;
use crate::secret::{SecretValue, Secrets};

/// The hooks of a server, with their secrets.
pub struct ServerHooks {
    secrets: HookSecrets,
}

impl ServerHooks {
    /// Hooks with these secrets.
    pub fn new(secrets: Arc<dyn Secrets>, clock: Arc<dyn Clock>) -> Self {
        Self { secrets: HookSecrets::new(secrets, clock) }
    }

    /// The secrets that can be used. The error is for the sender and names none.
    async fn usable<T>(
        &self,
        names: &SecretNames<'_>,
        make: impl Fn(&SecretValue) -> Result<T, String>,
    ) -> Result<Vec<T>, HookRefusal> {
        let found = join_all(names.all().iter().map(|name| self.secrets.find(name))).await;
        let usable: Vec<T> = found.iter().flatten().filter_map(|secret| make(secret).ok()).collect();
        match usable.is_empty() {
            true => Err(HookRefusal::Unready(
                "this hook has no secret to verify deliveries with, so it accepts none".to_owned(),
            )),
            false => Ok(usable),
        }
    }

    /// The verifier with its secrets.
    async fn opened(&self, verifier: Verifier<'_>) -> Result<OpenedVerifier, HookRefusal> {
        Ok(match verifier {
            Verifier::Signature(scheme, names) => {
                OpenedVerifier::Signature(scheme, self.usable(&names, |secret| scheme.key(secret)).await?)
            }
            Verifier::SharedSecret(header, names) => {
                OpenedVerifier::SharedSecret(header, self.usable(&names, shared).await?)
            }
            Verifier::Key => OpenedVerifier::Key,
        })
    }
}

/// What verifies a delivery, with the secrets that it needs.
enum OpenedVerifier {
    Signature(SignatureScheme, Vec<hmac::Key>),
    /// The header, and the hashes of the secrets that it may have.
    SharedSecret(String, Vec<[u8; 32]>),
    Key,
}

impl OpenedVerifier {
    /// Refuses a delivery by its head. Only one of a service that signs its body is not verified then.
    fn admit(&self, head: &DeliveryHead<'_>) -> Result<(), HookRefusal> {
        match self {
            Self::Signature(scheme, _) => scheme.admit(head.headers, head.now),
            Self::SharedSecret(header, wanted) => {
                let given = sign::one(head.headers, header).ok_or_else(|| {
                    HookRefusal::Unsigned(format!(
                        "wanted the header `{header}` once, with this hook's secret"
                    ))
                })?;
                let given = Sha256::digest(given.trim().as_bytes());
                let is_wanted =
                    |right: Choice, wanted: &[u8; 32]| right | wanted.as_slice().ct_eq(given.as_slice());
                match bool::from(wanted.iter().fold(Choice::from(0), is_wanted)) {
                    true => Ok(()),
                    false => {
                        let why = format!("the header `{header}` does not have this hook's secret");
                        Err(HookRefusal::Forged(why))
                    }
                }
            }
            Self::Key if head.by_key => Ok(()),
            Self::Key => Err(HookRefusal::KeyWanted),
        }
    }

    fn verify<'a>(self, delivery: RawDelivery<'a>) -> Result<Verified<'a>, HookRefusal> {
        self.admit(&delivery.head)?;
        let secret_header = match self {
            Self::Signature(scheme, keys) => {
                scheme.verify(&keys, delivery.head.headers, delivery.body)?;
                None
            }
            Self::SharedSecret(header, _) => Some(header),
            Self::Key => None,
        };
        Ok(Verified::by_verifier(delivery, secret_header))
    }
}

/// The headers with which a delivery of this kind comes. The error says what is wrong with the secret, without it.
pub fn signed_headers(
    kind: HookKind,
    header: Option<&str>,
    secret: Option<&SecretValue>,
    id: &str,
    now: Timestamp,
    body: &[u8],
) -> Result<Vec<(String, String)>, String> {
    let secret = || secret.ok_or_else(|| "there is none".to_owned());
    let named = |(name, value): (&str, String)| (name.to_owned(), value);
    let key = ("idempotency-key", id.to_owned());
    Ok(match scheme(kind) {
        Some(scheme) => scheme.sign(secret()?, id, now, body)?.into_iter().map(named).collect(),
        None if kind == HookKind::Key => vec![named(key)],
        None => {
            let header = header.unwrap_or(SECRET_HEADER);
            declare::check_secret_header(header)?;
            vec![named((header, secret()?.reveal().to_owned())), named(key)]
        }
    })
}

/// The hash of a shared secret: texts of different length are compared in the same time.
fn shared(secret: &SecretValue) -> Result<[u8; 32], String> {
    if secret.reveal().len() < limits::SECRET_MIN_BYTES {
        return Err(format!("wanted at least {} bytes", limits::SECRET_MIN_BYTES));
    }
    Ok(Sha256::digest(secret.reveal().as_bytes()).into())
}

/// The declaration as it was stored; it was checked then.
fn stored(declaration: &Value) -> Result<HookDeclaration, HookRefusal> {
    HookDeclaration::deserialize(declaration).map_err(|error| {
        tracing::error!(%error, "the declaration of a hook cannot be read");
        HookRefusal::Unready("this version of the server cannot read the hook's declaration".to_owned())
    })
}

impl Hooks for ServerHooks {
    fn check(&self, declaration: &Value) -> Result<DeclaredHook, Vec<String>> {
        let read = declare::read(declaration)?;
        Ok(DeclaredHook { declaration: json!(read), secrets: read.secrets })
    }

    fn missing_secrets<'a>(&'a self, declaration: &'a Value) -> BoxFuture<'a, Vec<(String, String)>> {
        Box::pin(async move {
            let Ok(hook) = stored(declaration) else { return Vec::new() };
            let found = join_all(hook.secrets.iter().map(|name| self.secrets.find_soon(name))).await;
            let usable = |found: Result<Option<SecretValue>, String>| match (found?, scheme(hook.kind)) {
                (None, _) => Err("it is not set".to_owned()),
                (Some(secret), Some(scheme)) => scheme.key(&secret).map(drop),
                (Some(secret), None) => shared(&secret).map(drop),
            };
            let missing = hook.secrets.iter().zip(found);
            missing.filter_map(|(name, found)| Some((name.clone(), usable(found).err()?))).collect()
        })
    }

    fn admit<'a>(
        &'a self,
        declaration: &'a Value,
        head: DeliveryHead<'a>,
    ) -> BoxFuture<'a, Result<(), HookRefusal>> {
        Box::pin(async move {
            let hook = stored(declaration)?;
            reading::body_type(hook.kind, &head)?;
            let verifier = hook.verifier().map_err(HookRefusal::Unready)?;
            self.opened(verifier).await?.admit(&head)
        })
    }

    fn read<'a>(
        &'a self,
        declaration: &'a Value,
        delivery: RawDelivery<'a>,
    ) -> BoxFuture<'a, Result<HookReading, HookRefusal>> {
        Box::pin(async move {
            let hook = stored(declaration)?;
            let verifier = hook.verifier().map_err(HookRefusal::Unready)?;
            let body_type = reading::body_type(hook.kind, &delivery.head)?;
            let verified = self.opened(verifier).await?.verify(delivery)?;
            Ok(reading::read(&hook, body_type, &verified))
        })
    }
}
