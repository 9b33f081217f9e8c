//! One world: start the binary, put it under load, kill it, and repeat; at the end everything must agree. The plain
//! binary gets no special flag, and no pause or clean stop except the random ones.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::call::Runner;
use api::{Agent, Call, PageJson, PlanJson};
use failpoint::POINTS;
use rustix::process::Signal;
use serde::Deserialize;
use tokio::task::JoinHandle;

use crate::approver;
use crate::binary::{self, Faults, Launch, ServerProcess};
use crate::check::{self, Breach, BreachKind};
use crate::client::HttpClient;
use crate::counted;
use crate::counter::{self, CountedEffect, Counter};
use crate::faults::{End, FaultPlan, LoadLength, Sabotage, ShortlyAfter, Variant, WorkerEnd};
use crate::follow::{Followers, SeenUpdates};
use crate::gateway::Gateway;
use crate::history::{self, History};
use crate::load::{KillRound, Load};
use crate::stub::ModelServer;
use crate::tally::Tally;
use crate::workers::WorkerPool;
use crate::world::{self, AGENTS, SPACES};
use crate::{HarnessError, Result};

/// How long the last process may make no progress while it becomes idle.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a sabotaged world may have an open cycle while no event waits.
const SABOTAGED_STALL: Duration = Duration::from_secs(5);
/// The interval of checks whether it is idle.
const POLL: Duration = Duration::from_millis(25);
/// The timeout of a stop by SIGTERM; longer than the server's own limit.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a process continues after it was paused, in milliseconds.
const AFTER_HALT_MS: u64 = 60;
/// How often a person posts in each space at the end, at most, so that held events are released.
const RELEASE_ROUNDS: usize = 20;

/// The options of a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The binary.
    pub viv: PathBuf,
    /// The variant.
    pub variant: Variant,
    /// The sabotage that must be caught.
    pub sabotage: Option<Sabotage>,
    /// The number of rounds; up to twice as many while a failpoint was never reached.
    pub rounds: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// A sabotage from outside: the data directory is reset to its state before this round.
    pub forget: Option<u64>,
    /// Whether workers run some of the counted tools, and are killed too.
    pub workers: bool,
}

/// The outcome of a world.
#[derive(Debug)]
pub struct Report {
    /// The counts.
    pub tally: Tally,
    /// All broken promises.
    pub breaches: Vec<Breach>,
    /// The directory with data and log, kept if a promise was broken.
    pub left: Option<PathBuf>,
}

/// Everything that survives the processes.
struct Harness<'a> {
    options: &'a WorldOptions,
    launch: Launch,
    stub: ModelServer,
    counter: Counter,
    load: Arc<Load>,
    followers: Followers,
    gateway: Gateway,
    workers: Option<WorkerPool>,
    key: String,
    tally: Tally,
    /// Deaths at each failpoint in earlier worlds.
    before: &'a BTreeMap<&'static str, u64>,
}

/// Runs a world. `before` is how often each failpoint was reached in earlier worlds. An error means that the harness
/// failed, or that the binary did not start, stop or become idle; broken promises are in the report.
pub async fn run(options: &WorldOptions, before: &BTreeMap<&'static str, u64>) -> Result<Report> {
    let begun = Instant::now();
    let error_of =
        |error: std::io::Error| HarnessError::new(format!("cannot create a data directory: {error}"));
    let dir = tempfile::Builder::new().prefix("viv-kill-").tempdir().map_err(error_of)?;
    let mut harness = Harness::new(options, dir.path(), before).await?;
    let history = match harness.run_rounds().await {
        Ok(history) => history,
        Err(why) => {
            let (variant, seed) = (options.variant.as_str(), options.seed);
            let left = dir.keep();
            return Err(HarnessError::new(format!(
                "{why}\n({variant}, seed {seed}, data left in `{}`)",
                left.display()
            )));
        }
    };
    let mut breaches = harness.check_all(&history);
    let wrong = harness.launch.verify()?;
    breaches
        .extend(wrong.map(|wrong| Breach::new(BreachKind::Invalid, format!("`viv verify` finds: {wrong}"))));
    harness.tally.count(&breaches);
    harness.tally.took = begun.elapsed();
    let left = (!breaches.is_empty()).then(|| dir.keep());
    Ok(Report { tally: harness.tally, breaches, left })
}

impl<'a> Harness<'a> {
    async fn new(
        options: &'a WorldOptions,
        dir: &Path,
        before: &'a BTreeMap<&'static str, u64>,
    ) -> Result<Harness<'a>> {
        let (stub, counter) = (ModelServer::start().await?, Counter::start().await?);
        let gateway = Gateway::start().await?;
        let log = dir.join("log");
        let workers =
            options.workers.then(|| WorkerPool::new(gateway.url(), counter.url(), &log)).transpose()?;
        let launch = Launch {
            viv: options.viv.clone(),
            data_dir: dir.join("data"),
            model_url: stub.url().to_owned(),
            log,
            shipped: options.variant == Variant::Plain && binary::are_two()?,
        };
        Ok(Self {
            options,
            launch,
            stub,
            counter,
            load: Arc::default(),
            followers: Followers::default(),
            gateway,
            workers,
            key: String::new(),
            tally: Tally { worlds: 1, ..Tally::default() },
            before,
        })
    }

    async fn run_rounds(&mut self) -> Result<History> {
        for round in 0..self.options.rounds * 2 {
            if round >= self.options.rounds && !self.has_unreached_points() {
                break;
            }
            if self.options.forget == Some(round) {
                let before = DataCopy::of(&self.launch.data_dir)?;
                self.one_round(round).await?;
                before.restore()?;
            } else {
                self.one_round(round).await?;
            }
            if !self.stub.counts().errors.is_empty() {
                break;
            }
        }
        // An idle server must survive a kill too.
        self.stub.fail(None, false);
        let faults = self.permanent_faults();
        let (mut process, client, followers) = self.begin(&faults).await?.ready()?;
        self.load.settle(&client).await;
        self.wait_until_idle(&client).await?;
        if let Some(workers) = &mut self.workers {
            workers.end_paused().await?;
            self.wait_until_idle(&client).await?;
        }
        self.release_held(&client).await?;
        self.kill(&mut process, followers, None).await?;
        let (mut process, client, followers) = self.begin(&faults).await?.ready()?;
        self.wait_until_idle(&client).await?;
        if let Some(workers) = &mut self.workers {
            workers.end_all().await?;
        }
        let history = history::read(&client).await?;
        self.wait_for_followers(&history).await;
        self.kill(&mut process, followers, None).await?;
        Ok(history)
    }

    /// Whether there are failpoints that were never reached, in a world whose variant must reach them.
    fn has_unreached_points(&self) -> bool {
        let hit =
            |point: &&&str| self.before.contains_key(**point) || self.tally.points.contains_key(**point);
        let all = self.options.variant == Variant::Points && self.options.sabotage.is_none();
        all && !POINTS.iter().all(|point| hit(&point))
    }

    /// The faults that apply to every process, even the last.
    fn permanent_faults(&self) -> Faults {
        let mut faults: Vec<&str> = self.options.sabotage.and_then(Sabotage::fault).into_iter().collect();
        faults.extend((self.options.variant == Variant::Power).then_some("power-loss"));
        if faults.is_empty() { Faults::new() } else { vec![("VIV_FAULTS", faults.join(","))] }
    }

    /// One round: from a start to the end of the process.
    async fn one_round(&mut self, number: u64) -> Result<()> {
        let WorldOptions { variant, sabotage, seed, .. } = *self.options;
        let mut hit = self.before.clone();
        for (point, times) in &self.tally.points {
            *hit.entry(point).or_default() += times;
        }
        let plan = FaultPlan::of(variant, sabotage, (seed, number), &hit);
        self.stub.fail(
            plan.model_failure.map(|(model_failure, _)| model_failure),
            plan.model_failure.is_some_and(|(_, once)| once),
        );
        if let Some(early) = plan.early_ms {
            let mut process = self.launch.start(&plan.faults)?;
            pause(early).await;
            self.tally.early += 1;
            return self.kill(&mut process, Vec::new(), None).await;
        }
        if self.key.is_empty() && number > 0 {
            // The first process died before it was ready: create the world without random faults.
            let (mut process, _, followers) = self.begin(&self.permanent_faults()).await?.ready()?;
            self.kill(&mut process, followers, None).await?;
        }
        let (mut process, client, followers) = match self.begin(&plan.faults).await? {
            Started::Ready(process, client, followers) => (process, client, followers),
            Started::Dead(process, status) => return self.record_death(&process, status, plan.point),
        };
        let load = tokio::spawn(Arc::clone(&self.load).run(client, KillRound { seed, number }));
        if let Some((after, end)) = plan.worker {
            self.end_worker(after, end).await?;
        }
        self.run_under_load(&mut process, &plan).await?;
        match plan.end {
            End::Kill => self.kill(&mut process, followers, plan.point).await?,
            End::Term => self.stop(&mut process, followers, plan.point).await?,
        }
        load.await.map_err(|error| HarnessError::new(format!("a producer panicked: {error}")))
    }

    /// Ends a worker, and starts another.
    async fn end_worker(&mut self, after: ShortlyAfter, end: WorkerEnd) -> Result<()> {
        let Some(workers) = &mut self.workers else { return Ok(()) };
        let ShortlyAfter { times, at_most_ms, then_ms } = after;
        self.counter.wait_for_effects_by_workers(times, Duration::from_millis(at_most_ms)).await;
        pause(then_ms).await;
        workers.end_one(end)?;
        match end {
            WorkerEnd::Kill => self.tally.worker_kills += 1,
            WorkerEnd::Pause => self.tally.worker_pauses += 1,
        }
        Ok(())
    }

    /// The time under load.
    async fn run_under_load(&mut self, process: &mut ServerProcess, plan: &FaultPlan) -> Result<()> {
        match plan.load {
            LoadLength::Ms(ms) => pause(ms).await,
            LoadLength::Commits(ShortlyAfter { times, at_most_ms, then_ms }) => {
                self.followers.wait_for_commits(times, Duration::from_millis(at_most_ms)).await;
                pause(then_ms).await;
            }
            LoadLength::Effects(ShortlyAfter { times, at_most_ms, then_ms }) => {
                // With fewer effects the load ends later.
                let _ = self.counter.wait_for_effects(times, Duration::from_millis(at_most_ms)).await;
                pause(then_ms).await;
            }
            LoadLength::UntilItDies(ms) => drop(process.wait_for_end(Duration::from_millis(ms)).await?),
        }
        if let Some(ms) = plan.halt_ms {
            process.pause()?;
            pause(ms).await;
            process.resume()?;
            self.tally.halts += 1;
            pause(AFTER_HALT_MS).await;
        }
        Ok(())
    }

    async fn begin(&mut self, faults: &Faults) -> Result<Started> {
        let mut process = self.launch.start(faults)?;
        let Some((ready, took)) = process.ready().await? else {
            let status = process.wait_for_end(STOP_TIMEOUT).await?;
            let status =
                status.ok_or_else(|| process.error_with_log("it closed its output but did not end"))?;
            return Ok(Started::Dead(process, status));
        };
        self.tally.ready.push(took);
        self.gateway.lead_to(&ready.url);
        if let Some(key) = ready.admin_key {
            self.key = key;
            let client = HttpClient::new(&ready.url, &self.key)?;
            let lying = self.options.sabotage == Some(Sabotage::LyingTools);
            counted::declare(&client, Runner::Node, self.counter.url(), lying).await?;
            if let Some(workers) = &mut self.workers {
                counted::declare(&client, Runner::Worker, self.counter.url(), lying).await?;
                workers.start(&client).await?;
            }
            world::create_world(&client).await?;
        }
        let client = HttpClient::new(&ready.url, &self.key)?;
        let follow = |agent| tokio::spawn(self.followers.clone().follow(client.clone(), agent));
        let mut followers: Vec<JoinHandle<()>> = AGENTS.map(follow).into();
        followers.push(tokio::spawn(approver::answer_all(client.clone(), self.counter.approved().clone())));
        Ok(Started::Ready(process, client, followers))
    }

    /// SIGKILL, unless the process has died at its failpoint before.
    async fn kill(
        &mut self,
        process: &mut ServerProcess,
        followers: Vec<JoinHandle<()>>,
        point: Option<&'static str>,
    ) -> Result<()> {
        let status = process.kill()?;
        join_followers(followers).await?;
        if status.signal() == Some(Signal::KILL.as_raw()) {
            self.tally.kills += 1;
            return Ok(());
        }
        self.record_death(process, status, point)
    }

    /// SIGTERM: the process must end by itself in time, successfully or at its failpoint.
    async fn stop(
        &mut self,
        process: &mut ServerProcess,
        followers: Vec<JoinHandle<()>>,
        point: Option<&'static str>,
    ) -> Result<()> {
        process.terminate()?;
        let Some(status) = process.wait_for_end(STOP_TIMEOUT).await? else {
            return Err(process.error_with_log(&format!(
                "it did not stop within {} s after SIGTERM",
                STOP_TIMEOUT.as_secs()
            )));
        };
        join_followers(followers).await?;
        if status.success() {
            self.tally.terms += 1;
            return Ok(());
        }
        self.record_death(process, status, point)
    }

    /// Records that the process died by itself; an error unless it died at its failpoint.
    fn record_death(
        &mut self,
        process: &ServerProcess,
        status: ExitStatus,
        point: Option<&'static str>,
    ) -> Result<()> {
        match point {
            Some(point) if status.signal() == Some(Signal::ABORT.as_raw()) => {
                *self.tally.points.entry(point).or_default() += 1;
                Ok(())
            }
            _ => Err(process.error_with_log(&format!("it ended by itself with {status}"))),
        }
    }

    /// Waits until no plan is left, no event waits, no cycle is open and no call has no result.
    async fn wait_until_idle(&self, client: &HttpClient) -> Result<()> {
        #[derive(Deserialize)]
        struct Now {
            totals: agent::port::Totals,
        }
        let mut poll = tokio::time::interval(POLL);
        let (mut last, mut since) = (u64::MAX, Instant::now());
        loop {
            poll.tick().await;
            // In this order: a call that ends becomes an event at once.
            let open_calls = open_calls(client).await?;
            let plans = open_plans(client).await?;
            let now: Now = client.get("/v1/ready").await?;
            let agent::port::Totals { waiting, open_cycles, .. } = now.totals;
            if plans == 0 && waiting == 0 && open_cycles == 0 && open_calls == 0 {
                return Ok(());
            }
            let left = plans + waiting + open_calls;
            if left < last {
                (last, since) = (left, Instant::now());
            }
            // A store that loses events can leave a cycle open that has none: it would be open for ever.
            let sabotaged = self.options.sabotage.is_some();
            if sabotaged && plans + waiting == 0 && since.elapsed() > SABOTAGED_STALL {
                return Ok(());
            }
            if since.elapsed() > STALL_TIMEOUT {
                let log = binary::tail(&self.launch.log);
                return Err(HarnessError::new(format!(
                    "{waiting} events still wait, {plans} plans have not fired, {open_cycles} cycles and {open_calls} calls are open; the end \
                     of its log:\n{log}"
                )));
            }
        }
    }

    /// Posts messages of people until no event is held. Messages between agents above the limit are held until a person
    /// posts in the space. Events that are still held afterwards count as lost.
    async fn release_held(&self, client: &HttpClient) -> Result<()> {
        for _ in 0..RELEASE_ROUNDS {
            let mut held = 0;
            for agent in AGENTS {
                held += client.get::<Agent>(&format!("/v1/agents/{agent}")).await?.held;
            }
            if held == 0 {
                break;
            }
            for space in &SPACES {
                self.load.post_skip(client, space, self.options.seed).await;
            }
            self.wait_until_idle(client).await?;
        }
        Ok(())
    }

    /// Waits until the followers have received all commits, or until a timeout.
    async fn wait_for_followers(&self, history: &History) {
        let all = || {
            history.agents.iter().all(|agent| {
                self.followers.seen().get(&agent.name).is_some_and(|updates| updates.last() >= agent.commit_n)
            })
        };
        let mut poll = tokio::time::interval(POLL);
        for _ in 0..200 {
            poll.tick().await;
            if all() {
                return;
            }
        }
    }

    /// Checks that everything agrees, and counts it.
    fn check_all(&mut self, history: &History) -> Vec<Breach> {
        let (ledger, counts, effects) = (self.load.ledger(), self.stub.counts(), self.counter.effects());
        let mut breaches = check::check(&ledger, history, &self.followers.seen(), &effects);
        let errors = counts.errors.iter().map(|why| format!("the model got a request {why}"));
        breaches.extend(errors.map(|why| Breach::new(BreachKind::Invalid, why)));
        let events = |state: &str| {
            let all = history.agents.iter().flat_map(|agent| &agent.events);
            all.filter(|event| event.state == state).count() as u64
        };
        let messages = history.spaces.iter().flat_map(|space| &space.messages);
        let total = counter::total(&effects);
        let tally = &mut self.tally;
        tally.accepted = ledger.accepted() as u64;
        tally.known = ledger.known() as u64;
        tally.cycles = history.agents.iter().map(|agent| agent.runs.len() as u64).sum();
        tally.resumed = self.followers.seen().values().map(SeenUpdates::resumed).sum::<usize>() as u64;
        (tally.processed, tally.skipped, tally.dead) =
            (events("processed"), events("skipped"), events("dead"));
        tally.replies = messages.filter(|message| message.call.is_some()).count() as u64;
        (tally.effects, tally.repeats) = (total as u64, (total - effects.len()) as u64);
        let (unknown, late) = check::unknown(history);
        (tally.unknown, tally.answered_late) = (unknown as u64, late as u64);
        let again = |effects: &&Vec<CountedEffect>| effects.iter().any(|effect| effect.claims > 1);
        tally.claimed_again = effects.values().filter(again).count() as u64;
        tally.add_model(&counts);
        breaches
    }
}

/// The outcome of a start.
enum Started {
    /// The process is ready; its followers are running.
    Ready(ServerProcess, HttpClient, Vec<JoinHandle<()>>),
    /// The process ended before it was ready.
    Dead(ServerProcess, ExitStatus),
}

impl Started {
    fn ready(self) -> Result<(ServerProcess, HttpClient, Vec<JoinHandle<()>>)> {
        match self {
            Self::Ready(process, client, followers) => Ok((process, client, followers)),
            Self::Dead(process, status) => {
                Err(process.error_with_log(&format!("it ended before it was ready, with {status}")))
            }
        }
    }
}

/// The number of calls that have no result yet.
async fn open_calls(client: &HttpClient) -> Result<u64> {
    let mut open = 0;
    for agent in AGENTS {
        let calls: PageJson<Call> = client.get(&format!("/v1/agents/{agent}/calls")).await?;
        open += calls.items.len() as u64;
    }
    Ok(open)
}

/// The number of plans that have not fired yet.
async fn open_plans(client: &HttpClient) -> Result<u64> {
    let mut open = 0;
    for agent in AGENTS {
        let plans: PageJson<PlanJson> = client.get(&format!("/v1/agents/{agent}/plans")).await?;
        open += plans.items.len() as u64;
    }
    Ok(open)
}

/// Waits for the followers, which end with the server's streams.
async fn join_followers(followers: Vec<JoinHandle<()>>) -> Result<()> {
    for follower in followers {
        follower.await.map_err(|error| HarnessError::new(format!("a follower panicked: {error}")))?;
    }
    Ok(())
}

/// A copy of a data directory.
struct DataCopy {
    dir: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl DataCopy {
    fn of(dir: &Path) -> Result<Self> {
        let read = || -> std::io::Result<_> {
            let files = std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
            files.map(|path| path.and_then(|path| Ok((path.clone(), std::fs::read(path)?)))).collect()
        };
        let files = read().map_err(|error| HarnessError::new(format!("cannot read the data: {error}")))?;
        Ok(Self { dir: dir.to_owned(), files })
    }

    fn restore(self) -> Result<()> {
        let write = || -> std::io::Result<()> {
            std::fs::remove_dir_all(&self.dir)?;
            std::fs::create_dir(&self.dir)?;
            self.files.iter().try_for_each(|(path, bytes)| std::fs::write(path, bytes))
        };
        write().map_err(|error| HarnessError::new(format!("cannot restore the data: {error}")))
    }
}

/// Lets real time pass. Only the random times of the faults need this.
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
