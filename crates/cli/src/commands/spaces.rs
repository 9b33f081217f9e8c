//! `viv spaces`: lists, changes and reads spaces and their members.

use agent::config::WakeOn;
use api::{EntityJson, MemberJson, MessageJson, NewMember, NewSpaceJson, SpaceJson};
use serde_json::json;

use crate::args::{OpenSpaceArgs, ReadArgs, SpacesArgs, SpacesVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::{Screen, Style, shortened};
use crate::written_by;
use client::{Client, segment, target, typed};

const SPACES_MAX: usize = 100_000;
const MEMBERS_MAX: usize = 1_000;
/// Columns of a description in the list.
const DESCRIPTION: usize = 48;

pub(crate) async fn run(client: Client, screen: Screen, args: SpacesArgs) -> Result<Exit> {
    input::no_list_options("`--all` applies", args.verb.is_some() && args.all)?;
    match args.verb.unwrap_or(SpacesVerb::List { all: args.all }) {
        SpacesVerb::List { all } => list(&client, &screen, all).await?,
        SpacesVerb::Show { space } => show(&client, &screen, &space).await?,
        SpacesVerb::Open(args) => open(&client, &screen, args).await?,
        SpacesVerb::Set { space, values } => set(&client, &screen, &space, &values).await?,
        SpacesVerb::Close { space, yes } => {
            let what = format!("`{space}` will accept no more messages until `viv spaces reopen {space}`");
            input::confirm(&screen, &what, yes, None)?;
            set_closed(&client, &screen, &space, "close").await?;
        }
        SpacesVerb::Reopen { space } => set_closed(&client, &screen, &space, "reopen").await?,
        SpacesVerb::Add { space, members, role } => {
            add(&client, &screen, &space, &members, role.as_deref()).await?;
        }
        SpacesVerb::Remove { space, members } => remove(&client, &screen, &space, &members).await?,
        SpacesVerb::Members { space } => members(&client, &screen, &space).await?,
        SpacesVerb::Read(args) => read(&client, &screen, &args).await?,
    }
    Ok(Exit::Answered)
}

async fn list(client: &Client, screen: &Screen, all: bool) -> Result<()> {
    let mut rows = client.list("/v1/spaces", SPACES_MAX).await?;
    rows.retain(|row| all || row["closed"] != json!(true));
    let head = ["NAME", "TITLE", "MESSAGES", "STATE", "DESCRIPTION"];
    let short = |text: &str| shortened(&screen.clean_line(text), DESCRIPTION);
    screen.rows(rows, "no spaces", &head, |space: &SpaceJson| {
        let (title, description) = (short(&space.display_name), short(&space.description));
        vec![space.handle.clone(), title, space.head_seq.to_string(), state(space).to_owned(), description]
    })
}

fn state(space: &SpaceJson) -> &'static str {
    match (space.closed, space.wake_on) {
        (true, _) => "closed",
        (false, WakeOn::All) => "open",
        (false, WakeOn::Mention) => "open, wakes on mention",
    }
}

async fn show(client: &Client, screen: &Screen, space: &str) -> Result<()> {
    let answer = client.get(&format!("/v1/spaces/{}", segment(space))).await?;
    let space: SpaceJson = typed("/v1/spaces", answer.clone())?;
    let now = state(&space).to_owned();
    screen.object(
        &answer,
        vec![
            ("handle", space.handle),
            ("display name", space.display_name),
            ("description", space.description),
            ("state", now),
            ("messages", space.head_seq.to_string()),
            ("id", space.id.to_string()),
            ("opened", space.created_at.to_string()),
        ],
    );
    Ok(())
}

async fn open(client: &Client, screen: &Screen, args: OpenSpaceArgs) -> Result<()> {
    let OpenSpaceArgs { name, display_name, description, wake_on, members } = args;
    let body = NewSpaceJson { handle: name, display_name, description, wake_on, members };
    let answer = client.post("/v1/spaces", &body, None).await?;
    let space: SpaceJson = typed("/v1/spaces", answer.clone())?;
    let who = match body.members.len() {
        0 => "no members yet".to_owned(),
        _ => format!("members: {}", body.members.join(", ")),
    };
    screen.result(&answer, &format!("opened space `{}` ({}): {who}", space.handle, space.id));
    Ok(())
}

const KEYS: [&str; 3] = ["display_name", "description", "wake_on"];

async fn set(client: &Client, screen: &Screen, space: &str, values: &[String]) -> Result<()> {
    let path = format!("/v1/spaces/{}", segment(space));
    let before = client.get(&path).await?;
    let mut body = json!({});
    let hint = "such as `wake_on=mention`; the others are `display_name` and `description`";
    for value in values {
        let (key, value) = input::key_value(value, hint)?;
        if !KEYS.contains(&key) {
            return Err(Failure::usage(format!("a space has no key `{key}` to change")).hint(hint));
        }
        body[key] = match (key, value) {
            ("display_name", "") => before["handle"].clone(),
            ("wake_on", "") => json!(WakeOn::default().as_str()),
            _ => json!(value),
        };
    }
    let after = client.patch(&path, &body).await?;
    if screen.json {
        screen.json_line(&after);
        return Ok(());
    }
    screen.text(&format!("`{space}`, from the next message on:"));
    for key in KEYS.into_iter().filter(|key| body.get(key).is_some()) {
        screen.change(key, &before[key], &after[key]);
    }
    Ok(())
}

async fn set_closed(client: &Client, screen: &Screen, space: &str, verb: &str) -> Result<()> {
    let path = format!("/v1/spaces/{}/{verb}", segment(space));
    let answer = client.post_empty(&path).await?;
    let space: SpaceJson = typed(&path, answer.clone())?;
    let now = if space.closed { "closed; it can still be read" } else { "open" };
    screen.result(&answer, &format!("`{}` is {now}", space.handle));
    Ok(())
}

async fn add(
    client: &Client,
    screen: &Screen,
    space: &str,
    members: &[String],
    role: Option<&str>,
) -> Result<()> {
    let path = format!("/v1/spaces/{}/members", segment(space));
    let mut added = Vec::new();
    for member in members {
        let body = NewMember { entity: member.clone(), role: role.map(str::to_owned) };
        let answer = client.post(&path, &body, None).await?;
        if !screen.json {
            let member: MemberJson = typed(&path, answer.clone())?;
            let line = format!("`{}` is in `{space}` as {}", member.entity.handle, member.role);
            screen.text(&line);
        }
        added.push(answer);
    }
    if screen.json {
        screen.json_list(added);
    }
    Ok(())
}

async fn remove(client: &Client, screen: &Screen, space: &str, members: &[String]) -> Result<()> {
    for member in members {
        client.delete(&format!("/v1/spaces/{}/members/{}", segment(space), segment(member))).await?;
        if !screen.json {
            screen.text(&format!("`{member}` is no longer in `{space}`"));
        }
    }
    if screen.json {
        screen.json_list(members);
    }
    Ok(())
}

async fn members(client: &Client, screen: &Screen, space: &str) -> Result<()> {
    let rows = client.list(&format!("/v1/spaces/{}/members", segment(space)), MEMBERS_MAX).await?;
    screen.rows(rows, "no members", &["NAME", "TITLE", "KIND", "ROLE"], |member: &MemberJson| {
        let EntityJson { handle: name, display_name, kind, .. } = &member.entity;
        vec![name.clone(), display_name.clone(), kind.as_str().to_owned(), member.role.clone()]
    })
}

async fn read(client: &Client, screen: &Screen, args: &ReadArgs) -> Result<()> {
    let space = target::space(client, args.space.as_deref()).await?;
    let bounds = [("before", args.before), ("after", args.after)];
    let bounds = bounds.into_iter().filter_map(|(name, seq)| Some(format!("&{name}={}", seq?)));
    let bounds: String = bounds.collect();
    let path = format!("/v1/spaces/{}/messages?limit={}{bounds}", space.id, args.limit);
    let mut answer = client.get(&path).await?;
    if screen.json {
        screen.json_line(&answer);
        return Ok(());
    }
    let messages: Vec<MessageJson> = typed(&path, answer["items"].take())?;
    if messages.is_empty() {
        screen.text(&format!("there are no messages in `{}`", space.handle));
        return Ok(());
    }
    let mut day = String::new();
    for message in &messages {
        print_message(screen, message, &mut day);
    }
    Ok(())
}

/// Prints one message, under a heading if a new day begins.
fn print_message(screen: &Screen, message: &MessageJson, day: &mut String) {
    // In UTC, as in the server's log: `2026-01-31T12:00:00Z`.
    let at = format!("{:.0}", message.at);
    let (date, time) = at.trim_end_matches('Z').split_once('T').unwrap_or((&at, ""));
    if date != day {
        date.clone_into(day);
        screen.line(&screen.paint(Style::Dim, &format!("{date} (UTC)")));
    }
    let name = screen.paint(Style::Cyan, &written_by::name(screen, &message.sender_display_name));
    let text = written_by::shown(screen, message.kind, &message.text);
    let mut lines = text.lines();
    let head = format!("{:>4}  {time}  {name}: {}", message.seq, lines.next().unwrap_or_default());
    screen.wrapped(&head, 6);
    for line in lines {
        screen.wrapped(&format!("      {line}"), 6);
    }
}
