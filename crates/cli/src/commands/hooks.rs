//! `viv hooks`: through them services outside send events.

use agent::limits;
use agent::port::{Clock as _, HookKind, Ids as _};
use api::{HookDeliveryJson, HookJson, KeyJson, NewHookJson, NewKey};
use client::{Client, segment, typed};
use jiff::{SignedDuration, Timestamp};
use runtime::clock::{SystemClock, SystemIds};
use serde_json::{Value, json};
use tools::hook::signed_headers;
use tools::secret::Secrets as _;

use crate::args::{AddHookArgs, Global, HooksArgs, HooksVerb, SendHookArgs};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::{Screen, ago};
use crate::settings::{self, Settings};
use crate::tool_secrets::ToolSecrets;

/// How long the key of one delivery is valid, if it cannot be revoked.
const SEND_KEY_FOR: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn run(global: &Global, screen: Screen, args: HooksArgs) -> Result<Exit> {
    let client = Client::find(settings::data_dir(global)?)?;
    match args.verb {
        None | Some(HooksVerb::List) => list(&client, &screen).await?,
        Some(HooksVerb::Add(args)) => add(&client, &screen, args).await?,
        Some(HooksVerb::Show { hook }) => show(&screen, client.get(&path(&hook)).await?)?,
        Some(HooksVerb::Remove { hook }) => {
            client.delete(&path(&hook)).await?;
            screen.result(&json!({"removed": hook}), &format!("the hook `{hook}` is removed"));
        }
        Some(HooksVerb::Send(args)) => send(global, &client, &screen, args).await?,
        Some(HooksVerb::Log { hook }) => log(&client, &screen, &hook).await?,
    }
    Ok(Exit::Answered)
}

fn path(hook: &str) -> String {
    format!("/v1/hooks/{}", segment(hook))
}

async fn list(client: &Client, screen: &Screen) -> Result<()> {
    let items: Vec<HookJson> = client.all_as("/v1/hooks").await?;
    if screen.json {
        screen.json_list(items);
        return Ok(());
    }
    if items.is_empty() {
        screen.text("there are no hooks; `viv hooks add` declares one");
        return Ok(());
    }
    let row = |hook: &HookJson| {
        let (to, trust) = (hook.agent_handles.join(", "), trust(hook).to_owned());
        let cells = [hook.name.clone(), hook.kind.clone(), to, trust, state(hook).to_owned()];
        cells.map(|cell| screen.clean_line(&cell)).to_vec()
    };
    screen.table(&["HOOK", "KIND", "TO", "TRUST", "STATE"], &items.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// Whose text its events are.
fn trust(hook: &HookJson) -> &'static str {
    if hook.trusted { "trusted fields" } else { "outside" }
}

/// Whether a hook accepts deliveries.
fn state(hook: &HookJson) -> &'static str {
    match hook.missing_secrets.len() {
        _ if hook.retired_agents.len() == hook.agents.len() => "all its agents are retired: answers 409",
        0 => "ready",
        missing if missing < hook.secrets.len() => "ready, a secret is missing",
        _ => "no secret: answers 503",
    }
}

async fn add(client: &Client, screen: &Screen, args: AddHookArgs) -> Result<()> {
    let AddHookArgs { name, kind, to: agents, secrets, header, template, only_if, urgent, trusted } = args;
    let kind_name = kind.as_str().to_owned();
    let new = NewHookJson { kind: kind_name, secrets, header, agents, template, only_if, urgent, trusted };
    // Only to say what the change takes away: none is needed.
    let before: Option<HookJson> = client.get_as(&path(&name)).await.ok();
    let answer = client.put(&path(&name), &new).await?;
    let hook: HookJson = typed("hook", answer.clone())?;
    let line = format!("`{}` takes deliveries at {}{}", hook.name, client.url(), path(&hook.name));
    screen.result(&answer, &screen.clean_line(&line));
    for (name, why) in hook.missing_secrets.iter().filter(|_| !screen.json) {
        screen
            .warning(&format!("the secret `{name}` cannot be used: {why}; `viv secrets set {name}` sets it"));
    }
    if hook.trusted {
        screen.note(
            "agents take the fields of its template for no stranger's text: whoever can write into one of them can tell them what \
             to do; choose numbers and names, no free text",
        );
    } else if before.is_some_and(|before| before.trusted) {
        screen.warning("it was trusted, and is not any more: what it delivers counts as strangers' text; `--trusted` changes that");
    }
    if kind == HookKind::Key {
        screen.note(&format!("its key: `viv keys add service:{}`", hook.name));
    }
    Ok(())
}

fn show(screen: &Screen, answer: Value) -> Result<()> {
    let hook: HookJson = typed("hook", answer.clone())?;
    let mut pairs = vec![
        ("hook", hook.name.clone()),
        ("kind", hook.kind.clone()),
        ("to", hook.agent_handles.join(", ")),
        ("state", state(&hook).to_owned()),
        ("secrets", if hook.secrets.is_empty() { "none".to_owned() } else { hook.secrets.join(", ") }),
    ];
    pairs.extend(hook.header.clone().map(|header| ("header", header)));
    pairs.push(("template", hook.template.clone()));
    pairs.push(("trust", trust(&hook).to_owned()));
    pairs.extend(hook.only_if.clone().map(|rule| ("only if", rule)));
    pairs.extend(hook.urgent.clone().map(|rule| ("urgent if", rule)));
    screen.object(&answer, pairs);
    Ok(())
}

/// Signs a delivery here, with the secrets of this machine, and sends it as the service would.
async fn send(global: &Global, client: &Client, screen: &Screen, args: SendHookArgs) -> Result<()> {
    let hook: HookJson = client.get_as(&path(&args.hook)).await?;
    let kind: HookKind = hook.kind.parse().map_err(|_| {
        Failure::usage(format!("this `viv` does not know hooks of the kind `{}`", hook.kind))
            .hint("use the version of the server: `viv doctor` compares them")
    })?;
    let id = args.id.unwrap_or_else(|| format!("viv-{}", SystemIds.uuid()));
    let body = match args.body.as_deref() {
        Some("-") => input::text(limits::BODY_MAX_BYTES)?,
        Some(given) => given.to_owned(),
        None => json!({"id": id, "event_id": id, "text": "a delivery of `viv hooks send`"}).to_string(),
    };
    let secret = match kind {
        HookKind::Key => None,
        _ => {
            let secrets = ToolSecrets::of(&Settings::load(global, &())?);
            let mut found = None;
            for name in &hook.secrets {
                if found.is_none() {
                    found = secrets.secret(name).await;
                }
            }
            Some(found.ok_or_else(|| {
                let names = hook.secrets.join("`, `");
                Failure::usage(format!("no secret of this hook is set on this machine: `{names}`"))
                    .hint("run this where the server runs, or set it with `viv secrets set NAME`")
            })?)
        }
    };
    let now = SystemClock::new().now();
    let headers = signed_headers(kind, hook.header.as_deref(), secret.as_ref(), &id, now, body.as_bytes());
    let headers =
        headers.map_err(|why| Failure::usage(format!("the hook's secret cannot be used: {why}")))?;
    let answer = match kind {
        HookKind::Key => with_service_key(client, &hook.name, &headers, body).await?,
        _ => client.deliver(&path(&hook.name), &headers, body, None).await?,
    };
    let outcome = answer["outcome"].as_str().unwrap_or("answered").to_owned();
    screen.result(&answer, &screen.clean_line(&format!("`{}`: {outcome}, delivery {id}", hook.name)));
    Ok(())
}

/// Delivers with a key that only this delivery has: a hook takes no administrator's key.
async fn with_service_key(
    client: &Client,
    hook: &str,
    headers: &[(String, String)],
    body: String,
) -> Result<Value> {
    let new = NewKey {
        scope: format!("service:{hook}"),
        entity: None,
        label: Some("viv hooks send".to_owned()),
        expires_at: Some(Timestamp::now() + SEND_KEY_FOR),
    };
    let key: KeyJson = typed("key", client.post("/v1/keys", &new, None).await?)?;
    let answer = client.deliver(&path(hook), headers, body, key.secret.as_deref()).await;
    // A key that cannot be revoked expires soon; whether the delivery was taken is what counts.
    let _ = client.delete(&format!("/v1/keys/{}", segment(&key.id.to_string()))).await;
    Ok(answer?)
}

async fn log(client: &Client, screen: &Screen, hook: &str) -> Result<()> {
    let path = format!("{}/deliveries", path(hook));
    let items: Vec<HookDeliveryJson> = client.all_as(&path).await?;
    if screen.json {
        screen.json_list(items);
        return Ok(());
    }
    if items.is_empty() {
        screen.text(&format!("nothing was delivered to `{hook}` yet"));
        return Ok(());
    }
    let now = Timestamp::now();
    let row = |line: &HookDeliveryJson| {
        let to = Some(line.agent_handles.join(", ")).filter(|to| !to.is_empty());
        let what = to.into_iter().chain(line.detail.clone()).collect::<Vec<_>>().join("; ");
        let delivery = line.delivery.clone().unwrap_or_else(|| "-".to_owned());
        let cells = [ago(line.at, now), delivery, line.outcome.clone(), what];
        cells.map(|cell| screen.clean_line(&cell)).to_vec()
    };
    screen.table(&["WHEN", "DELIVERY", "OUTCOME", "TO"], &items.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// What it means that agents of a hook are retired.
pub(crate) fn without_agents(hook: &HookJson) -> &'static str {
    match hook.retired_agents.len() == hook.agents.len() {
        true => "all its agents are retired, and it answers 409 to every delivery",
        false => "some of its agents are retired and get none of its events",
    }
}
