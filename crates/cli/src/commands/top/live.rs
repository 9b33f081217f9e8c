//! `top` in a terminal: one loop handles keys, updates and answers. The terminal is always restored.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::Event;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::draw::draw;
use super::overview::{Action, Link, Overview, Request};
use super::requests::{Requests, TopAnswer};
use crate::commands::chat::terminal::keyboard;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use client::{Client, StreamEvent};

/// Time between two redraws for updates; keys redraw at once.
const FRAME: Duration = Duration::from_millis(100);
/// Redraws per beat of a pulse, and per half of a blink.
const FRAMES_PER_BEAT: u64 = 10;
const FRAMES_PER_BLINK: u64 = 5;
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
    let mut requests = Requests::begin(client);
    let listen = |kind| {
        signal(kind).map_err(|error| {
            Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
                .hint("run `viv top --once` for one table")
        })
    };
    let mut ends =
        [listen(SignalKind::terminate())?, listen(SignalKind::hangup())?, listen(SignalKind::interrupt())?];
    let mut stops = listen(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut terminal = FullScreen::take()?;
    let mut keys = keyboard();
    let mut frame = tokio::time::interval(FRAME);
    frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut frames = 0u64;
    let mut changed = true;
    loop {
        let [ended, hung_up, interrupted] = &mut ends;
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
            Some(update) = updates.recv() => {
                handle_update(&mut overview, update, &requests)?;
                changed = true;
                None
            }
            Some(answer) = requests.answers.recv() => {
                handle_answer(&mut overview, answer)?;
                changed = true;
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
            _ = ended.recv() => Some(Action::Quit),
            _ = hung_up.recv() => Some(Action::Quit),
            _ = interrupted.recv() => Some(Action::Quit),
        };
        let redrawn = matches!(action, Some(Action::Stop | Action::Redraw));
        match action {
            None => {}
            Some(Action::Quit) => return Ok(Exit::Answered),
            Some(Action::Stop) => terminal.stop()?,
            Some(Action::Redraw) => terminal.redraw()?,
            Some(Action::Request(ask)) => requests.send(&mut overview, ask),
        }
        changed |= redrawn;
    }
}

fn blinks(frames: u64) -> bool {
    (frames / FRAMES_PER_BLINK).is_multiple_of(2)
}

fn handle_update(overview: &mut Overview, event: StreamEvent, requests: &Requests) -> Result<()> {
    match event {
        StreamEvent::Update(update) => {
            overview.update(Timestamp::now(), &update);
            if let Some(agent) = overview.is_open_on(&update) {
                // If too many requests are pending, the next such update requests it again.
                let _ = requests.sender.try_send(Request::Open(agent));
            }
        }
        StreamEvent::Snapshot(snapshot) => overview.snapshot(&snapshot),
        StreamEvent::Lost => overview.link = Link::Down("the stream ended".to_owned()),
        StreamEvent::Gap(_) | StreamEvent::Closed(_) => {}
        StreamEvent::Refused(failure) => return Err(failure.into()),
    }
    Ok(())
}

fn handle_answer(overview: &mut Overview, answer: TopAnswer) -> Result<()> {
    match answer {
        TopAnswer::Agents(agents) => overview.listed(agents),
        TopAnswer::Down(why) => overview.link = Link::Down(why),
        TopAnswer::Refused(failure) => return Err(failure),
        TopAnswer::Past(agent, past) => overview.opened(agent, past),
        TopAnswer::Message(text) => overview.message = Some(text),
        TopAnswer::Standing(agent, standing, text) => overview.set_standing(agent, standing, text),
    }
    Ok(())
}
