//! A chat in a terminal: one loop handles keys, updates and results of requests.

use std::sync::Arc;

use agent::space::Message;
use agent::update::Update;
use api::{Agent, CancelRequest, ReadyJson};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::command::{HELP, Line};
use super::editor::{Editor, EditorAction};
use super::keys::Keys;
use super::talk::Talk;
use super::terminal::{self, Terminal};
use crate::commands::watch::moment::zone;
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, Style, shortened};
use crate::target::{self, Target};
use agent::space::PostedMessage;
use client::StreamEvent;
use client::{Client, agent_path, typed};

/// Maximum number of rows that are shown of the line being typed.
const INPUT_ROWS: usize = 6;
/// Messages that are read at once if some were missed: the server's limit.
const MISSED_MAX: u32 = 200;
/// Maximum number of lines that wait to be sent.
const OUTBOX: usize = 64;
const PROMPT: &str = "> ";

/// The result of a request in the background.
enum RequestResult {
    NotSent(String, Failure),
    Missed(Vec<PostedMessage>),
    NotRead(Failure),
    Remark(String),
    Names(Vec<target::Named>),
}

struct Chat {
    client: Arc<Client>,
    target: Arc<Target>,
    screen: Screen,
    talk: Talk,
    editor: Editor,
    terminal: Terminal,
    outbox: mpsc::Sender<String>,
    answers: mpsc::Sender<RequestResult>,
}

/// Runs the chat until the user quits.
pub(crate) async fn run(client: Arc<Client>, screen: Screen, target: Target, history: u32) -> Result<Exit> {
    let path = format!("/v1/spaces/{}/stream", target.space.id);
    let mut updates = client::listen(Arc::clone(&client), path).await?;
    let mut tools = tool_updates(&client, &target).await;
    let ready: ReadyJson = client.get_as("/v1/ready").await?;
    let earlier = messages(&client, &target, history.max(1)).await?;

    let target = Arc::new(target);
    let mut talk = Talk::new(screen, Terminal::width(), target.me, zone());
    for member in &target.members {
        talk.name(member.entity.id, &member.entity.display_name);
    }
    print_greeting(&mut talk, &target, &ready);
    let earlier = learn_senders(&mut talk, earlier);
    begin(&mut talk, earlier, history);

    let (answers, mut answered) = mpsc::channel(OUTBOX);
    let outbox = post_in_order(Arc::clone(&client), Arc::clone(&target), answers.clone());
    let broken = |error: std::io::Error| {
        Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
    };
    let mut resized = signal(SignalKind::window_change()).map_err(broken)?;
    let mut ended = signal(SignalKind::terminate()).map_err(broken)?;
    let mut hung_up = signal(SignalKind::hangup()).map_err(broken)?;
    let terminal = Terminal::take()?;
    let mut input = terminal::input();
    let mut keys = Keys::default();
    let mut chat =
        Chat { client, target, screen, talk, editor: Editor::default(), terminal, outbox, answers };
    loop {
        chat.draw();
        let running = tokio::select! {
            bytes = input.recv() => match bytes {
                Some(bytes) => chat.press_all(keys.feed(&bytes)),
                None => false,
            },
            update = updates.recv() => {
                let mut next = update;
                while let Some(update) = next {
                    chat.handle_update(update)?;
                    // Draw once for all updates that have already arrived.
                    next = updates.try_recv().ok();
                }
                true
            }
            Some(update) = tools.recv() => {
                chat.talk.update(update);
                true
            }
            Some(answer) = answered.recv() => chat.answer(answer),
            _ = resized.recv() => chat.resized(),
            _ = ended.recv() => false,
            _ = hung_up.recv() => false,
        };
        if !running {
            chat.draw();
            return Ok(Exit::Answered);
        }
    }
}

/// Receives what the agents here do with their tools, which only their own streams contain. Without
/// permission for these streams, or after one is lost, the conversation still works.
async fn tool_updates(client: &Arc<Client>, target: &Target) -> mpsc::Receiver<Update> {
    let (sender, tools) = mpsc::channel(OUTBOX);
    for agent in target.agents().filter(|_| target.admin) {
        let path = agent_path(agent.id.agent(), "/stream");
        let Ok(mut stream) = client::listen(Arc::clone(client), path).await else { continue };
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Some(event) = stream.recv().await {
                let StreamEvent::Update(update) = event else { continue };
                let of_a_tool = matches!(
                    *update,
                    Update::ToolStarted { .. } | Update::ToolDone { .. } | Update::ToolError { .. }
                );
                if of_a_tool && sender.send(*update).await.is_err() {
                    return;
                }
            }
        });
    }
    tools
}

fn print_greeting(talk: &mut Talk, target: &Target, ready: &ReadyJson) {
    let agents: Vec<&str> = target.agents().map(|agent| agent.display_name.as_str()).collect();
    let with = if agents.is_empty() { "no agent".to_owned() } else { agents.join(", ") };
    talk.note(&format!("{} with {with}. /help lists commands, Ctrl-D quits.", target.space.display_name));
    match &ready.model {
        Some(model) if model.demo => {
            talk.note("This is the demo model: scripted replies, no language model.");
        }
        Some(model) => talk.note(&format!("Model: {}", model.name)),
        None => {}
    }
}

/// Learns the senders' names from the messages, also of those who have left the space.
fn learn_senders(talk: &mut Talk, posted: Vec<PostedMessage>) -> Vec<Message> {
    let mut messages = Vec::with_capacity(posted.len());
    for PostedMessage { message, sender_name, .. } in posted {
        talk.name(message.sender, &sender_name);
        messages.push(message);
    }
    messages
}

/// Shows the last messages; later ones follow.
fn begin(talk: &mut Talk, earlier: Vec<Message>, history: u32) {
    let Some(last) = earlier.last().map(|message| message.seq) else { return };
    if history == 0 {
        return talk.begin_after(last);
    }
    let first = earlier.first().map_or(1, |message| message.seq);
    talk.begin_after(first.saturating_sub(1));
    talk.catch_up(earlier);
}

impl Chat {
    fn draw(&mut self) {
        let width = Terminal::width();
        let rows = self.talk.take_rows();
        let mut bottom: Vec<String> = self.talk.unfinished().into_iter().collect();
        if let Some(status) = self.talk.status() {
            bottom.push(self.screen.paint(Style::Dim, &shortened(&status, width)));
        }
        let above = bottom.len();
        let typed = self.editor.rows(PROMPT, width, INPUT_ROWS);
        bottom.extend(typed.rows.iter().map(|row| self.shown(row)));
        self.terminal.draw(&rows, &bottom, (above + typed.cursor.0, typed.cursor.1));
    }

    /// What was typed, with one ASCII column for each character if the terminal does not support UTF-8.
    fn shown(&self, row: &str) -> String {
        if self.screen.utf8 { row.to_owned() } else { row.replace(|c: char| !c.is_ascii(), "?") }
    }

    fn press_all(&mut self, keys: Vec<super::keys::Keystroke>) -> bool {
        keys.into_iter().all(|key| match self.editor.press(key) {
            None => true,
            Some(EditorAction::Send(text)) => self.enter(&text),
            Some(EditorAction::Interrupt) if self.talk.working().is_empty() => false,
            Some(EditorAction::Interrupt) => self.cancel(),
            Some(EditorAction::Leave) => false,
            Some(EditorAction::Redraw) => {
                self.terminal.clear();
                true
            }
        })
    }

    fn enter(&mut self, line: &str) -> bool {
        match Line::read(line) {
            Line::Say(text) => {
                if let Err(error) = self.outbox.try_send(text.to_owned()) {
                    let text = error.into_inner();
                    self.editor.restore(&text);
                    self.talk.note("(too many unsent messages; try again in a moment)");
                }
            }
            Line::Help => self.talk.note(HELP),
            Line::Who => self.who(),
            Line::Cancel if self.talk.working().is_empty() => self.talk.note("(no agent is working now)"),
            Line::Cancel => return self.cancel(),
            Line::Quit => return false,
            Line::Unknown(command) => {
                self.talk.note(&format!(
                    "(there is no command /{command}; /help lists all, //{command} posts it as text)"
                ));
            }
        }
        true
    }

    /// Cancels the cycles that are shown here.
    fn cancel(&mut self) -> bool {
        for (agent, work) in self.talk.working() {
            let client = Arc::clone(&self.client);
            let answers = self.answers.clone();
            let path = agent_path(*agent, "/cancel");
            let body = CancelRequest { cycle: work.cycle };
            tokio::spawn(async move {
                match client.post(&path, &body, None).await {
                    Ok(_) => {}
                    // It has just ended by itself.
                    Err(failure) if failure.code == "no_open_cycle" => {}
                    Err(failure) => {
                        send_answer(&answers, RequestResult::Remark(one_line(&failure.into()))).await
                    }
                }
            });
        }
        true
    }

    fn who(&self) {
        let client = Arc::clone(&self.client);
        let target = Arc::clone(&self.target);
        let answers = self.answers.clone();
        tokio::spawn(async move {
            let text = match list_members(&client, &target).await {
                Ok(text) => text,
                Err(failure) => one_line(&failure),
            };
            send_answer(&answers, RequestResult::Remark(text)).await;
        });
    }

    fn handle_update(&mut self, event: StreamEvent) -> Result<()> {
        let missed = match event {
            StreamEvent::Update(update) => {
                self.learn_names(&update);
                self.talk.update(*update)
            }
            StreamEvent::Snapshot(snapshot) => self.talk.snapshot(snapshot),
            // A snapshot follows, or the connection is about to be lost.
            StreamEvent::Gap(_) | StreamEvent::Closed(_) => false,
            StreamEvent::Lost => {
                self.talk.connection_lost();
                false
            }
            StreamEvent::Refused(failure) => return Err(failure.into()),
        };
        if missed {
            let client = Arc::clone(&self.client);
            let target = Arc::clone(&self.target);
            let answers = self.answers.clone();
            tokio::spawn(async move {
                let answer = match messages(&client, &target, MISSED_MAX).await {
                    Ok(messages) => RequestResult::Missed(messages),
                    Err(failure) => RequestResult::NotRead(failure),
                };
                send_answer(&answers, answer).await;
            });
        }
        Ok(())
    }

    /// Asks for the names of members if a new one joined.
    fn learn_names(&self, update: &Update) {
        let new = match update {
            Update::Member { entity, joined: true, .. } => !self.talk.knows(*entity),
            _ => false,
        };
        if !new {
            return;
        }
        let client = Arc::clone(&self.client);
        let target = Arc::clone(&self.target);
        let answers = self.answers.clone();
        tokio::spawn(async move {
            // Without its name a new member is shown by its id, which needs no error.
            if let Ok(members) = target::members(&client, &target.space).await {
                send_answer(
                    &answers,
                    RequestResult::Names(members.into_iter().map(target::Named::from).collect()),
                )
                .await;
            }
        });
    }

    fn answer(&mut self, answer: RequestResult) -> bool {
        match answer {
            RequestResult::NotSent(text, failure) => {
                self.talk.note(&format!("(not sent: {})", one_line(&failure)));
                self.editor.restore(&text);
            }
            RequestResult::Missed(messages) => {
                // Messages that were shown in the meantime are skipped by their seq.
                let messages = learn_senders(&mut self.talk, messages);
                let last = self.talk.last_seq();
                self.talk.catch_up(messages.into_iter().filter(|message| message.seq > last).collect());
            }
            RequestResult::NotRead(failure) => {
                self.talk.catch_up(Vec::new());
                self.talk.note(&one_line(&failure));
            }
            RequestResult::Remark(text) => self.talk.note(&text),
            RequestResult::Names(names) => {
                names.iter().for_each(|named| self.talk.name(named.id, &named.name))
            }
        }
        true
    }

    fn resized(&mut self) -> bool {
        self.terminal.resized();
        self.talk.resize(Terminal::width());
        true
    }
}

/// Posts lines one after the other, in the order in which they were typed.
fn post_in_order(
    client: Arc<Client>,
    target: Arc<Target>,
    answers: mpsc::Sender<RequestResult>,
) -> mpsc::Sender<String> {
    let (outbox, mut lines) = mpsc::channel::<String>(OUTBOX);
    tokio::spawn(async move {
        while let Some(text) = lines.recv().await {
            let posted = match client::fresh_id() {
                Ok(id) => client::post(&client, target.space.id, target.sender.as_deref(), id, &text).await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = posted {
                send_answer(&answers, RequestResult::NotSent(text, failure.into())).await;
            }
        }
    });
    outbox
}

async fn send_answer(answers: &mpsc::Sender<RequestResult>, answer: RequestResult) {
    // Fails only if the chat has ended, and then nobody needs the answer.
    let _ = answers.send(answer).await;
}

async fn messages(client: &Client, target: &Target, max: u32) -> Result<Vec<PostedMessage>> {
    let path = format!("/v1/spaces/{}/messages?limit={max}", target.space.id);
    let answer = client.get(&path).await?;
    Ok(typed(&path, answer["items"].clone())?)
}

async fn list_members(client: &Client, target: &Target) -> Result<String> {
    let mut lines = Vec::new();
    for member in target::members(client, &target.space).await? {
        let entity = member.entity;
        let mut line = format!("  {} ({}", entity.display_name, entity.kind.as_str());
        if entity.kind == agent::entity::EntityKind::Agent && target.admin {
            let agent: Agent = client.get_as(&agent_path(entity.id.agent(), "")).await?;
            line.push_str(&format!(", {}", agent.state.as_str()));
        }
        if !member.role.is_empty() && member.role != agent::entity::Member::ROLE {
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
