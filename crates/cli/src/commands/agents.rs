//! `viv agents`: lists agents and changes them. A config value is parsed by the type of its default; the
//! server checks whether it is allowed.

use std::io::Read;
use std::path::Path;

use agent::archive::FileOrigin;
use agent::config::AgentConfig;
use agent::life::{GoalStatus, Standing};
use agent::limits;
use api::{Agent, HookJson, MemoryJson, MemoryValue, NewAgentJson, NewGoalJson, NewMember};
use serde_json::{Value, json};

use super::{alerts, goals, hooks, memories, ps, recall, show, tools, transfer};
use crate::args::{AgentsArgs, AgentsVerb, CreateArgs, Global};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::Screen;
use crate::settings;
use client::{Client, agent_path, segment, typed};

pub(crate) async fn run(global: &Global, screen: Screen, args: AgentsArgs) -> Result<Exit> {
    // Without a server these two open the store.
    match &args.verb {
        Some(AgentsVerb::Export { agent, file }) => {
            return transfer::export(global, screen, agent, file.as_deref());
        }
        Some(AgentsVerb::Import { file, name, trusted }) => {
            let origin = if *trusted { FileOrigin::Own } else { FileOrigin::Unknown };
            return transfer::import(global, screen, file, name.as_deref(), origin);
        }
        _ => {}
    }
    let client = Client::find(settings::data_dir(global)?)?;
    input::no_list_options(
        "`--state` and `--all` apply",
        args.verb.is_some() && (args.list.state.is_some() || args.list.all),
    )?;
    match args.verb.unwrap_or(AgentsVerb::List(args.list)) {
        AgentsVerb::List(list) => return ps::run(client, screen, list).await,
        AgentsVerb::Export { .. } | AgentsVerb::Import { .. } => unreachable!("returned above"),
        AgentsVerb::Show { agent } => show::agent::agent(&client, &screen, agent.as_deref()).await?,
        AgentsVerb::Alerts(args) => alerts::list(&client, &screen, args).await?,
        AgentsVerb::Goals { agent } => goals::list(&client, &screen, agent.as_deref()).await?,
        AgentsVerb::SetGoal { agent, description, priority, under } => {
            let goal = NewGoalJson { description, priority, parent: under };
            goals::set(&client, &screen, &agent, &goal).await?
        }
        AgentsVerb::EndGoal { agent, goal, abandoned, delete } => {
            let status = if abandoned { GoalStatus::Abandoned } else { GoalStatus::Completed };
            goals::end(&client, &screen, &agent, goal, (!delete).then_some(status)).await?
        }
        AgentsVerb::Context(args) => show::context::run(&client, &screen, args).await?,
        AgentsVerb::Recall(args) => return recall::run(client, screen, args).await,
        AgentsVerb::ClearGuard { agent, yes } => tools::clear_guard(&client, &screen, &agent, yes).await?,
        AgentsVerb::Create(args) => create(&client, &screen, args).await?,
        AgentsVerb::Clone { agent, name, memories } => {
            clone(&client, &screen, &agent, name, memories).await?
        }
        AgentsVerb::Set { agent, values } => set(&client, &screen, &agent, &values).await?,
        AgentsVerb::Suspend(one) => change_standing(&client, &screen, &one.agent, "suspend").await?,
        AgentsVerb::Resume(one) => change_standing(&client, &screen, &one.agent, "resume").await?,
        AgentsVerb::Retire { agent, yes } => {
            let what = format!("retiring `{agent}` cannot be undone");
            input::confirm(&screen, &what, yes, Some("suspend it with `viv agents suspend`"))?;
            change_standing(&client, &screen, &agent, "retire").await?
        }
        AgentsVerb::Cancel(one) => cancel(&client, &screen, &one.agent).await?,
    }
    Ok(Exit::Answered)
}

async fn create(client: &Client, screen: &Screen, args: CreateArgs) -> Result<()> {
    let CreateArgs { name, instructions, file, description, model, display_name, space } = args;
    let instructions = match file {
        Some(file) => Some(text_of(&file)?),
        None => instructions.as_deref().map(text_or_file).transpose()?,
    };
    let given = [("instructions", instructions), ("description", description), ("model", model)];
    let config = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
    let config = Some(Value::Object(config.collect()));
    let body = NewAgentJson { handle: name, display_name, config };
    let answer = client.post("/v1/agents", &body, None).await?;
    let created: Agent = typed("/v1/agents", answer.clone())?;
    if let Some(space) = &space {
        let path = format!("/v1/spaces/{}/members", segment(space));
        let member = NewMember { entity: created.id.to_string(), role: None };
        client.post(&path, &member, None).await.map_err(|failure| {
            let message =
                format!("`{}` was created, but did not join `{space}`: {}", created.handle, failure.message);
            let hint = format!("add it with `viv spaces add SPACE {}`", created.handle);
            Failure { message, ..failure.into() }.hint(hint)
        })?;
    }
    let model = created.model.as_deref().unwrap_or("no model");
    let line = format!("created agent `{}` ({}), its model is {model}", created.handle, created.id);
    screen.result(&answer, &line);
    created.unmatched.iter().for_each(|what| screen.warning(what));
    screen.note(&match space {
        Some(space) => format!("it is in `{space}`: `viv chat --space {space}`"),
        None => format!("it is in no space yet: `viv spaces add SPACE {}`", created.handle),
    });
    Ok(())
}

/// Creates an agent with the config of another one, which has its own history and inbox.
async fn clone(client: &Client, screen: &Screen, agent: &str, name: String, memories: bool) -> Result<()> {
    let old = client.agent(agent).await?;
    let body = NewAgentJson { handle: name, display_name: None, config: Some(old.config) };
    let answer = client.post("/v1/agents", &body, None).await?;
    let new: Agent = typed("/v1/agents", answer.clone())?;
    if memories {
        for memory in memories::all(client, old.id).await? {
            let MemoryJson { key, value, importance, pinned, trust, .. } = memory;
            let (value, importance, pinned) = (Some(value), Some(importance), Some(pinned));
            // Strangers' text stays strangers' text, whoever copies it.
            let body = MemoryValue { value, importance, pinned, trust: Some(trust) };
            memories::put(client, new.id, &key, body).await.map_err(|failure| {
                let message =
                    format!("`{}` was created, but without all memories: {}", new.handle, failure.message);
                Failure { message, ..failure }
            })?;
        }
    }
    let line = format!("created agent `{}` ({}) as a copy of `{}`", new.handle, new.id, old.handle);
    screen.result(&answer, &line);
    screen.note(&format!("it is in no space yet: `viv spaces add SPACE {}`", new.handle));
    Ok(())
}

/// A file's text, limited in size; `-` is standard input.
fn text_of(file: &Path) -> Result<String> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("cannot read the instructions from `{shown}`: {error}"))
            .hint("name a text file in UTF-8, or `-` for standard input")
    };
    // One byte more than the limit is enough to detect that it is too long.
    let bound = limits::INSTRUCTIONS_MAX_BYTES as u64 + 1;
    let source: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(file).map_err(unreadable)?),
    };
    let mut text = String::new();
    source.take(bound).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() > limits::INSTRUCTIONS_MAX_BYTES {
        let max = limits::INSTRUCTIONS_MAX_BYTES;
        let message = format!("wanted instructions of at most {max} bytes, got more in `{shown}`");
        return Err(Failure::usage(message).hint("shorten them"));
    }
    if text.starts_with("---\n") {
        let message = format!("`{shown}` begins with front matter, which is not part of instructions");
        return Err(Failure::usage(message)
            .hint("put it into the project's `agents` folder, where `viv up` finds it"));
    }
    Ok(text.trim_end().to_owned())
}

/// The text itself, or the content of the file in `@FILE`.
fn text_or_file(text: &str) -> Result<String> {
    text.strip_prefix('@').map_or_else(|| Ok(text.to_owned()), |file| text_of(Path::new(file)))
}

async fn set(client: &Client, screen: &Screen, agent: &str, values: &[String]) -> Result<()> {
    let path = format!("/v1/agents/{}", segment(agent));
    let defaults = AgentConfig::default().to_json();
    let mut body = json!({});
    let mut keys = Vec::new();
    let hint = "such as `limits.max_steps=5`; `viv agents show --json` shows all keys";
    for value in values {
        let (key, text) = input::key_value(value, hint)?;
        let text = text_or_file(text)?;
        if key == "display_name" {
            body["display_name"] = json!(text);
        } else {
            put(&mut body, key, parsed(defaults.pointer(&pointer(key)), key, &text));
        }
        keys.push(key);
    }
    let before = client.agent(agent).await?;
    let answer = client.patch(&path, &body).await?;
    if screen.json {
        screen.json_line(&answer);
        return Ok(());
    }
    let after: Agent = typed(&path, answer)?;
    let revision =
        format!("`{}` has config revision {}, used from its next cycle on", after.handle, after.config_rev);
    screen.text(&revision);
    for key in keys {
        screen.change(key, &value_of(&before, key), &value_of(&after, key));
    }
    after.unmatched.iter().for_each(|what| screen.warning(what));
    if let Some(file) = client.data_dir().and_then(|dir| project::reconcile::file_of(dir, after.id)) {
        let note = format!(
            "`{file}` sets this back when it changes or the server starts; change it there to keep it"
        );
        screen.note(&note);
    }
    Ok(())
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

/// Parses a value for its key: text stays text if the default is text, and an empty value means the
/// default.
fn parsed(default: Option<&Value>, key: &str, text: &str) -> Value {
    let read = || serde_json::from_str::<Value>(text).ok();
    match default {
        _ if text.is_empty() => default.cloned().unwrap_or(Value::Null),
        Some(Value::String(_)) => json!(text),
        // Gates are a list or the bare name of a preset.
        Some(Value::Array(_)) if key == "gates" => read().unwrap_or_else(|| json!(text.trim())),
        Some(Value::Array(_)) => read().unwrap_or_else(|| listed(text)),
        Some(Value::Null) => match read() {
            Some(value @ (Value::Null | Value::Array(_) | Value::Object(_))) => value,
            _ if key == "tools" => listed(text),
            _ => json!(text),
        },
        _ => read().unwrap_or_else(|| json!(text)),
    }
}

fn listed(text: &str) -> Value {
    json!(text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>())
}

/// Sets a value at a dotted key.
fn put(body: &mut Value, key: &str, value: Value) {
    let mut slot = &mut body["config"];
    for part in key.split('.') {
        slot = &mut slot[part];
    }
    *slot = value;
}

fn value_of(agent: &Agent, key: &str) -> Value {
    match key {
        "display_name" => json!(agent.display_name),
        key => agent.config.pointer(&pointer(key)).cloned().unwrap_or_default(),
    }
}

async fn change_standing(client: &Client, screen: &Screen, agent: &str, verb: &str) -> Result<()> {
    let path = format!("/v1/agents/{}/{verb}", segment(agent));
    let answer = client.post_empty(&path).await?;
    let agent: Agent = typed(&path, answer.clone())?;
    let now = match agent.standing {
        Standing::Suspended => format!("is suspended; {} waiting", agent.waiting),
        Standing::Retired => "is retired; its history is kept".to_owned(),
        Standing::Active => format!("is {}", agent.state.as_str()),
    };
    screen.result(&answer, &format!("`{}` {now}", agent.handle));
    if let Some(why) = &agent.damage {
        screen.note(&format!("a record of it cannot be read: {why}"));
    }
    if agent.standing == Standing::Retired {
        let hooks: Vec<HookJson> = client.all_as("/v1/hooks").await.unwrap_or_default();
        for hook in hooks.iter().filter(|hook| hook.retired_agents.contains(&agent.id)) {
            screen.warning(&format!("the hook `{}` names it: {}", hook.name, hooks::without_agents(hook)));
        }
    }
    Ok(())
}

async fn cancel(client: &Client, screen: &Screen, agent: &str) -> Result<()> {
    let found = client.agent(agent).await?;
    let answer = client.post_empty(&agent_path(found.id, "/cancel")).await?;
    let cycle = answer["cycle"].as_str().unwrap_or("-");
    screen.result(&answer, &format!("cycle {cycle} of `{}` is being canceled", found.handle));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_parsed_by_the_type_of_its_key() {
        let defaults = AgentConfig::default().to_json();
        let check = |key: &str, text: &str, expected: Value| {
            assert_eq!(parsed(defaults.pointer(&pointer(key)), key, text), expected, "{key}={text}");
        };
        check("instructions", "123", json!("123"));
        check("limits.max_steps", "5", json!(5));
        check("limits.max_steps", "many", json!("many"));
        check("limits.max_steps", "", json!(limits::MAX_STEPS));
        check("model", "a/b", json!("a/b"));
        check("model", "", Value::Null);
        check("model", "null", Value::Null);
        check("tools", "send_message, done", json!(["send_message", "done"]));
        check("tools", "[\"done\"]", json!(["done"]));
        check("gates", "observe-think-respond", json!("observe-think-respond"));
        check("gates", "[{\"from\": 1}]", json!([{"from": 1}]));
        check("gates", "", json!([]));
        check("ephemeral", "true", json!(true));
        check("no.such", "x", json!("x"));
    }

    #[test]
    fn dotted_keys_become_a_nested_body() {
        let mut body = json!({});
        put(&mut body, "limits.max_steps", json!(5));
        put(&mut body, "limits.max_attempts", json!(2));
        put(&mut body, "model", json!("a/b"));
        let config = json!({"limits": {"max_steps": 5, "max_attempts": 2}, "model": "a/b"});
        assert_eq!(body, json!({"config": config}));
    }
}
