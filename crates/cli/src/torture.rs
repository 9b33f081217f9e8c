//! Tools whose effects an external server counts, for the torture harness: only in builds with the feature
//! `failpoints`, and only if `VIV_COUNTER` contains the address of that server.
//!
//! Each call is reported to the server under our call id, which is its idempotency key. This module must
//! not know how the harness uses the counts.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::{Effect, Outcome};
use agent::changes::Inward;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};
use tools::ToolKit;

/// How long the server may take before a call counts as failed.
const TIMEOUT: Duration = Duration::from_secs(5);

struct Counted {
    spec: ToolSpec,
    url: String,
    http: reqwest::Client,
    /// Whether it kills its own server after the effect.
    kills: bool,
}

/// Adds `count_read`, `count_idempotent`, `count_unsafe` and `kill_server` to the kit if there is a server
/// that counts them.
pub(crate) fn with_counted(kit: ToolKit) -> ToolKit {
    let Ok(url) = std::env::var("VIV_COUNTER") else { return kit };
    let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap_or_default();
    let tools = [
        ("count_read", Effect::ReadOnly, false),
        ("count_idempotent", Effect::Idempotent, false),
        ("count_unsafe", Effect::Unsafe, false),
        ("kill_server", Effect::Unsafe, true),
    ];
    tools.into_iter().fold(kit, |kit, (name, effect, kills)| {
        let tool = Counted { spec: spec(name, effect), url: url.clone(), http: http.clone(), kills };
        kit.with(Arc::new(tool)).expect("no prebuilt tool has such a name")
    })
}

fn spec(name: &str, effect: Effect) -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": {"note": {"type": "string", "description": "What it is done for."}},
        "additionalProperties": false,
    });
    ToolSpec {
        name: name.to_owned(),
        description: "Does something outside that is counted there.".to_owned(),
        schema: Arc::new(schema),
        effect,
        visible: false,
        asynchronous: false,
        timeout: TIMEOUT * 2,
        version: "1".to_owned(),
        labels: agent::tool::ToolLabels::default(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    }
}

impl Counted {
    async fn act(&self, arguments: Value, key: &str) -> Result<Done, ToolError> {
        let body = json!({"tool": self.spec.name, "key": key, "note": arguments["note"]});
        let sent = self.http.post(&self.url).json(&body).send().await;
        sent.and_then(reqwest::Response::error_for_status)
            .map_err(|error| ToolError::new(format!("unknown whether it happened: {error}")))?;
        failpoint::hit!("tool.running");
        if self.kills {
            // Fails only if this process may not kill itself, which no system forbids.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        Ok(Done { outcome: Outcome::ok(json!({"success": true}).to_string()), inward: Inward::default() })
    }
}

impl Tool for Counted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        serde_json::from_str(arguments).map_err(|error| format!("wanted JSON: {error}"))
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(self.act(arguments, &context.call.0))
    }
}
