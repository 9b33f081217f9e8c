//! One world: live under load, die, live again; in the end all must be told as one story. The plain
//! binary is not helped along: no flag, no pause, no clean stop but those that befall it.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use failpoint::POINTS;
use rustix::process::Signal;
use serde::Deserialize;
use server::api::Agent;
use tokio::task::JoinHandle;

use crate::binary::{self, Faults, Launch, ServerLife};
use crate::blow::{Blow, End, LoadLength, Sabotage, Variant};
use crate::check::{self, Breach, WorldKind};
use crate::client::Client;
use crate::counter::Counter;
use crate::follow::{Followers, SeenUpdates};
use crate::history::{self, History};
use crate::load::{Load, Turn};
use crate::stub::ModelServer;
use crate::tally::Tally;
use crate::world::{self, AGENTS, SPACES};
use crate::{Result, Trouble};

/// How long the last life may make no progress on its way to rest.
const STILL: Duration = Duration::from_secs(60);
/// How often it is asked whether it has.
const ASK: Duration = Duration::from_millis(25);
/// How long a process may take to stop that is told to: its own bound and the way there.
const DRAIN: Duration = Duration::from_secs(20);
/// How long a life goes on after it was halted.
const AFTER_HALT_MS: u64 = 60;
/// How often a person speaks in each space at the end, at most, so that held events are let go.
const WORDS: usize = 20;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Torture {
    /// The binary.
    pub viv: PathBuf,
    /// What befalls it.
    pub variant: Variant,
    /// What must be caught.
    pub sabotage: Option<Sabotage>,
    /// How many lives end by force; as many again at most, while a named point was never come to.
    pub lives: u64,
    /// The seed of everything that is left to chance.
    pub seed: u64,
    /// Sabotage from outside: the store forgets this life, as if nothing of it had ever been durable.
    pub forget: Option<u64>,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// In numbers.
    pub tally: Tally,
    /// Every promise that was broken.
    pub breaches: Vec<Breach>,
    /// Where data and log were left, where a promise was broken.
    pub left: Option<PathBuf>,
}

/// Everything that outlives the lives.
struct Harness<'a> {
    torture: &'a Torture,
    launch: Launch,
    stub: ModelServer,
    counter: Counter,
    load: Arc<Load>,
    followers: Followers,
    key: String,
    tally: Tally,
    /// Deaths at each point in the worlds before.
    before: &'a BTreeMap<&'static str, u64>,
}

/// Runs the world. `before` says how often each point was hit in others. An error means that the
/// harness could not do its work, or that the binary would not start, stop or rest; broken promises
/// stand in the report.
pub async fn run(torture: &Torture, before: &BTreeMap<&'static str, u64>) -> Result<Report> {
    let begun = Instant::now();
    let trouble = |error: std::io::Error| Trouble::new(format!("no place for the data: {error}"));
    let dir = tempfile::Builder::new().prefix("viv-kill-").tempdir().map_err(trouble)?;
    let mut house = Harness::new(torture, dir.path(), before).await?;
    let history = match house.live_and_die().await {
        Ok(history) => history,
        Err(why) => {
            let (variant, seed) = (torture.variant.as_str(), torture.seed);
            let left = dir.keep();
            return Err(Trouble::new(format!(
                "{why}\n({variant}, seed {seed}, data left in `{}`)",
                left.display()
            )));
        }
    };
    let mut breaches = house.judge(&history);
    let wrong = house.launch.verify()?;
    breaches
        .extend(wrong.map(|wrong| Breach::new(WorldKind::Invalid, format!("`viv verify` finds: {wrong}"))));
    house.tally.count(&breaches);
    house.tally.took = begun.elapsed();
    let left = (!breaches.is_empty()).then(|| dir.keep());
    Ok(Report { tally: house.tally, breaches, left })
}

impl<'a> Harness<'a> {
    async fn new(
        torture: &'a Torture,
        dir: &Path,
        before: &'a BTreeMap<&'static str, u64>,
    ) -> Result<Harness<'a>> {
        let (stub, counter) = (ModelServer::start().await?, Counter::start().await?);
        let launch = Launch {
            viv: torture.viv.clone(),
            data_dir: dir.join("data"),
            model_url: stub.url().to_owned(),
            log: dir.join("log"),
            counter: (torture.variant != Variant::Plain).then(|| counter.url().to_owned()),
        };
        Ok(Self {
            torture,
            launch,
            stub,
            counter,
            load: Arc::default(),
            followers: Followers::default(),
            key: String::new(),
            tally: Tally { worlds: 1, ..Tally::default() },
            before,
        })
    }

    async fn live_and_die(&mut self) -> Result<History> {
        for life in 0..self.torture.lives * 2 {
            if life >= self.torture.lives && !self.owes() {
                break;
            }
            if self.torture.forget == Some(life) {
                let before = Before::of(&self.launch.data_dir)?;
                self.one_life(life).await?;
                before.restore()?;
            } else {
                self.one_life(life).await?;
            }
            if !self.stub.heard().wrong.is_empty() {
                break;
            }
        }
        // What has come to rest must also outlive a kill.
        self.stub.fail(None, false);
        let faults = self.lasting();
        let (mut life, client, following) = self.begin(&faults).await?.ready()?;
        self.load.settle(&client).await;
        self.rest(&client).await?;
        self.let_go(&client).await?;
        self.kill(&mut life, following, None).await?;
        let (mut life, client, following) = self.begin(&faults).await?.ready()?;
        self.rest(&client).await?;
        let history = history::read(&client).await?;
        self.told_up_to(&history).await;
        self.kill(&mut life, following, None).await?;
        Ok(history)
    }

    /// Whether there are points that no life came to yet, in a world that is about them.
    fn owes(&self) -> bool {
        let hit =
            |point: &&&str| self.before.contains_key(**point) || self.tally.points.contains_key(**point);
        let all = self.torture.variant == Variant::Points && self.torture.sabotage.is_none();
        all && !POINTS.iter().all(|point| hit(&point))
    }

    /// What befalls even the last life.
    fn lasting(&self) -> Faults {
        let mut faults: Vec<&str> = self.torture.sabotage.iter().map(|sabotage| sabotage.as_str()).collect();
        faults.extend((self.torture.variant == Variant::Power).then_some("power-loss"));
        if faults.is_empty() { Faults::new() } else { vec![("VIV_FAULTS", faults.join(","))] }
    }

    /// From a start to a death.
    async fn one_life(&mut self, number: u64) -> Result<()> {
        let Torture { variant, sabotage, seed, .. } = *self.torture;
        let mut hit = self.before.clone();
        for (point, times) in &self.tally.points {
            *hit.entry(point).or_default() += times;
        }
        let blow = Blow::of(variant, sabotage, (seed, number), &hit);
        self.stub.fail(blow.mishap.map(|(mishap, _)| mishap), blow.mishap.is_some_and(|(_, once)| once));
        if let Some(early) = blow.early {
            let mut life = self.launch.start(&blow.faults)?;
            pause(early).await;
            self.tally.early += 1;
            return self.kill(&mut life, Vec::new(), None).await;
        }
        if self.key.is_empty() && number > 0 {
            // Its first life did not live to see it: the world is made in peace.
            let (mut life, _, following) = self.begin(&self.lasting()).await?.ready()?;
            self.kill(&mut life, following, None).await?;
        }
        let (mut life, client, following) = match self.begin(&blow.faults).await? {
            Begun::Ready(life, client, following) => (life, client, following),
            Begun::Dead(life, status) => return self.died(&life, status, blow.point),
        };
        let load = tokio::spawn(Arc::clone(&self.load).run(client, Turn { seed, life: number }));
        self.live(&mut life, &blow).await?;
        match blow.end {
            End::Kill => self.kill(&mut life, following, blow.point).await?,
            End::Term => self.stop(&mut life, following, blow.point).await?,
        }
        load.await.map_err(|error| Trouble::new(format!("a producer died: {error}")))
    }

    /// Its time under load.
    async fn live(&mut self, life: &mut ServerLife, blow: &Blow) -> Result<()> {
        match blow.load {
            LoadLength::Ms(ms) => pause(ms).await,
            LoadLength::Commits(commits, patience, after) => {
                self.followers.hear(commits, Duration::from_millis(patience)).await;
                pause(after).await;
            }
            LoadLength::UntilItDies(ms) => drop(life.gone(Duration::from_millis(ms)).await?),
        }
        if let Some(ms) = blow.halted {
            life.halt()?;
            pause(ms).await;
            life.go_on()?;
            self.tally.halts += 1;
            pause(AFTER_HALT_MS).await;
        }
        Ok(())
    }

    async fn begin(&mut self, faults: &Faults) -> Result<Begun> {
        let mut life = self.launch.start(faults)?;
        let Some((ready, took)) = life.ready().await? else {
            let status = life.gone(DRAIN).await?;
            let status = status.ok_or_else(|| life.trouble("it closed its output and goes on"))?;
            return Ok(Begun::Dead(life, status));
        };
        self.tally.ready.push(took);
        if let Some(key) = ready.admin_key {
            self.key = key;
            world::found(&Client::new(&ready.url, &self.key)?, self.launch.counter.is_some()).await?;
        }
        let client = Client::new(&ready.url, &self.key)?;
        let follow = |agent| tokio::spawn(self.followers.clone().follow(client.clone(), agent));
        let following = AGENTS.map(follow).into();
        Ok(Begun::Ready(life, client, following))
    }

    /// SIGKILL, where it has not died at its point before.
    async fn kill(
        &mut self,
        life: &mut ServerLife,
        following: Vec<JoinHandle<()>>,
        point: Option<&'static str>,
    ) -> Result<()> {
        let status = life.kill()?;
        followed(following).await?;
        if status.signal() == Some(Signal::KILL.as_raw()) {
            self.tally.kills += 1;
            return Ok(());
        }
        self.died(life, status, point)
    }

    /// SIGTERM: it must end by itself, in time and in peace, or at its point.
    async fn stop(
        &mut self,
        life: &mut ServerLife,
        following: Vec<JoinHandle<()>>,
        point: Option<&'static str>,
    ) -> Result<()> {
        life.ask_to_stop()?;
        let Some(status) = life.gone(DRAIN).await? else {
            return Err(life.trouble(&format!("it was told to stop and goes on after {} s", DRAIN.as_secs())));
        };
        followed(following).await?;
        if status.success() {
            self.tally.terms += 1;
            return Ok(());
        }
        self.died(life, status, point)
    }

    /// It ended by itself: at its point, else it is trouble.
    fn died(&mut self, life: &ServerLife, status: ExitStatus, point: Option<&'static str>) -> Result<()> {
        match point {
            Some(point) if status.signal() == Some(Signal::ABORT.as_raw()) => {
                *self.tally.points.entry(point).or_default() += 1;
                Ok(())
            }
            _ => Err(life.trouble(&format!("it ended by itself with {status}"))),
        }
    }

    /// Waits until nothing waits and nothing is open.
    async fn rest(&self, client: &Client) -> Result<()> {
        #[derive(Deserialize)]
        struct Now {
            totals: agent::port::Totals,
        }
        let mut ask = tokio::time::interval(ASK);
        let (mut last, mut since) = (u64::MAX, Instant::now());
        loop {
            ask.tick().await;
            let now: Now = client.get("/v1/ready").await?;
            let agent::port::Totals { waiting, open_cycles, .. } = now.totals;
            if waiting == 0 && open_cycles == 0 {
                return Ok(());
            }
            if waiting < last {
                (last, since) = (waiting, Instant::now());
            }
            if since.elapsed() > STILL {
                let log = binary::tail(&self.launch.log);
                return Err(Trouble::new(format!(
                    "{waiting} events still wait, {open_cycles} cycles are open; its log ends so:\n{log}"
                )));
            }
        }
    }

    /// What agents said to each other beyond their bound is held until a person speaks there.
    /// Here one does, until nothing is held: what is held even then is judged as lost.
    async fn let_go(&self, client: &Client) -> Result<()> {
        for _ in 0..WORDS {
            let mut held = 0;
            for agent in AGENTS {
                held += client.get::<Agent>(&format!("/v1/agents/{agent}")).await?.held;
            }
            if held == 0 {
                break;
            }
            for place in &SPACES {
                self.load.speak(client, place, self.torture.seed).await;
            }
            self.rest(client).await?;
        }
        Ok(())
    }

    /// Waits until the followers were told as much as there is, or are told no more.
    async fn told_up_to(&self, history: &History) {
        let all = || {
            history.agents.iter().all(|agent| {
                self.followers.told().get(&agent.name).is_some_and(|told| told.last() >= agent.commit_n)
            })
        };
        let mut ask = tokio::time::interval(ASK);
        for _ in 0..200 {
            ask.tick().await;
            if all() {
                return;
            }
        }
    }

    /// Holds everything against everything, and counts it.
    fn judge(&mut self, history: &History) -> Vec<Breach> {
        let (ledger, heard, effects) = (self.load.ledger(), self.stub.heard(), self.counter.effects());
        let mut breaches = check::check(&ledger, history, &self.followers.told(), &effects);
        let asked = heard.wrong.iter().map(|why| format!("the model was asked {why}"));
        breaches.extend(asked.map(|why| Breach::new(WorldKind::Invalid, why)));
        let events = |state: &str| {
            let all = history.agents.iter().flat_map(|agent| &agent.events);
            all.filter(|event| event.state == state).count() as u64
        };
        let words = history.spaces.iter().flat_map(|space| &space.messages);
        let had = effects.values().map(Vec::len).sum::<usize>();
        let tally = &mut self.tally;
        tally.accepted = ledger.accepted() as u64;
        tally.known = ledger.known() as u64;
        tally.cycles = history.agents.iter().map(|agent| agent.runs.len() as u64).sum();
        tally.resumed = self.followers.told().values().map(SeenUpdates::resumed).sum::<usize>() as u64;
        (tally.lived, tally.skipped, tally.dead) = (events("processed"), events("skipped"), events("dead"));
        tally.replies = words.filter(|words| words.call.is_some()).count() as u64;
        (tally.effects, tally.repeats) = (had as u64, (had - effects.len()) as u64);
        tally.unknown = check::unknown(history) as u64;
        tally.hear(&heard);
        breaches
    }
}

/// What came of a start.
enum Begun {
    /// It serves, and is followed.
    Ready(ServerLife, Client, Vec<JoinHandle<()>>),
    /// It ended before.
    Dead(ServerLife, ExitStatus),
}

impl Begun {
    fn ready(self) -> Result<(ServerLife, Client, Vec<JoinHandle<()>>)> {
        match self {
            Self::Ready(life, client, following) => Ok((life, client, following)),
            Self::Dead(life, status) => {
                Err(life.trouble(&format!("it ended before it was ready, with {status}")))
            }
        }
    }
}

/// Followers end with the server's streams.
async fn followed(following: Vec<JoinHandle<()>>) -> Result<()> {
    for follower in following {
        follower.await.map_err(|error| Trouble::new(format!("a follower died: {error}")))?;
    }
    Ok(())
}

/// A data directory as it was.
struct Before {
    dir: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Before {
    fn of(dir: &Path) -> Result<Self> {
        let read = || -> std::io::Result<_> {
            let files = std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
            files.map(|path| path.and_then(|path| Ok((path.clone(), std::fs::read(path)?)))).collect()
        };
        let files = read().map_err(|error| Trouble::new(format!("cannot read the data: {error}")))?;
        Ok(Self { dir: dir.to_owned(), files })
    }

    fn restore(self) -> Result<()> {
        let write = || -> std::io::Result<()> {
            std::fs::remove_dir_all(&self.dir)?;
            std::fs::create_dir(&self.dir)?;
            self.files.iter().try_for_each(|(path, bytes)| std::fs::write(path, bytes))
        };
        write().map_err(|error| Trouble::new(format!("cannot put the data back: {error}")))
    }
}

/// The life's time under load: this and nothing else is chance that passes by itself.
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
