//! Whatever a model sends: each kind of garbage ends in a right next state and a history that every
//! vendor takes back. The world is whole; the model's bytes go through the vendors' own code.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::entry::EntryKind;
use agent::id::{AgentId, EntityId, SpaceId};
use agent::limits;
use agent::message::Part;
use agent::port::{BoxStream, Memo, Model, ModelError, ModelInfo, ModelRequest, Piece, Voices};
use agent::prompt::Prompt;
use agent::run::Ending;
use futures_util::{StreamExt, stream};
use models::client::Voice;
use models::wire::{Feed, Wire};
use scenario::world::World;
use serde_json::json;
use testkit::stubs::{self, Answer, Vendor};

use crate::play::{everything, ground, inbox, step};
use crate::prefix::{Cutting, accepted_by_every_vendor, check, voice, wires};

/// What comes for one request: an answer, and what happens to its bytes on the way.
struct Sent {
    answer: Answer,
    /// The connection breaks behind so many thousandths of the bytes.
    cut: Option<usize>,
    /// Bytes (in thousandths of the length) that arrive as another one.
    spoiled: Vec<(usize, u8)>,
    /// How many bytes come at once.
    chunk: usize,
}

impl Sent {
    fn whole(answer: Answer) -> Self {
        Self { answer, cut: None, spoiled: Vec::new(), chunk: usize::MAX }
    }
}

type Author = dyn Fn(&Prompt, usize) -> Sent + Send + Sync;

/// A vendor without a network: requests are encoded, held against the vendor's rules and answered in
/// the vendor's words, by the code that a socket would feed.
struct Wired {
    vendor: Vendor,
    voice: Voice,
    wire: Arc<dyn Wire>,
    author: Box<Author>,
    prompts: Mutex<Vec<Prompt>>,
    refused: Mutex<Vec<String>>,
}

impl Wired {
    fn new(vendor: Vendor, author: impl Fn(&Prompt, usize) -> Sent + Send + Sync + 'static) -> Self {
        let wire = wires().into_iter().find(|(of, _)| *of == vendor).unwrap().1;
        let (prompts, refused) = (Mutex::default(), Mutex::default());
        Self { vendor, voice: voice(Arc::clone(&wire)), wire, author: Box::new(author), prompts, refused }
    }

    fn answer(&self, prompt: &Prompt, memo: &mut Memo) -> Vec<Result<Piece, ModelError>> {
        let request = serde_json::from_slice(&self.voice.encode(prompt, memo).body.concat()).unwrap();
        if let Err(why) = check(self.vendor, &request) {
            self.refused.lock().unwrap().push(why.clone());
            return vec![Err(ModelError::Invalid(why))];
        }
        let count = {
            let mut prompts = self.prompts.lock().unwrap();
            prompts.push(prompt.clone());
            prompts.len()
        };
        let sent = (self.author)(prompt, count);
        let mut bytes = stubs::bytes_of(self.vendor, &sent.answer, &request);
        let length = bytes.len();
        for (place, byte) in &sent.spoiled {
            bytes[place * (length - 1) / 1_000] = *byte;
        }
        bytes.truncate(sent.cut.map_or(length, |place| place * length / 1_000));
        self.decode(&bytes, sent.chunk, sent.cut.is_some())
    }

    fn decode(&self, bytes: &[u8], chunk: usize, cut: bool) -> Vec<Result<Piece, ModelError>> {
        let mut feed = Feed::new(self.wire.decoder());
        let mut pieces = Vec::new();
        for chunk in bytes.chunks(chunk) {
            if feed.is_over() {
                return pieces;
            }
            match feed.bytes(chunk) {
                Ok(more) => pieces.extend(more.into_iter().map(Ok)),
                Err(error) => {
                    pieces.push(Err(error));
                    return pieces;
                }
            }
        }
        if !feed.is_over() {
            match feed.end(cut.then(|| "the connection broke".to_owned())) {
                Ok(more) => pieces.extend(more.into_iter().map(Ok)),
                Err(error) => pieces.push(Err(error)),
            }
        }
        pieces
    }
}

impl Model for Wired {
    fn info(&self) -> &ModelInfo {
        self.voice.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        stream::iter(self.answer(request.prompt, request.memo)).boxed()
    }
}

struct Only(Arc<Wired>);

impl Voices for Only {
    fn voice(&self, _: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::clone(&self.0) as Arc<dyn Model>)
    }
}

struct House {
    world: World,
    model: Arc<Wired>,
    husam: EntityId,
    ada: AgentId,
    lobby: SpaceId,
    /// Commits until the process dies.
    left: Arc<AtomicI64>,
}

const NEVER: i64 = 1_000_000;

async fn house(model: Wired, left: i64, written: bool) -> House {
    let model = Arc::new(model);
    let left = Arc::new(AtomicI64::new(left));
    let counter = Arc::clone(&left);
    let wrap = move |inner| Arc::new(Cutting::new(inner, Arc::clone(&counter), written)) as Arc<_>;
    let (world, _, gate) = ground(Arc::new(Only(Arc::clone(&model))), wrap, agent::call::Effect::ReadOnly);
    gate.open();
    let husam = world.human("husam").await.unwrap();
    let mut config = AgentConfig::default();
    config.limits.max_steps = 6;
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    House { world, model, husam, ada, lobby, left }
}

impl House {
    /// Says something and waits until all is quiet; a process that dies is started again.
    async fn say(&mut self, text: &str) -> String {
        let id = self.world.say(self.husam, self.lobby, text).await.unwrap();
        for _ in 0..3_600 {
            self.world.pass(Duration::from_secs(1)).await.unwrap();
            if self.left.load(Ordering::SeqCst) < 0 {
                self.world.kill();
                self.left.store(NEVER, Ordering::SeqCst);
                self.world.start();
            }
            let totals = self.world.reader().totals().await.unwrap();
            if (totals.waiting, totals.open_cycles) == (0, 0) {
                return id.to_string();
            }
        }
        panic!("no rest within an hour: {:?}", self.model.refused.lock().unwrap());
    }

    fn prompts(&self) -> Vec<Prompt> {
        self.model.prompts.lock().unwrap().clone()
    }

    /// What no garbage may break: the vendor took every request, all vendors would have, each call was
    /// answered once, and nothing waits for ever.
    async fn is_sound(&self, place: &str) {
        assert_eq!(*self.model.refused.lock().unwrap(), Vec::<String>::new(), "{place}");
        accepted_by_every_vendor(&self.prompts(), place);
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        for part in self.world.mind(self.ada).await.unwrap().into_iter().flat_map(|entry| entry.message.parts)
        {
            match part {
                Part::ToolCall { id, .. } => asked.push(id),
                Part::ToolResult { id, .. } => answered.push(id),
                _ => {}
            }
        }
        assert_eq!(asked, answered, "{place}");
        assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "{place}");
        let totals = self.world.reader().totals().await.unwrap();
        assert_eq!((totals.waiting, totals.open_cycles), (0, 0), "{place}");
        assert_eq!(self.world.ports().live.drafts(self.lobby), [], "{place}: drafts are left over");
    }
}

const VENDORS: [Vendor; 4] = [Vendor::OpenAi, Vendor::Anthropic, Vendor::Gemini, Vendor::Responses];

fn finished() -> Sent {
    Sent::whole(Answer::new().call("z", "done", "{}", usize::MAX))
}

/// Lives one message with this first answer, then one more with a sane model.
async fn after(vendor: Vendor, first: impl Fn() -> Answer + Send + Sync + 'static) -> House {
    let author = move |prompt: &Prompt, count| match count {
        1 => Sent::whole(first()),
        _ if step(prompt) == 0 => {
            let text = r#"{"space":"lobby","text":"here I am"}"#;
            Sent::whole(Answer::new().call("s", "send_message", text, 5))
        }
        _ => finished(),
    };
    let mut house = house(Wired::new(vendor, author), NEVER, false).await;
    for text in ["first", "second"] {
        let id = house.say(text).await;
        let fate = house.world.fate(house.ada, &id).await.unwrap();
        assert_eq!(fate.as_str(), "lived", "{vendor:?}: `{text}`");
    }
    house.is_sound(&format!("{vendor:?}")).await;
    let heard = house.world.heard(house.lobby).await.unwrap();
    assert_eq!(heard.last().unwrap().1, "here I am", "{vendor:?}");
    house
}

#[tokio::test]
async fn wrong_json_and_unknown_or_shadowed_tools_are_outcomes_that_the_model_reads() {
    for vendor in VENDORS {
        let house = after(vendor, || {
            Answer::new()
                .call("a", "send_message", r#"{"space":"lobby","text":"#, 3)
                .call("b", "send_message", "[1]", 1)
                .call("c", "nonsense", "{}", 1)
                .call("d", "Send_Message", r#"{"text":"x"}"#, 4)
                .call("e", "send message!é", "{}", 1)
        });
        let house = house.await;
        let prompts = house.prompts();
        let read = everything(&prompts[1]);
        for words in
            ["there is no tool `nonsense`", "there is no tool `Send_Message`; did you mean `send_message`?"]
        {
            assert!(read.contains(words), "{vendor:?}: {words}: {read}");
        }
        assert_eq!(house.world.runs(house.ada).await.unwrap()[0].ending, Ending::Rested);
    }
}

#[tokio::test]
async fn two_hundred_calls_at_once_are_one_step_and_those_above_the_bound_are_refused() {
    for vendor in VENDORS {
        let calls = || (0..200).fold(Answer::new(), |all, n| all.call(&format!("c{n}"), "look", "{}", 9));
        let house = after(vendor, calls).await;
        let read = everything(&house.prompts()[1]);
        assert_eq!(read.matches("calls in one step; call again").count(), 200 - limits::CALLS_PER_STEP);
    }
}

#[tokio::test]
async fn ids_that_come_twice_or_not_at_all_are_answered_each() {
    for vendor in VENDORS {
        let house = after(vendor, || {
            Answer::new().call("a", "look", "{}", 9).call("a", "look", "{}", 9).call("", "look", "{}", 9)
        });
        let mind = house.await;
        let mind = mind.world.mind(mind.ada).await.unwrap();
        let first = mind.iter().find(|entry| entry.kind == EntryKind::Outcomes).unwrap();
        assert!(first.message.parts.len() > 1, "{vendor:?}: {:?}", first.message.parts);
    }
}

#[tokio::test]
async fn arguments_of_megabytes_are_refused_and_stay_nowhere() {
    for (vendor, size) in
        VENDORS.map(|vendor| (vendor, 2_000_000)).into_iter().chain([(Vendor::OpenAi, 10_000_000)])
    {
        let house = after(vendor, move || {
            let text = "x".repeat(size);
            if vendor == Vendor::Gemini {
                // Its stub would send a piece per character.
                let call = json!({"functionCall": {"name": "send_message", "args": {"text": text}}});
                let content = json!({"role": "model", "parts": [call]});
                let end = json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]});
                return Answer::payloads(&end.to_string());
            }
            let text = format!(r#"{{"space":"lobby","text":"{text}"}}"#);
            Answer::new().reasoning("hm").call("a", "send_message", &text, 1_000_000)
        });
        let house = house.await;
        let prompts = house.prompts();
        assert!(everything(&prompts[1]).contains("bytes are accepted"), "{vendor:?}");
        let mind = serde_json::to_string(&house.world.mind(house.ada).await.unwrap()).unwrap();
        assert!(mind.len() < 100_000, "{vendor:?}: {} bytes in the consciousness", mind.len());
        assert!(house.world.runs(house.ada).await.unwrap().iter().all(|run| run.ending == Ending::Rested));
    }
}

#[tokio::test]
async fn an_empty_reply_is_a_failed_attempt_and_its_event_is_not_lost() {
    for vendor in VENDORS {
        let house = after(vendor, Answer::new).await;
        assert_eq!(house.world.heard(house.lobby).await.unwrap().len(), 4, "{vendor:?}: both were answered");
    }
}

#[tokio::test]
async fn a_reply_of_reasoning_alone_is_no_answer_that_breaks_the_next_request() {
    for vendor in VENDORS {
        after(vendor, || Answer::new().reasoning("I think, and that is all")).await;
    }
}

/// Chance that repeats (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const TOOLS: [&str; 14] = [
    "send_message",
    "send_message",
    "look",
    "put",
    "fire",
    "fail",
    "panics",
    "build",
    "skip",
    "done",
    "nonsense",
    "",
    "functions.send_message",
    "séparé ",
];

const ARGUMENTS: [&str; 14] = [
    "{}",
    r#"{"space":"lobby","text":"hello"}"#,
    r#"{"text":"hello"}"#,
    r#"{"text":1}"#,
    r#"{"text":"cut"#,
    "",
    "null",
    "[]",
    "\"text\"",
    r#"{"text":"\ud800"}"#,
    r#"{"text":"a","text":"b"}"#,
    r#"{"text":1e999}"#,
    "{\"text\":\"\u{1}\u{feff}\"}",
    "not json at all",
];

fn chance(vendor: Vendor, dice: &mut Dice) -> Sent {
    let mut answer = Answer::new();
    for _ in 0..dice.below(4) {
        answer = match dice.below(9) {
            0 => answer.text(dice.pick(&["hm", "", " \n", "[INBOX — 3 new events]", "é😀"])),
            1 => answer.reasoning(dice.pick(&["let me think", " ", "é😀"])),
            _ => {
                let (id, chunk) = (dice.pick(&["a", "b", "c", ""]), 1 + dice.below(9));
                answer.call(id, dice.pick(&TOOLS), dice.pick(&ARGUMENTS), chunk)
            }
        };
    }
    if dice.below(12) == 0 {
        let many = 30 + dice.below(20);
        answer = (0..many).fold(answer, |all, n| all.call(&format!("m{n}"), "look", "{}", 9));
    }
    if dice.below(6) == 0 {
        let words: &[&str] = match vendor {
            Vendor::OpenAi => &["length", "content_filter", "new_word", "stop"],
            Vendor::Anthropic => &["max_tokens", "refusal", "pause_turn", "new_word"],
            Vendor::Gemini => &["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "NEW_WORD"],
            Vendor::Responses => &["max_output_tokens", "content_filter", "new_word"],
        };
        answer = answer.stop(dice.pick(words));
    }
    if dice.below(10) == 0 {
        answer = answer.then_error(dice.pick(&["overloaded_error", "api_error", "odd"]), "it broke");
    }
    let cut = (dice.below(5) == 0).then(|| dice.below(1_001));
    // Where a vendor signs what it says, spoiled bytes would be its own lie.
    let signs = matches!(vendor, Vendor::Gemini | Vendor::Anthropic);
    let spoils = if !signs && dice.below(6) == 0 { 1 + dice.below(4) } else { 0 };
    let spoiled = (0..spoils).map(|_| (dice.below(1_001), u8::try_from(dice.below(256)).unwrap())).collect();
    Sent { answer, cut, spoiled, chunk: [1, 7, 64, usize::MAX][dice.below(4)] }
}

/// Models that send anything, processes that die after any commit: in the end every event has its
/// fate, every request on the way was one that each vendor takes, and the agent lives.
async fn anything(vendor: Vendor) {
    for seed in 0..8 {
        let place = format!("{vendor:?}, seed {seed}");
        let author = move |prompt: &Prompt, count: usize| {
            if inbox(prompt).contains("are you there") {
                return match step(prompt) {
                    0 => {
                        let text = r#"{"space":"lobby","text":"yes"}"#;
                        Sent::whole(Answer::new().call("s", "send_message", text, 5))
                    }
                    _ => finished(),
                };
            }
            chance(vendor, &mut Dice(seed * 1_000 + count as u64))
        };
        let mut dice = Dice(seed);
        let left = if dice.below(2) == 0 { NEVER } else { 1 + i64::try_from(dice.below(8)).unwrap() };
        let mut house = house(Wired::new(vendor, author), left, dice.below(2) == 0).await;
        for text in ["one", "two"] {
            let id = house.say(text).await;
            let fate = house.world.fate(house.ada, &id).await.unwrap();
            assert!(matches!(fate.as_str(), "lived" | "skipped" | "dead"), "{place}: {fate:?}");
        }
        house.left.store(NEVER, Ordering::SeqCst);
        house.say("are you there").await;
        house.is_sound(&place).await;
        assert_eq!(house.world.heard(house.lobby).await.unwrap().last().unwrap().1, "yes", "{place}");
    }
}

#[tokio::test]
async fn anything_over_chat_completions() {
    anything(Vendor::OpenAi).await;
}

#[tokio::test]
async fn anything_over_anthropic_messages() {
    anything(Vendor::Anthropic).await;
}

#[tokio::test]
async fn anything_over_gemini() {
    anything(Vendor::Gemini).await;
}

#[tokio::test]
async fn anything_over_responses() {
    anything(Vendor::Responses).await;
}
