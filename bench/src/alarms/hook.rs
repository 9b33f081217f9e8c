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
use crate::report::{Floor, Goal, Metric};
use crate::talk::HttpConnection;

/// Deliveries of one kind in a round; the inbox takes those of all rounds.
const DELIVERIES: usize = 800;
/// Deliveries in flight at once.
const AT_ONCE: usize = 16;
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
    ask("POST", "/v1/agents", &json!({"handle": "ops", "config": {"limits": {"inbox_max": 10_000}}}))?;
    ask("POST", "/v1/agents/ops/suspend", &Value::Null)?;
    let hook = json!({"kind": "standard", "secrets": ["bench"], "agents": ["ops"]});
    ask("PUT", "/v1/hooks/bench", &hook)?;
    let mut alone = vec![HttpConnection::open(address)?];
    let mut several = (0..AT_ONCE).map(|_| HttpConnection::open(address)).collect::<Result<Vec<_>>>()?;
    let (mut busy, mut quiet, mut health) = (Samples::default(), Samples::default(), Samples::default());
    let health_request = format!("GET /v1/health HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes();
    for round in 0..ROUNDS {
        let deliveries = |kind: &str| -> Result<Vec<Vec<u8>>> {
            (0..DELIVERIES).map(|n| delivery(address, &format!("{kind}-{round}-{n}"))).collect()
        };
        let at_once = cost(&running, &mut several, &deliveries("busy")?)?;
        let one_by_one = cost(&running, &mut alone, &deliveries("quiet")?)?;
        let bare = cost(&running, &mut alone, &vec![health_request.clone(); DELIVERIES])?;
        if round > 0 {
            busy.push(at_once);
            quiet.push(one_by_one);
            health.push(bare);
        }
    }
    let note = format!(
        "CPU of `viv up` per delivery of {BODY_BYTES} B, signed as in Standard Webhooks, with {AT_ONCE} in flight, the store's \
         thread and its syncs included ({}); {} us ({}) if each waits for the one before, with a sync of its own; floor: \
         `GET /v1/health`, one after the other ({} us)",
        busy.spread(),
        short(quiet.median()),
        quiet.spread(),
        short(health.median()),
    );
    let value = (busy.median(), "us");
    Ok(vec![Metric::new("alarms.hook", value, Floor::Bound(health.median()), Goal::ValueAtMost(200.0), note)])
}

/// CPU of the server per request, in microseconds. The requests are shared out among the connections; each has one in flight.
fn cost(running: &process::Running, connections: &mut [HttpConnection], requests: &[Vec<u8>]) -> Result<f64> {
    let share = requests.len().div_ceil(connections.len());
    let before = running.cpu_us()?;
    std::thread::scope(|scope| {
        let threads = connections.iter_mut().zip(requests.chunks(share)).map(|(connection, requests)| {
            scope.spawn(move || {
                requests.iter().try_for_each(|request| {
                    connection.send(request)?;
                    connection.answer()
                })
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    Ok((running.cpu_us()? - before) / requests.len() as f64)
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
