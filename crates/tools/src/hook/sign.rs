//! Signatures over the raw bytes of a delivery, as Standard Webhooks, GitHub, Stripe and Slack make them: HMAC with SHA-256.
//! Must not know what a delivery says.

use agent::limits;
use agent::port::HookRefusal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::hmac;
use subtle::{Choice, ConstantTimeEq as _};

use crate::secret::SecretValue;

/// The mark of a secret of Standard Webhooks.
const SECRET_MARK: &str = "whsec_";
/// Least size of such a secret.
const SECRET_LEAST_BYTES: usize = 16;
const TAG_BYTES: usize = 32;

/// How a service signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureScheme {
    /// Standard Webhooks: id, time and body.
    Standard,
    /// GitHub: the body alone.
    Github,
    /// Stripe: time and body.
    Stripe,
    /// Slack: time and body.
    Slack,
}

use SignatureScheme::{Github, Slack, Standard, Stripe};

/// What a delivery says about its own signature.
struct Claim<'a> {
    /// The part that is signed before the body.
    prefix: String,
    /// When it was signed, where the scheme says so.
    signed_at: Option<i64>,
    signatures: Vec<&'a str>,
}

impl SignatureScheme {
    /// The header with the signature.
    pub(super) fn header(self) -> &'static str {
        match self {
            Standard => "webhook-signature",
            Github => "x-hub-signature-256",
            Stripe => "stripe-signature",
            Slack => "x-slack-signature",
        }
    }

    /// The key of a secret. The error says what is wrong, without the secret.
    pub(crate) fn key(self, secret: &SecretValue) -> Result<hmac::Key, String> {
        let text = secret.reveal();
        if self != Standard {
            return match text.len() {
                0..limits::SECRET_MIN_BYTES => {
                    Err(format!("wanted at least {} bytes", limits::SECRET_MIN_BYTES))
                }
                _ => Ok(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())),
            };
        }
        let decoded = STANDARD.decode(text.strip_prefix(SECRET_MARK).unwrap_or(text)).ok();
        let decoded = decoded.filter(|bytes| bytes.len() >= SECRET_LEAST_BYTES);
        let key = decoded.map(|bytes| hmac::Key::new(hmac::HMAC_SHA256, &bytes));
        key.ok_or_else(|| format!("wanted `{SECRET_MARK}` and at least {SECRET_LEAST_BYTES} bytes in Base64"))
    }

    /// Whether the headers claim a signature, made not long ago.
    pub(super) fn admit(self, headers: &[(String, String)], now: Timestamp) -> Result<(), HookRefusal> {
        let window = limits::HOOK_WINDOW_MS / 1000;
        match self.claim(headers)?.signed_at.map(|at| now.as_second().abs_diff(at)) {
            Some(off) if off > window => Err(HookRefusal::Old(format!(
                "the delivery was signed {off} s from now, and at most {window} s are accepted: the clocks differ, or it is an \
                 old one"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether one of the keys has signed this delivery. Takes as long for a wrong signature as for a right one.
    pub(super) fn verify(
        self,
        keys: &[hmac::Key],
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<(), HookRefusal> {
        let claim = self.claim(headers)?;
        let mut right = Choice::from(0);
        for key in keys {
            let tag = tag(key, &claim.prefix, body);
            for signature in claim.signatures.iter().take(limits::HOOK_SIGNATURES_MAX) {
                right |= self.decoded(signature).map_or(Choice::from(0), |given| tag.as_ref().ct_eq(&given));
            }
        }
        if !bool::from(right) {
            let header = self.header();
            let why = format!("the signature in `{header}` is not one of this hook over these bytes");
            return Err(HookRefusal::Forged(why));
        }
        Ok(())
    }

    /// The headers of a delivery that the secret signs.
    pub fn sign(
        self,
        secret: &SecretValue,
        id: &str,
        now: Timestamp,
        body: &[u8],
    ) -> Result<Vec<(&'static str, String)>, String> {
        let key = self.key(secret)?;
        let at = now.as_second();
        let tag = tag(&key, &self.prefix(id, &at.to_string()), body);
        let hex = agent::id::hex(tag.as_ref());
        Ok(match self {
            Standard => vec![
                ("webhook-id", id.to_owned()),
                ("webhook-timestamp", at.to_string()),
                ("webhook-signature", format!("v1,{}", STANDARD.encode(tag.as_ref()))),
            ],
            Github => vec![
                ("x-github-event", "push".to_owned()),
                ("x-github-delivery", id.to_owned()),
                ("x-hub-signature-256", format!("sha256={hex}")),
            ],
            Stripe => vec![("stripe-signature", format!("t={at},v1={hex}"))],
            Slack => vec![
                ("x-slack-request-timestamp", at.to_string()),
                ("x-slack-signature", format!("v0={hex}")),
            ],
        })
    }

    fn prefix(self, id: &str, at: &str) -> String {
        match self {
            Standard => format!("{id}.{at}."),
            Github => String::new(),
            Stripe => format!("{at}."),
            Slack => format!("v0:{at}:"),
        }
    }

    fn claim(self, headers: &[(String, String)]) -> Result<Claim<'_>, HookRefusal> {
        let wanted = |name: &str| {
            let why = format!("wanted the header `{name}` once, as this hook's kind of service sends it");
            HookRefusal::Unsigned(why)
        };
        let header = |name: &'static str| one(headers, name).ok_or_else(|| wanted(name));
        let signature = header(self.header())?;
        let (id, at, signatures) = match self {
            Standard => {
                let listed = signature.split(' ').filter_map(|part| part.strip_prefix("v1,"));
                (header("webhook-id")?, Some(header("webhook-timestamp")?), listed.collect())
            }
            Github => ("", None, signature.strip_prefix("sha256=").into_iter().collect()),
            Stripe => {
                let part = |name: &'static str| {
                    signature
                        .split(',')
                        .filter_map(move |part| part.trim().strip_prefix(name)?.strip_prefix('='))
                };
                let mut times = part("t");
                let at = times.next().filter(|_| times.next().is_none());
                ("", Some(at.ok_or_else(|| wanted(self.header()))?), part("v1").collect())
            }
            Slack => {
                let at = header("x-slack-request-timestamp")?;
                ("", Some(at), signature.strip_prefix("v0=").into_iter().collect::<Vec<_>>())
            }
        };
        let signed_at = match at.map(str::parse::<i64>) {
            Some(Err(_)) => {
                let why = "the time of the signature is not a number of seconds".to_owned();
                return Err(HookRefusal::Unsigned(why));
            }
            other => other.and_then(Result::ok),
        };
        Ok(Claim { prefix: self.prefix(id, at.unwrap_or_default()), signed_at, signatures })
    }

    fn decoded(self, signature: &str) -> Option<[u8; TAG_BYTES]> {
        match self {
            Standard => STANDARD.decode(signature).ok()?.try_into().ok(),
            _ => agent::id::unhex(signature)?.try_into().ok(),
        }
    }
}

/// The header's value, if it is given once.
pub(super) fn one<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut given = headers.iter().filter(|(header, _)| header == name);
    let (_, value) = given.next()?;
    given.next().is_none().then_some(value.as_str())
}

fn tag(key: &hmac::Key, prefix: &str, body: &[u8]) -> hmac::Tag {
    let mut signing = hmac::Context::with_key(key);
    signing.update(prefix.as_bytes());
    signing.update(body);
    signing.sign()
}
