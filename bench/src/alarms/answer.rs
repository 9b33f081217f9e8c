//! From the first byte of a person's answer to the first byte of the resumed cycle's request at the model: the number of
//! fsyncs between them, and the time without the disk, beside that of a wake of the same agent.

use std::sync::Arc;
use std::time::Duration;

use agent::config::AgentConfig;
use agent::port::{ApprovalFilter, PageRequest};
use anyhow::{Context, Result, ensure};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Bench;
use crate::machine::Disk;
use crate::measure::{Samples, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};
use crate::stub::{Answer, Stub};
use crate::talk::HttpConnection;

/// Rounds before the first counted one, timed rounds, and rounds whose fsyncs are counted: together so few that the history
/// fits, because a cut of it inside a cycle is a commit of its own.
const WARM_UP: usize = 40;
const SAMPLES: usize = 120;
const COUNTED: usize = 20;
/// Frames of the log that an answer writes; an accept writes a few more.
const FRAMES: usize = 9;
/// Before each POST, so that caches, threads and cores are as cold as for something unexpected, and after a wake as cold as
/// after an answer.
const PAUSE: Duration = Duration::from_millis(5);

struct AnswerSetup<'a> {
    threads: &'a Runtime,
    server: BenchServer,
    stub: Stub,
    home: Home,
    connection: HttpConnection,
    key: String,
    listener: CycleListener,
    /// The transactions before the last POST.
    groups_before: u64,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let mut setup = AnswerSetup::new(&threads, dir.path())?;
    for _ in 0..WARM_UP {
        setup.wake()?;
        setup.answer()?;
    }
    let mut counts = Samples::default();
    for _ in 0..COUNTED {
        setup.wake()?;
        counts.push(setup.count_fsyncs()?);
    }
    let mut disk = Disk::open(dir.path())?;
    let (mut wakes, mut answers, mut syncs) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..SAMPLES {
        wakes.push(setup.wake()?);
        answers.push(setup.answer()?);
        syncs.push(disk.fsync(FRAMES)?);
    }
    threads.block_on(setup.server.stop())?;
    let note = format!(
        "transactions committed between the POST of an answer and the resumed request at the model, with the opening held back \
         until then; worst of {COUNTED}; floor: the answer alone"
    );
    let fsyncs = (counts.quantile(1.0), "fsyncs");
    let fsyncs = Metric::new("alarms.answer_fsyncs", fsyncs, Floor::Bound(1.0), Goal::ValueIs(1.0), note);
    let sync = syncs.median();
    let note = format!(
        "from the POST of an answer to a paused agent to the resumed request at the model {} us ({}) less fsync {} us; floor: \
         a wake of the same agent by a message {} us ({}) less fsync",
        short(answers.median()),
        answers.spread(),
        short(sync),
        short(wakes.median()),
        wakes.spread(),
    );
    let (value, floor) = ((answers.median() - sync, "us"), wakes.median() - sync);
    Ok(vec![
        fsyncs,
        Metric::new("alarms.answer_ratio", value, Floor::Twin(floor), Goal::RatioAtMost(1.2), note),
    ])
}

impl<'a> AnswerSetup<'a> {
    fn new(threads: &'a Runtime, dir: &std::path::Path) -> Result<Self> {
        let stub = Stub::start()?;
        let base_url = Some(stub.url());
        let _in = threads.enter();
        let server = BenchServer::build(&dir.join("data"), |clock| {
            let model = ModelConfig { base_url, ..ModelConfig::named("openai-compatible/stub") };
            Arc::new(ModelBook::new(model, KeyRing::default(), clock))
        })?;
        let config = json!({"tools": ["ask_person", "send_message", "done"], "reply": "text"});
        let config = AgentConfig::from_json(&config)?;
        let home = threads.block_on(server.home("ada", config))?;
        let (address, key) = threads.block_on(server.serve_api(&home))?;
        let connection = HttpConnection::open(address)?;
        let listener = server.listen(home.agent);
        Ok(Self { threads, server, stub, home, connection, key, listener, groups_before: 0 })
    }

    /// A message wakes the agent, which asks a person and is paused. Returns the microseconds until its first request.
    fn wake(&mut self) -> Result<f64> {
        let question = json!({"kind": "text", "question": "Which color?"});
        self.stub.script([Answer::Call("ask_person", question), Answer::Text("Thanks.".to_owned())]);
        let body = json!({"text": "What do you make of this? ".repeat(8)}).to_string();
        let path = format!("/v1/spaces/{}/messages", self.home.space);
        let took = self.post(&path, &body)?;
        self.connection.answer()?;
        Ok(took)
    }

    /// A person answers. Returns the microseconds until the resumed request.
    fn answer(&mut self) -> Result<f64> {
        let path = self.answer_path()?;
        let took = self.post(&path, &json!({"answer": "blue"}).to_string())?;
        self.connection.answer()?;
        self.wait_for_end()?;
        Ok(took)
    }

    fn count_fsyncs(&mut self) -> Result<f64> {
        let path = self.answer_path()?;
        self.server.watched.hold_openings(true);
        self.post(&path, &json!({"answer": "blue"}).to_string())?;
        let fsyncs = (self.server.stats().groups - self.groups_before) as f64;
        self.server.watched.hold_openings(false);
        self.connection.answer()?;
        self.wait_for_end()?;
        Ok(fsyncs)
    }

    /// Waits until the cycle ended; its last steps are not measured.
    fn wait_for_end(&mut self) -> Result<()> {
        self.threads.block_on(self.listener.ended())?;
        while self.stub.any_within(PAUSE).is_some() {}
        Ok(())
    }

    fn post(&mut self, path: &str, body: &str) -> Result<f64> {
        let request = self.connection.post(path, &self.key, body);
        ensure!(self.stub.any_within(Duration::ZERO).is_none(), "the model was asked once too often");
        std::thread::sleep(PAUSE);
        // What ends the step before, such as the commit that pauses the cycle, is over by now.
        self.groups_before = self.server.stats().groups;
        let began = self.connection.send(&request)?;
        let arrival = self
            .stub
            .arrival(began)
            .with_context(|| format!("no request after `POST {path}`: it waits for more than one commit"))?;
        Ok(us(arrival.at.duration_since(began)))
    }

    /// Waits until the agent is paused; returns where to answer its call.
    fn answer_path(&self) -> Result<String> {
        let filter = ApprovalFilter { agent: Some(self.home.agent), ..ApprovalFilter::default() };
        let approvals = Arc::clone(&self.server.ports().approvals);
        for _ in 0..1_000 {
            std::thread::sleep(PAUSE);
            let page = approvals.approvals(filter, PageRequest { cursor: None, limit: 1 });
            let found = self.threads.block_on(page)?.items.pop();
            if let Some(asked) = found {
                // The commit that pauses the cycle follows, before the pause of [`AnswerSetup::post`] ends.
                return Ok(format!("/v1/calls/{}/answer", asked.row.id));
            }
        }
        anyhow::bail!("the agent asked nobody")
    }
}
