//! `viv approvals`: calls that wait for people, as a person reads and answers them.

use std::io::IsTerminal;

use agent::approval::{ApprovalState, how_to_answer, short_version};
use agent::id::CallId;
use agent::plan::span_ms;
use agent::quote;
use api::{ApprovalJson, ApprovalRuleJson, CallAnswerJson};
use client::{Client, segment};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::{AnswerArgs, ApprovalsArgs, ApprovalsList, ApprovalsVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::{Screen, ago, shortened};

pub(crate) async fn run(client: Client, screen: Screen, args: ApprovalsArgs) -> Result<Exit> {
    match args.verb.unwrap_or(ApprovalsVerb::List(args.list)) {
        ApprovalsVerb::List(ApprovalsList { agent, space, all }) => {
            list(&client, &screen, agent, space, all).await?;
        }
        ApprovalsVerb::Show { call, link } => {
            let call = full_call(&client, call).await?;
            match link {
                false => show(&client, &screen, &call).await?,
                true => show_link(&client, &screen, &call).await?,
            }
        }
        ApprovalsVerb::Answer(args) => {
            let call = full_call(&client, args.call).await?;
            answer(&client, &screen, AnswerArgs { call, ..args }).await?;
        }
        ApprovalsVerb::Rules { agent } => rules(&client, &screen, agent).await?,
        ApprovalsVerb::Forget { agent, tool } => {
            // Whoever has the key of a person may not read agents, but may delete the own rules.
            client.delete(&format!("/v1/approval-rules/{}/{}", segment(&agent), segment(&tool))).await?;
            let line = format!("calls of `{tool}` by `{agent}` need an approval again");
            screen.result(&json!({"forgotten": tool}), &screen.clean_line(&line));
        }
    }
    Ok(Exit::Answered)
}

/// The id of the only call that begins so, among those that wait or have waited for people.
async fn full_call(client: &Client, given: String) -> Result<String> {
    match CallId::is_whole(&given) {
        true => Ok(given),
        false => Ok(client.full_id("/v1/approvals?all=true", "call", &given).await?),
    }
}

async fn list(
    client: &Client,
    screen: &Screen,
    agent: Option<String>,
    space: Option<String>,
    all: bool,
) -> Result<()> {
    let mut path = "/v1/approvals".to_owned();
    let given = [("agent", agent), ("space", space), ("all", all.then(|| "true".to_owned()))];
    for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        let mark = if path.contains('?') { '&' } else { '?' };
        path.push_str(&format!("{mark}{name}={}", segment(&value)));
    }
    let found = client.list(&path, usize::MAX).await?;
    let now = Timestamp::now();
    let row = |one: &ApprovalJson| {
        let what = if one.question {
            one.why.clone()
        } else {
            format!("{}: {}", arguments_line(&one.arguments), one.why)
        };
        let what = shortened(&quote::visible_line(&what), WHAT_COLUMNS);
        let (agent, tool) = (one.agent_handle.clone(), one.tool.clone());
        vec![one.call.to_string(), ago(one.asked_at, now), agent, one.state.as_str().to_owned(), tool, what]
    };
    let head = ["CALL", "ASKED", "AGENT", "STATE", "TOOL", "WHAT"];
    screen.rows(found, "nothing waits for a person", &head, row)
}

/// What a person reads who waits for an agent that waits for somebody: what is wanted, and how to answer.
pub(crate) fn wanted(agent: &str, one: &ApprovalJson) -> [String; 2] {
    let what = match one.question {
        true => format!("asks: {}", quote::visible_line(&one.why)),
        false => {
            let arguments = shortened(&arguments_line(&one.arguments), WHAT_COLUMNS);
            format!("wants to call `{}` {arguments} ({})", one.tool, quote::visible_line(&one.why))
        }
    };
    let by = match one.requested_by.as_slice() {
        [] => String::new(),
        names => format!(", requested by {}", quote::visible_line(&names.join(", "))),
    };
    [
        format!("({agent} waits for a person: it {what}{by})"),
        format!("(answer it with: viv approvals answer {} {})", one.call, how_to_answer(one.kind)),
    ]
}

/// Columns of what is asked, where it is one of several things in a line.
const WHAT_COLUMNS: usize = 80;

async fn show(client: &Client, screen: &Screen, call: &str) -> Result<()> {
    let found: ApprovalJson = client.get_as(&format!("/v1/approvals/{}", segment(call))).await?;
    if screen.json {
        screen.result(&json!(found), "");
        return Ok(());
    }
    for line in lines_of(&found) {
        screen.text(&screen.clean_line(&line));
    }
    Ok(())
}

async fn show_link(client: &Client, screen: &Screen, call: &str) -> Result<()> {
    let path = format!("/v1/approvals/{}?link=true", segment(call));
    let found: ApprovalJson = client.get_as(&path).await?;
    let link = found.link.unwrap_or_default();
    screen.result(&json!({"call": found.call, "link": link}), &link);
    Ok(())
}

async fn answer(client: &Client, screen: &Screen, args: AnswerArgs) -> Result<()> {
    let AnswerArgs { call, verdict, text, form, reason, arguments, remember, tainted, sender, hash, yes } =
        args;
    let answer = match (text, form) {
        (Some(text), _) => Some(Value::String(text)),
        (None, Some(form)) => Some(value("--form", &form)?),
        (None, None) => None,
    };
    let arguments: Option<Box<RawValue>> =
        arguments.map(|arguments| value("--arguments", &arguments)).transpose()?;
    let shown = match verdict.as_deref() {
        Some("approve") => Some(shown(client, screen, &call, arguments.as_deref()).await?),
        _ => None,
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !screen.json;
    if shown.is_some() && is_terminal {
        input::confirm(screen, "this is approved", yes, None)?;
    }
    let body = CallAnswerJson {
        verdict,
        answer,
        reason,
        arguments,
        remember_until: remember.map(|span| until(&span)).transpose()?,
        remember_tainted: tainted.then_some(true),
        hash: hash.or(shown),
        sender,
    };
    let answered = client.post(&format!("/v1/approvals/{}/answer", segment(&call)), &body, None).await?;
    let shown: ApprovalJson = client::typed("approval", answered.clone())?;
    let line = format!("`{}` of `{}`: {}", shown.tool, shown.agent_handle, shown.state.as_str());
    screen.result(&answered, &screen.clean_line(&line));
    if shown.guard_asks == Some(true) {
        screen.note(&screen.clean_line(&format!(
            "strangers' text is in what `{0}` reads: as long as it is, you are asked about each call all the same. \
             `viv agents clear-guard {0}` takes it out; an operator's rule with `--tainted` counts also then",
            shown.agent_handle
        )));
    }
    Ok(())
}

/// Prints what would be approved, and returns its hash: another call is not approved then.
async fn shown(client: &Client, screen: &Screen, call: &str, edited: Option<&RawValue>) -> Result<String> {
    let one: ApprovalJson = client.get_as(&format!("/v1/approvals/{}", segment(call))).await?;
    let mut lines = asked_lines(&one);
    lines.extend(edited.map(|edited| format!("instead    {}", arguments_line(edited.get()))));
    lines.push(format!("hash       {}", one.hash));
    if !screen.json {
        lines.iter().for_each(|line| screen.text(line));
    }
    Ok(one.hash)
}

async fn rules(client: &Client, screen: &Screen, agent: Option<String>) -> Result<()> {
    let query = agent.map(|agent| format!("?agent={}", segment(&agent))).unwrap_or_default();
    let path = format!("/v1/approval-rules{query}");
    let rules: Vec<ApprovalRuleJson> = client.list_as(&path, usize::MAX).await?;
    if screen.json {
        screen.json_list(rules);
        return Ok(());
    }
    if rules.is_empty() {
        screen.text("no call is approved in advance");
    }
    for ApprovalRuleJson {
        agent_handle, tool, version, space_handle, until, tainted, guard_asks, by, ..
    } in &rules
    {
        let also = match (tainted, guard_asks) {
            (true, _) => ", also after strangers' text",
            (false, true) => ", but not now: strangers' text is in what it reads",
            (false, false) => "",
        };
        let here = space_handle.as_ref().map(|space| format!(", in `{space}`")).unwrap_or_default();
        let line = format!(
            "`{tool}` (version {}) of `{agent_handle}` until {until}{here}{also} (by {by})",
            short_version(version)
        );
        screen.text(&screen.clean_line(&line));
    }
    Ok(())
}

/// The time after this span.
fn until(span: &str) -> Result<Timestamp> {
    let ms = span_ms("--remember", span).map_err(|wrong| Failure::usage(wrong.to_string()))?;
    let far = || Failure::usage(format!("`--remember`: `{span}` is too long"));
    let span = SignedDuration::from_millis(i64::try_from(ms).map_err(|_| far())?);
    Timestamp::now().checked_add(span).map_err(|_| far())
}

fn value<T: DeserializeOwned>(option: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|wrong| Failure::usage(format!("`{option}` is not JSON: {wrong}")))
}

/// Arguments as everybody who approves sees them, on one line.
fn arguments_line(arguments: &str) -> String {
    quote::visible_line(&quote::visible_arguments(arguments))
}

/// Whose call it is, and what it would do, exactly.
fn asked_lines(one: &ApprovalJson) -> Vec<String> {
    let escaped = |text: &str| quote::visible_line(text);
    let mut lines = vec![format!("call       {}", one.call), format!("agent      {}", one.agent_handle)];
    if one.question {
        lines.push(format!("question   {}", escaped(&one.why)));
    } else {
        lines.push(format!("tool       {} (version {})", one.tool, short_version(&one.version)));
        lines.push(format!("arguments  {}", arguments_line(&one.arguments)));
        lines.push(format!("why        {}", escaped(&one.why)));
    }
    if !one.requested_by.is_empty() {
        lines.push(format!("requested  by {}", escaped(&one.requested_by.join(", "))));
    }
    lines.extend(one.said.iter().map(|said| format!("it wrote   {}", escaped(said))));
    lines
}

/// All that a person needs to decide, the exact arguments in one piece.
pub(crate) fn lines_of(one: &ApprovalJson) -> Vec<String> {
    let escaped = |text: &str| quote::visible_line(text);
    let mut lines = asked_lines(one);
    lines.extend(one.options.iter().map(|option| format!("option     {}", escaped(option))));
    lines.extend(one.schema.iter().map(|schema| format!("schema     {}", escaped(&schema.to_string()))));
    lines.push(format!("state      {}", one.state.as_str()));
    if let (Some(by), Some(at)) = (&one.by, one.answered_at) {
        lines.push(format!("answered   by {} at {at}", escaped(by)));
    }
    lines.extend(one.asked_arguments.iter().map(|asked| format!("asked for  {}", arguments_line(asked))));
    lines.extend(one.reason.iter().map(|reason| format!("reason     {}", escaped(reason))));
    lines.push(format!("expires    {}", one.expires_at));
    if one.state == ApprovalState::Wanted {
        lines.push(format!("hash       {}", one.hash));
        lines.push(format!("answer     viv approvals answer {} {}", one.call, how_to_answer(one.kind)));
    }
    lines
}
