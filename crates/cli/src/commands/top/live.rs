//! `top` in a terminal: one loop handles keys, updates and answers. The list of agents is read again and again in the
//! background, one list at a time and in pages, so that a thousand agents cost a few requests every few seconds. The
//! terminal is always restored.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::life::Standing;
use api::{Agent, CancelRequest};
use client::{Client, Past, PastUpdate, StreamEvent, agent_path, typed};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::Event;
use ratatui::crossterm::{cursor, execute};
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use super::draw::draw;
use super::overview::{Action, Overview, Request};
use crate::commands::chat::terminal::keyboard;
use crate::commands::watch::log::{Log, LogStyle};
use crate::commands::watch::moment::zone;
use crate::commands::watch::names::Names;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use crate::signals::Signals;

/// Time between two frames; a key is followed by one at once.
const FRAME: Duration = Duration::from_millis(250);
/// Maximum number of agents that are shown.
const AGENTS: usize = 5_000;
/// Pause between two lists, and between two attempts if no server answers.
const PAUSE: Duration = Duration::from_secs(2);
const ITEMS_MAX: u32 = 40;
/// Maximum number of requests and answers that wait.
const QUEUE: usize = 64;

type Change = Box<dyn FnOnce(&mut Overview) + Send>;
/// The answer to a request. An error ends the command: the key is not an admin key, or another server answers.
type Answer = client::Result<Change>;

/// The whole screen; restored when this is dropped, and on a panic.
struct FullScreen(DefaultTerminal);

impl Drop for FullScreen {
    fn drop(&mut self) {
        // If even this fails, nothing more can be done.
        let _ = ratatui::try_restore();
        let _ = execute!(io::stdout(), cursor::Show);
    }
}

fn broken(error: io::Error) -> Failure {
    Failure::new(Exit::Failed, "no_terminal", format!("cannot draw on the terminal: {error}"))
        .hint("run `viv top --once` for one table")
}

pub(crate) async fn run(client: Arc<Client>, screen: Screen, mut overview: Overview) -> Result<Exit> {
    let mut updates = client::listen(Arc::clone(&client), "/v1/stream".to_owned()).await?;
    let (ask, asked) = mpsc::channel(QUEUE);
    let (answer, mut answers) = mpsc::channel::<Answer>(QUEUE);
    let again = Arc::new(Notify::new());
    tokio::spawn(list(Arc::clone(&client), answer.clone(), Arc::clone(&again)));
    tokio::spawn(perform_all(client, screen, asked, answer, again));
    let mut signals = Signals::new()?;
    let mut terminal = FullScreen(ratatui::try_init().map_err(broken)?);
    let mut keys = keyboard();
    let mut frame = tokio::time::interval(FRAME);
    frame.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let action = tokio::select! {
            key = keys.recv() => {
                frame.reset_immediately();
                match key {
                    Some(Event::Key(key)) => overview.press(key),
                    // The next frame has the new size.
                    Some(_) => None,
                    None => Some(Action::Quit),
                }
            }
            Some(event) = updates.recv() => handle(&mut overview, event)?,
            Some(answer) = answers.recv() => {
                answer?(&mut overview);
                None
            }
            _ = frame.tick() => {
                let now = Timestamp::now();
                terminal.0.draw(|frame| draw(frame, &mut overview, &screen, now)).map_err(broken)?;
                None
            }
            () = signals.next() => Some(Action::Quit),
        };
        match action {
            None => {}
            Some(Action::Quit) => return Ok(Exit::Answered),
            Some(Action::Request(request)) => {
                let sent = ask.try_send(request);
                if sent.is_err() {
                    overview.message = Some("too many requests; try again in a moment".to_owned());
                }
            }
        }
    }
}

fn handle(overview: &mut Overview, event: StreamEvent) -> Result<Option<Action>> {
    match event {
        StreamEvent::Update(update) => {
            overview.update(&update);
            let open = overview.is_open_on(&update);
            return Ok(open.map(|agent| Action::Request(Request::Open(agent))));
        }
        StreamEvent::Snapshot(snapshot) => overview.snapshot(&snapshot),
        StreamEvent::Lost => overview.lost("the stream ended"),
        StreamEvent::Gap(_) | StreamEvent::Closed(_) => {}
        StreamEvent::Refused(failure) => return Err(failure.into()),
    }
    Ok(None)
}

/// The list of all agents that are not retired, without their configs.
pub(crate) async fn agents(client: &Client) -> client::Result<Vec<Agent>> {
    let path = "/v1/agents?brief=true";
    let mut rows = client.list(path, AGENTS).await?;
    rows.retain(|row| row["standing"] != "retired");
    typed(path, rows.into())
}

async fn list(client: Arc<Client>, answers: mpsc::Sender<Answer>, again: Arc<Notify>) {
    loop {
        let answer: Answer = match agents(&client).await {
            Ok(agents) => Ok(Box::new(|overview| overview.listed(agents))),
            Err(failure) if failure.is_temporary() => {
                client.refresh();
                Ok(Box::new(move |overview| overview.lost(&failure.message)))
            }
            Err(failure) => Err(failure),
        };
        if answers.send(answer).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = again.notified() => {}
            () = answers.closed() => return,
        }
    }
}

async fn perform_all(
    client: Arc<Client>,
    screen: Screen,
    mut asked: mpsc::Receiver<Request>,
    answers: mpsc::Sender<Answer>,
    again: Arc<Notify>,
) {
    let mut names = Names::new(false);
    while let Some(request) = asked.recv().await {
        let opens = matches!(request, Request::Open(_));
        let change = perform(&client, &screen, &mut names, request).await.unwrap_or_else(|failure| {
            let ended = failure.code == "no_open_cycle";
            message(if ended { "the cycle has already ended".to_owned() } else { failure.message })
        });
        if !opens {
            again.notify_one();
        }
        if answers.send(Ok(change)).await.is_err() {
            return;
        }
    }
}

fn message(text: String) -> Change {
    Box::new(|overview| overview.message = Some(text))
}

async fn perform(client: &Client, screen: &Screen, names: &mut Names, request: Request) -> Answer {
    match request {
        Request::Cancel(agent, cycle) => {
            let body = CancelRequest { cycle: Some(cycle) };
            client.post(&agent_path(agent, "/cancel"), &body, None).await?;
            Ok(message("canceled; it ends in a moment".to_owned()))
        }
        Request::Set(agent, standing) => {
            let path = if standing == Standing::Suspended { "/suspend" } else { "/resume" };
            client.post_empty(&agent_path(agent, path)).await?;
            // The next list comes later than the next key may.
            Ok(Box::new(move |overview| overview.set_standing(agent, standing)))
        }
        Request::Open(agent) => {
            let recent: Past = client.get_as(&format!("/v1/recent?agents={agent}&limit={ITEMS_MAX}")).await?;
            // The codes of colours would be shown as text, and the screen folds the rows.
            let plain = Screen { colour: false, width: None, ..*screen };
            let mut log = Log::new(plain, zone(), LogStyle::Full);
            log.names = std::mem::take(names);
            for PastUpdate { at, update } in recent.into_updates() {
                log.names.fetch_missing(client, screen, &update).await;
                log.update(at, &update);
            }
            let rows = log.take_rows();
            *names = log.names;
            Ok(Box::new(move |overview| overview.opened(agent, rows)))
        }
    }
}
