//! A model that says what it was told to: for tests, scenarios and the demo model. It never guesses,
//! never waits by itself, and remembers every prompt it was given.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::limits;
use agent::message::{Native, Origin};
use agent::port::{
    BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, PartKind, Piece, ReasoningReplay, Reply,
    ReplyPart, StopReason,
};
use agent::prompt::Prompt;
use agent::run::Usage;
use futures_util::stream;
use tokio::sync::Notify;

/// One thing that a script does.
#[derive(Clone)]
enum Beat {
    Piece(Piece),
    Pause(Arc<dyn Clock>, Duration),
    Wait(Arc<Notify>),
    Hang,
    Fail(ModelError),
}

/// What a scripted model does for one prompt: parts as they stream, pauses, failures, an end.
#[derive(Clone)]
pub struct Script {
    beats: Vec<Beat>,
    parts: Vec<ReplyPart>,
    usage: Usage,
    stop: StopReason,
    native: Option<Native>,
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// An empty reply.
    pub fn new() -> Self {
        Self {
            beats: Vec::new(),
            parts: Vec::new(),
            usage: Usage::default(),
            stop: StopReason::End,
            native: None,
        }
    }

    /// A script that fails at once.
    pub fn fails(error: ModelError) -> Self {
        Self::new().fail(error)
    }

    /// Says a text in one piece.
    pub fn text(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.part(PartKind::Text, vec![text.clone()], ReplyPart::Text(text))
    }

    /// Reasons readably, in one piece.
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.part(PartKind::Reasoning, vec![text.clone()], ReplyPart::Reasoning(text))
    }

    /// Calls a tool with a JSON value, in one piece.
    pub fn call(self, tool: &str, arguments: &serde_json::Value) -> Self {
        self.raw_call(tool, &arguments.to_string(), usize::MAX)
    }

    /// Calls a tool with this very argument string, streamed in pieces of `chunk` characters.
    pub fn raw_call(self, tool: &str, arguments: &str, chunk: usize) -> Self {
        let chars: Vec<char> = arguments.chars().collect();
        let chunks = chars.chunks(chunk.max(1)).map(|piece| piece.iter().collect()).collect();
        self.call_in(tool, chunks)
    }

    /// Calls a tool, its argument string streamed in these pieces.
    pub fn call_in(self, tool: &str, pieces: Vec<String>) -> Self {
        let arguments = pieces.concat();
        let name = tool.to_owned();
        self.part(PartKind::ToolCall { name: name.clone() }, pieces, ReplyPart::Call { name, arguments })
    }

    /// Waits between every two pieces from here back to the beginning of the last part, so that a
    /// person sees it being written.
    pub fn paced(mut self, clock: &Arc<dyn Clock>, pause: Duration) -> Self {
        if pause.is_zero() {
            return self;
        }
        let start = self.beats.iter().rposition(|beat| matches!(beat, Beat::Piece(Piece::Start { .. })));
        let last = self.beats.split_off(start.unwrap_or(0));
        for beat in last {
            if matches!(beat, Beat::Piece(Piece::Delta { .. })) {
                self.beats.push(Beat::Pause(Arc::clone(clock), pause));
            }
            self.beats.push(beat);
        }
        self
    }

    /// Waits on the clock.
    pub fn pause(self, clock: &Arc<dyn Clock>, pause: Duration) -> Self {
        self.beat(Beat::Pause(Arc::clone(clock), pause))
    }

    /// Shows that it is alive, and nothing else.
    pub fn alive(self) -> Self {
        self.beat(Beat::Piece(Piece::Alive))
    }

    /// Waits until told to go on.
    pub fn wait(self, notify: Arc<Notify>) -> Self {
        self.beat(Beat::Wait(notify))
    }

    /// Says no more, and does not end: until it is dropped.
    pub fn hang(self) -> Self {
        self.beat(Beat::Hang)
    }

    /// Breaks off.
    pub fn fail(self, error: ModelError) -> Self {
        self.beat(Beat::Fail(error))
    }

    /// What it reports as used.
    pub fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage =
            Usage { input: Some(input), cached: Some(cached), output: Some(output), reasoning: None };
        self
    }

    /// Why it stops, where not because it is done.
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = stop;
        self
    }

    /// A vendor's own block beside its parts.
    pub fn native(mut self, wire: &str, model: &str, body: &str) -> Self {
        let origin = Origin { wire: wire.to_owned(), model: model.to_owned() };
        self.native = Some(Native { origin, body: body.to_owned(), call_ids: Vec::new() });
        self
    }

    fn beat(mut self, beat: Beat) -> Self {
        self.beats.push(beat);
        self
    }

    fn part(mut self, kind: PartKind, pieces: Vec<String>, whole: ReplyPart) -> Self {
        let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        self.beats.push(Beat::Piece(Piece::Start { part, kind }));
        let pieces = pieces.into_iter().filter(|text| !text.is_empty());
        self.beats.extend(pieces.map(|text| Beat::Piece(Piece::Delta { part, text })));
        self.parts.push(whole);
        self
    }

    /// The stream of this script.
    pub fn play(self) -> BoxStream<'static, Result<Piece, ModelError>> {
        self.play_counted(None)
    }

    fn play_counted(
        self,
        dropped: Option<Arc<AtomicUsize>>,
    ) -> BoxStream<'static, Result<Piece, ModelError>> {
        let Self { beats, parts, usage, stop, native } = self;
        let done = Beat::Piece(Piece::Done(Reply { parts, native, usage, stop }));
        let beats: VecDeque<Beat> = beats.into_iter().chain([done]).collect();
        let state = Playing { beats, dropped };
        Box::pin(stream::unfold(state, |mut state| async move {
            loop {
                match state.beats.pop_front()? {
                    Beat::Piece(piece) => return Some((Ok(piece), state)),
                    Beat::Pause(clock, pause) => clock.sleep(pause).await,
                    Beat::Wait(notify) => notify.notified().await,
                    Beat::Hang => std::future::pending().await,
                    Beat::Fail(error) => {
                        state.beats.clear();
                        return Some((Err(error), state));
                    }
                }
            }
        }))
    }
}

struct Playing {
    beats: VecDeque<Beat>,
    dropped: Option<Arc<AtomicUsize>>,
}

impl Drop for Playing {
    fn drop(&mut self) {
        if let (false, Some(dropped)) = (self.beats.is_empty(), &self.dropped) {
            dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

type Author = dyn Fn(&Prompt) -> Script + Send + Sync;

/// The scripted model: a queue of scripts, then an author for every prompt beyond.
pub struct Scripted {
    info: ModelInfo,
    queue: Mutex<VecDeque<Script>>,
    author: Option<Box<Author>>,
    prompts: Mutex<Vec<Prompt>>,
    dropped: Arc<AtomicUsize>,
    asked: Notify,
}

impl Scripted {
    /// Plays these scripts in order; a prompt beyond them is answered with an error.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self {
            info: ModelInfo {
                name: "scripted".to_owned(),
                provider: "scripted".to_owned(),
                context_window: limits::WINDOW_HOSTED,
                max_output: 4_096,
                reasoning_replay: ReasoningReplay::Cycle,
                forced_tool_choice: true,
                price: None,
                demo: false,
            },
            queue: Mutex::new(scripts.into_iter().collect()),
            author: None,
            prompts: Mutex::default(),
            dropped: Arc::default(),
            asked: Notify::new(),
        }
    }

    /// Answers every prompt by what `author` makes of it.
    pub fn answering(author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Self {
        Self { author: Some(Box::new(author)), ..Self::new([]) }
    }

    /// The same, known as something else.
    pub fn with_info(self, info: ModelInfo) -> Self {
        Self { info, ..self }
    }

    /// Adds a script behind those that wait.
    pub fn push(&self, script: Script) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(script);
    }

    /// Every prompt it was given, oldest first.
    pub fn prompts(&self) -> Vec<Prompt> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many generations were dropped before their end.
    pub fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Waits until it has been given at least `count` prompts.
    pub async fn asked(&self, count: usize) {
        loop {
            let told = self.asked.notified();
            if self.prompts.lock().unwrap_or_else(PoisonError::into_inner).len() >= count {
                return;
            }
            told.await;
        }
    }
}

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let queued = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let script = queued.unwrap_or_else(|| match &self.author {
            Some(author) => author(request.prompt),
            None => Script::fails(ModelError::Invalid("the script is at its end".into())),
        });
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).push(request.prompt.clone());
        self.asked.notify_waiters();
        script.play_counted(Some(Arc::clone(&self.dropped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use serde_json::json;

    #[tokio::test]
    async fn a_script_streams_its_parts_and_ends_with_the_whole_reply() {
        let script = Script::new().reasoning("hm").raw_call("say", r#"{"a":"bc"}"#, 4).usage(3, 1, 2);
        let pieces: Vec<_> = script.play().map(Result::unwrap).collect().await;
        assert_eq!(pieces[0], Piece::Start { part: 0, kind: PartKind::Reasoning });
        assert_eq!(pieces[2], Piece::Start { part: 1, kind: PartKind::ToolCall { name: "say".into() } });
        let streamed: String = pieces[3..pieces.len() - 1]
            .iter()
            .map(|piece| match piece {
                Piece::Delta { part: 1, text } => text.as_str(),
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(streamed, r#"{"a":"bc"}"#);
        let Some(Piece::Done(reply)) = pieces.last() else { panic!("no reply") };
        assert_eq!(reply.parts.len(), 2);
        assert_eq!(reply.usage.cached, Some(1));
    }

    #[tokio::test]
    async fn a_failure_ends_the_stream_and_a_dropped_one_is_counted() {
        let model = Scripted::new([
            Script::new().text("a").fail(ModelError::Cut("there".into())),
            Script::new().call("x", &json!({})).hang(),
        ]);
        let prompt = Prompt {
            system: Arc::from(""),
            tools: Arc::from([]),
            items: Vec::new(),
            choice: agent::prompt::ToolChoice::Auto,
            cycle: agent::id::CycleId(uuid::Uuid::from_u128(1)),
            reasoning_from: 0,
        };
        let timeouts = agent::config::ModelTimeouts::default();
        let mut memo = agent::port::Memo::default();
        let mut ask = || model.stream(ModelRequest { prompt: &prompt, memo: &mut memo, timeouts: &timeouts });
        let first: Vec<_> = ask().collect().await;
        assert_eq!(first.last(), Some(&Err(ModelError::Cut("there".into()))));
        assert_eq!(model.dropped(), 0);
        let mut second = ask();
        second.next().await.unwrap().unwrap();
        drop(second);
        assert_eq!(model.dropped(), 1);
        assert_eq!(model.prompts().len(), 2);
        assert!(ask().next().await.unwrap().is_err(), "a script at its end says so");
    }
}
