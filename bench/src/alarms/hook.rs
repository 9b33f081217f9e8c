//! A signed delivery to a hook: CPU of the process `viv up` until it is verified, on disk and answered.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use tools::hook::SignatureScheme;
use tools::secret::SecretValue;

use crate::Bench;
use crate::measure::{Samples, short};
use crate::process;
use crate::report::{Goal, Metric};
use crate::talk::HttpConnection;

/// Deliveries of one round; an inbox takes that many of all rounds.
const DELIVERIES: usize = 1_500;
/// Rounds; the first is a warm-up.
const ROUNDS: usize = 6;
/// Bytes of one body.
const BODY_BYTES: usize = 2 * 1024;
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let data = dir.path().join("data");
    fs::create_dir(&data)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
    let file = data.join("tool-secrets.toml");
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
    fs::write(&file, format!("bench = \"{SECRET}\"\n"))?;
    let running = process::up(&process::viv(bench)?, dir.path())?;
    let address = running.ready_line["url"].as_str().and_then(|url| url.strip_prefix("http://"));
    let address: SocketAddr = address.context("the server did not report its address")?.parse()?;
    let key = running.ready_line["admin_key"].as_str().context("no admin key was reported")?;
    let mut connection = HttpConnection::open(address)?;
    let mut ask = |method: &str, path: &str, body: &Value| -> Result<()> {
        let request = connection.request(method, path, key, &body.to_string());
        connection.send(&request)?;
        connection.answer()
    };
    // The deliveries wait: what an agent does with them is not counted.
    ask("POST", "/v1/agents", &json!({"name": "ops", "config": {"limits": {"inbox_max": 10_000}}}))?;
    ask("POST", "/v1/agents/ops/suspend", &Value::Null)?;
    let hook = json!({"kind": "standard", "secrets": ["bench"], "agents": ["ops"]});
    ask("PUT", "/v1/hooks/bench", &hook)?;
    let (mut signed, mut health) = (Samples::default(), Samples::default());
    for round in 0..ROUNDS {
        let requests: Vec<Vec<u8>> =
            (0..DELIVERIES).map(|n| delivery(address, &format!("{round}-{n}"))).collect::<Result<_>>()?;
        let cost = cost(&running, &mut connection, requests.iter())?;
        let head = format!("GET /v1/health HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes();
        let bare = self::cost(&running, &mut connection, std::iter::repeat_n(&head, DELIVERIES))?;
        if round > 0 {
            signed.push(cost);
            health.push(bare);
        }
    }
    let note = format!(
        "CPU of `viv up` per delivery of {BODY_BYTES} B, signed as in Standard Webhooks, one after the other on one connection, the \
         store's thread and its syncs included ({}); floor: `GET /v1/health` on it ({} us)",
        signed.spread(),
        short(health.median()),
    );
    let value = (signed.median(), "us");
    Ok(vec![Metric::new("alarms.hook", value, health.median(), Goal::ValueAtMost(200.0), note)])
}

/// CPU of the server per request, in microseconds.
fn cost<'a>(
    running: &process::Running,
    connection: &mut HttpConnection,
    requests: impl Iterator<Item = &'a Vec<u8>>,
) -> Result<f64> {
    let before = running.cpu_us()?;
    for request in requests {
        connection.send(request)?;
        connection.answer()?;
    }
    Ok((running.cpu_us()? - before) / DELIVERIES as f64)
}

/// The bytes of a delivery.
fn delivery(address: SocketAddr, id: &str) -> Result<Vec<u8>> {
    let mut body = json!({"type": "build.failed", "id": id, "log": ""});
    let size = body.to_string().len();
    body["log"] = "x".repeat(BODY_BYTES - size).into();
    let body = body.to_string();
    let secret = SecretValue::new(SECRET);
    let signed = SignatureScheme::Standard.sign(&secret, id, Timestamp::now(), body.as_bytes());
    let signed = signed.map_err(anyhow::Error::msg)?;
    let headers: String = signed.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    Ok(format!(
        "POST /v1/hooks/bench HTTP/1.1\r\nhost: {address}\r\n{headers}content-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes())
}
