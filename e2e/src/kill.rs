//! The loop: live under load, die without warning, live again; in the end all must be told as one
//! story. Nothing of the binary is helped along: no flag, no pause, no clean stop.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::task::JoinHandle;

use crate::binary::{self, Launch, Life};
use crate::check::{self, Breach};
use crate::client::Client;
use crate::dice::Dice;
use crate::follow::{Followers, Told};
use crate::history::{self, History};
use crate::load::{Load, Turn};
use crate::stub::{Heard, Stub};
use crate::world::{self, AGENTS};
use crate::{Result, Trouble};

/// How long a life is under load.
const LOAD_MS: (u64, u64) = (50, 400);
/// Half of the lives end instead right behind a commit: so many at most are heard first, within so
/// many milliseconds, and then the blow falls within so many.
const COMMITS: (u64, u64, u64) = (8, 1_500, 12);
/// One in so many lives is killed before it is ready, within so many milliseconds.
const EARLY: (u64, u64) = (8, 80);
/// How long the last life may make no progress on its way to rest.
const STILL: Duration = Duration::from_secs(60);
/// How often it is asked whether it has.
const ASK: Duration = Duration::from_millis(25);

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Torture {
    /// The binary.
    pub viv: PathBuf,
    /// How often it is killed.
    pub kills: u64,
    /// The seed of everything that is left to chance.
    pub seed: u64,
    /// Sabotage: the store forgets this life, as if nothing of it had ever been durable.
    pub forget: Option<u64>,
}

impl Torture {
    /// From `VIV_BIN`, `VIV_KILLS` (40) and `VIV_SEED` (a new one).
    pub fn from_env() -> Result<Self> {
        Ok(Self {
            viv: binary::find()?,
            kills: number("VIV_KILLS")?.unwrap_or(40),
            seed: number("VIV_SEED")?.unwrap_or_else(crate::dice::new_seed),
            forget: None,
        })
    }
}

fn number(name: &str) -> Result<Option<u64>> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Trouble::new(format!("wanted a number in `{name}`, got `{text}`")))
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// Every promise that was broken.
    pub breaches: Vec<Breach>,
    /// Where data and log were left, where a promise was broken.
    pub left: Option<PathBuf>,
    kills: u64,
    early: u64,
    accepted: usize,
    known: usize,
    cycles: usize,
    resumed: usize,
    lived: usize,
    skipped: usize,
    replies: usize,
    heard: Heard,
    ready: Vec<Duration>,
    took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, early, accepted, known, cycles, resumed, lived, skipped, replies, heard, .. } =
            self;
        let mut ready = self.ready.clone();
        ready.sort();
        let ms = |at: usize| ready.get(at).map_or(0, Duration::as_millis);
        let (median, most) = (ms(ready.len() / 2), ms(ready.len().saturating_sub(1)));
        write!(
            f,
            "{kills} kills ({early} before ready), {accepted} accepted, {known} answered as known; {lived} events lived in \
             {cycles} cycles ({resumed} taken up again), {skipped} skipped, {replies} replies; {} model requests, {} streams cut; ready in {median} ms \
             (median; at most {most}); {} promises broken; {:.1} s",
            heard.requests,
            heard.cut,
            self.breaches.len(),
            self.took.as_secs_f64(),
        )
    }
}

/// Everything that outlives the lives.
struct House {
    launch: Launch,
    seed: u64,
    load: Arc<Load>,
    followers: Followers,
    key: String,
    ready: Vec<Duration>,
    early: u64,
}

/// Runs the loop. An error means that the harness could not do its work, or that the binary would
/// not start or rest; broken promises stand in the report.
pub async fn run(torture: Torture) -> Result<Report> {
    let begun = Instant::now();
    let trouble = |error: std::io::Error| Trouble::new(format!("no place for the data: {error}"));
    let dir = tempfile::Builder::new().prefix("viv-kill-").tempdir().map_err(trouble)?;
    let stub = Stub::start().await?;
    let mut house = House::new(&torture, dir.path(), &stub);
    let done = house.live_and_die(&torture, &stub).await;
    let (history, wrong) = match done {
        Ok(history) => (history, stub.heard().wrong),
        Err(why) => {
            return Err(Trouble::new(format!(
                "{why}\n(seed {}, data left in `{}`)",
                torture.seed,
                dir.keep().display()
            )));
        }
    };
    let ledger = house.load.ledger();
    let mut breaches = check::check(&ledger, &history, &house.followers.told());
    breaches.extend(wrong.into_iter().map(|why| Breach::new(format!("the model was asked {why}"))));
    let events = |state: &str| {
        history.agents.iter().flat_map(|agent| &agent.events).filter(|event| event.state == state).count()
    };
    let words = history.spaces.iter().flat_map(|space| &space.messages);
    Ok(Report {
        left: (!breaches.is_empty()).then(|| dir.keep()),
        breaches,
        kills: torture.kills,
        early: house.early,
        accepted: ledger.accepted(),
        known: ledger.known(),
        cycles: history.agents.iter().map(|agent| agent.runs.len()).sum(),
        resumed: house.followers.told().values().map(Told::resumed).sum(),
        lived: events("lived"),
        skipped: events("skipped"),
        replies: words.filter(|words| words.call.is_some()).count(),
        heard: stub.heard(),
        ready: house.ready.clone(),
        took: begun.elapsed(),
    })
}

impl House {
    fn new(torture: &Torture, dir: &Path, stub: &Stub) -> Self {
        let launch = Launch {
            viv: torture.viv.clone(),
            data_dir: dir.join("data"),
            model_url: stub.url().to_owned(),
            log: dir.join("log"),
        };
        Self {
            launch,
            seed: torture.seed,
            load: Arc::default(),
            followers: Followers::default(),
            key: String::new(),
            ready: Vec::new(),
            early: 0,
        }
    }

    async fn live_and_die(&mut self, torture: &Torture, stub: &Stub) -> Result<History> {
        for life in 0..torture.kills {
            if torture.forget == Some(life) {
                let before = Before::of(&self.launch.data_dir)?;
                self.one_life(life).await?;
                before.restore()?;
            } else {
                self.one_life(life).await?;
            }
            if let Some(wrong) = stub.heard().wrong.first() {
                return Err(Trouble::new(format!("life {life}: the model was asked {wrong}")));
            }
        }
        // What has come to rest must also outlive a kill.
        let (mut life, client, following) = self.begin().await?;
        self.load.settle(&client).await;
        self.rest(&client).await?;
        self.end(&mut life, following).await?;
        let (mut life, client, following) = self.begin().await?;
        self.rest(&client).await?;
        let history = history::read(&client).await?;
        self.told_up_to(&history).await;
        self.end(&mut life, following).await?;
        Ok(history)
    }

    /// From a start to a kill.
    async fn one_life(&mut self, number: u64) -> Result<()> {
        let turn = Turn { seed: self.seed, life: number };
        let mut dice = Dice::of(self.seed, &[number, 99]);
        if number > 0 && dice.one_in(EARLY.0) {
            let mut life = self.launch.start()?;
            pause(dice.between(0, EARLY.1)).await;
            self.early += 1;
            return life.kill();
        }
        let (mut life, client, following) = self.begin().await?;
        let load = tokio::spawn(Arc::clone(&self.load).run(client, turn));
        if dice.one_in(2) {
            pause(dice.between(LOAD_MS.0, LOAD_MS.1)).await;
        } else {
            let (most, patience, blow) = COMMITS;
            let commits = dice.between(1, most) as usize;
            self.followers.hear(commits, Duration::from_millis(patience)).await;
            pause(dice.between(0, blow)).await;
        }
        self.end(&mut life, following).await?;
        load.await.map_err(|error| Trouble::new(format!("a producer died: {error}")))
    }

    async fn begin(&mut self) -> Result<(Life, Client, Vec<JoinHandle<()>>)> {
        let mut life = self.launch.start()?;
        let (ready, took) = life.ready().await?;
        let first = self.ready.is_empty();
        self.ready.push(took);
        if let Some(key) = ready.admin_key {
            self.key = key;
        }
        let client = Client::new(&ready.url, &self.key)?;
        if first {
            world::found(&client).await?;
        }
        let follow = |agent| tokio::spawn(self.followers.clone().follow(client.clone(), agent));
        let following = AGENTS.map(follow).into();
        Ok((life, client, following))
    }

    async fn end(&self, life: &mut Life, following: Vec<JoinHandle<()>>) -> Result<()> {
        life.kill()?;
        for follower in following {
            // Its stream ends with the server.
            follower.await.map_err(|error| Trouble::new(format!("a follower died: {error}")))?;
        }
        Ok(())
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
