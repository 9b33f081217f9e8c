//! Models that think by dice: they speak, call tools of every effect well and badly, fall silent, fail in
//! every way that a vendor can. What they are sent is judged before they answer.
//!
//! This module must not know the store.

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

use crate::judge::tokens;
use crate::nature::{Nature, Pulse};

/// What kills the process that builds a request of it.
pub(crate) const DEADLY: &str = "<deadly";
/// What no model can answer.
pub(crate) const FOUL: &str = "<foul";
/// Names of the models. The first three stand behind two providers.
pub(crate) const NAMES: [&str; 3] = ["one/large", "one/small", "two/large"];
/// Spaces that a model may name; not everyone is a member of all, and one is there for nobody.
pub(crate) const PLACES: [&str; 4] = ["lobby", "lab", "attic", "nowhere"];

/// What was sent in each cycle, as it was answered last.
#[derive(Default)]
pub(crate) struct Sent(Mutex<BTreeMap<CycleId, (usize, Vec<String>)>>, Mutex<BTreeSet<CycleId>>);

/// The models as one process reaches them.
pub(crate) struct Minds {
    pub(crate) nature: Arc<Nature>,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) sent: Arc<Sent>,
}

impl Models for Minds {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let name = name.unwrap_or(NAMES[0]);
        let provider = name.split('/').next().unwrap_or_default().to_owned();
        let agent = name.split_once('+').and_then(|(_, agent)| agent.parse().ok());
        let agent = agent.ok_or_else(|| ModelError::NoModel(name.to_owned()))?;
        let info = ModelInfo {
            name: name.to_owned(),
            provider,
            context_window: 200_000,
            max_output: 1_000,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: true,
            price: None,
            demo: false,
        };
        let (nature, pulse, sent) =
            (Arc::clone(&self.nature), Arc::clone(&self.pulse), Arc::clone(&self.sent));
        Ok(Arc::new(Mind { agent, info, nature, pulse, sent }))
    }
}

struct Mind {
    /// Who thinks with it: a model tells which agent asks.
    agent: AgentId,
    info: ModelInfo,
    nature: Arc<Nature>,
    pulse: Arc<Pulse>,
    sent: Arc<Sent>,
}

/// One request under way, as its agent pays for it.
struct Request {
    nature: Arc<Nature>,
    agent: AgentId,
    node: u64,
    begun: bool,
    /// What its agent is shown.
    shown: String,
    /// Its cycle, and how often something broke into that.
    cycle: (CycleId, usize),
    /// Since when it says nothing.
    silent: Option<u64>,
}

impl Request {
    fn begin(&mut self) {
        self.begun = true;
        let ms = self.nature.ms();
        match self.nature.bill.begun(self.agent, self.node, self.cycle, ms) {
            Ok(paid) => self.nature.note(paid, &self.agent.to_string()),
            Err(why) => self.nature.wrong(format!("P6: a request of {} at {ms}: {why}", self.agent)),
        }
        if !self.nature.spares(self.agent) {
            return;
        }
        for (kind, waited) in self.nature.patience.served(tokens(&self.shown)) {
            match waited {
                Ok(told) => self.nature.note(kind, &told),
                Err(told) => self.nature.wrong(format!("fairness: the bystander {kind} too long: {told}")),
            }
        }
    }

    fn failed(&self, error: &ModelError) {
        self.nature.bill.failed(self.agent, self.node, error.clone(), self.nature.ms());
    }
}

impl Drop for Request {
    /// Whoever waited for the next piece as long as may be takes it for failed.
    fn drop(&mut self) {
        if self.begun && self.nature.spares(self.agent) {
            self.nature.patience.answered();
        }
        if self.silent.is_some_and(|since| since + limits::MODEL_IDLE_MS <= self.nature.ms()) {
            self.failed(&ModelError::TimedOut(TimeoutKind::Idle));
        }
    }
}

enum Beat {
    Pause(u64),
    Piece(Piece),
    Fail(ModelError),
    Silence,
}

/// Entries that a request sends, oldest first.
fn entries(prompt: &Prompt) -> Vec<Arc<Entry>> {
    let entry = |item: &Item| match item {
        Item::Entry(entry) => Some(Arc::clone(entry)),
        Item::Layer(_) => None,
    };
    prompt.items.iter().filter_map(entry).collect()
}

/// What a request sends besides.
fn layers(prompt: &Prompt) -> impl Iterator<Item = &str> {
    prompt.items.iter().filter_map(|item| match item {
        Item::Layer(text) => Some(&**text),
        Item::Entry(_) => None,
    })
}

/// What the open cycle was shown.
fn shown(prompt: &Prompt) -> String {
    let entries = entries(prompt);
    let own = entries.iter().filter(|entry| entry.cycle == prompt.cycle);
    let shown = own.filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    shown.map(|entry| entry.message.text()).collect::<Vec<_>>().join("\n")
}

/// Steps that the open cycle has thought.
fn step(prompt: &Prompt) -> usize {
    let own = |entry: &Arc<Entry>| entry.cycle == prompt.cycle && entry.kind == EntryKind::Assistant;
    entries(prompt).iter().filter(|entry| own(entry)).count()
}

impl Mind {
    /// Every vendor must take it, and within a cycle it goes on where the answered one before ended.
    fn judge(&self, prompt: &Prompt) -> Vec<String> {
        let entries = entries(prompt);
        let sound = transcript::sound(&entries);
        let cycle = prompt.cycle;
        // What says nothing is left out when it is sent.
        let says = |entry: &&Arc<Entry>| {
            let part = |part: &Part| match part {
                Part::Text { text } => !text.trim().is_empty(),
                Part::Reasoning { .. } => false,
                _ => true,
            };
            entry.message.parts.iter().any(part)
        };
        let sent = entries.iter().filter(says).count();
        self.nature.hold(sound.len() == sent, || {
            format!("P5: of {sent} entries sent in cycle {cycle} only {} make a transcript", sound.len())
        });
        let seqs: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
        self.nature.hold(seqs.is_sorted_by(|a, b| a < b), || {
            format!("P5: the entries of cycle {cycle} are not in order: {seqs:?}")
        });
        let line = |item: &Item| match item {
            Item::Entry(entry) => format!("{} {}", entry.seq, entry.message.countable()),
            Item::Layer(text) => format!("layer {text}"),
        };
        let items: Vec<String> = prompt.items.iter().map(line).collect();
        let step = step(prompt);
        // A zombie and its successor both ask; what was cut or rebuilt begins anew.
        let exempt = self.nature.faults.zombies || self.sent.1.lock().unwrap().contains(&cycle);
        if let Some((before, sent)) = self.sent.0.lock().unwrap().get(&cycle).filter(|_| !exempt) {
            let extends = *before >= step || items.starts_with(sent);
            self.nature.hold(extends, || {
                let at = items.iter().zip(sent).take_while(|(a, b)| a == b).count();
                let (new, old) = (items.get(at), sent.get(at));
                format!("P5: step {step} of cycle {cycle} rewrites item {at} of step {before}: {old:?} became {new:?}")
            });
        }
        items
    }

    fn failure(&self, cycle: CycleId) -> ModelError {
        let (dice, message) = (&self.nature.dice, "on purpose".to_owned());
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
        let (dice, cycle) = (&self.nature.dice, prompt.cycle);
        let note = json!({"note": "n"});
        let (name, arguments) = match dice.below(24) {
            0..=5 => {
                // No two generations say the same.
                let text = format!("<s:{cycle}:{}:{at}> @ada @bob, what now?", self.nature.ms());
                ("send_message", json!({"space": dice.pick(&PLACES), "text": text}))
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
            21 => ("read_messages", json!({"space": dice.pick(&PLACES)})),
            22 => ("nonsense", json!({})),
            _ => ("fire", json!({"wrong": 1})),
        };
        ReplyPart::Call { name: name.to_owned(), arguments: arguments.to_string() }
    }

    fn reply(&self, prompt: &Prompt) -> (Vec<ReplyPart>, StopReason) {
        let dice = &self.nature.dice;
        let end = |name: &str, arguments: Value| ReplyPart::Call {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        if self.nature.steady && step(prompt) == 0 {
            let say = json!({"space": PLACES[0], "text": format!("<s:{}> so it is", prompt.cycle)});
            let note = json!({"memories": [{"key": "k", "value": "v"}]});
            let look = end("look", json!({"note": "n"}));
            let alarm = end("alarm", json!({"again": true}));
            let said = [end("send_message", say), end("set_memories", note), alarm, look];
            return (said.into(), StopReason::End);
        }
        if self.nature.is_calm() || self.nature.steady {
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

    fn beats(&self, prompt: &Prompt) -> VecDeque<Beat> {
        let (nature, shown) = (&self.nature, shown(prompt));
        // A glimpse of it is enough.
        let seen = |what: &str| shown.contains(what) || layers(prompt).any(|layer| layer.contains(what));
        if seen(DEADLY) {
            self.pulse.kill();
            return [Beat::Silence].into();
        }
        if seen(FOUL) {
            return [Beat::Fail(ModelError::Invalid("foul".to_owned()))].into();
        }
        if nature.spares(self.agent) {
            let parts = vec![ReplyPart::Call { name: "done".to_owned(), arguments: "{}".to_owned() }];
            let reply = Reply { parts, native: None, usage: Usage::default(), stop: StopReason::End };
            return [Beat::Pause(100), Beat::Piece(Piece::Done(reply))].into();
        }
        let dice = &nature.dice;
        let mut beats = VecDeque::from([Beat::Pause(dice.weighed(&[(6, 100), (3, 1_500), (1, 20_000)]))]);
        if nature.strikes(|faults| faults.model) && dice.chance(500) {
            beats.push_back(Beat::Fail(self.failure(prompt.cycle)));
            return beats;
        }
        let (parts, stop) = self.reply(prompt);
        for (index, part) in parts.iter().enumerate() {
            let part_of = u32::try_from(index).unwrap();
            let (kind, text) = match part {
                ReplyPart::Text(text) => (PartKind::Text, text),
                ReplyPart::Reasoning(text) => (PartKind::Reasoning, text),
                ReplyPart::Call { name, arguments } => (PartKind::ToolCall { name: name.clone() }, arguments),
            };
            beats.push_back(Beat::Piece(Piece::Start { part: part_of, kind }));
            let half = text.len() / 2;
            beats.push_back(Beat::Piece(Piece::Delta { part: part_of, text: text[..half].to_owned() }));
            beats.push_back(Beat::Pause(dice.below(300)));
            beats.push_back(Beat::Piece(Piece::Delta { part: part_of, text: text[half..].to_owned() }));
            if nature.strikes(|faults| faults.silence) {
                beats.push_back(Beat::Silence);
                return beats;
            }
            if nature.strikes(|faults| faults.model) {
                beats.push_back(Beat::Fail(self.failure(prompt.cycle)));
                return beats;
            }
        }
        let usage = Usage { input: Some(100), cached: Some(0), output: Some(10), reasoning: None };
        beats.push_back(Beat::Piece(Piece::Done(Reply { parts, native: None, usage, stop })));
        beats
    }
}

impl Model for Mind {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let prompt = request.prompt;
        let (cycle, step) = (prompt.cycle, step(prompt));
        let items = self.judge(prompt);
        let beats = self.beats(prompt);
        let state = match beats.back() {
            Some(Beat::Piece(Piece::Done(reply))) => {
                let name = |part: &ReplyPart| match part {
                    ReplyPart::Call { name, .. } => name.clone(),
                    _ => "text".to_owned(),
                };
                reply.parts.iter().map(name).collect::<Vec<_>>().join(" ")
            }
            Some(Beat::Fail(error)) => error.to_string(),
            _ => "silence".to_owned(),
        };
        self.nature.note("asked", &format!("{cycle} step {step}: {state}"));
        let (agent, node) = (self.agent, self.pulse.node);
        let broken_into = entries(prompt)
            .into_iter()
            .filter(|entry| entry.cycle == cycle && entry.kind == EntryKind::Injection);
        let (nature, shown, own) = (Arc::clone(&self.nature), shown(prompt), (cycle, broken_into.count()));
        let request = Request { nature, agent, node, begun: false, shown, cycle: own, silent: None };
        let state = (beats, items, request, Arc::clone(&self.pulse), Arc::clone(&self.sent));
        Box::pin(stream::unfold(state, move |(mut beats, items, mut request, pulse, sent)| async move {
            loop {
                pulse.beat().await;
                // What is built and never asked for is not sent.
                if !request.begun {
                    request.begin();
                }
                match beats.pop_front()? {
                    Beat::Pause(ms) => request.nature.clock.sleep(Duration::from_millis(ms)).await,
                    Beat::Silence => {
                        request.silent = Some(request.nature.ms());
                        std::future::pending().await
                    }
                    Beat::Fail(error) => {
                        request.failed(&error);
                        return Some((Err(error), (beats, items, request, pulse, sent)));
                    }
                    Beat::Piece(piece) => {
                        if matches!(piece, Piece::Done(_)) {
                            sent.0.lock().unwrap().insert(cycle, (step, items.clone()));
                        }
                        return Some((Ok(piece), (beats, items, request, pulse, sent)));
                    }
                }
            }
        }))
    }
}
