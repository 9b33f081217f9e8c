//! Long lives: agents that live through far more than their model's window holds, on the real machinery in simulated time, with
//! scripted models. What their requests cost and which facts they lose is measured, and compared with a baseline.
//!
//! Must not know which store or tools the world uses.

mod baseline;
mod coding;
mod days;
mod facts;
mod measure;
mod models;
mod support;
mod toolbox;

use std::sync::Arc;
use std::time::Duration;

use agent::changes::MemoryChange;
use agent::config::{AgentConfig, Placement};
use agent::id::AgentId;
use agent::plan::PlanTerms;
use agent::port::{RecallQuery, ReplyPart};
use scenario::simulate::{MakePorts, SimulationError, in_world};
use scenario::world::{Stopped, World, stopped};

pub use baseline::seeds;
pub use coding::coding;
pub use days::{hourly, many_memories, minutely, three_spaces};
pub use facts::PlantedFact;
pub use measure::{CACHED_PRICE, LifeFigures, LostFacts, QuestionHits, measure};
pub use models::{RecordedRequest, ScriptedSummarizer};
pub use support::support;

use models::{LifeModels, RecordedRequests, SUMMARIZER};
use toolbox::LifeToolbox;

/// Time between two messages.
const PAUSE: Duration = Duration::from_secs(20 * 60);
/// The spaces of a life.
const SPACES: [&str; 3] = ["desk", "lab", "shop"];
/// How many hits of a search count.
const HITS: u32 = 5;
/// Real time that a life may take.
const REAL_TIME_MAX: Duration = Duration::from_secs(300);

/// A life as data: what a person writes, and what the agent replies.
#[derive(Clone, Debug)]
pub struct LongLife {
    /// Its name in reports.
    pub name: &'static str,
    /// What is planted, and asked for at the end.
    pub facts: Vec<PlantedFact>,
    /// Names and descriptions of the agent's own tools.
    tools: Vec<(&'static str, &'static str)>,
    /// What a person writes: one message for each cycle; an empty one is none.
    messages: Vec<String>,
    /// The replies, by cycle and step.
    replies: Vec<Vec<Vec<ReplyPart>>>,
    /// What the tools return, by the number that a call names.
    outcomes: Vec<String>,
    /// What happens around the messages.
    around: Around,
}

/// What happens around the messages of a life.
#[derive(Clone, Debug)]
struct Around {
    /// Time between two messages.
    pause: Duration,
    /// The spaces in which they are written, by turns.
    spaces: usize,
    /// The memories that the agent has from the beginning.
    memories: Vec<(String, String)>,
    /// Those that an operator writes before each message.
    edits: Vec<Vec<(String, String)>>,
    /// The agent's plans.
    plans: Vec<PlanTerms>,
    /// Whether the provider has forgotten a cycle's requests when the next cycle begins.
    forgets: bool,
}

impl Default for Around {
    fn default() -> Self {
        let (memories, edits, plans) = (Vec::new(), Vec::new(), Vec::new());
        Self { pause: PAUSE, spaces: 1, memories, edits, plans, forgets: false }
    }
}

/// The settings with which a life is played.
#[derive(Clone, Copy, Debug)]
pub struct LifeVariant {
    /// Tokens of the model's window.
    pub window: u32,
    /// Whether workspaces stay.
    pub placement: Placement,
    /// Who writes the summaries.
    pub summarizer: ScriptedSummarizer,
}

/// A life that was lived.
#[derive(Clone, Debug)]
pub struct LivedLife {
    /// All requests in order.
    pub requests: Vec<RecordedRequest>,
    /// By question, what a search for its words finds in the archive right after the cycle that was asked it.
    pub recalled: QuestionHits,
}

/// Lives it. Must be called on a tokio runtime.
pub async fn live(
    life: &Arc<LongLife>,
    variant: LifeVariant,
    make_ports: MakePorts,
) -> Result<LivedLife, SimulationError> {
    let requests = RecordedRequests::default();
    let models = Arc::new(LifeModels::new(life, variant.window, variant.summarizer, &requests));
    let (lived, lived_inside) = (Arc::clone(life), Arc::clone(life));
    let make = move |clock, ids| {
        let mut ports = make_ports(clock, ids, models)?;
        ports.toolbox = Arc::new(LifeToolbox::new(ports.toolbox, &lived));
        Ok(ports)
    };
    let story = async move |world| tell(&world, &lived_inside, variant.placement).await;
    let recalled = in_world(life.name, make, REAL_TIME_MAX, story)
        .await?
        .map_err(|why| SimulationError::Broke(why.to_string()))?;
    let mut requests = models::lock(&requests);
    Ok(LivedLife { requests: std::mem::take(&mut *requests), recalled })
}

async fn tell(world: &World, life: &LongLife, placement: Placement) -> Result<QuestionHits, Stopped> {
    let mut config = AgentConfig {
        instructions: "You work at the desk. Look things up before you answer. Keep answers short."
            .to_owned(),
        ..AgentConfig::default()
    };
    config.workspace.placement = placement;
    config.plans.clone_from(&life.around.plans);
    config.history.summary_model = Some(SUMMARIZER.to_owned());
    config.limits.max_steps = 1_000;
    config.limits.token_budget = 10_000_000;
    let agent = world.agent("ada", config).await?;
    let mut members = vec![agent.entity()];
    for name in ["husam", "noor", "tomas", "lin"] {
        members.push(world.human(name).await?);
    }
    let mut spaces = Vec::new();
    for name in SPACES.iter().take(life.around.spaces) {
        spaces.push(world.space(name, &members).await?);
    }
    remember(world, agent, &life.around.memories).await?;
    let mut recalled = QuestionHits::new();
    for (n, text) in life.messages.iter().enumerate() {
        remember(world, agent, life.around.edits.get(n).map_or(&[], Vec::as_slice)).await?;
        if !text.is_empty() {
            world.say(members[1 + n % life.around.spaces], spaces[n % spaces.len()], text).await?;
        }
        world.quiet().await?;
        for fact in life.facts.iter().filter(|fact| text.contains(&fact.question)) {
            recalled.insert(fact.question.clone(), search(world, agent, &fact.question).await?);
        }
        world.pass(life.around.pause).await?;
    }
    Ok(recalled)
}

/// An operator writes these memories.
async fn remember(world: &World, agent: AgentId, memories: &[(String, String)]) -> Result<(), Stopped> {
    for (key, value) in memories {
        let (key, value) = (key.clone(), value.clone());
        let set = MemoryChange::set(key, value);
        world.registry().change_memory(agent, set, world.clock().now()).await.map_err(stopped)?;
    }
    Ok(())
}

/// The texts that a search finds, the best first. A store in memory has read all into its index by then.
async fn search(world: &World, agent: AgentId, question: &str) -> Result<Vec<String>, Stopped> {
    let query = RecallQuery { text: question.to_owned(), limit: HITS, ..RecallQuery::default() };
    let found = world.ports().lookup.recall(agent, query).await.map_err(stopped)?;
    Ok(found.excerpts.into_iter().map(|excerpt| excerpt.text).collect())
}
