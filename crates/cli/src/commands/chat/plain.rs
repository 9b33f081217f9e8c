//! A chat without a terminal: posts each line, waits for the replies and prints them.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use agent::limits;

use super::answer::{self, Reply};
use super::command::{HELP, Line};
use crate::commands::say;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use client::{AgentWatch, Client, target::Target};

/// Posts each line of standard input and waits for the reply of each agent in the space.
pub(crate) async fn run(
    client: Arc<Client>,
    screen: Screen,
    target: Target,
    timeout: Duration,
) -> Result<Exit> {
    let mut watches = Vec::new();
    if target.admin {
        for agent in target.agents() {
            let watch = AgentWatch::begin(Arc::clone(&client), agent.id.agent(), &agent.name).await?;
            watches.push((agent.display_name.clone(), watch));
        }
    } else {
        screen.note("(this key may not follow agents: lines are posted without waiting for replies)");
    }
    while let Some(line) = next_line().await? {
        let text = match Line::read(&line) {
            Line::Say(text) if text.trim().is_empty() => continue,
            Line::Say(text) => text,
            Line::Quit => break,
            Line::Help => {
                HELP.lines().for_each(|line| screen.note(line));
                continue;
            }
            Line::Approve | Line::Refuse(_) | Line::Answer(_) => {
                let reply = match Line::read(&line) {
                    Line::Refuse(reason) => Reply::Refuse(reason.to_owned()),
                    Line::Answer(text) => Reply::Answer(text.to_owned()),
                    _ => Reply::Approve,
                };
                let answered = answer::take(&client, &target, reply).await?;
                screen.note(&screen.clean_line(&answered));
                continue;
            }
            Line::Who | Line::Cancel | Line::Unknown(_) => {
                screen.note(
                    &screen.clean_line(&format!("(`{line}` works only in a terminal; //text posts it)")),
                );
                continue;
            }
        };
        let id = client::fresh_id()?;
        client::post(&client, target.space.id, target.sender.as_deref(), id, text).await?;
        for (name, watch) in &mut watches {
            let exchange = watch.wait(id, target.space.id, timeout).await?;
            say::print(&screen, name, &exchange);
        }
    }
    Ok(Exit::Answered)
}

/// The next line of standard input. A blocked read has its own thread, which ends with the process.
async fn next_line() -> Result<Option<String>> {
    let read = tokio::task::spawn_blocking(|| read_line(&mut std::io::stdin().lock()));
    // The task neither panics nor is canceled while the runtime runs.
    read.await.unwrap_or(Ok(None))
}

/// The next line, without its end; limited in length.
fn read_line(input: &mut impl BufRead) -> Result<Option<String>> {
    let bound = limits::MESSAGE_MAX_BYTES + 2;
    let mut bytes = Vec::new();
    let read = std::io::Read::take(&mut *input, bound as u64)
        .read_until(b'\n', &mut bytes)
        .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    if read == 0 {
        return Ok(None);
    }
    if read == bound && bytes.last() != Some(&b'\n') {
        let max = limits::MESSAGE_MAX_BYTES;
        return Err(Failure::usage(format!("wanted lines of at most {max} bytes, got a longer one")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage("wanted UTF-8 text, got other bytes").hint("convert it with `iconv`"))?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_must_be_text() {
        let mut input = &b"one\r\ntwo"[..];
        assert_eq!(read_line(&mut input).unwrap().as_deref(), Some("one"));
        assert_eq!(read_line(&mut input).unwrap().as_deref(), Some("two"));
        assert_eq!(read_line(&mut input).unwrap(), None);
        let long = vec![b'x'; limits::MESSAGE_MAX_BYTES + 10];
        assert_eq!(read_line(&mut &long[..]).unwrap_err().exit, Exit::Usage);
        assert_eq!(read_line(&mut &b"\xff\n"[..]).unwrap_err().exit, Exit::Usage);
    }
}
