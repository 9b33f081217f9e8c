//! `top` in a terminal: keys, updates and answers meet in one loop. The terminal is given back however
//! it ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::ask::{Asking, TopAnswer};
use super::draw::draw;
use super::overview::{Ask, Overview, Wish};
use crate::client::Client;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use crate::sse::{self, StreamEvent};

/// Time between two drawings of what changes by itself; keys are drawn at once.
const FRAME: Duration = Duration::from_millis(100);
/// Drawings in one beat of a pulse, and in one half of a blink.
const FRAMES_PER_BEAT: u64 = 10;
const FRAMES_PER_BLINK: u64 = 5;
/// Keys that wait.
const KEYS: usize = 64;

/// The whole screen; given back when this is dropped, and on a panic.
struct Full {
    terminal: DefaultTerminal,
}

impl Full {
    fn take() -> Result<Self> {
        let terminal = ratatui::try_init().map_err(broken)?;
        Ok(Self { terminal })
    }

    fn draw(&mut self, overview: &mut Overview, screen: &Screen, blink: bool) -> Result<()> {
        let now = Timestamp::now();
        self.terminal.draw(|frame| draw(frame, overview, screen, now, blink)).map(drop).map_err(broken)
    }

    /// Draws everything again. Not by `clear`, which asks the terminal where its cursor stands and
    /// waits for an answer that our reader of keys takes away.
    fn redraw(&mut self) -> Result<()> {
        let size = self.terminal.size().map_err(broken)?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height)).map_err(broken)
    }

    /// Gives the terminal back, stops this process, and takes the terminal again when it goes on.
    fn stop(&mut self) -> Result<()> {
        give_back();
        // A stop that nobody can refuse: whoever sent Ctrl-Z wants the shell. Where it fails we go on.
        let _ = kill_process(getpid(), Signal::STOP);
        enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen)).map_err(broken)?;
        self.redraw()
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // Nothing is left to do where even that fails.
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), cursor::Show);
}

fn broken(error: io::Error) -> Failure {
    Failure::new(Exit::Failed, "no_terminal", format!("cannot draw on the terminal: {error}"))
        .hint("run `viv top --once` for one table")
}

/// Shows the server until the person leaves.
pub(crate) async fn run(client: Arc<Client>, screen: Screen, mut overview: Overview) -> Result<Exit> {
    let mut heard = sse::listen(Arc::clone(&client), "/v1/stream".to_owned()).await?;
    let mut asking = Asking::begin(client);
    let on = |kind| {
        signal(kind).map_err(|error| {
            Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
                .hint("run `viv top --once` for one table")
        })
    };
    let mut ends = [on(SignalKind::terminate())?, on(SignalKind::hangup())?, on(SignalKind::interrupt())?];
    let mut stops = on(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut full = Full::take()?;
    let mut keys = keys();
    let mut frame = tokio::time::interval(FRAME);
    frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut frames = 0u64;
    let mut changed = true;
    loop {
        let [ended, hung_up, interrupted] = &mut ends;
        let wish = tokio::select! {
            key = keys.recv() => match key {
                Some(Some(key)) => {
                    let wish = overview.press(key);
                    full.draw(&mut overview, &screen, blinks(frames))?;
                    wish
                }
                // Another size: what is drawn next has it.
                Some(None) => Some(Wish::Redraw),
                None => Some(Wish::Leave),
            },
            Some(update) = heard.recv() => {
                hear(&mut overview, update, &asking)?;
                changed = true;
                None
            }
            Some(answer) = asking.answers.recv() => {
                take(&mut overview, answer)?;
                changed = true;
                None
            }
            _ = frame.tick() => {
                frames += 1;
                if frames.is_multiple_of(FRAMES_PER_BEAT) {
                    overview.pulses.pass();
                }
                // Where nothing changed, marks blink and times grow older.
                if std::mem::take(&mut changed) || frames.is_multiple_of(FRAMES_PER_BLINK) {
                    full.draw(&mut overview, &screen, blinks(frames))?;
                }
                None
            }
            _ = stops.recv() => Some(Wish::Stop),
            _ = ended.recv() => Some(Wish::Leave),
            _ = hung_up.recv() => Some(Wish::Leave),
            _ = interrupted.recv() => Some(Wish::Leave),
        };
        let redrawn = matches!(wish, Some(Wish::Stop | Wish::Redraw));
        match wish {
            None => {}
            Some(Wish::Leave) => return Ok(Exit::Answered),
            Some(Wish::Stop) => full.stop()?,
            Some(Wish::Redraw) => full.redraw()?,
            Some(Wish::Ask(ask)) => asking.ask(&mut overview, ask),
        }
        changed |= redrawn;
    }
}

fn blinks(frames: u64) -> bool {
    (frames / FRAMES_PER_BLINK).is_multiple_of(2)
}

fn hear(overview: &mut Overview, heard: StreamEvent, asking: &Asking) -> Result<()> {
    match heard {
        StreamEvent::Update(update) => {
            overview.update(Timestamp::now(), &update);
            if let Some(agent) = overview.is_open_on(&update) {
                // Where too much waits already, the next such update asks.
                let _ = asking.wishes.try_send(Ask::Open(agent));
            }
        }
        StreamEvent::Snapshot(snapshot) => overview.snapshot(&snapshot),
        StreamEvent::Lost => overview.down("its stream ended".to_owned()),
        StreamEvent::Gap(_) | StreamEvent::Closed(_) => {}
        StreamEvent::Refused(failure) => return Err(failure),
    }
    Ok(())
}

fn take(overview: &mut Overview, answer: TopAnswer) -> Result<()> {
    match answer {
        TopAnswer::Agents(agents) => overview.listed(agents),
        TopAnswer::Down(why) => overview.down(why),
        TopAnswer::Refused(failure) => return Err(failure),
        TopAnswer::Past(agent, past) => overview.opened(agent, past),
        TopAnswer::Said(text) => overview.said = Some(text),
    }
    Ok(())
}

/// Keys as they come; `None` for another size of the terminal. Closed where the terminal is gone.
fn keys() -> mpsc::Receiver<Option<KeyEvent>> {
    let (sender, receiver) = mpsc::channel(KEYS);
    // Reading a terminal cannot be taken back, so it has a thread that ends with the process.
    std::thread::spawn(move || {
        loop {
            let told = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Some(key),
                Ok(Event::Resize(..)) => None,
                Ok(_) => continue,
                Err(_) => return,
            };
            if sender.blocking_send(told).is_err() {
                return;
            }
        }
    });
    receiver
}
