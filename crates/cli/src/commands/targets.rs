//! `viv targets`: servers outside that are told what happens.

use api::{DeadDelivery, DeliveriesRetried, DeliveryRetry, NewTargetJson, TargetJson};
use client::{Client, segment, typed};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{AddTargetArgs, TargetsArgs, TargetsVerb};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, ago, counted};

pub(crate) async fn run(client: Client, screen: Screen, args: TargetsArgs) -> Result<Exit> {
    match args.verb {
        None | Some(TargetsVerb::List) => list(&client, &screen).await?,
        Some(TargetsVerb::Show { target }) => show(&screen, client.get(&path(&target)).await?)?,
        Some(TargetsVerb::Add(args)) => add(&client, &screen, args).await?,
        Some(TargetsVerb::Remove { target }) => {
            client.delete(&path(&target)).await?;
            screen.result(&json!({"removed": target}), &format!("the target `{target}` is removed"));
        }
        Some(TargetsVerb::Dead { target }) => dead(&client, &screen, &target).await?,
        Some(TargetsVerb::Retry { target, delivery }) => {
            let id = match delivery {
                Some(id) => Some(client.full_id(&format!("{}/dead", path(&target)), "id", &id).await?),
                None => None,
            };
            let answer =
                client.post(&format!("{}/retry", path(&target)), &DeliveryRetry { id }, None).await?;
            let DeliveriesRetried { retried } = typed("retry", answer.clone())?;
            let what = if retried == 1 { "delivery waits" } else { "deliveries wait" };
            screen.result(&answer, &format!("{retried} {what} for `{target}` again"));
        }
    }
    Ok(Exit::Answered)
}

fn path(target: &str) -> String {
    format!("/v1/targets/{}", segment(target))
}

async fn list(client: &Client, screen: &Screen) -> Result<()> {
    let items: Vec<TargetJson> = client.all_as("/v1/targets").await?;
    if screen.json {
        screen.json_list(items);
        return Ok(());
    }
    if items.is_empty() {
        screen.text("nobody is told what happens; `viv targets add` adds a target");
        return Ok(());
    }
    let row = |target: &TargetJson| {
        let of = target.space_handle.as_ref().or(target.agent_handle.as_ref()).cloned().unwrap_or_default();
        let (on, waiting, dead) = (target.on.join(", "), target.waiting.to_string(), target.dead.to_string());
        [target.name.clone(), on, of, waiting, dead, state(target)]
            .map(|cell| screen.clean_line(&cell))
            .to_vec()
    };
    let head = ["TARGET", "ON", "OF", "WAITING", "DEAD", "STATE"];
    screen.table(&head, &items.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

fn show(screen: &Screen, answer: Value) -> Result<()> {
    let target: TargetJson = typed("target", answer.clone())?;
    let now = state(&target);
    let mut pairs = vec![
        ("target", target.name),
        ("address", target.url),
        ("of", target.space_handle.or(target.agent_handle).unwrap_or_default()),
        ("on", target.on.join(", ")),
        ("secrets", target.secrets.join(", ")),
        ("state", now),
        ("waiting", target.waiting.to_string()),
        ("dead", target.dead.to_string()),
    ];
    let when = |at: Timestamp| format!("{at:.0} ({})", ago(at, Timestamp::now()));
    pairs.extend(target.arrived_at.map(|at| ("last arrived", when(at))));
    pairs.extend(target.failed_at.map(|at| ("failing since", when(at))));
    if target.attempts > 0 {
        pairs.push(("failed attempts of the first that waits", target.attempts.to_string()));
        pairs.extend(
            target.next_at.filter(|_| target.off.is_none()).map(|at| ("next try", format!("{at:.0}"))),
        );
    }
    pairs.extend((!target.allow.is_empty()).then(|| ("allow", target.allow.join(", "))));
    pairs.extend(target.only_if.map(|rule| ("only if", rule)));
    pairs.extend(target.body.map(|body| ("body", body.to_string())));
    screen.object(&answer, pairs);
    Ok(())
}

/// Whether what it is told arrives.
fn state(target: &TargetJson) -> String {
    match (&target.off, silent(target), &target.why) {
        (Some(why), ..) => format!("off: {why}"),
        (None, Some(why), _) => why,
        (None, None, Some(why)) => why.clone(),
        (None, None, None) if !target.missing_secrets.is_empty() => "on, a secret is missing".to_owned(),
        (None, None, None) => "on".to_owned(),
    }
}

/// Why nothing can be sent to it, as it is declared.
pub(super) fn silent(target: &TargetJson) -> Option<String> {
    target
        .refused
        .clone()
        .map(|why| format!("{why}; add it again with `--allow`"))
        .or_else(|| unsigned(target))
}

/// Why none of its secrets can sign.
fn unsigned(target: &TargetJson) -> Option<String> {
    let none = target.missing_secrets.len() == target.secrets.len();
    let missing: Vec<String> =
        target.missing_secrets.iter().map(|(name, why)| format!("`{name}`: {why}")).collect();
    none.then(|| format!("no secret can sign: {}", missing.join(", ")))
}

async fn add(client: &Client, screen: &Screen, args: AddTargetArgs) -> Result<()> {
    let AddTargetArgs { name, url, space, agent, on, only_if, body, secrets, allow } = args;
    let body = body.map(|body| {
        serde_json::from_str(&body).map_err(|error| {
            Failure::usage(format!("`--body` is not JSON: {error}"))
                .hint(r#"such as --body '{"text": "{{ data.sender_handle }}: {{ data.text }}"}'"#)
        })
    });
    let new = NewTargetJson { url, secrets, on, space, agent, only_if, body: body.transpose()?, allow };
    let answer = client.put(&path(&name), &new).await?;
    let target: TargetJson = typed("target", answer.clone())?;
    let of = target.space_handle.as_ref().or(target.agent_handle.as_ref()).cloned().unwrap_or_default();
    let line = format!("`{}` is told of `{of}`: {}", target.name, target.on.join(", "));
    screen.result(&answer, &screen.clean_line(&line));
    if let Some(why) = target.refused.as_ref().filter(|_| !screen.json) {
        let address = target.url.split_once("://").map_or("", |(_, rest)| rest);
        let address = address.split(['/', '?']).next().unwrap_or_default();
        screen.warning(&format!(
            "nothing will be sent: {why}; if it may be told, add it again with `--allow {address}`"
        ));
    }
    for (name, why) in target.missing_secrets.iter().filter(|_| !screen.json) {
        screen.warning(&format!("the secret `{name}` cannot sign: {why}; `viv secrets set {name}` sets it"));
    }
    Ok(())
}

async fn dead(client: &Client, screen: &Screen, target: &str) -> Result<()> {
    let items: Vec<DeadDelivery> = client.all_as(&format!("{}/dead", path(target))).await?;
    if screen.json {
        screen.json_list(items);
        return Ok(());
    }
    if items.is_empty() {
        screen.text(&format!("no delivery to `{target}` was given up"));
        return Ok(());
    }
    let now = Timestamp::now();
    let row = |dead: &DeadDelivery| {
        let why = dead.why.clone().unwrap_or_default();
        let cells = [dead.id.clone(), ago(dead.at, now), counted(dead.attempts, "attempt"), why];
        cells.map(|cell| screen.clean_line(&cell)).to_vec()
    };
    screen.table(&["DELIVERY", "WHEN", "AFTER", "WHY"], &items.iter().map(row).collect::<Vec<_>>());
    Ok(())
}
