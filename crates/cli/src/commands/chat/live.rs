//! A chat in a terminal: one loop handles keys, updates and results of requests.

use std::path::PathBuf;
use std::sync::Arc;

use agent::entity::{EntityKind, Member};
use agent::space::{Message, PostedMessage};
use agent::update::Update;
use api::{Agent, CancelRequest, ReadyJson};
use ratatui::crossterm::event::Event;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::command::{COMMANDS, HELP, Line};
use super::editor::{Editor, EditorAction};
use super::talk::Talk;
use super::terminal::{Terminal, keyboard};
use crate::commands::watch::moment::zone;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use crate::target::{self, Target};
use client::{Client, StreamEvent, agent_path, typed};

/// Maximum number of rows that are shown of the line being typed.
const INPUT_ROWS: usize = 6;
/// Messages that are read at once if some were missed: the server's limit.
const MISSED_MAX: u32 = 200;
/// Maximum number of lines that wait to be sent.
const OUTBOX: usize = 64;
const QUIT_HINT: &str = "(Ctrl-C again quits)";

/// The result of a request in the background.
enum RequestResult {
    NotSent(String, Failure),
    Missed(Result<Vec<PostedMessage>>),
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
    /// The last key was a Ctrl-C that had nothing more to clear: the next one quits.
    quits: bool,
}

/// Runs the chat until the user quits.
pub(crate) async fn run(
    client: Arc<Client>,
    screen: Screen,
    target: Target,
    history: u32,
    typed_before: Option<PathBuf>,
) -> Result<Exit> {
    let path = format!("/v1/spaces/{}/stream", target.space.id);
    let mut updates = client::listen(Arc::clone(&client), path).await?;
    let mut tools = tool_updates(&client, &target).await;
    let ready: ReadyJson = client.get_as("/v1/ready").await?;
    let earlier = messages(&client, &target, history.max(1)).await?;
    let spaces = target::spaces(&client, None).await?;

    let target = Arc::new(target);
    let mut talk = Talk::new(screen, Terminal::size().0, target.me, zone());
    let mut editor = Editor::new(typed_before);
    let people = target.members.iter().map(|member| &member.entity);
    let names = people.flat_map(|entity| [entity.name.clone(), entity.display_name.clone()]);
    let commands = COMMANDS.map(str::to_owned).into_iter();
    editor.set_words(commands.chain(names).chain(spaces.into_iter().map(|(name, _)| name)));
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
    let mut ended = signal(SignalKind::terminate()).map_err(broken)?;
    let mut hung_up = signal(SignalKind::hangup()).map_err(broken)?;
    let terminal = Terminal::take()?;
    let mut keys = keyboard();
    let mut chat = Chat { client, target, screen, talk, editor, terminal, outbox, answers, quits: false };
    loop {
        chat.draw();
        let running = tokio::select! {
            event = keys.recv() => {
                let mut next = event;
                let mut running = next.is_some();
                while let Some(event) = next.filter(|_| running) {
                    running = chat.handle_key(event);
                    // Draw once for all keys that were already pressed.
                    next = keys.try_recv().ok();
                }
                running
            }
            update = updates.recv() => {
                let mut next = update;
                while let Some(update) = next {
                    chat.handle_update(update)?;
                    next = updates.try_recv().ok();
                }
                true
            }
            Some(update) = tools.recv() => {
                chat.talk.update(update);
                true
            }
            Some(answer) = answered.recv() => {
                chat.answer(answer);
                true
            }
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
        let (width, height) = Terminal::size();
        let typed = self.editor.rows(&self.screen, width, INPUT_ROWS.min(height - 3));
        let mut bottom = self.talk.live(height - 1 - typed.rows.len());
        let above = bottom.len();
        bottom.extend(typed.rows);
        let rows = self.talk.take_rows();
        self.terminal.draw(&rows, &bottom, (above + typed.cursor.0, typed.cursor.1));
    }

    /// Handles a key, a paste or a changed size; `false` ends the chat.
    fn handle_key(&mut self, event: Event) -> bool {
        let action = match event {
            Event::Key(key) => self.editor.press(key),
            Event::Paste(text) => self.editor.paste(&text),
            Event::Resize(..) => {
                self.terminal.resized();
                self.talk.resize(Terminal::size().0);
                return true;
            }
            _ => return true,
        };
        let quits = std::mem::take(&mut self.quits);
        match action {
            None => {}
            Some(EditorAction::Send(text)) => return self.enter(&text),
            Some(EditorAction::Interrupt) if quits => return false,
            Some(EditorAction::Interrupt) => {
                self.quits = true;
                self.cancel();
                self.talk.note(QUIT_HINT);
            }
            Some(EditorAction::Leave) => return false,
            Some(EditorAction::Redraw) => self.terminal.clear(),
            Some(EditorAction::Note(text)) => self.talk.note(&text),
        }
        true
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
            Line::Cancel => self.cancel(),
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
    fn cancel(&mut self) {
        for (agent, work) in self.talk.working() {
            let path = agent_path(*agent, "/cancel");
            let body = CancelRequest { cycle: work.cycle };
            self.ask(async move |client, _| match client.post(&path, &body, None).await {
                Ok(_) => None,
                // It has just ended by itself.
                Err(failure) if failure.code == "no_open_cycle" => None,
                Err(failure) => Some(RequestResult::Remark(one_line(&failure.into()))),
            });
        }
    }

    fn who(&self) {
        self.ask(async move |client, target| {
            let listed = list_members(&client, &target).await;
            Some(RequestResult::Remark(listed.unwrap_or_else(|failure| one_line(&failure))))
        });
    }

    /// Sends requests in the background; the loop handles the result.
    fn ask<F>(&self, request: impl FnOnce(Arc<Client>, Arc<Target>) -> F)
    where
        F: Future<Output = Option<RequestResult>> + Send + 'static,
    {
        let answers = self.answers.clone();
        let request = request(Arc::clone(&self.client), Arc::clone(&self.target));
        tokio::spawn(async move {
            if let Some(answer) = request.await {
                // Fails only if the chat has ended, and then nobody needs the answer.
                let _ = answers.send(answer).await;
            }
        });
    }

    fn handle_update(&mut self, event: StreamEvent) -> Result<()> {
        let missed = match event {
            StreamEvent::Update(update) => {
                self.learn_names(&update);
                self.talk.update(*update)
            }
            StreamEvent::Snapshot(snapshot) => self.talk.snapshot(&snapshot),
            // A snapshot follows, or the connection is about to be lost.
            StreamEvent::Gap(_) | StreamEvent::Closed(_) => false,
            StreamEvent::Lost => {
                self.talk.connection_lost();
                false
            }
            StreamEvent::Refused(failure) => return Err(failure.into()),
        };
        if missed {
            self.ask(async move |client, target| {
                Some(RequestResult::Missed(messages(&client, &target, MISSED_MAX).await))
            });
        }
        Ok(())
    }

    /// Asks for the names of members if a new one joined.
    fn learn_names(&self, update: &Update) {
        if !matches!(update, Update::Member { entity, joined: true, .. } if !self.talk.knows(*entity)) {
            return;
        }
        self.ask(async move |client, target| {
            // Without its name a new member is shown by its id, which needs no error.
            let members = target::members(&client, &target.space).await.ok()?;
            Some(RequestResult::Names(members.into_iter().map(target::Named::from).collect()))
        });
    }

    fn answer(&mut self, answer: RequestResult) {
        match answer {
            RequestResult::NotSent(text, failure) => {
                self.talk.note(&format!("(not sent: {})", one_line(&failure)));
                self.editor.restore(&text);
            }
            RequestResult::Missed(Ok(messages)) => {
                // Messages that were shown in the meantime are skipped by their seq.
                let messages = learn_senders(&mut self.talk, messages);
                let last = self.talk.last_seq();
                self.talk.catch_up(messages.into_iter().filter(|message| message.seq > last).collect());
            }
            RequestResult::Missed(Err(failure)) => self.talk.note(&one_line(&failure)),
            RequestResult::Remark(text) => self.talk.note(&text),
            RequestResult::Names(names) => {
                names.iter().for_each(|named| self.talk.name(named.id, &named.name));
            }
        }
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
                let _ = answers.send(RequestResult::NotSent(text, failure.into())).await;
            }
        }
    });
    outbox
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
