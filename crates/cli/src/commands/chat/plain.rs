//! A chat without a terminal: posts each line, waits for the replies and prints them.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use agent::id::MessageId;
use agent::limits;
use serde_json::json;

use super::answer;
use super::cards::Cards;
use super::command::{HELP, Line};
use crate::commands::approvals::lines_of;
use crate::commands::say;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use client::{AgentWatch, Client, Waited, target::Target};

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
            let watch = AgentWatch::begin(Arc::clone(&client), agent.id.agent(), &agent.handle).await?;
            watches.push((agent.display_name.clone(), watch));
        }
    } else {
        screen.note("(this key may not follow agents: lines are posted without waiting for replies)");
    }
    let mut chat =
        Plain { client, screen, target, timeout, watches, cards: Cards::default(), open: Vec::new() };
    chat.show_cards().await?;
    while let Some(line) = next_line().await? {
        let text = match Line::read(&line) {
            Line::Say(text) if text.trim().is_empty() => continue,
            Line::Say(text) => text,
            Line::Quit => break,
            Line::Help => {
                HELP.lines().for_each(|line| screen.note(line));
                continue;
            }
            answer @ (Line::Approve(_) | Line::Refuse(_) | Line::Answer(_)) => {
                chat.answer(&answer).await?;
                continue;
            }
            Line::Who | Line::Cancel | Line::Unknown(_) => {
                screen.note(
                    &screen.clean_line(&format!("(`{line}` works only in a terminal; //text posts it)")),
                );
                continue;
            }
        };
        chat.say(text).await?;
    }
    Ok(Exit::Answered)
}

/// A chat whose lines are read one by one.
struct Plain {
    client: Arc<Client>,
    screen: Screen,
    target: Target,
    timeout: Duration,
    /// Each agent by its name.
    watches: Vec<(String, AgentWatch)>,
    /// The cards that were printed.
    cards: Cards,
    /// Messages that agents which wait for a person have not processed, each with the position of its watch.
    open: Vec<(usize, MessageId)>,
}

impl Plain {
    async fn say(&mut self, text: &str) -> Result<()> {
        let (id, target) = (client::fresh_id()?, &self.target);
        client::post(&self.client, target.space.id, target.sender.as_deref(), id, text).await?;
        self.open.extend((0..self.watches.len()).map(|watch| (watch, id)));
        self.wait().await
    }

    /// Answers the call of a card that was printed before the line was read.
    async fn answer(&mut self, line: &Line<'_>) -> Result<()> {
        let (card, reply) = self.cards.answered_by(line, &self.cards)?;
        let answered = answer::take(&self.client, &self.target, card, reply).await?;
        self.screen.note(&answered);
        self.wait().await
    }

    /// Waits for what agents say, except those that wait for a person.
    async fn wait(&mut self) -> Result<()> {
        let mut paused = Vec::new();
        for (at, id) in std::mem::take(&mut self.open) {
            let (name, watch) = &mut self.watches[at];
            if !paused.contains(&at) {
                match watch.wait_unless_paused(id, self.target.space.id, self.timeout).await? {
                    Waited::Ended(exchange) => {
                        say::print(&self.screen, name, &exchange);
                        continue;
                    }
                    Waited::ForPerson(calls) => {
                        paused.push(at);
                        self.screen.note(&format!("({name} waits for a person, so the next line is read)"));
                        if calls.iter().any(|one| one.space != Some(self.target.space.id)) {
                            self.screen.note("(not only here: `viv approvals`)");
                        }
                    }
                }
            }
            self.open.push((at, id));
        }
        if paused.is_empty() { Ok(()) } else { self.show_cards().await }
    }

    /// Prints the cards that wait here and were not printed before.
    async fn show_cards(&mut self) -> Result<()> {
        let waiting = answer::waiting(&self.client, &self.target).await?;
        self.cards.keep(&waiting);
        for one in waiting {
            if !self.cards.call(&one) {
                continue;
            }
            if self.screen.json {
                self.screen.json_line(&json!({"waits": one}));
                continue;
            }
            for line in lines_of(&one) {
                self.screen.text(&line);
            }
        }
        Ok(())
    }
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
