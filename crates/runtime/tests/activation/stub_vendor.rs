//! A vendor without a network, and a world with one agent that uses it: shared by the tests of bad replies and of cut
//! streams.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::id::{AgentId, EntityId, SpaceId};
use agent::message::Part;
use agent::port::{BoxStream, Memo, Model, ModelError, ModelInfo, ModelRequest, Piece};
use agent::prompt::Prompt;
use futures_util::{StreamExt, stream};
use models::client::VendorModel;
use models::wire::{EventFeed, Wire};
use scenario::world::World;
use serde_json::Value;
use testkit::stubs::{self, Answer, Vendor};

use crate::fixture::world_with;
use crate::prefix::{accepted_by_every_vendor_but, check, cut_at_commit, model, wires};

/// Where the connection breaks.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    /// After that many thousandths of the bytes.
    Part(usize),
    /// After that many bytes.
    At(usize),
}

/// The response to one request: an answer, and what happens to its bytes on the way.
pub(crate) struct Sent {
    pub(crate) answer: Answer,
    pub(crate) cut: Option<Cut>,
    /// Whether a cut stream ends normally, instead of with a broken connection.
    pub(crate) ends_well: bool,
    /// Changed bytes: their position in thousandths of the length, and the new value.
    pub(crate) corrupted: Vec<(usize, u8)>,
    /// The changed byte of the first signature (or other sealed part).
    pub(crate) changed_signature_byte: Option<usize>,
    /// How many bytes arrive at once.
    pub(crate) chunk: usize,
}

impl Sent {
    pub(crate) fn whole(answer: Answer) -> Self {
        Self {
            answer,
            cut: None,
            ends_well: false,
            corrupted: Vec::new(),
            changed_signature_byte: None,
            chunk: usize::MAX,
        }
    }
}

/// Phrases of vendors' errors about content that they signed, encrypted or named.
pub(crate) const SEALED: [&str; 5] =
    ["signature", "encrypted content", "not found", "its required", "bound to"];

/// Changes one byte of the first signature, if there is one.
fn corrupt_signature(bytes: &mut [u8], nth: usize) {
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

/// Encodes requests, checks them against the vendor's rules and answers in the vendor's format, with the code that a
/// socket would feed.
pub(crate) struct StubVendor {
    vendor: Vendor,
    model: VendorModel,
    wire: Arc<dyn Wire>,
    author: Box<Author>,
    prompts: Mutex<Vec<Prompt>>,
    refused: Mutex<Vec<String>>,
    /// The number of streams with a changed byte.
    corrupted: AtomicUsize,
}

impl StubVendor {
    pub(crate) fn new(
        vendor: Vendor,
        author: impl Fn(&Prompt, usize) -> Sent + Send + Sync + 'static,
    ) -> Self {
        let wire = wires().into_iter().find(|(of, _)| *of == vendor).unwrap().1;
        let (prompts, refused) = (Mutex::default(), Mutex::default());
        let corrupted = AtomicUsize::default();
        let (model, author) = (model(Arc::clone(&wire)), Box::new(author));
        Self { vendor, model, wire, author, prompts, refused, corrupted }
    }

    pub(crate) fn vendor(&self) -> Vendor {
        self.vendor
    }

    fn answer(&self, prompt: &Prompt, memo: &mut Memo) -> Vec<Result<Piece, ModelError>> {
        let request = match self.accepted(prompt, memo) {
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
        for (part, byte) in &sent.corrupted {
            bytes[part * (length - 1) / 1_000] = *byte;
        }
        if let Some(nth) = sent.changed_signature_byte {
            corrupt_signature(&mut bytes, nth);
        }
        if sent.changed_signature_byte.is_some() || !sent.corrupted.is_empty() {
            self.corrupted.fetch_add(1, Ordering::SeqCst);
        }
        bytes.truncate(match sent.cut {
            None => length,
            Some(Cut::Part(part)) => part * length / 1_000,
            Some(Cut::At(at)) => at,
        });
        decoded(&*self.wire, &bytes, sent.chunk, sent.cut.is_some() && !sent.ends_well)
    }

    /// The request that the vendor accepts, as the real client sends it: also its reaction to a refusal.
    fn accepted(&self, prompt: &Prompt, memo: &mut Memo) -> Result<Value, ModelError> {
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

/// What the runtime gets from these bytes.
pub(crate) fn decoded(
    wire: &dyn Wire,
    bytes: &[u8],
    chunk: usize,
    broken: bool,
) -> Vec<Result<Piece, ModelError>> {
    let mut feed = EventFeed::new(wire.decoder());
    let mut pieces = Vec::new();
    for chunk in bytes.chunks(chunk) {
        if feed.is_done() {
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
    if !feed.is_done() {
        match feed.end(broken.then(|| "the connection broke".to_owned())) {
            Ok(more) => pieces.extend(more.into_iter().map(Ok)),
            Err(error) => pieces.push(Err(error)),
        }
    }
    pieces
}

impl Model for StubVendor {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        stream::iter(self.answer(request.prompt, request.memo)).boxed()
    }
}

/// One agent, one person, one space.
pub(crate) struct StubVendorNode {
    pub(crate) world: World,
    pub(crate) model: Arc<StubVendor>,
    pub(crate) husam: EntityId,
    pub(crate) ada: AgentId,
    pub(crate) lobby: SpaceId,
    /// Commits until the process dies.
    pub(crate) left: Arc<AtomicI64>,
}

pub(crate) const NEVER: i64 = 1_000_000;

pub(crate) async fn stub_vendor_node(model: StubVendor, left: i64, written: bool) -> StubVendorNode {
    let model = Arc::new(model);
    let left = Arc::new(AtomicI64::new(left));
    let counter = Arc::clone(&left);
    let wrap = move |inner| cut_at_commit(inner, Arc::clone(&counter), written);
    let only: Arc<dyn Model> = model.clone();
    let models = Arc::new(move |_: Option<&str>| Ok(Arc::clone(&only)));
    let (world, _, gate) = world_with(models, wrap, agent::call::Effect::ReadOnly);
    gate.open();
    let husam = world.human("husam").await.unwrap();
    let mut config = AgentConfig::default();
    config.limits.max_steps = 6;
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    StubVendorNode { world, model, husam, ada, lobby, left }
}

impl StubVendorNode {
    /// Posts a message and waits until everything is idle; a process that dies is started again.
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
        panic!("not idle within an hour: {:?}", self.refused());
    }

    /// The requests since the last call, and the refusals.
    pub(crate) fn take_requests(&self) -> (Vec<Prompt>, Vec<String>) {
        let prompts = std::mem::take(&mut *self.model.prompts.lock().unwrap());
        (prompts, std::mem::take(&mut *self.model.refused.lock().unwrap()))
    }

    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        self.model.prompts.lock().unwrap().clone()
    }

    /// The vendor's refusals.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.model.refused.lock().unwrap().clone()
    }

    /// What no bad reply may break: the vendor accepted every request, except those with a corrupted signature; all
    /// other vendors accept each; each call was answered once; and nothing waits forever.
    pub(crate) async fn is_sound(&self, case: &str) {
        let refused = self.refused();
        let corrupted = self.model.corrupted.load(Ordering::SeqCst);
        let foreign = |why: &&String| corrupted == 0 || !SEALED.iter().any(|phrase| why.contains(phrase));
        assert_eq!(refused.iter().find(foreign), None, "{case}");
        assert!(refused.len() <= 2 * corrupted, "{case}: {refused:?}");
        // The recorded prompts include the refused signature: the own vendor is not asked again.
        let own = (!refused.is_empty()).then_some(self.model.vendor);
        accepted_by_every_vendor_but(own, &self.prompts(), case);
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        for part in self
            .world
            .consciousness(self.ada)
            .await
            .unwrap()
            .into_iter()
            .flat_map(|entry| entry.message.parts)
        {
            match part {
                Part::ToolCall { id, .. } => asked.push(id),
                Part::ToolResult { id, .. } => answered.push(id),
                _ => {}
            }
        }
        assert_eq!(asked, answered, "{case}");
        assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "{case}");
        let totals = self.world.reader().totals().await.unwrap();
        assert_eq!((totals.waiting, totals.open_cycles), (0, 0), "{case}");
        assert_eq!(
            self.world.ports().live.drafts(agent::update::Topic::Space(self.lobby)),
            [],
            "{case}: drafts are left"
        );
    }
}
