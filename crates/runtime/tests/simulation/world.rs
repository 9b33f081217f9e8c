//! One simulated world: people, agents, spaces, a store that survives and processes that do not; what
//! people and operators do, and time, which moves when nobody has anything to do.
//!
//! This module must not know what is promised: that is `judge`.

mod acts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::config::WakeOn;
use agent::id::{AgentId, EntityId, SpaceId};
use agent::life::Standing;
use agent::port::{
    Accept, Accepted, Clock as _, Ids as _, NewAgent, NewHuman, NewSpace, Reader, Registry, Store, StoreError,
};
use serde_json::json;

use crate::disk::{Disk, now};
use crate::mind::{NAMES, PLACES, Sent};
use crate::nature::{Nature, Pulse};
use crate::node::Process;
use crate::toll::Toll;

/// How the harness is made to fail on purpose, to see that it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sabotage {
    #[default]
    None,
    /// The doors acknowledge what the disk has not synced.
    Hasty,
}

/// Something that a client wants accepted, until it is answered.
pub(crate) struct Ask {
    pub(crate) what: Accept,
    /// What is found in every text that shows it.
    pub(crate) token: String,
    /// Who must get it, whatever befalls them.
    pub(crate) due_to: Vec<AgentId>,
    /// Whether it was acknowledged; `Some(false)` where it was denied.
    pub(crate) answered: Option<bool>,
    /// Sent, and not answered yet, by the process that was asked.
    asked: Option<u64>,
}

/// What is to happen at some time.
#[derive(Clone, Copy, Debug)]
enum Todo {
    /// Somebody does something.
    Act,
    /// Something comes for the bystander.
    Ring,
    /// A client asks (again).
    Say(usize),
    /// A process starts on what is there.
    Start,
    /// A halted process goes on.
    Wake(u64),
    /// A process is killed.
    Kill(u64),
}

type Answers = Arc<Mutex<Vec<(usize, Result<Accepted, StoreError>)>>>;

pub(crate) struct World {
    pub(crate) nature: Arc<Nature>,
    pub(crate) disk: Arc<Disk>,
    sent: Arc<Sent>,
    pub(crate) people: Vec<EntityId>,
    pub(crate) agents: Vec<AgentId>,
    pub(crate) spaces: Vec<(SpaceId, Vec<AgentId>)>,
    /// Members that were sent away for a while: they miss what is said meanwhile.
    pub(crate) revoked: BTreeSet<(SpaceId, AgentId)>,
    suspended: BTreeSet<AgentId>,
    processes: Vec<Process>,
    born: u64,
    deaths: u64,
    pub(crate) asks: Vec<Ask>,
    answers: Answers,
    todo: BTreeMap<(u64, u64), Todo>,
    planned: u64,
    sabotage: Sabotage,
    pub(crate) acts: u64,
}

impl World {
    pub(crate) fn new(seed: u64, loud: bool, sabotage: Sabotage) -> Self {
        let nature = Nature::new(seed, loud);
        nature.note("world", &format!("{seed} {:?}", nature.faults));
        Self::of(nature, sabotage)
    }

    /// One agent in which the same happens again and again.
    pub(crate) fn steady() -> Self {
        Self::of(Nature::steady(), Sabotage::None)
    }

    fn of(nature: Arc<Nature>, sabotage: Sabotage) -> Self {
        let disk = Disk::new(&nature);
        let mut world = Self {
            nature,
            disk,
            sent: Arc::default(),
            people: Vec::new(),
            agents: Vec::new(),
            spaces: Vec::new(),
            revoked: BTreeSet::new(),
            suspended: BTreeSet::new(),
            processes: Vec::new(),
            born: 0,
            deaths: 0,
            asks: Vec::new(),
            answers: Answers::default(),
            todo: BTreeMap::new(),
            planned: 0,
            sabotage,
            acts: 0,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        let (sqlite, nature) = (self.disk.sqlite(), Arc::clone(&self.nature));
        let at = nature.clock.now();
        for name in ["husam", "mona"] {
            let id = EntityId(nature.ids.uuid());
            let new = NewHuman { id, name: name.into(), display_name: name.into(), external_id: None, at };
            self.people.push(now(sqlite.create_human(new)).unwrap().id);
        }
        let names = ["ada", "bob", "cyd", "dan"];
        let many = if nature.steady { 1 } else { nature.dice.between(1, 4) };
        for name in &names[..usize::try_from(many).unwrap()] {
            let id = AgentId(nature.ids.uuid());
            let config = if nature.steady {
                serde_json::from_value(json!({ "model": format!("{}+{id}", NAMES[0]) })).unwrap()
            } else {
                acts::config(&nature, id)
            };
            let new = NewAgent { id, name: (*name).into(), display_name: (*name).into(), config, at };
            self.agents.push(now(sqlite.create_agent(new)).unwrap().id.agent());
        }
        for name in &PLACES[..usize::try_from(nature.dice.between(1, 3)).unwrap()] {
            let id = SpaceId(nature.ids.uuid());
            let in_it: Vec<AgentId> =
                self.agents.iter().copied().filter(|_| *name == "lobby" || nature.dice.chance(600)).collect();
            let members =
                self.people.iter().copied().chain(in_it.iter().map(|agent| agent.entity())).collect();
            let (name, wake_on) = ((*name).to_owned(), WakeOn::All);
            let display_name = name.clone();
            let new = NewSpace { id, name, display_name, description: String::new(), wake_on, members, at };
            now(sqlite.open_space(new)).unwrap();
            self.spaces.push((id, in_it));
        }
        let id = AgentId(nature.ids.uuid());
        let config = serde_json::from_value(json!({ "model": format!("calm/small+{id}") })).unwrap();
        let new = NewAgent { id, name: "eve".into(), display_name: "eve".into(), config, at };
        now(sqlite.create_agent(new)).unwrap();
        nature.bystander.set(id).unwrap();
        self.agents.push(id);
    }

    /// Lives until everyone is at rest, through everything that befalls it; whether they came to rest.
    pub(crate) fn live(&mut self) {
        self.start();
        let acts = self.nature.dice.between(4, 24);
        let mut at = 0;
        for _ in 0..acts {
            at += self.nature.dice.weighed(&[(4, 50), (4, 1_000), (3, 10_000), (1, 60_000)]);
            self.plan(at, Todo::Act);
            if self.nature.dice.chance(300) {
                self.soon(at + 3_000, Todo::Ring);
            }
        }
        let end = at + self.nature.dice.between(1_000, 60_000);
        while self.moment(Some(end)) && self.nature.ms() < end {}
        self.calm_down();
        self.come_to_rest();
    }

    /// What commands cost early in a long life, and what with ten times the history.
    pub(crate) fn early_and_late(mut self) -> (BTreeMap<&'static str, Toll>, BTreeMap<&'static str, Toll>) {
        self.start();
        self.todo.clear();
        let mut tolls = Vec::new();
        for round in 1..=110 {
            self.speak(false);
            self.come_to_rest();
            // Its plan fires.
            self.pass(15 * 60_000);
            self.come_to_rest();
            if [5, 10, 100, 110].contains(&round) {
                tolls.push(self.nature.tolls.drain());
            }
        }
        (tolls[1].clone(), tolls[3].clone())
    }

    fn plan(&mut self, at: u64, what: Todo) {
        self.planned += 1;
        self.todo.insert((at, self.planned), what);
    }

    fn soon(&mut self, within: u64, what: Todo) {
        let at = self.nature.ms() + self.nature.dice.below(within);
        self.plan(at, what);
    }

    /// Lives this moment to its end, then moves time to the next one, at most to `end`. Whether there is
    /// a next one.
    fn moment(&mut self, end: Option<u64>) -> bool {
        self.settle();
        let at = self.nature.ms();
        let sleeper = self.nature.clock.pending().first().map(|due| {
            let ahead = due.as_millisecond() - self.nature.clock.now().as_millisecond();
            at + u64::try_from(ahead).unwrap_or(0)
        });
        let todo = self.todo.keys().next().map(|(at, _)| *at);
        let next = [sleeper, todo, self.disk.due(), end].into_iter().flatten().min();
        let Some(next) = next else { return false };
        self.pass(next.saturating_sub(at));
        if self.disk.due().is_some_and(|due| due <= next) {
            self.disk.sync();
        }
        while let Some(entry) = self.todo.first_entry().filter(|entry| entry.key().0 <= next) {
            let what = entry.remove();
            self.happen(what);
        }
        true
    }

    /// Time passes, for the bystander too.
    fn pass(&self, ms: u64) {
        if self.nature.patience.waits() {
            let front = self.front();
            let others = |process: &Process| {
                let live = process.node().live().awake();
                live.into_iter().filter(|activity| !self.nature.spares(activity.agent)).count()
            };
            let places = self.nature.faults.bounds().awake;
            let why = match front {
                None => Some("no node"),
                Some(_) if self.nature.is_shut() => Some("no store"),
                Some(_) if self.disk.due().is_some() => Some("a sync"),
                Some(process) if others(process) >= places => Some("no place"),
                Some(_) => None,
            };
            let eve = self.nature.bystander.get();
            let last = front.zip(eve).and_then(|(process, eve)| process.node().live().waits(*eve));
            let last = last.map_or(String::new(), |wait| format!("{wait:?}"));
            // Whoever goes on with a cycle that a process has left is suspected.
            let suspect = last.contains("Crash") && self.bystander_lives();
            self.nature.patience.pass(ms, front.map(|process| process.pulse.node), why, last, suspect);
        }
        self.nature.clock.advance(Duration::from_millis(ms));
    }

    /// Lets every process do what it can, and notices who died of it.
    fn settle(&mut self) {
        for process in &self.processes {
            if !process.halted && !process.pulse.is_dead() {
                process.run();
            }
        }
        for index in (0..self.processes.len()).rev() {
            if self.processes[index].pulse.is_dead() {
                let process = self.processes.remove(index);
                self.bury(&process, false);
            } else if self.processes[index].has_stopped() {
                let process = self.processes.remove(index);
                self.bury(&process, true);
            }
        }
        self.hear();
    }

    /// A process is gone.
    fn bury(&mut self, process: &Process, peaceful: bool) {
        let node = process.pulse.node;
        self.nature.note(if peaceful { "stopped" } else { "died" }, &node.to_string());
        if peaceful {
            self.disk.sync();
        } else {
            self.disk.crash(node);
            self.deaths += 1;
        }
        self.hear();
        for index in 0..self.asks.len() {
            if self.asks[index].asked == Some(node) {
                // The client gives up waiting and asks whoever is there then.
                self.asks[index].asked = None;
                self.soon(5_000, Todo::Say(index));
            }
        }
        if self.processes.is_empty() {
            self.disk.restart(peaceful);
            if !peaceful {
                self.nature.patience.died(self.bystander_lives());
            }
            self.soon(20_000, Todo::Start);
        }
    }

    /// Whether the bystander was in the middle of something.
    fn bystander_lives(&self) -> bool {
        let eve = *self.nature.bystander.get().unwrap();
        now(Reader::agent(&self.disk.sqlite(), eve)).unwrap().unwrap().open.is_some()
    }

    fn start(&mut self) {
        if !self.nature.is_calm() {
            self.soon(2_000, Todo::Ring);
        }
        let faults = &self.nature.faults;
        let may_die = !self.nature.is_calm() && self.deaths < faults.deaths;
        let fuse = may_die.then(|| self.nature.dice.between(1, faults.fuse));
        self.born += 1;
        self.nature.note("born", &format!("{} {fuse:?}", self.born));
        let pulse = Pulse::new(self.born, fuse);
        self.processes.push(Process::start(&self.nature, &self.disk, &self.sent, pulse));
    }

    /// The process whose doors are open.
    fn front(&self) -> Option<&Process> {
        self.processes.iter().rev().find(|process| !process.halted && !process.is_stopping())
    }

    fn happen(&mut self, what: Todo) {
        match what {
            Todo::Act => self.act(),
            Todo::Ring => self.ring(),
            Todo::Say(ask) => self.say(ask),
            Todo::Start if self.processes.iter().all(|process| process.halted) => self.start(),
            Todo::Start => {}
            Todo::Wake(node) => {
                self.nature.note("wakes", &node.to_string());
                self.processes.iter_mut().filter(|p| p.pulse.node == node).for_each(|p| p.halted = false);
            }
            Todo::Kill(node) => {
                self.nature.note("killed", &node.to_string());
                self.processes.iter().filter(|p| p.pulse.node == node).for_each(|p| p.pulse.kill());
            }
        }
    }

    fn ask(&mut self, what: Accept, token: String, due_to: Vec<AgentId>) {
        let index = self.asks.len();
        self.asks.push(Ask { what, token, due_to, answered: None, asked: None });
        self.say(index);
    }

    /// A client asks, at the doors that are open; again later where none are.
    fn say(&mut self, index: usize) {
        if self.asks[index].asked.is_some() {
            return;
        }
        let Some((node, handle)) = self.front().map(|process| (process.pulse.node, process.node().clone()))
        else {
            return self.soon(3_000, Todo::Say(index));
        };
        // The doors say when, each time they are asked.
        let (mut what, at) = (self.asks[index].what.clone(), self.nature.clock.now());
        match &mut what {
            Accept::Message(message) => message.at = at,
            Accept::Event(_, event) => event.at = at,
        }
        self.asks[index].asked = Some(node);
        if self.sabotage == Sabotage::Hasty {
            self.asks[index].answered.get_or_insert(true);
        }
        let (nature, answers) = (Arc::clone(&self.nature), Arc::clone(&self.answers));
        let refusal = nature.refusal();
        let cost = Arc::clone(&self.nature);
        let apply = move |sqlite: &storage::sqlite::Sqlite| match refusal {
            Some(refusal) => Err(refusal),
            None => cost.command(sqlite, "accept", 0, || now(sqlite.accept(what, None))),
        };
        self.disk.submit(node, apply, move |done| {
            if let Ok(Accepted::Fresh { wake, .. }) = &done {
                let heard: Vec<_> = wake.iter().copied().filter(|waken| nature.hears(waken.agent)).collect();
                handle.signal(&heard);
                if nature.strikes(|faults| faults.doubled) {
                    handle.signal(&heard);
                }
            }
            answers.lock().unwrap().push((index, done));
        });
    }

    /// What clients were answered.
    fn hear(&mut self) {
        let heard = std::mem::take(&mut *self.answers.lock().unwrap());
        for (index, done) in heard {
            let node = self.asks[index].asked.take();
            let word = match &done {
                Ok(Accepted::Fresh { .. }) => "fresh",
                Ok(Accepted::Duplicate { .. }) => "duplicate",
                Ok(Accepted::Conflict) => "conflict",
                Ok(Accepted::Denied(_)) => "denied",
                Err(_) => "not taken",
            };
            self.nature.note(word, &self.asks[index].token.clone());
            if matches!(done, Ok(Accepted::Fresh { .. } | Accepted::Duplicate { .. }))
                && self.asks[index].token.starts_with("<ring")
            {
                self.nature.patience.accepted(&self.asks[index].token, node.unwrap_or(0));
            }
            match done {
                Ok(Accepted::Fresh { .. }) => {
                    let before = self.asks[index].answered.replace(true);
                    let hasty = self.sabotage == Sabotage::Hasty;
                    self.nature.hold(before != Some(true) || hasty, || {
                        format!("P1: {} was acknowledged, and is fresh again", self.asks[index].token)
                    });
                    if self.nature.strikes(|faults| faults.repeated) {
                        self.soon(5_000, Todo::Say(index));
                    }
                }
                Ok(Accepted::Duplicate { .. }) => self.asks[index].answered = Some(true),
                Ok(Accepted::Denied(_) | Accepted::Conflict) => self.asks[index].answered = Some(false),
                Err(_) if self.asks[index].answered == Some(true) && self.sabotage == Sabotage::Hasty => {}
                Err(_) => self.soon(3_000, Todo::Say(index)),
            }
        }
    }

    /// Nothing goes wrong from now on: who is to live lives, clients are patient.
    fn calm_down(&mut self) {
        self.nature.calm_down();
        self.todo.retain(|_, what| matches!(what, Todo::Say(_)));
        for process in &mut self.processes {
            process.pulse.spare();
            if process.halted || process.is_stopping() {
                process.pulse.kill();
            }
        }
        if let Some((_, zombies)) = self.processes.split_last() {
            zombies.iter().for_each(|zombie| zombie.pulse.kill());
        }
        self.settle();
        if self.processes.is_empty() {
            self.soon(1_000, Todo::Start);
        }
        // What operators asked for before is done before: a suspension that came to the disk later would stand.
        self.disk.sync();
        let (sqlite, at) = (self.disk.sqlite(), self.nature.clock.now());
        for agent in &self.agents {
            now(sqlite.set_standing(*agent, Standing::Active, at)).unwrap();
            self.nature.bill.word(*agent, self.nature.ms());
        }
    }

    /// Lives on until nobody has anything to do any more.
    fn come_to_rest(&mut self) {
        let begun = self.nature.ms();
        // A clock that was set back a day keeps whoever had a time to wait for that long.
        let most = begun + 3 * 24 * 3_600_000;
        for _ in 0..20_000 {
            self.settle();
            if self.is_idle() {
                if self.is_at_rest() {
                    let ms = self.nature.ms() - begun;
                    for never in self.nature.patience.never() {
                        self.nature.wrong(format!("fairness: the bystander was never shown {never}"));
                    }
                    return self.nature.note("rest", &format!("after {ms} ms"));
                }
                self.skip_idle();
            }
            if !self.moment(None) || self.nature.ms() > most {
                break;
            }
        }
        self.nature.wrong(format!("nobody came to rest: {}", self.unrest()));
    }

    /// Where only sweeps lie between now and the next thing that is due, they are jumped over.
    fn skip_idle(&self) {
        let (sqlite, at) = (self.disk.sqlite(), self.nature.clock.now());
        // Who is due by now stands in line, until the store is tried again.
        if now(sqlite.due(at, None, 1)).is_ok_and(|due| !due.is_empty()) {
            return;
        }
        let Ok(Some(due)) = now(sqlite.next_due(at)) else { return };
        let ahead = u64::try_from(due.as_millisecond() - at.as_millisecond()).unwrap_or(0);
        self.pass(ahead.saturating_sub(1));
    }

    /// Whether nobody waits for anything but the next sweep.
    fn is_idle(&self) -> bool {
        let busy = !self.todo.is_empty() || self.disk.due().is_some() || self.processes.len() != 1;
        !busy && self.nature.clock.pending().len() == 1
    }

    fn is_at_rest(&self) -> bool {
        let sqlite = self.disk.sqlite();
        let totals = now(sqlite.totals()).unwrap();
        let calls = || self.agents.iter().all(|agent| now(sqlite.open_calls(*agent)).unwrap().is_empty());
        let asked = self.asks.iter().all(|ask| ask.answered.is_some() && ask.asked.is_none());
        asked && totals.waiting == 0 && totals.open_cycles == 0 && calls()
    }

    fn unrest(&self) -> String {
        let sqlite = self.disk.sqlite();
        let mut why = vec![format!("{:?} at {}", now(sqlite.totals()).unwrap(), self.nature.ms())];
        for agent in &self.agents {
            let card = now(Reader::agent(&sqlite, *agent)).unwrap().unwrap();
            why.push(format!(
                "{agent}: {}, {} wait, open {:?}, kept back {:?} ({:?}), calls {:?}",
                card.standing.as_str(),
                card.waiting,
                card.open.map(|open| (open.id, open.step)),
                card.not_before,
                card.idle_reason,
                now(sqlite.open_calls(*agent)).unwrap().len()
            ));
        }
        let open = self.asks.iter().filter(|ask| ask.answered.is_none()).map(|ask| ask.token.clone());
        why.extend(open);
        why.join("; ")
    }
}
