//! Declarations of hooks: what verifies a delivery, and what becomes of it. Must not know how a request arrives.

use std::collections::BTreeSet;

use agent::limits;
use agent::port::HookKind;
use reqwest::header::HeaderName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sign::SignatureScheme;
use crate::connector::is_reserved;
use crate::template::{self, Slot};

/// The template of a hook that does not say what its event is: the body as it is.
pub(super) const WHOLE_BODY: &str = "{{ body }}";
/// What a template may use.
const PARTS: [&str; 2] = ["body", "headers"];
/// The header with a shared secret, if a declaration names none.
pub(super) const SECRET_HEADER: &str = "x-webhook-secret";

/// Headers with a meaning, besides those of the connection.
const STANDARD_HEADERS: [&str; 19] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "content-encoding",
    "content-type",
    "cookie",
    "date",
    "forwarded",
    "idempotency-key",
    "origin",
    "pragma",
    "referer",
    "user-agent",
    "via",
    "x-request-id",
];

/// How services of this kind sign; `None` if they do not.
pub(super) fn scheme(kind: HookKind) -> Option<SignatureScheme> {
    match kind {
        HookKind::Standard => Some(SignatureScheme::Standard),
        HookKind::Github => Some(SignatureScheme::Github),
        HookKind::Stripe => Some(SignatureScheme::Stripe),
        HookKind::Slack => Some(SignatureScheme::Slack),
        HookKind::SharedSecret | HookKind::Key => None,
    }
}

/// A hook as an operator declares it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookDeclaration {
    /// What verifies a delivery.
    pub kind: HookKind,
    /// Names of the secrets, any of which verifies it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The header with a shared secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The template of what agents read. Stores of earlier versions have it as `event`.
    #[serde(default = "whole_body", alias = "event")]
    pub template: String,
    /// An expression: a delivery with which it is not true wakes nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// An expression that says whether it is urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent: Option<String>,
    /// Whether the operator answers for the plain fields that the template takes of a delivery.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
}

fn whole_body() -> String {
    WHOLE_BODY.to_owned()
}

/// Names of secrets, at least one.
pub(super) struct SecretNames<'a>(&'a [String]);

impl SecretNames<'_> {
    pub(super) fn all(&self) -> &[String] {
        self.0
    }
}

/// What verifies a delivery. There is no variant that verifies nothing, and none without a secret that needs one.
pub(super) enum Verifier<'a> {
    /// A signature.
    Signature(SignatureScheme, SecretNames<'a>),
    /// A secret in this header.
    SharedSecret(String, SecretNames<'a>),
    /// A key of this server, which the API checks.
    Key,
}

impl HookDeclaration {
    /// What verifies a delivery; the error says what is missing.
    pub(super) fn verifier(&self) -> Result<Verifier<'_>, String> {
        let names = match self.secrets.as_slice() {
            [] if self.kind == HookKind::Key => return Ok(Verifier::Key),
            [] => {
                return Err("`secrets`: wanted the name of at least one secret of the server".into());
            }
            _ if self.kind == HookKind::Key => {
                let why = "`secrets`: a hook of this kind is verified by a key of the server";
                let hint = "leave the secrets out, and create a key with the scope `service:NAME`";
                return Err(format!("{why}\nhint: {hint}"));
            }
            names => SecretNames(names),
        };
        Ok(match scheme(self.kind) {
            Some(scheme) => Verifier::Signature(scheme, names),
            None => {
                let header = self.header.as_deref().unwrap_or(SECRET_HEADER);
                Verifier::SharedSecret(header.to_ascii_lowercase(), names)
            }
        })
    }
}

/// Checks that a header may have a secret. Others mean something to servers and proxies, which show and log them.
pub(super) fn check_secret_header(name: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    if HeaderName::try_from(&lower).is_err() {
        return Err("wanted the name of a header, such as `x-gitlab-token`".to_owned());
    }
    let is_standard = STANDARD_HEADERS.contains(&lower.as_str()) || lower.starts_with("x-forwarded-");
    if is_reserved(&lower) || is_standard {
        return Err(format!(
            "`{lower}` has a meaning of its own, so it can have no secret\nhint: a header such as `x-gitlab-token`"
        ));
    }
    Ok(())
}

/// Reads and checks a declaration; the error lists every mistake.
pub(super) fn read(declaration: &Value) -> Result<HookDeclaration, Vec<String>> {
    let hook = HookDeclaration::deserialize(declaration).map_err(|error| vec![error.to_string()])?;
    let mut wrong = Vec::new();
    wrong.extend(hook.verifier().err());
    let most = limits::HOOK_SECRETS_MAX;
    if hook.secrets.len() > most {
        wrong.push(format!("`secrets`: wanted at most {most}, got {}", hook.secrets.len()));
    }
    wrong.extend(hook.secrets.iter().filter_map(|name| template::check_secret_name(name).err()));
    match &hook.header {
        Some(_) if hook.kind != HookKind::SharedSecret => {
            wrong.push("`header`: only a hook of the kind `shared_secret` has one".to_owned());
        }
        Some(name) => wrong.extend(check_secret_header(name).err().map(|why| format!("`header`: {why}"))),
        None => {}
    }
    let known = BTreeSet::from(PARTS);
    let rules = [("only_if", &hook.only_if), ("urgent", &hook.urgent)];
    let rules = rules.into_iter().filter_map(|(key, rule)| Some((key, rule.as_deref()?, true)));
    for (key, source, is_rule) in rules.chain([("template", hook.template.as_str(), false)]) {
        let checked = match source.len() > limits::HOOK_TEMPLATE_MAX_BYTES {
            true => Err(format!("wanted at most {} bytes", limits::HOOK_TEMPLATE_MAX_BYTES)),
            false if is_rule => template::check_rule(source, &known),
            false => template::check(source, Slot::Event, &known),
        };
        wrong.extend(checked.err().map(|why| format!("`{key}`: {why}")));
    }
    if hook.trusted && wrong.is_empty() {
        wrong.extend(template::check_fields(&hook.template).err().map(|why| format!("`template`: {why}")));
    }
    if hook.template.trim().is_empty() {
        wrong.push("`template`: wanted a template, such as `{{ body }}`".to_owned());
    }
    if wrong.is_empty() { Ok(hook) } else { Err(wrong) }
}
