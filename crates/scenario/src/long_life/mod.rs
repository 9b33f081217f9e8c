//! Long lives: agents that live through far more than their model's window holds, on the real machinery in simulated time, with
//! scripted models. What their requests cost and which facts they lose is measured, and compared with a baseline.
//!
//! Must not know which store or tools the world uses.

mod baseline;
mod coding;
mod facts;
mod measure;
mod models;
mod support;
mod toolbox;

use std::sync::Arc;
use std::time::Duration;

use agent::config::{AgentConfig, Placement};
use agent::id::AgentId;
use agent::port::{RecallQuery, ReplyPart};

use crate::simulate::{MakePorts, SimulationError, in_world};
use crate::world::{Stopped, World, stopped};

pub use baseline::seeds;
pub use coding::coding;
pub use facts::PlantedFact;
pub use measure::{LifeFigures, LostFacts, QuestionHits, measure};
pub use models::{RecordedRequest, ScriptedSummarizer};
pub use support::support;

use models::{LifeModels, Recorded, SUMMARIZER};
use toolbox::LifeToolbox;

/// Time between two messages.
const PAUSE: Duration = Duration::from_secs(20 * 60);
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
    /// What a person writes: one message for each cycle.
    messages: Vec<String>,
    /// The replies, by cycle and step.
    replies: Vec<Vec<Vec<ReplyPart>>>,
    /// What the tools return, by the number that a call names.
    outcomes: Vec<String>,
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
    let requests = Recorded::default();
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
    config.history.summary_model = Some(SUMMARIZER.to_owned());
    config.limits.max_steps = 1_000;
    config.limits.token_budget = 10_000_000;
    let agent = world.agent("ada", config).await?;
    let mut members = vec![agent.entity()];
    for name in ["husam", "noor", "tomas", "lin"] {
        members.push(world.human(name).await?);
    }
    let desk = world.space("desk", &members).await?;
    let mut recalled = QuestionHits::new();
    for text in &life.messages {
        world.say(members[1], desk, text).await?;
        world.quiet().await?;
        for fact in life.facts.iter().filter(|fact| text.contains(&fact.question)) {
            recalled.insert(fact.question.clone(), search(world, agent, &fact.question).await?);
        }
        world.pass(PAUSE).await?;
    }
    Ok(recalled)
}

/// The texts that a search finds, the best first. A store in memory has read all into its index by then.
async fn search(world: &World, agent: AgentId, question: &str) -> Result<Vec<String>, Stopped> {
    let query = RecallQuery { text: question.to_owned(), limit: HITS, ..RecallQuery::default() };
    let found = world.ports().lookup.recall(agent, query).await.map_err(stopped)?;
    Ok(found.excerpts.into_iter().map(|excerpt| excerpt.text).collect())
}
