//! A chat in a terminal: keys, updates and answers meet in one loop.

use std::sync::Arc;

use agent::space::Message;
use agent::update::Update;
use server::api::{Agent, CancelRequest, ReadyJson};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::command::{HELP, Line};
use super::editor::{Act, Editor};
use super::keys::Keys;
use super::talk::Talk;
use super::terminal::{self, Terminal};
use crate::client::{Client, typed};
use crate::commands::watch::moment::zone;
use crate::errors::{Exit, Failure, Result};
use crate::exchange;
use crate::output::{Screen, Style, shortened};
use crate::sse::{self, StreamEvent};
use crate::target::{self, Target, agent_path};
use agent::space::Spoken;

/// Rows of the line being written that are shown at most.
const INPUT_ROWS: usize = 6;
/// Messages read at once where some were missed: the server's bound.
const MISSED_MOST: u32 = 200;
/// Lines that wait to be sent.
const OUTBOX: usize = 64;
const PROMPT: &str = "> ";

/// What a request in the background came to.
enum RequestResult {
    NotSent(String, Failure),
    Missed(Vec<Spoken>),
    NotRead(Failure),
    Remark(String),
    Names(Vec<target::Named>),
}

struct Chat {
    client: Arc<Client>,
    place: Arc<Target>,
    screen: Screen,
    talk: Talk,
    editor: Editor,
    terminal: Terminal,
    outbox: mpsc::Sender<String>,
    answers: mpsc::Sender<RequestResult>,
}

/// Talks until the person leaves.
pub(crate) async fn run(client: Arc<Client>, screen: Screen, place: Target, history: u32) -> Result<Exit> {
    let path = format!("/v1/spaces/{}/stream", place.space.id);
    let mut heard = sse::listen(Arc::clone(&client), path).await?;
    let mut tools = listen_to_tools(&client, &place).await;
    let ready: ReadyJson = client.get_as("/v1/ready").await?;
    let earlier = messages(&client, &place, history.max(1)).await?;

    let place = Arc::new(place);
    let mut talk = Talk::new(screen, Terminal::width(), place.me, zone());
    for member in &place.members {
        talk.name(member.entity.id, &member.entity.display_name);
    }
    greet(&mut talk, &place, &ready);
    let earlier = learn(&mut talk, earlier);
    begin(&mut talk, earlier, history);

    let (answers, mut answered) = mpsc::channel(OUTBOX);
    let outbox = post_in_order(Arc::clone(&client), Arc::clone(&place), answers.clone());
    let broken = |error: std::io::Error| {
        Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
    };
    let mut resized = signal(SignalKind::window_change()).map_err(broken)?;
    let mut ended = signal(SignalKind::terminate()).map_err(broken)?;
    let mut hung_up = signal(SignalKind::hangup()).map_err(broken)?;
    let terminal = Terminal::take()?;
    let mut input = terminal::input();
    let mut keys = Keys::default();
    let mut chat = Chat { client, place, screen, talk, editor: Editor::default(), terminal, outbox, answers };
    loop {
        chat.draw();
        let on = tokio::select! {
            bytes = input.recv() => match bytes {
                Some(bytes) => chat.press_all(keys.feed(&bytes)),
                None => false,
            },
            update = heard.recv() => {
                let mut next = update;
                while let Some(update) = next {
                    chat.hear(update)?;
                    // What waits already is drawn in one go.
                    next = heard.try_recv().ok();
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
        if !on {
            chat.draw();
            return Ok(Exit::Answered);
        }
    }
}

/// What the agents here do with their tools, which only their own streams tell. Whoever may not
/// listen to these, or loses one, still has the conversation.
async fn listen_to_tools(client: &Arc<Client>, place: &Target) -> mpsc::Receiver<Update> {
    let (told, tools) = mpsc::channel(OUTBOX);
    for agent in place.agents().filter(|_| place.admin) {
        let path = agent_path(agent.id.agent(), "/stream");
        let Ok(mut heard) = sse::listen(Arc::clone(client), path).await else { continue };
        let told = told.clone();
        tokio::spawn(async move {
            while let Some(heard) = heard.recv().await {
                let StreamEvent::Update(update) = heard else { continue };
                let of_a_tool = matches!(
                    *update,
                    Update::ToolStarted { .. } | Update::ToolDone { .. } | Update::ToolError { .. }
                );
                if of_a_tool && told.send(*update).await.is_err() {
                    return;
                }
            }
        });
    }
    tools
}

fn greet(talk: &mut Talk, place: &Target, ready: &ReadyJson) {
    let agents: Vec<&str> = place.agents().map(|agent| agent.display_name.as_str()).collect();
    let with = if agents.is_empty() { "no agent".to_owned() } else { agents.join(", ") };
    talk.remark(&format!("{} with {with}. /help explains, Ctrl-D leaves.", place.space.display_name));
    match &ready.model {
        Some(model) if model.demo => {
            talk.remark("This is the demo model: scripted replies, no language model.");
        }
        Some(model) => talk.remark(&format!("Model: {}", model.name)),
        None => {}
    }
}

/// Names of those who left the space since come with their messages.
fn learn(talk: &mut Talk, spoken: Vec<Spoken>) -> Vec<Message> {
    let mut messages = Vec::with_capacity(spoken.len());
    for Spoken { message, sender_name, .. } in spoken {
        talk.name(message.sender, &sender_name);
        messages.push(message);
    }
    messages
}

/// The last messages, and from there on all that come.
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
        let mut lower: Vec<String> = self.talk.unfinished().into_iter().collect();
        if let Some(status) = self.talk.status() {
            lower.push(self.screen.paint(Style::Dim, &shortened(&status, width)));
        }
        let above = lower.len();
        let typed = self.editor.rows(PROMPT, width, INPUT_ROWS);
        lower.extend(typed.rows.iter().map(|row| self.shown(row)));
        self.terminal.draw(&rows, &lower, (above + typed.cursor.0, typed.cursor.1));
    }

    /// What was typed, on terminals that know no UTF-8 too: one column for each of its own.
    fn shown(&self, row: &str) -> String {
        if self.screen.utf8 { row.to_owned() } else { row.replace(|c: char| !c.is_ascii(), "?") }
    }

    fn press_all(&mut self, keys: Vec<super::keys::Keystroke>) -> bool {
        keys.into_iter().all(|key| match self.editor.press(key) {
            None => true,
            Some(Act::Send(text)) => self.enter(&text),
            Some(Act::Interrupt) if self.talk.busy().is_empty() => false,
            Some(Act::Interrupt) => self.cancel(),
            Some(Act::Leave) => false,
            Some(Act::Redraw) => {
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
                    self.editor.give_back(&text);
                    self.talk.remark("(too much waits to be sent; try again in a moment)");
                }
            }
            Line::Help => self.talk.remark(HELP),
            Line::Who => self.who(),
            Line::Cancel if self.talk.busy().is_empty() => self.talk.remark("(no agent is working now)"),
            Line::Cancel => return self.cancel(),
            Line::Quit => return false,
            Line::Unknown(command) => {
                self.talk.remark(&format!(
                    "(no command is called /{command}; /help lists them, //{command} says it)"
                ));
            }
        }
        true
    }

    /// Cancels the cycles that are seen here.
    fn cancel(&mut self) -> bool {
        for (agent, busy) in self.talk.busy() {
            let client = Arc::clone(&self.client);
            let answers = self.answers.clone();
            let path = agent_path(*agent, "/cancel");
            let body = CancelRequest { cycle: busy.cycle };
            tokio::spawn(async move {
                match client.post(&path, &body, None).await {
                    Ok(_) => {}
                    // It ended by itself in this moment.
                    Err(failure) if failure.code == "no_open_cycle" => {}
                    Err(failure) => send_answer(&answers, RequestResult::Remark(one_line(&failure))).await,
                }
            });
        }
        true
    }

    fn who(&self) {
        let client = Arc::clone(&self.client);
        let place = Arc::clone(&self.place);
        let answers = self.answers.clone();
        tokio::spawn(async move {
            let text = match present(&client, &place).await {
                Ok(text) => text,
                Err(failure) => one_line(&failure),
            };
            send_answer(&answers, RequestResult::Remark(text)).await;
        });
    }

    fn hear(&mut self, heard: StreamEvent) -> Result<()> {
        let missed = match heard {
            StreamEvent::Update(update) => {
                self.learn_names(&update);
                self.talk.update(*update)
            }
            StreamEvent::Snapshot(snapshot) => self.talk.snapshot(snapshot),
            // A snapshot follows, or the line is lost in a moment.
            StreamEvent::Gap(_) | StreamEvent::Closed(_) => false,
            StreamEvent::Lost => {
                self.talk.lose();
                false
            }
            StreamEvent::Refused(failure) => return Err(failure),
        };
        if missed {
            let client = Arc::clone(&self.client);
            let place = Arc::clone(&self.place);
            let answers = self.answers.clone();
            tokio::spawn(async move {
                let answer = match messages(&client, &place, MISSED_MOST).await {
                    Ok(messages) => RequestResult::Missed(messages),
                    Err(failure) => RequestResult::NotRead(failure),
                };
                send_answer(&answers, answer).await;
            });
        }
        Ok(())
    }

    /// Somebody new: asks who it is.
    fn learn_names(&self, update: &Update) {
        let new = match update {
            Update::Member { entity, joined: true, .. } => !self.talk.knows(*entity),
            _ => false,
        };
        if !new {
            return;
        }
        let client = Arc::clone(&self.client);
        let place = Arc::clone(&self.place);
        let answers = self.answers.clone();
        tokio::spawn(async move {
            // Without it the new member is shown by its id, which is no loss worth a word.
            if let Ok(members) = target::members(&client, &place.space).await {
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
                self.talk.remark(&format!("(not sent: {})", one_line(&failure)));
                self.editor.give_back(&text);
            }
            RequestResult::Missed(messages) => {
                // Those that were shown meanwhile are passed over by their seq.
                let messages = learn(&mut self.talk, messages);
                let last = self.talk.last_seq();
                self.talk.catch_up(messages.into_iter().filter(|message| message.seq > last).collect());
            }
            RequestResult::NotRead(failure) => {
                self.talk.catch_up(Vec::new());
                self.talk.remark(&one_line(&failure));
            }
            RequestResult::Remark(text) => self.talk.remark(&text),
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

/// Sends lines one after the other, in the order in which they were written.
fn post_in_order(
    client: Arc<Client>,
    place: Arc<Target>,
    answers: mpsc::Sender<RequestResult>,
) -> mpsc::Sender<String> {
    let (outbox, mut lines) = mpsc::channel::<String>(OUTBOX);
    tokio::spawn(async move {
        while let Some(text) = lines.recv().await {
            let posted = match exchange::fresh_id() {
                Ok(id) => exchange::post(&client, &place, id, &text).await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = posted {
                send_answer(&answers, RequestResult::NotSent(text, failure)).await;
            }
        }
    });
    outbox
}

async fn send_answer(answers: &mpsc::Sender<RequestResult>, answer: RequestResult) {
    // The chat is over: nobody wants to know.
    let _ = answers.send(answer).await;
}

async fn messages(client: &Client, place: &Target, most: u32) -> Result<Vec<Spoken>> {
    let path = format!("/v1/spaces/{}/messages?limit={most}", place.space.id);
    let answer = client.get(&path).await?;
    typed(&path, answer["items"].clone())
}

async fn present(client: &Client, place: &Target) -> Result<String> {
    let mut lines = Vec::new();
    for member in target::members(client, &place.space).await? {
        let entity = member.entity;
        let mut line = format!("  {} ({}", entity.display_name, entity.kind.as_str());
        if entity.kind == agent::entity::EntityKind::Agent && place.admin {
            let agent: Agent = client.get_as(&agent_path(entity.id.agent(), "")).await?;
            line.push_str(&format!(", {}", agent.state.as_str()));
        }
        if !member.role.is_empty() && member.role != agent::entity::Member::ROLE {
            line.push_str(&format!(", {}", member.role));
        }
        lines.push(line + ")");
    }
    Ok(format!("in {}:\n{}", place.space.display_name, lines.join("\n")))
}

fn one_line(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message.clone(),
    }
}
