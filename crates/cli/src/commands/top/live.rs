//! `top` in a terminal: one loop handles keys, updates and answers. The list of agents is read again and again in the
//! background, one list at a time and in pages, so that a thousand agents cost a few requests every few seconds. The
//! terminal is always restored.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::life::Standing;
use api::{Agent, CancelRequest};
use client::{Client, Past, StreamEvent, agent_path, typed};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::Event;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

use super::draw::draw;
use super::overview::{Action, Link, Overview, Request};
use crate::commands::chat::terminal::keyboard;
use crate::commands::watch::names::Names;
use crate::commands::watch::past::{PastUpdate, from_item};
use crate::commands::watch::stop_signals;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;

/// Time between two redraws for updates; keys redraw at once.
const FRAME: Duration = Duration::from_millis(100);
/// Redraws per beat of a pulse, and per half of a blink.
const FRAMES_PER_BEAT: u64 = 10;
const FRAMES_PER_BLINK: u64 = 5;
/// Maximum number of agents that are shown.
const AGENTS: usize = 5_000;
/// Agents per page: the server's limit.
const PAGE: usize = 200;
/// Pause between two lists; longer for each further page.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_PER_PAGE: Duration = Duration::from_millis(500);
/// Pause between two attempts if no server answers.
const PAUSE_DOWN: Duration = Duration::from_secs(1);
const PAUSE_DOWN_MAX: Duration = Duration::from_secs(5);
/// Maximum number of recent items that are read of an opened agent.
const ITEMS_MAX: u32 = 40;
/// Maximum number of requests and answers that wait.
const QUEUE: usize = 64;

/// What the answer to a request changes.
type Change = Box<dyn FnOnce(&mut Overview) + Send>;
/// The answer to a request. An error ends the command: the key is not an admin key, or another server answers.
type Answer = client::Result<Change>;

/// The whole screen; restored when this is dropped, and on a panic.
struct FullScreen {
    terminal: DefaultTerminal,
}

impl FullScreen {
    fn take() -> Result<Self> {
        let terminal = ratatui::try_init().map_err(broken)?;
        Ok(Self { terminal })
    }

    fn draw(&mut self, overview: &mut Overview, screen: &Screen, blink: bool) -> Result<()> {
        let now = Timestamp::now();
        self.terminal.draw(|frame| draw(frame, overview, screen, now, blink)).map(drop).map_err(broken)
    }

    /// Draws everything again. Does not use `clear`: it asks the terminal for the cursor's position and
    /// waits for an answer that our reader of keys would take.
    fn redraw(&mut self) -> Result<()> {
        let size = self.terminal.size().map_err(broken)?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height)).map_err(broken)
    }

    /// Restores the terminal, stops this process, and takes the terminal again when it continues.
    fn stop(&mut self) -> Result<()> {
        restore_terminal();
        // SIGSTOP cannot be refused: the user pressed Ctrl-Z to get the shell. If it fails, continue.
        let _ = kill_process(getpid(), Signal::STOP);
        enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen)).map_err(broken)?;
        self.redraw()
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn restore_terminal() {
    // If even this fails, nothing more can be done.
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), cursor::Show);
}

fn broken(error: io::Error) -> Failure {
    Failure::new(Exit::Failed, "no_terminal", format!("cannot draw on the terminal: {error}"))
        .hint("run `viv top --once` for one table")
}

/// Shows the server until the user quits.
pub(crate) async fn run(client: Arc<Client>, screen: Screen, mut overview: Overview) -> Result<Exit> {
    let mut updates = client::listen(Arc::clone(&client), "/v1/stream".to_owned()).await?;
    let (ask, asked) = mpsc::channel(QUEUE);
    let (answer, mut answers) = mpsc::channel::<Answer>(QUEUE);
    let again = Arc::new(Notify::new());
    tokio::spawn(list(Arc::clone(&client), answer.clone(), Arc::clone(&again)));
    tokio::spawn(perform_all(client, screen, asked, answer, again));
    let [mut interrupted, mut terminated, mut hung_up] = stop_signals()?;
    let mut stops = signal(SignalKind::from_raw(Signal::TSTP.as_raw())).map_err(broken)?;
    let mut terminal = FullScreen::take()?;
    let mut keys = keyboard();
    let mut frame = tokio::time::interval(FRAME);
    frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut frames = 0u64;
    let mut changed = true;
    loop {
        let action = tokio::select! {
            key = keys.recv() => match key {
                Some(Event::Key(key)) => {
                    let action = overview.press(key);
                    terminal.draw(&mut overview, &screen, blinks(frames))?;
                    action
                }
                // The terminal's size changed: draw everything with the new one.
                Some(Event::Resize(..)) => Some(Action::Redraw),
                Some(_) => None,
                None => Some(Action::Quit),
            },
            Some(event) = updates.recv() => {
                changed = true;
                handle(&mut overview, event)?
            }
            Some(answer) = answers.recv() => {
                changed = true;
                answer?(&mut overview);
                None
            }
            _ = frame.tick() => {
                frames += 1;
                if frames.is_multiple_of(FRAMES_PER_BEAT) {
                    overview.pulses.pass();
                }
                // If nothing changed, marks still blink and ages still grow.
                if std::mem::take(&mut changed) || frames.is_multiple_of(FRAMES_PER_BLINK) {
                    terminal.draw(&mut overview, &screen, blinks(frames))?;
                }
                None
            }
            _ = stops.recv() => Some(Action::Stop),
            _ = terminated.recv() => Some(Action::Quit),
            _ = hung_up.recv() => Some(Action::Quit),
            _ = interrupted.recv() => Some(Action::Quit),
        };
        changed |= matches!(action, Some(Action::Stop | Action::Redraw));
        match action {
            None => {}
            Some(Action::Quit) => return Ok(Exit::Answered),
            Some(Action::Stop) => terminal.stop()?,
            Some(Action::Redraw) => terminal.redraw()?,
            Some(Action::Request(request)) => {
                let sent = ask.try_send(request);
                let refused = sent.err().map(|_| "too many requests; try again in a moment".to_owned());
                overview.message = refused.or(overview.message.take());
            }
        }
    }
}

fn blinks(frames: u64) -> bool {
    (frames / FRAMES_PER_BLINK).is_multiple_of(2)
}

fn handle(overview: &mut Overview, event: StreamEvent) -> Result<Option<Action>> {
    match event {
        StreamEvent::Update(update) => {
            overview.update(Timestamp::now(), &update);
            let open = overview.is_open_on(&update);
            return Ok(open.map(|agent| Action::Request(Request::Open(agent))));
        }
        StreamEvent::Snapshot(snapshot) => overview.snapshot(&snapshot),
        StreamEvent::Lost => overview.link = Link::Down("the stream ended".to_owned()),
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
    let mut down = PAUSE_DOWN;
    loop {
        let (answer, pause): (Answer, _) = match agents(&client).await {
            Ok(agents) => {
                down = PAUSE_DOWN;
                let pages = u32::try_from(agents.len() / PAGE).unwrap_or(u32::MAX);
                let pause = PAUSE + PAUSE_PER_PAGE.saturating_mul(pages);
                (Ok(Box::new(|overview| overview.listed(agents))), pause)
            }
            Err(failure) if failure.is_temporary() => {
                client.refresh();
                let pause = down;
                down = (down * 2).min(PAUSE_DOWN_MAX);
                (Ok(Box::new(|overview| overview.link = Link::Down(failure.message))), pause)
            }
            Err(failure) => (Err(failure), PAUSE_DOWN_MAX),
        };
        if answers.send(answer).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
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
            client.post(&agent_path(agent, "/cancel"), &CancelRequest { cycle }, None).await?;
            Ok(message("canceled; it ends in a moment".to_owned()))
        }
        // The next list comes later than the next key may.
        Request::Suspend(agent) => {
            client.post_empty(&agent_path(agent, "/suspend")).await?;
            let text = "suspended; s resumes it";
            Ok(Box::new(move |overview| overview.set_standing(agent, Standing::Suspended, text)))
        }
        Request::Resume(agent) => {
            client.post_empty(&agent_path(agent, "/resume")).await?;
            Ok(Box::new(move |overview| overview.set_standing(agent, Standing::Active, "resumed")))
        }
        Request::Open(agent) => {
            let recent: Past = client.get_as(&format!("/v1/recent?agents={agent}&limit={ITEMS_MAX}")).await?;
            let past: Vec<PastUpdate> = recent.items.into_iter().map(from_item).collect();
            for item in &past {
                names.fetch_missing(client, screen, &item.update).await;
            }
            let names = names.clone();
            Ok(Box::new(move |overview| overview.opened(agent, past, names)))
        }
    }
}
