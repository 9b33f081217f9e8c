//! A chat in a terminal: one loop handles keys, what happens in the space, and results of requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::entity::{EntityKind, Member};
use api::{Agent, CancelRequest, ReadyJson};
use client::{
    Client, Outbox, PostOutcome, Subject, agent_path,
    target::{self, Target},
};
use jiff::Timestamp;
use ratatui::crossterm::event::Event;
use tokio::sync::mpsc;

use super::answer;
use super::cards::Cards;
use super::command::{COMMANDS, HELP, Line};
use super::editor::{Editor, EditorAction};
use super::terminal::{Bottom, SingleKeys, keyboard, size};
use crate::commands::approvals::lines_of;
use crate::commands::watch::follow::Follower;
use crate::commands::watch::log::{Log, LogStyle};
use crate::commands::watch::moment::zone;
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, Style, shortened};
use crate::signals::Signals;

const INPUT_ROWS: usize = 6;
/// Maximum number of remarks that wait to be shown.
const REMARKS: usize = 64;
const UNSENT_SHOWN: usize = 3;
/// How long the end of a chat waits for what is being posted.
const POSTING: Duration = Duration::from_secs(2);

struct Chat {
    client: Arc<Client>,
    target: Arc<Target>,
    screen: Screen,
    follower: Follower,
    editor: Editor,
    bottom: Bottom,
    outbox: Outbox,
    /// Takes the results of requests in the background, as remarks.
    remarks: mpsc::Sender<String>,
    /// The last key was a Ctrl-C that had nothing more to clear: the next one quits.
    quits: bool,
    /// The cards that were shown when the line was begun.
    begun: Cards,
}

pub(crate) async fn run(
    client: Arc<Client>,
    screen: Screen,
    target: Target,
    history: u32,
    typed_before: Option<PathBuf>,
) -> Result<Exit> {
    let mut log = Log::new(screen, zone(), LogStyle::Chat);
    log.resize(size().0 + 1);
    let ready: ReadyJson = client.get_as("/v1/ready").await?;
    greet(&mut log, &target, &ready);
    let subject = Subject::in_space(target.space.clone(), target.members.clone(), target.admin);
    log.names.of_subject(&screen, &subject);
    let mut follower = Follower::new(Arc::clone(&client), screen, subject, log, false);
    follower.listen().await?;
    follower.past(history, None).await?;
    // What waits longer than the messages that were shown.
    for one in answer::waiting(&client, &target).await? {
        if follower.log.cards.call(&one) {
            follower.log.remark(&lines_of(&one).join("\n"));
        }
    }
    let editor = editor(&client, &target, typed_before).await?;

    let target = Arc::new(target);
    let (remarks, mut remarked) = mpsc::channel(REMARKS);
    let outbox = Outbox::new(Arc::clone(&client), target.space.id, target.sender.clone());
    let mut signals = Signals::new()?;
    let _restored_at_the_end = SingleKeys::take()?;
    let mut keys = keyboard();
    let bottom = Bottom::default();
    let (quits, begun) = (false, Cards::default());
    let mut chat = Chat { client, target, screen, follower, editor, bottom, outbox, remarks, quits, begun };
    loop {
        chat.draw();
        let running = tokio::select! {
            key = keys.recv() => {
                let mut next = key;
                let mut running = next.is_some();
                // Draw once for everything that has already arrived.
                while let Some(key) = next.filter(|_| running) {
                    running = chat.handle_key(key);
                    next = keys.try_recv().ok();
                }
                running
            }
            received = chat.follower.next() => {
                let mut next = Some(received?);
                while let Some(received) = next {
                    chat.follower.handle(received).await?;
                    next = chat.follower.arrived();
                }
                true
            }
            delivery = chat.outbox.next() => {
                if let PostOutcome::Refused(text, error) = delivery {
                    chat.follower.log.remark(&format!("(not sent: {})", one_line(&error.into())));
                    chat.editor.restore(&text);
                }
                true
            }
            Some(remark) = remarked.recv() => {
                chat.follower.log.remark(&remark);
                true
            }
            () = signals.next() => false,
        };
        if !running {
            chat.draw();
            return end(chat.outbox.close(POSTING).await);
        }
    }
}

/// The end of the chat: a failure that quotes what was typed and not accepted by the server.
fn end(unsent: Vec<String>) -> Result<Exit> {
    if unsent.is_empty() {
        return Ok(Exit::Answered);
    }
    let message = format!("not sent, because no server accepted it:\n{}", unsent.join("\n"));
    Err(Failure::new(Exit::Unreachable, "not_sent", message)
        .hint("start the server and post it again: in `viv chat`, Up recalls it"))
}

/// An empty line that knows the commands, the members and the spaces.
async fn editor(client: &Client, target: &Target, typed_before: Option<PathBuf>) -> Result<Editor> {
    let mut editor = Editor::new(typed_before);
    let members = target.members.iter().map(|member| &member.entity);
    let names = members.flat_map(|entity| [entity.handle.clone(), entity.display_name.clone()]);
    let spaces = target::spaces(client, None).await?.into_iter().map(|(name, _)| name);
    editor.set_words(COMMANDS.map(str::to_owned).into_iter().chain(names).chain(spaces));
    Ok(editor)
}

fn greet(log: &mut Log, target: &Target, ready: &ReadyJson) {
    let agents: Vec<&str> = target.agents().map(|agent| agent.display_name.as_str()).collect();
    let with = if agents.is_empty() { "no agent".to_owned() } else { agents.join(", ") };
    log.remark(&format!("{} with {with}. /help lists commands, Ctrl-D quits.", target.space.display_name));
    match &ready.model {
        Some(model) if model.demo => {
            log.remark("This is the demo model: scripted replies, no language model.");
        }
        Some(model) => log.remark(&format!("Model: {}", model.name)),
        None => {}
    }
}

impl Chat {
    fn draw(&mut self) {
        let (width, height) = size();
        let typed = self.editor.rows(&self.screen, width, INPUT_ROWS.min(height - 3));
        let log = &mut self.follower.log;
        self.editor.set_calls(log.cards.calls());
        log.resize(width + 1);
        let unsent = self.outbox.waiting();
        let more = unsent.len().saturating_sub(UNSENT_SHOWN);
        let mut state: Vec<String> = unsent
            .take(UNSENT_SHOWN)
            .map(|text| format!("(not sent yet, waits for the connection) {}", self.screen.clean_line(text)))
            .collect();
        state.extend((more > 0).then(|| format!("(and {more} more)")));
        state.extend(self.follower.lost.then(|| "(not connected)".to_owned()));
        let mut bottom =
            log.live(Timestamp::now(), (height - 1 - typed.rows.len()).saturating_sub(state.len()));
        bottom.extend(state.iter().map(|row| self.screen.paint(Style::Dim, &shortened(row, width))));
        let above = bottom.len();
        bottom.extend(typed.rows);
        // If the terminal is gone, the keys end too, and with them the chat.
        let _ = self.bottom.draw(&log.take_rows(), &bottom, (above + typed.cursor.0, typed.cursor.1));
    }

    /// Handles a key, a paste or a changed size; `false` ends the chat.
    fn handle_key(&mut self, event: Event) -> bool {
        let was_empty = self.editor.is_empty();
        let action = match event {
            Event::Key(key) => self.editor.press(key),
            Event::Paste(text) => self.editor.paste(&text),
            // The next drawing has the new size.
            _ => return true,
        };
        if was_empty && !self.editor.is_empty() {
            // All of them were drawn: each key is handled after a drawing.
            self.begun = self.follower.log.cards.clone();
        }
        let quits = std::mem::take(&mut self.quits);
        match action {
            None => {}
            Some(EditorAction::Send(text)) => return self.enter(&text),
            Some(EditorAction::Interrupt) if quits => return false,
            Some(EditorAction::Interrupt) => {
                self.quits = true;
                self.cancel();
                self.follower.log.remark("(Ctrl-C again quits)");
            }
            Some(EditorAction::Leave) => return false,
            Some(EditorAction::Redraw) => self.bottom.clear(),
            Some(EditorAction::Note(text)) => self.follower.log.remark(&text),
        }
        true
    }

    fn enter(&mut self, line: &str) -> bool {
        match Line::read(line) {
            Line::Say(text) => {
                if !self.outbox.push(text) {
                    self.editor.restore(text);
                    self.follower.log.remark("(too many unsent messages; try again in a moment)");
                }
            }
            Line::Help => self.follower.log.remark(HELP),
            Line::Who => self.who(),
            Line::Cancel if self.follower.log.working().is_empty() => {
                self.follower.log.remark("(no agent is working now)")
            }
            Line::Cancel => self.cancel(),
            answer @ (Line::Approve(_) | Line::Refuse(_) | Line::Answer(_)) => self.answer(&answer),
            Line::Quit => return false,
            Line::Unknown(command) => {
                self.follower.log.remark(&format!(
                    "(there is no command /{command}; /help lists all, //{command} posts it as text)"
                ));
            }
        }
        true
    }

    fn cancel(&mut self) {
        for (agent, work) in self.follower.log.working() {
            let path = agent_path(*agent, "/cancel");
            let body = CancelRequest { cycle: work.cycle };
            self.ask(async move |client, _| match client.post(&path, &body, None).await {
                Ok(_) => None,
                // It has just ended by itself.
                Err(failure) if failure.code == "no_open_cycle" => None,
                Err(failure) => Some(one_line(&failure.into())),
            });
        }
    }

    /// Answers the call whose card was shown when the line was begun.
    fn answer(&mut self, line: &Line<'_>) {
        let (card, reply) = match self.begun.answered_by(line, &self.follower.log.cards) {
            Ok(found) => found,
            Err(failure) => return self.follower.log.remark(&format!("({})", one_line(&failure))),
        };
        self.ask(async move |client, target| {
            let answered = answer::take(&client, &target, card, reply).await;
            Some(answered.unwrap_or_else(|failure| format!("({})", one_line(&failure))))
        });
    }

    fn who(&self) {
        self.ask(async move |client, target| {
            let listed = list_members(&client, &target).await;
            Some(listed.unwrap_or_else(|failure| one_line(&failure)))
        });
    }

    /// Sends requests in the background; the loop handles the result.
    fn ask<F>(&self, request: impl FnOnce(Arc<Client>, Arc<Target>) -> F)
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        let remarks = self.remarks.clone();
        let request = request(Arc::clone(&self.client), Arc::clone(&self.target));
        tokio::spawn(async move {
            if let Some(remark) = request.await {
                // Fails only if the chat has ended, and then nobody needs the answer.
                let _ = remarks.send(remark).await;
            }
        });
    }
}

async fn list_members(client: &Client, target: &Target) -> Result<String> {
    let mut lines = Vec::new();
    for member in target::members(client, &target.space).await? {
        let entity = member.entity;
        let mut line = format!("  {} ({}", entity.display_name, entity.kind.as_str());
        if entity.kind == EntityKind::Agent && target.admin {
            let agent: Agent = client.get_as(&agent_path(entity.id.agent(), "")).await?;
            line.push_str(&format!(", {}", agent.state.as_str()));
        }
        if !member.role.is_empty() && member.role != Member::ROLE {
            line.push_str(&format!(", {}", member.role));
        }
        lines.push(line + ")");
    }
    Ok(format!("in {}:\n{}", target.space.display_name, lines.join("\n")))
}

fn one_line(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message.clone(),
    }
}
