//! A model that plays scripts: for tests, scenarios and the demo model. It waits only where its script
//! says so, and keeps every prompt that it receives.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::limits;
use agent::message::{Native, Origin};
use agent::port::{
    BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, PartKind, Piece, Reply, ReplyPart,
    StopReason,
};
use agent::prompt::Prompt;
use agent::run::Usage;
use futures_util::stream;
use tokio::sync::Notify;

/// One action of a script.
#[derive(Clone)]
enum Action {
    Piece(Piece),
    Pause(Arc<dyn Clock>, Duration),
    Wait(Arc<Notify>),
    Hang,
    Fail(ModelError),
}

/// The answer of a scripted model to one prompt: streamed parts, pauses, failures, an end.
#[derive(Clone)]
pub struct Script {
    actions: Vec<Action>,
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
            actions: Vec::new(),
            parts: Vec::new(),
            usage: Usage::default(),
            stop: StopReason::End,
            native: None,
        }
    }

    /// A script that fails immediately.
    pub fn fails(error: ModelError) -> Self {
        Self::new().fail(error)
    }

    /// Adds a text in one piece.
    pub fn text(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.part(PartKind::Text, vec![text.clone()], ReplyPart::Text(text))
    }

    /// Adds readable reasoning in one piece.
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.part(PartKind::Reasoning, vec![text.clone()], ReplyPart::Reasoning(text))
    }

    /// Adds a tool call with a JSON value, in one piece.
    pub fn call(self, tool: &str, arguments: &serde_json::Value) -> Self {
        self.raw_call(tool, &arguments.to_string(), usize::MAX)
    }

    /// Adds a tool call with this exact argument string, streamed in pieces of `chunk` characters.
    pub fn raw_call(self, tool: &str, arguments: &str, chunk: usize) -> Self {
        let chars: Vec<char> = arguments.chars().collect();
        let chunks = chars.chunks(chunk.max(1)).map(|piece| piece.iter().collect()).collect();
        self.call_in(tool, chunks)
    }

    /// Adds a tool call whose argument string is streamed in these pieces.
    pub fn call_in(self, tool: &str, pieces: Vec<String>) -> Self {
        let arguments = pieces.concat();
        let name = tool.to_owned();
        self.part(PartKind::ToolCall { name: name.clone() }, pieces, ReplyPart::Call { name, arguments })
    }

    /// Adds a pause before each piece of the last part, so that a person sees it being written.
    pub fn paced(mut self, clock: &Arc<dyn Clock>, pause: Duration) -> Self {
        if pause.is_zero() {
            return self;
        }
        let start =
            self.actions.iter().rposition(|action| matches!(action, Action::Piece(Piece::Start { .. })));
        let last = self.actions.split_off(start.unwrap_or(0));
        for action in last {
            if matches!(action, Action::Piece(Piece::Delta { .. })) {
                self.actions.push(Action::Pause(Arc::clone(clock), pause));
            }
            self.actions.push(action);
        }
        self
    }

    /// Adds a pause on the clock.
    pub fn pause(self, clock: &Arc<dyn Clock>, pause: Duration) -> Self {
        self.action(Action::Pause(Arc::clone(clock), pause))
    }

    /// Adds a [`Piece::Alive`].
    pub fn alive(self) -> Self {
        self.action(Action::Piece(Piece::Alive))
    }

    /// Waits until `notify` is notified.
    pub fn wait(self, notify: Arc<Notify>) -> Self {
        self.action(Action::Wait(notify))
    }

    /// Sends nothing more and does not end.
    pub fn hang(self) -> Self {
        self.action(Action::Hang)
    }

    /// Ends the stream with this error.
    pub fn fail(self, error: ModelError) -> Self {
        self.action(Action::Fail(error))
    }

    /// Sets the reported usage.
    pub fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage =
            Usage { input: Some(input), cached: Some(cached), output: Some(output), reasoning: None };
        self
    }

    /// Sets the stop reason; the default is [`StopReason::End`].
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = stop;
        self
    }

    /// Adds a vendor's native block to the reply.
    pub fn native(mut self, wire: &str, model: &str, body: &str) -> Self {
        let origin = Origin { wire: wire.to_owned(), model: model.to_owned() };
        self.native = Some(Native { origin, body: body.to_owned(), call_ids: Vec::new() });
        self
    }

    fn action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    fn part(mut self, kind: PartKind, pieces: Vec<String>, whole: ReplyPart) -> Self {
        let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        self.actions.push(Action::Piece(Piece::Start { part, kind }));
        let pieces = pieces.into_iter().filter(|text| !text.is_empty());
        self.actions.extend(pieces.map(|text| Action::Piece(Piece::Delta { part, text })));
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
        let Self { actions, parts, usage, stop, native } = self;
        let done = Action::Piece(Piece::Done(Reply { parts, native, usage, stop }));
        let actions: VecDeque<Action> = actions.into_iter().chain([done]).collect();
        let state = Playing { actions, dropped };
        Box::pin(stream::unfold(state, |mut state| async move {
            loop {
                match state.actions.pop_front()? {
                    Action::Piece(piece) => return Some((Ok(piece), state)),
                    Action::Pause(clock, pause) => clock.sleep(pause).await,
                    Action::Wait(notify) => notify.notified().await,
                    Action::Hang => std::future::pending().await,
                    Action::Fail(error) => {
                        state.actions.clear();
                        return Some((Err(error), state));
                    }
                }
            }
        }))
    }
}

struct Playing {
    actions: VecDeque<Action>,
    dropped: Option<Arc<AtomicUsize>>,
}

impl Drop for Playing {
    fn drop(&mut self) {
        if let (false, Some(dropped)) = (self.actions.is_empty(), &self.dropped) {
            dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

type Author = dyn Fn(&Prompt) -> Script + Send + Sync;

/// A model that answers every prompt with what `author` writes for it, and keeps nothing.
pub fn authored(
    info: ModelInfo,
    author: impl Fn(&Prompt) -> Script + Send + Sync + 'static,
) -> Arc<dyn Model> {
    Arc::new(Authored { info, author: Box::new(author) })
}

struct Authored {
    info: ModelInfo,
    author: Box<Author>,
}

impl Model for Authored {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        (self.author)(request.prompt).play()
    }
}

/// The scripted model: a queue of scripts, and optionally a function that writes one for each further
/// prompt.
pub struct Scripted {
    info: ModelInfo,
    queue: Mutex<VecDeque<Script>>,
    author: Option<Box<Author>>,
    prompts: Mutex<Vec<Prompt>>,
    dropped: Arc<AtomicUsize>,
    asked: Notify,
}

impl Scripted {
    /// Plays these scripts in order; each further prompt gets an error.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self {
            info: ModelInfo {
                name: "scripted".to_owned(),
                provider: "scripted".to_owned(),
                context_window: limits::WINDOW_HOSTED,
                max_output: 4_096,
                forced_tool_choice: true,
                ..ModelInfo::default()
            },
            queue: Mutex::new(scripts.into_iter().collect()),
            author: None,
            prompts: Mutex::default(),
            dropped: Arc::default(),
            asked: Notify::new(),
        }
    }

    /// Answers every prompt with the script that `author` returns for it.
    pub fn answering(author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Self {
        Self { author: Some(Box::new(author)), ..Self::new([]) }
    }

    /// The same model with other info.
    pub fn with_info(self, info: ModelInfo) -> Self {
        Self { info, ..self }
    }

    /// Adds a script to the end of the queue.
    pub fn push(&self, script: Script) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(script);
    }

    /// Every prompt that it received, oldest first.
    pub fn prompts(&self) -> Vec<Prompt> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many generations were dropped before their end.
    pub fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Waits until it has received at least `count` prompts.
    pub async fn asked(&self, count: usize) {
        loop {
            let notified = self.asked.notified();
            if self.prompts.lock().unwrap_or_else(PoisonError::into_inner).len() >= count {
                return;
            }
            notified.await;
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
            None => Script::fails(ModelError::Invalid("the scripted model has no more scripts".into())),
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
    async fn a_script_streams_its_parts_and_ends_with_the_complete_reply() {
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
    async fn a_failure_ends_the_stream_and_dropped_streams_are_counted() {
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
            tokens: 0,
            view: 0,
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
        assert!(ask().next().await.unwrap().is_err(), "a prompt without a script gets an error");
    }
}
