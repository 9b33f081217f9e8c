//! Models with random replies: they send messages, call tools of every effect with good and bad arguments, stop
//! sending, and fail in every way that a vendor can. Each request is checked before it is answered.
//!
//! Must not know the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::entry::{Entry, EntryKind};
use agent::id::{AgentId, CycleId};
use agent::limits;
use agent::message::Part;
use agent::port::{
    BoxStream, Clock as _, Model, ModelError, ModelInfo, ModelRequest, Models, PartKind, Piece,
    ReasoningReplay, Reply, ReplyPart, StopReason, TimeoutKind,
};
use agent::prompt::{Item, Prompt};
use agent::run::Usage;
use agent::transcript;
use futures_util::stream;
use serde_json::{Value, json};

use crate::environment::{Environment, Liveness};
use crate::promises::tokens;

/// A marker in an event that kills the process which builds a request with it.
pub(crate) const DEADLY: &str = "<deadly";
/// A marker in an event that no model can answer.
pub(crate) const FOUL: &str = "<foul";
/// Names of the models, of two providers.
pub(crate) const NAMES: [&str; 3] = ["one/large", "one/small", "two/large"];
/// Spaces that a model may name. Not every agent is a member of all, and the last does not exist.
pub(crate) const SPACES: [&str; 4] = ["lobby", "lab", "attic", "nowhere"];

/// An answered request: its step, its items, and the view of the history that it shows.
type AnsweredRequest = (usize, Vec<String>, u64);

/// The last answered request of each cycle, and the cycles whose history was cut or rebuilt.
#[derive(Default)]
pub(crate) struct Sent(Mutex<BTreeMap<CycleId, AnsweredRequest>>, Mutex<BTreeSet<CycleId>>);

/// The models as one process sees them.
pub(crate) struct RandomModels {
    pub(crate) env: Arc<Environment>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) sent: Arc<Sent>,
}

impl Models for RandomModels {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let name = name.unwrap_or(NAMES[0]);
        let provider = name.split('/').next().unwrap_or_default().to_owned();
        let agent = name.split_once('+').and_then(|(_, agent)| agent.parse().ok());
        let agent = agent.ok_or_else(|| ModelError::NoModel(name.to_owned()))?;
        let info = ModelInfo {
            name: name.to_owned(),
            provider,
            // Small enough that a model is asked for summaries of short histories.
            context_window: if self.env.steady { 200_000 } else { 4_000 },
            max_output: 1_000,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: true,
            ..ModelInfo::default()
        };
        let (env, liveness, sent) =
            (Arc::clone(&self.env), Arc::clone(&self.liveness), Arc::clone(&self.sent));
        Ok(Arc::new(RandomModel { agent, info, env, liveness, sent }))
    }
}

struct RandomModel {
    /// The agent that uses it, from the model's name.
    agent: AgentId,
    info: ModelInfo,
    env: Arc<Environment>,
    liveness: Arc<Liveness>,
    sent: Arc<Sent>,
}

/// One request in flight, for the audit.
struct Request {
    env: Arc<Environment>,
    agent: AgentId,
    node: u64,
    begun: bool,
    /// What it shows of the inbox.
    shown: String,
    /// Its cycle, and how many interrupts that had.
    cycle: (CycleId, usize),
    /// Since when it sends nothing.
    silent: Option<u64>,
}

impl Request {
    fn begin(&mut self) {
        self.begun = true;
        let ms = self.env.ms();
        match self.env.audit.begun(self.agent, self.node, self.cycle, ms) {
            Ok(paid) => self.env.note(paid, &self.agent.to_string()),
            Err(why) => self.env.violation(format!("P6: a request of {} at {ms}: {why}", self.agent)),
        }
        if !self.env.is_bystander(self.agent) {
            return;
        }
        for (kind, waited) in self.env.waits.served(tokens(&self.shown)) {
            match waited {
                Ok(how) => self.env.note(kind, &how),
                Err(how) => self.env.violation(format!("fairness: the bystander {kind} too long: {how}")),
            }
        }
    }

    fn failed(&self, error: &ModelError) {
        self.env.audit.failed(self.agent, self.node, error.clone(), self.env.ms());
    }
}

impl Drop for Request {
    /// A request dropped after the idle time-out has failed.
    fn drop(&mut self) {
        if self.begun && self.env.is_bystander(self.agent) {
            self.env.waits.answered();
        }
        if self.silent.is_some_and(|since| since + limits::MODEL_IDLE_MS <= self.env.ms()) {
            self.failed(&ModelError::TimedOut(TimeoutKind::Idle));
        }
    }
}

enum ReplyPiece {
    Pause(u64),
    Piece(Piece),
    Fail(ModelError),
    Silence,
}

/// The entries of a request, oldest first.
fn entries(prompt: &Prompt) -> Vec<Arc<Entry>> {
    let entry = |item: &Item| match item {
        Item::Entry(entry) => Some(Arc::clone(entry)),
        Item::Layer(_) => None,
    };
    prompt.items.iter().filter_map(entry).collect()
}

/// The layers of a request.
fn layers(prompt: &Prompt) -> impl Iterator<Item = &str> {
    prompt.items.iter().filter_map(|item| match item {
        Item::Layer(text) => Some(&**text),
        Item::Entry(_) => None,
    })
}

/// What the open cycle was shown of the inbox.
fn shown(prompt: &Prompt) -> String {
    let entries = entries(prompt);
    let own = entries.iter().filter(|entry| entry.cycle == prompt.cycle);
    let shown = own.filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    shown.map(|entry| entry.message.text()).collect::<Vec<_>>().join("\n")
}

/// The steps that the open cycle has taken.
fn step(prompt: &Prompt) -> usize {
    let own = |entry: &Arc<Entry>| entry.cycle == prompt.cycle && entry.kind == EntryKind::Assistant;
    entries(prompt).iter().filter(|entry| own(entry)).count()
}

impl RandomModel {
    /// Every vendor must accept the request, and within a cycle it must extend the last answered one.
    fn check(&self, prompt: &Prompt) -> Vec<String> {
        let entries = entries(prompt);
        let sound = transcript::valid_entries(&entries);
        let cycle = prompt.cycle;
        // An empty entry is left out of the request.
        let has_content = |entry: &&Arc<Entry>| {
            let part = |part: &Part| match part {
                Part::Text { text } => !text.trim().is_empty(),
                Part::Reasoning { .. } => false,
                _ => true,
            };
            entry.message.parts.iter().any(part)
        };
        let sent = entries.iter().filter(has_content).count();
        self.env.check(sound.len() == sent, || {
            format!("P5: of {sent} entries sent in cycle {cycle} only {} make a transcript", sound.len())
        });
        let seqs: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
        self.env.check(seqs.is_sorted_by(|a, b| a < b), || {
            format!("P5: the entries of cycle {cycle} are not in order: {seqs:?}")
        });
        let line = |item: &Item| match item {
            Item::Entry(entry) => format!("{} {}", entry.seq, entry.message.countable()),
            Item::Layer(text) => format!("layer {text}"),
        };
        let items: Vec<String> = prompt.items.iter().map(line).collect();
        let step = step(prompt);
        // A halted node and its successor may both send; a cut or rebuilt history starts anew.
        let exempt = self.env.faults.zombies || self.sent.1.lock().unwrap().contains(&cycle);
        if let Some((before, sent, view)) = self.sent.0.lock().unwrap().get(&cycle).filter(|_| !exempt) {
            // A compaction changes the view.
            let extends = *before >= step || *view != prompt.view || items.starts_with(sent);
            self.env.check(extends, || {
                let at = items.iter().zip(sent).take_while(|(a, b)| a == b).count();
                let (new, old) = (items.get(at), sent.get(at));
                format!("P5: step {step} of cycle {cycle} rewrites item {at} of step {before}: {old:?} became {new:?}")
            });
        }
        items
    }

    fn failure(&self, cycle: CycleId) -> ModelError {
        let (dice, message) = (&self.env.dice, "on purpose".to_owned());
        let retry_after = dice.chance(300).then(|| Duration::from_secs(dice.between(1, 90)));
        match dice.below(13) {
            0 => ModelError::RateLimited { message, retry_after },
            1 => ModelError::Overloaded { message, retry_after },
            2 => ModelError::Failed { message, retry_after },
            3 | 4 => ModelError::Network(message),
            5 => ModelError::TimedOut(*dice.pick(&[
                TimeoutKind::Connect,
                TimeoutKind::FirstByte,
                TimeoutKind::Idle,
                TimeoutKind::Total,
            ])),
            6 | 7 => ModelError::Cut(message),
            8 => ModelError::Auth(message),
            9 => ModelError::NoModel(message),
            10 => {
                self.sent.1.lock().unwrap().insert(cycle);
                ModelError::TooLong(message)
            }
            11 => {
                self.sent.1.lock().unwrap().insert(cycle);
                ModelError::Invalid(message)
            }
            _ => ModelError::Garbage(message),
        }
    }

    fn call(&self, prompt: &Prompt, at: usize) -> ReplyPart {
        let (dice, cycle) = (&self.env.dice, prompt.cycle);
        let note = json!({"note": "n"});
        let (name, arguments) = match dice.below(24) {
            0..=5 => {
                // Each generation sends a different text.
                let text = format!("<s:{cycle}:{}:{at}> @ada @bob, what now?", self.env.ms());
                ("send_message", json!({"space": dice.pick(&SPACES), "text": text}))
            }
            6 => ("look", note),
            7 => ("put", note),
            8 | 9 => ("fire", note),
            10 => ("nap_look", note),
            11 => ("nap_put", note),
            12 => ("nap_fire", note),
            13 => ("errand", note),
            14 => ("order", note),
            15 => ("fail", note),
            16 => ("boom", note),
            17 => ("alarm", json!({"minutes": dice.between(0, 20), "again": dice.chance(200)})),
            18 => {
                ("set_memories", json!({"memories": [{"key": format!("k{}", dice.below(4)), "value": "v"}]}))
            }
            19 => ("set_goals", json!({"goals": [{"description": "to live"}]})),
            20 => ("peek_inbox", json!({"count": 3})),
            21 => ("read_messages", json!({"space": dice.pick(&SPACES)})),
            22 => ("nonsense", json!({})),
            _ => ("fire", json!({"wrong": 1})),
        };
        ReplyPart::Call { name: name.to_owned(), arguments: arguments.to_string() }
    }

    fn reply(&self, prompt: &Prompt) -> (Vec<ReplyPart>, StopReason) {
        let dice = &self.env.dice;
        let end = |name: &str, arguments: Value| ReplyPart::Call {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        if self.env.steady && step(prompt) == 0 {
            let message = json!({"space": SPACES[0], "text": format!("<s:{}> so it is", prompt.cycle)});
            let note = json!({"memories": [{"key": "k", "value": "v"}]});
            let look = end("look", json!({"note": "n"}));
            let alarm = end("alarm", json!({"again": true}));
            let calls = [end("send_message", message), end("set_memories", note), alarm, look];
            return (calls.into(), StopReason::End);
        }
        if self.env.faults_ended() || self.env.steady {
            return (vec![end("done", json!({}))], StopReason::End);
        }
        let step = step(prompt);
        if step == 0 && dice.chance(80) {
            return (vec![end("skip", json!({"reason": "not mine"}))], StopReason::End);
        }
        let mut parts = Vec::new();
        if dice.chance(300) {
            parts.push(ReplyPart::Text("let me think".to_owned()));
        }
        if dice.chance(if step == 0 { 150 } else { 400 }) {
            parts.push(if dice.chance(500) {
                end("done", json!({"summary": "s"}))
            } else {
                ReplyPart::Text("so be it".to_owned())
            });
            return (parts, StopReason::End);
        }
        for at in 0..dice.weighed(&[(6, 1), (3, 2), (2, 3), (1, 5)]) {
            parts.push(self.call(prompt, at));
        }
        if dice.chance(100) {
            parts.push(end("done", json!({})));
        }
        let stop = match dice.below(40) {
            0 => StopReason::Length,
            1 => StopReason::Refused("no".to_owned()),
            _ => StopReason::End,
        };
        (parts, stop)
    }

    /// A summary of the history, or what a bad summarizer gives instead.
    fn summary(&self) -> BoxStream<'static, Result<Piece, ModelError>> {
        let dice = &self.env.dice;
        let (name, arguments) = ("done".to_owned(), "{}".to_owned());
        let kind = dice.below(8);
        let part = match kind {
            0 => ReplyPart::Text(String::new()),
            1 => ReplyPart::Text("x".repeat(100_000)),
            2 => ReplyPart::Call { name, arguments },
            _ => ReplyPart::Text("## Facts\n- it is so\n## Open commitments\n- to go on".to_owned()),
        };
        let usage = Usage { input: Some(100), cached: Some(0), output: Some(10), reasoning: None };
        let reply = Reply { parts: vec![part], native: None, usage, stop: StopReason::End };
        let end = if self.env.fault(|faults| faults.model) {
            Err(ModelError::Network("on purpose".to_owned()))
        } else if kind == 7 {
            Err(ModelError::Invalid("on purpose".to_owned()))
        } else {
            Ok(Piece::Done(reply))
        };
        self.env.note(if end.is_ok() { "summarized" } else { "summary failed" }, "");
        let (clock, pause) = (self.env.clock.clone(), Duration::from_millis(dice.between(1, 5_000)));
        Box::pin(stream::once(async move {
            clock.sleep(pause).await;
            end
        }))
    }

    fn pieces(&self, prompt: &Prompt) -> VecDeque<ReplyPiece> {
        let (env, shown) = (&self.env, shown(prompt));
        // A preview of it is enough.
        let seen = |what: &str| shown.contains(what) || layers(prompt).any(|layer| layer.contains(what));
        if seen(DEADLY) {
            self.liveness.kill();
            return [ReplyPiece::Silence].into();
        }
        if seen(FOUL) {
            return [ReplyPiece::Fail(ModelError::Invalid("foul".to_owned()))].into();
        }
        if env.is_bystander(self.agent) {
            let parts = vec![ReplyPart::Call { name: "done".to_owned(), arguments: "{}".to_owned() }];
            let reply = Reply { parts, native: None, usage: Usage::default(), stop: StopReason::End };
            return [ReplyPiece::Pause(100), ReplyPiece::Piece(Piece::Done(reply))].into();
        }
        let dice = &env.dice;
        let mut pieces =
            VecDeque::from([ReplyPiece::Pause(dice.weighed(&[(6, 100), (3, 1_500), (1, 20_000)]))]);
        if env.fault(|faults| faults.model) && dice.chance(500) {
            pieces.push_back(ReplyPiece::Fail(self.failure(prompt.cycle)));
            return pieces;
        }
        let (parts, stop) = self.reply(prompt);
        for (index, part) in parts.iter().enumerate() {
            let part_of = u32::try_from(index).unwrap();
            let (kind, text) = match part {
                ReplyPart::Text(text) => (PartKind::Text, text),
                ReplyPart::Reasoning(text) => (PartKind::Reasoning, text),
                ReplyPart::Call { name, arguments } => (PartKind::ToolCall { name: name.clone() }, arguments),
            };
            pieces.push_back(ReplyPiece::Piece(Piece::Start { part: part_of, kind }));
            let half = text.len() / 2;
            pieces
                .push_back(ReplyPiece::Piece(Piece::Delta { part: part_of, text: text[..half].to_owned() }));
            pieces.push_back(ReplyPiece::Pause(dice.below(300)));
            pieces
                .push_back(ReplyPiece::Piece(Piece::Delta { part: part_of, text: text[half..].to_owned() }));
            if env.fault(|faults| faults.silence) {
                pieces.push_back(ReplyPiece::Silence);
                return pieces;
            }
            if env.fault(|faults| faults.model) {
                pieces.push_back(ReplyPiece::Fail(self.failure(prompt.cycle)));
                return pieces;
            }
        }
        let usage = Usage { input: Some(100), cached: Some(0), output: Some(10), reasoning: None };
        pieces.push_back(ReplyPiece::Piece(Piece::Done(Reply { parts, native: None, usage, stop })));
        pieces
    }
}

impl Model for RandomModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let prompt = request.prompt;
        if prompt.tools.is_empty() {
            return self.summary();
        }
        let (cycle, step, view) = (prompt.cycle, step(prompt), prompt.view);
        let items = self.check(prompt);
        let pieces = self.pieces(prompt);
        let state = match pieces.back() {
            Some(ReplyPiece::Piece(Piece::Done(reply))) => {
                let name = |part: &ReplyPart| match part {
                    ReplyPart::Call { name, .. } => name.clone(),
                    _ => "text".to_owned(),
                };
                reply.parts.iter().map(name).collect::<Vec<_>>().join(" ")
            }
            Some(ReplyPiece::Fail(error)) => error.to_string(),
            _ => "silence".to_owned(),
        };
        self.env.note("asked", &format!("{cycle} step {step}: {state}"));
        let (agent, node) = (self.agent, self.liveness.node);
        let interrupts = entries(prompt)
            .into_iter()
            .filter(|entry| entry.cycle == cycle && entry.kind == EntryKind::Injection);
        let (env, shown, own) = (Arc::clone(&self.env), shown(prompt), (cycle, interrupts.count()));
        let request = Request { env, agent, node, begun: false, shown, cycle: own, silent: None };
        let state = (pieces, items, request, Arc::clone(&self.liveness), Arc::clone(&self.sent));
        Box::pin(stream::unfold(state, move |(mut pieces, items, mut request, liveness, sent)| async move {
            loop {
                liveness.touch().await;
                // A request that is built and never polled is not sent.
                if !request.begun {
                    request.begin();
                }
                match pieces.pop_front()? {
                    ReplyPiece::Pause(ms) => request.env.clock.sleep(Duration::from_millis(ms)).await,
                    ReplyPiece::Silence => {
                        request.silent = Some(request.env.ms());
                        std::future::pending().await
                    }
                    ReplyPiece::Fail(error) => {
                        request.failed(&error);
                        return Some((Err(error), (pieces, items, request, liveness, sent)));
                    }
                    ReplyPiece::Piece(piece) => {
                        if matches!(piece, Piece::Done(_)) {
                            sent.0.lock().unwrap().insert(cycle, (step, items.clone(), view));
                        }
                        return Some((Ok(piece), (pieces, items, request, liveness, sent)));
                    }
                }
            }
        }))
    }
}
