//! A vendor without a network, and a server with one agent that it thinks for: what the tests of
//! garbage and of cut streams share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::id::{AgentId, EntityId, SpaceId};
use agent::message::Part;
use agent::port::{BoxStream, Memo, Model, ModelError, ModelInfo, ModelRequest, Models, Piece};
use agent::prompt::Prompt;
use futures_util::{StreamExt, stream};
use models::client::VendorModel;
use models::wire::{Feed, Wire};
use scenario::world::World;
use serde_json::Value;
use testkit::stubs::{self, Answer, Vendor};

use crate::play::ground;
use crate::prefix::{accepted_by_every_vendor_but, check, cutting, model, wires};

/// Where the connection breaks.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    /// Behind so many thousandths of the bytes.
    Part(usize),
    /// Behind so many bytes.
    At(usize),
}

/// What comes for one request: an answer, and what happens to its bytes on the way.
pub(crate) struct Sent {
    pub(crate) answer: Answer,
    pub(crate) cut: Option<Cut>,
    /// Whether a cut stream ends as one that is whole, instead of breaking.
    pub(crate) ends_well: bool,
    /// Bytes (in thousandths of the length) that arrive as another one.
    pub(crate) spoiled: Vec<(usize, u8)>,
    /// The byte of the first seal (what the vendor signs or encrypts) that arrives as another one.
    pub(crate) unsealed: Option<usize>,
    /// How many bytes come at once.
    pub(crate) chunk: usize,
}

impl Sent {
    pub(crate) fn whole(answer: Answer) -> Self {
        Self { answer, cut: None, ends_well: false, spoiled: Vec::new(), unsealed: None, chunk: usize::MAX }
    }
}

/// How vendors speak of what they signed, encrypted or named themselves.
pub(crate) const SEALED: [&str; 5] =
    ["signature", "encrypted content", "not found", "its required", "bound to"];

/// Changes one byte of the first seal; where nothing is sealed, nothing.
fn unseal(bytes: &mut [u8], nth: usize) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if let Some(at) = text.find("stub-signature").or_else(|| text.find("stub-sealed")) {
        let byte = &mut bytes[at + nth];
        *byte = if *byte == b'7' { b'8' } else { b'7' };
    }
}

/// The end of a cycle.
pub(crate) fn finished() -> Sent {
    Sent::whole(Answer::new().call("z", "done", "{}", usize::MAX))
}

type Author = dyn Fn(&Prompt, usize) -> Sent + Send + Sync;

/// Requests are encoded, held against the vendor's rules and answered in the vendor's words, by the code
/// that a socket would feed.
pub(crate) struct Wired {
    vendor: Vendor,
    model: VendorModel,
    wire: Arc<dyn Wire>,
    author: Box<Author>,
    prompts: Mutex<Vec<Prompt>>,
    refused: Mutex<Vec<String>>,
    /// Streams of which a byte arrived as another one.
    spoiled: AtomicUsize,
}

impl Wired {
    pub(crate) fn new(
        vendor: Vendor,
        author: impl Fn(&Prompt, usize) -> Sent + Send + Sync + 'static,
    ) -> Self {
        let wire = wires().into_iter().find(|(of, _)| *of == vendor).unwrap().1;
        let (prompts, refused) = (Mutex::default(), Mutex::default());
        let spoiled = AtomicUsize::default();
        let (model, author) = (model(Arc::clone(&wire)), Box::new(author));
        Self { vendor, model, wire, author, prompts, refused, spoiled }
    }

    pub(crate) fn vendor(&self) -> Vendor {
        self.vendor
    }

    fn answer(&self, prompt: &Prompt, memo: &mut Memo) -> Vec<Result<Piece, ModelError>> {
        let request = match self.taken(prompt, memo) {
            Ok(request) => request,
            Err(error) => return vec![Err(error)],
        };
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
        if let Some(nth) = sent.unsealed {
            unseal(&mut bytes, nth);
        }
        if sent.unsealed.is_some() || !sent.spoiled.is_empty() {
            self.spoiled.fetch_add(1, Ordering::SeqCst);
        }
        bytes.truncate(match sent.cut {
            None => length,
            Some(Cut::Part(place)) => place * length / 1_000,
            Some(Cut::At(at)) => at,
        });
        decoded(&*self.wire, &bytes, sent.chunk, sent.cut.is_some() && !sent.ends_well)
    }

    /// The request that the vendor took, as its model would have sent it: what is refused is met as a
    /// model meets it.
    fn taken(&self, prompt: &Prompt, memo: &mut Memo) -> Result<Value, ModelError> {
        let mut encoded = self.model.encode(prompt, memo);
        loop {
            let request = serde_json::from_slice(&encoded.body.concat()).unwrap();
            let Err(why) = check(self.vendor, &request) else { return Ok(request) };
            self.refused.lock().unwrap().push(why.clone());
            let (status, body) = stubs::refusal_of(self.vendor, &why);
            encoded = self.model.refused(prompt, memo, encoded.opening, status, &body)?;
        }
    }
}

/// What the runtime is told of these bytes.
pub(crate) fn decoded(
    wire: &dyn Wire,
    bytes: &[u8],
    chunk: usize,
    broken: bool,
) -> Vec<Result<Piece, ModelError>> {
    let mut feed = Feed::new(wire.decoder());
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
        match feed.end(broken.then(|| "the connection broke".to_owned())) {
            Ok(more) => pieces.extend(more.into_iter().map(Ok)),
            Err(error) => pieces.push(Err(error)),
        }
    }
    pieces
}

impl Model for Wired {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        stream::iter(self.answer(request.prompt, request.memo)).boxed()
    }
}

struct Only(Arc<Wired>);

impl Models for Only {
    fn model(&self, _: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::clone(&self.0) as Arc<dyn Model>)
    }
}

/// One agent, one person, one space.
pub(crate) struct WiredNode {
    pub(crate) world: World,
    pub(crate) model: Arc<Wired>,
    pub(crate) husam: EntityId,
    pub(crate) ada: AgentId,
    pub(crate) lobby: SpaceId,
    /// Commits until the process dies.
    pub(crate) left: Arc<AtomicI64>,
}

pub(crate) const NEVER: i64 = 1_000_000;

pub(crate) async fn house(model: Wired, left: i64, written: bool) -> WiredNode {
    let model = Arc::new(model);
    let left = Arc::new(AtomicI64::new(left));
    let counter = Arc::clone(&left);
    let wrap = move |inner| cutting(inner, Arc::clone(&counter), written);
    let (world, _, gate) = ground(Arc::new(Only(Arc::clone(&model))), wrap, agent::call::Effect::ReadOnly);
    gate.open();
    let husam = world.human("husam").await.unwrap();
    let mut config = AgentConfig::default();
    config.limits.max_steps = 6;
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    WiredNode { world, model, husam, ada, lobby, left }
}

impl WiredNode {
    /// Says something and waits until all is quiet; a process that dies is started again.
    pub(crate) async fn say(&mut self, text: &str) -> String {
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
        panic!("no rest within an hour: {:?}", self.refused());
    }

    /// What was asked since this was asked last, and what of it was refused.
    pub(crate) fn news(&self) -> (Vec<Prompt>, Vec<String>) {
        let prompts = std::mem::take(&mut *self.model.prompts.lock().unwrap());
        (prompts, std::mem::take(&mut *self.model.refused.lock().unwrap()))
    }

    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        self.model.prompts.lock().unwrap().clone()
    }

    /// What the vendor did not take, in its words.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.model.refused.lock().unwrap().clone()
    }

    /// What no garbage may break: the vendor took every request but those that showed it what it never
    /// said, all others would have taken each, each call was answered once, and nothing waits for ever.
    pub(crate) async fn is_sound(&self, place: &str) {
        let refused = self.refused();
        let spoiled = self.model.spoiled.load(Ordering::SeqCst);
        let foreign = |why: &&String| spoiled == 0 || !SEALED.iter().any(|words| why.contains(words));
        assert_eq!(refused.iter().find(foreign), None, "{place}");
        assert!(refused.len() <= 2 * spoiled, "{place}: {refused:?}");
        // What was refused and sent otherwise is encoded here as it was: its own vendor has had its say.
        let own = (!refused.is_empty()).then_some(self.model.vendor);
        accepted_by_every_vendor_but(own, &self.prompts(), place);
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
        assert_eq!(
            self.world.ports().live.drafts(agent::update::Topic::Space(self.lobby)),
            [],
            "{place}: drafts are left over"
        );
    }
}
