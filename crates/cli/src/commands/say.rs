//! `viv say`: posts one message, and with `--wait` prints the reply.

use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use agent::run::Ending;
use serde_json::json;

use crate::args::SayArgs;
use crate::commands::approvals;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::{Screen, Style};
use crate::progress::Progress;
use crate::written_by;
use client::{AgentWatch, Client, Exchange, Waited, target};

pub(crate) async fn run(client: Client, screen: Screen, args: SayArgs) -> Result<Exit> {
    let text = text_of(&args.text)?;
    let client = Arc::new(client);
    let target =
        target::resolve(&client, args.space.as_deref(), args.agent.as_deref(), args.sender.as_deref())
            .await
            .map_err(|error| {
                let first = args.text.first().filter(|_| args.text.len() > 1);
                let named = first.filter(|first| {
                    error.hint.as_ref().is_some_and(|hint| hint.contains(&format!("`{first}`")))
                });
                let failure = Failure::from(error);
                match named {
                    Some(space) => failure.hint(format!("the space is an option: `--space {space}`")),
                    None => failure,
                }
            })?;
    let id = client::fresh_id()?;
    if !args.wait {
        let message = client::post(&client, target.space.id, target.sender.as_deref(), id, &text).await?;
        let space = &target.space.handle;
        let answer = json!({"message_id": id, "space": space, "seq": message["seq"]});
        screen.result(&answer, &format!("posted in `{space}`: message {id}"));
        return Ok(Exit::Answered);
    }
    if !target.admin {
        return Err(Failure::new(
            Exit::Refused,
            "forbidden",
            "`--wait` follows the agent, which needs an admin key",
        )
        .hint("leave out --wait, or use the admin key"));
    }
    let agent = target.agent(args.agent.as_deref())?;
    let mut watch = AgentWatch::begin(Arc::clone(&client), agent.id.agent(), &agent.handle).await?;
    client::post(&client, target.space.id, target.sender.as_deref(), id, &text).await?;
    let waiting = Progress::start(&screen, format!("waiting for {}", agent.display_name));
    let limit = Duration::from_secs(args.timeout);
    let waited = watch.wait_unless_paused(id, target.space.id, limit).await;
    drop(waiting);
    let exchange = match waited? {
        Waited::Ended(exchange) => exchange,
        Waited::ForPerson(calls) => {
            let lines = calls.iter().flat_map(|call| approvals::wanted(&agent.display_name, call));
            lines.for_each(|line| screen.note(&line));
            let waiting = Progress::start(&screen, "waiting for the answer of a person");
            let exchange = watch.wait(id, target.space.id, limit).await;
            drop(waiting);
            exchange?
        }
    };
    print(&screen, &agent.display_name, &exchange);
    Ok(if exchange.replies.is_empty() { Exit::NoReply } else { Exit::Answered })
}

pub(crate) fn print(screen: &Screen, agent: &str, exchange: &Exchange) {
    if screen.json {
        // A struct of plain fields always serializes.
        screen.json_line(&serde_json::to_value(exchange).unwrap_or_default());
        return;
    }
    let name = screen.clean_line(agent);
    for reply in &exchange.replies {
        let text = format!(
            "{}: {}",
            screen.paint(Style::Cyan, &name),
            written_by::by_member(&screen.clean(&reply.text))
        );
        text.split('\n').for_each(|line| screen.wrapped(line, 2));
    }
    if let Some(note) = note(&name, exchange) {
        screen.note(&note);
    }
    if exchange.model.as_deref().is_some_and(is_demo) && !exchange.replies.is_empty() {
        screen.note("(the demo model: scripted, no language model)");
    }
}

pub(crate) fn is_demo(model: &str) -> bool {
    model.split('/').any(|part| part == "demo")
}

fn note(name: &str, exchange: &Exchange) -> Option<String> {
    let reason = exchange.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match exchange.ending {
        Ending::Completed if exchange.replies.is_empty() => {
            Some(format!("({name} read it and did not reply)"))
        }
        Ending::Completed => None,
        Ending::Skipped => Some(format!("({name} skipped it{reason})")),
        Ending::Exhausted => Some(format!("({name} was cut off{reason})")),
        Ending::Canceled => Some(format!("(canceled{reason})")),
        // Without a cycle the event is dead: its id is that of the message.
        Ending::Failed if exchange.cycle_id.is_none() => {
            let id = exchange.message_id;
            Some(format!(
                "({name} failed{reason}; see `viv events show {id}`, try again with `viv events retry {id}`)"
            ))
        }
        Ending::Failed => Some(format!("({name} failed{reason})")),
    }
}

fn text_of(words: &[String]) -> Result<String> {
    let text = if words == ["-"] { input::text(limits::MESSAGE_MAX_BYTES)? } else { words.join(" ") };
    if text.trim().is_empty() {
        let failure = Failure::usage("wanted a message, got nothing");
        return Err(failure.hint("for example `viv say --wait \"what do you remember?\"`"));
    }
    if text.len() > limits::MESSAGE_MAX_BYTES {
        let message = format!("wanted a text of at most {} bytes, got more", limits::MESSAGE_MAX_BYTES);
        return Err(Failure::usage(message).hint("split it into several messages"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::id::{CycleId, MessageId};
    use uuid::Uuid;

    #[test]
    fn words_are_joined_and_an_empty_text_is_refused() {
        assert_eq!(text_of(&["hello".into(), "there".into()]).unwrap(), "hello there");
        assert_eq!(text_of(&["  ".into()]).unwrap_err().exit, Exit::Usage);
        assert_eq!(text_of(&["x".repeat(limits::MESSAGE_MAX_BYTES + 1)]).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn the_json_of_a_reply_has_the_names_that_scripts_rely_on() {
        let exchange = Exchange {
            message_id: MessageId(Uuid::from_u128(1)),
            cycle_id: Some(CycleId(Uuid::from_u128(2))),
            ending: Ending::Completed,
            replies: Vec::new(),
            reply: None,
            reason: None,
            model: Some("demo/one".into()),
        };
        assert_eq!(
            serde_json::to_string(&exchange).unwrap(),
            r#"{"message_id":"00000000-0000-0000-0000-000000000001","cycle_id":"00000000-0000-0000-0000-000000000002","ending":"completed","replies":[],"reply":null}"#
        );
        assert_eq!(note("ada", &exchange).unwrap(), "(ada read it and did not reply)");
        let reason = Some("invalid request".to_owned());
        let dead = Exchange { cycle_id: None, ending: Ending::Failed, reason, ..exchange };
        let note = note("ada", &dead).unwrap();
        assert!(note.starts_with("(ada failed: invalid request; see `viv events show 0000"), "{note}");
        assert!(is_demo("demo") && is_demo("demo/one") && !is_demo("openai/x"));
    }
}
