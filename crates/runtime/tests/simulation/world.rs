//! One simulated world: people, agents, spaces, a store that survives and processes that do not, and the actions of
//! people and operators. Time advances when no process has anything to do.
//!
//! Must not know the promises: `promises` checks them.

mod actions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::config::WakeOn;
use agent::id::{AgentId, EntityId, SpaceId};
use agent::life::Standing;
use agent::port::{
    Accept, Accepted, Clock as _, Ids as _, NewAgent, NewHuman, NewSpace, NextDue, Reader, Registry, Store,
    StoreError,
};
use serde_json::json;

use crate::command_cost::Cost;
use crate::disk::{Disk, now};
use crate::environment::{Environment, Liveness};
use crate::process::Process;
use crate::random_model::{NAMES, SPACES, Sent};

/// A deliberate flaw, to prove that the simulation notices it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sabotage {
    #[default]
    None,
    /// The API acknowledges before the disk has synced.
    EarlyAcknowledge,
}

/// A request of a client, sent until it is answered.
pub(crate) struct ClientRequest {
    pub(crate) what: Accept,
    /// Appears in every text that shows the request.
    pub(crate) token: String,
    /// The agents that must get it.
    pub(crate) due_to: Vec<AgentId>,
    /// Whether it was acknowledged; `Some(false)`: denied.
    pub(crate) answered: Option<bool>,
    /// The process it was sent to, until that answers.
    sent_to: Option<u64>,
}

/// Something that happens at a planned time.
#[derive(Clone, Copy, Debug)]
enum Todo {
    /// A person or operator acts.
    Act,
    /// The bystander gets an event.
    Ring,
    /// A client sends its request (again).
    Send(usize),
    /// A process starts on the stored data.
    Start,
    /// A halted process continues.
    Continue(u64),
    /// A process is killed.
    Kill(u64),
}

type Answers = Arc<Mutex<Vec<(usize, Result<Accepted, StoreError>)>>>;

pub(crate) struct World {
    pub(crate) env: Arc<Environment>,
    pub(crate) disk: Arc<Disk>,
    sent: Arc<Sent>,
    pub(crate) people: Vec<EntityId>,
    pub(crate) agents: Vec<AgentId>,
    pub(crate) spaces: Vec<(SpaceId, Vec<AgentId>)>,
    /// Members that were ever removed: they may miss messages.
    pub(crate) revoked: BTreeSet<(SpaceId, AgentId)>,
    suspended: BTreeSet<AgentId>,
    processes: Vec<Process>,
    started: u64,
    deaths: u64,
    pub(crate) requests: Vec<ClientRequest>,
    answers: Answers,
    todo: BTreeMap<(u64, u64), Todo>,
    planned: u64,
    sabotage: Sabotage,
    pub(crate) acts: u64,
}

impl World {
    pub(crate) fn new(seed: u64, loud: bool, sabotage: Sabotage) -> Self {
        let env = Environment::new(seed, loud);
        env.note("world", &format!("{seed} {:?}", env.faults));
        Self::of(env, sabotage)
    }

    /// A world with one agent in which the same happens again and again.
    pub(crate) fn steady() -> Self {
        Self::of(Environment::steady(), Sabotage::None)
    }

    fn of(env: Arc<Environment>, sabotage: Sabotage) -> Self {
        let disk = Disk::new(&env);
        let mut world = Self {
            env,
            disk,
            sent: Arc::default(),
            people: Vec::new(),
            agents: Vec::new(),
            spaces: Vec::new(),
            revoked: BTreeSet::new(),
            suspended: BTreeSet::new(),
            processes: Vec::new(),
            started: 0,
            deaths: 0,
            requests: Vec::new(),
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
        let (sqlite, env) = (self.disk.sqlite(), Arc::clone(&self.env));
        let at = env.clock.now();
        for name in ["husam", "mona"] {
            let id = EntityId(env.ids.uuid());
            let new = NewHuman { id, name: name.into(), display_name: name.into(), external_id: None, at };
            self.people.push(now(sqlite.create_human(new)).unwrap().id);
        }
        let names = ["ada", "bob", "cyd", "dan"];
        let many = if env.steady { 1 } else { env.dice.between(1, 4) };
        for name in &names[..usize::try_from(many).unwrap()] {
            let id = AgentId(env.ids.uuid());
            let config = if env.steady {
                serde_json::from_value(json!({ "model": format!("{}+{id}", NAMES[0]) })).unwrap()
            } else {
                actions::config(&env, id)
            };
            let new = NewAgent { id, name: (*name).into(), display_name: (*name).into(), config, at };
            self.agents.push(now(sqlite.create_agent(new)).unwrap().id.agent());
        }
        for name in &SPACES[..usize::try_from(env.dice.between(1, 3)).unwrap()] {
            let id = SpaceId(env.ids.uuid());
            let in_it: Vec<AgentId> =
                self.agents.iter().copied().filter(|_| *name == "lobby" || env.dice.chance(600)).collect();
            let members =
                self.people.iter().copied().chain(in_it.iter().map(|agent| agent.entity())).collect();
            let (name, wake_on) = ((*name).to_owned(), WakeOn::All);
            let display_name = name.clone();
            let new = NewSpace { id, name, display_name, description: String::new(), wake_on, members, at };
            now(sqlite.open_space(new)).unwrap();
            self.spaces.push((id, in_it));
        }
        let id = AgentId(env.ids.uuid());
        let config = serde_json::from_value(json!({ "model": format!("calm/small+{id}") })).unwrap();
        let new = NewAgent { id, name: "eve".into(), display_name: "eve".into(), config, at };
        now(sqlite.create_agent(new)).unwrap();
        env.bystander.set(id).unwrap();
        self.agents.push(id);
    }

    /// Runs the world with its faults, then without faults until every agent is idle.
    pub(crate) fn run(&mut self) {
        self.start();
        let acts = self.env.dice.between(4, 24);
        let mut at = 0;
        for _ in 0..acts {
            at += self.env.dice.weighed(&[(4, 50), (4, 1_000), (3, 10_000), (1, 60_000)]);
            self.plan(at, Todo::Act);
            if self.env.dice.chance(300) {
                self.soon(at + 3_000, Todo::Ring);
            }
        }
        let end = at + self.env.dice.between(1_000, 60_000);
        while self.advance(Some(end)) && self.env.ms() < end {}
        self.end_faults();
        self.run_until_idle();
    }

    /// What commands cost early in a long history, and with ten times that history.
    pub(crate) fn early_and_late(mut self) -> (BTreeMap<&'static str, Cost>, BTreeMap<&'static str, Cost>) {
        self.start();
        self.todo.clear();
        let mut costs = Vec::new();
        for round in 1..=110 {
            self.post_message(false);
            self.run_until_idle();
            // Its plan fires.
            self.pass(15 * 60_000);
            self.run_until_idle();
            if [5, 10, 100, 110].contains(&round) {
                costs.push(self.env.costs.drain());
            }
        }
        (costs[1].clone(), costs[3].clone())
    }

    fn plan(&mut self, at: u64, what: Todo) {
        self.planned += 1;
        self.todo.insert((at, self.planned), what);
    }

    fn soon(&mut self, within: u64, what: Todo) {
        let at = self.env.ms() + self.env.dice.below(within);
        self.plan(at, what);
    }

    /// Runs everything that can run now, then advances time to the next event, at most to `end`. `false` if there is
    /// no next event.
    fn advance(&mut self, end: Option<u64>) -> bool {
        self.settle();
        let at = self.env.ms();
        let sleeper = self.env.clock.pending().first().map(|due| {
            let ahead = due.as_millisecond() - self.env.clock.now().as_millisecond();
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
            self.perform(what);
        }
        true
    }

    /// Time passes, for the bystander too.
    fn pass(&self, ms: u64) {
        if self.env.waits.any() {
            let front = self.front();
            let others = |process: &Process| {
                let live = process.node().live().awake();
                live.into_iter().filter(|activity| !self.env.is_bystander(activity.agent)).count()
            };
            let slots = self.env.faults.bounds().awake;
            let why = match front {
                None => Some("no node"),
                Some(_) if self.env.is_closed() => Some("no store"),
                Some(_) if self.disk.due().is_some() => Some("a sync"),
                Some(process) if others(process) >= slots => Some("no slot"),
                Some(_) => None,
            };
            let eve = self.env.bystander.get();
            let last = front.zip(eve).and_then(|(process, eve)| process.node().live().waiting_for(*eve));
            let last = last.map_or(String::new(), |wait| format!("{wait:?}"));
            // An agent that resumes a cycle of a dead process is a suspect.
            let suspect = last.contains("Crash") && self.bystander_has_open_cycle();
            self.env.waits.pass(ms, front.map(|process| process.liveness.node), why, last, suspect);
        }
        self.env.clock.advance(Duration::from_millis(ms));
    }

    /// Runs every process until it has nothing to do, and removes those that ended.
    fn settle(&mut self) {
        for process in &self.processes {
            if !process.halted && !process.liveness.is_dead() {
                process.run();
            }
        }
        for index in (0..self.processes.len()).rev() {
            if self.processes[index].liveness.is_dead() {
                let process = self.processes.remove(index);
                self.process_ended(&process, false);
            } else if self.processes[index].has_stopped() {
                let process = self.processes.remove(index);
                self.process_ended(&process, true);
            }
        }
        self.take_answers();
    }

    /// A process ended.
    fn process_ended(&mut self, process: &Process, peaceful: bool) {
        let node = process.liveness.node;
        self.env.note(if peaceful { "stopped" } else { "died" }, &node.to_string());
        if peaceful {
            self.disk.sync();
        } else {
            self.disk.crash(node);
            self.deaths += 1;
        }
        self.take_answers();
        for index in 0..self.requests.len() {
            if self.requests[index].sent_to == Some(node) {
                // The client stops waiting and sends its request to the next process.
                self.requests[index].sent_to = None;
                self.soon(5_000, Todo::Send(index));
            }
        }
        if self.processes.is_empty() {
            self.disk.restart(peaceful);
            if !peaceful {
                self.env.waits.died(self.bystander_has_open_cycle());
            }
            self.soon(20_000, Todo::Start);
        }
    }

    /// Whether the bystander has an open cycle.
    fn bystander_has_open_cycle(&self) -> bool {
        let eve = *self.env.bystander.get().unwrap();
        now(Reader::agent(&self.disk.sqlite(), eve)).unwrap().unwrap().open.is_some()
    }

    fn start(&mut self) {
        if !self.env.faults_ended() {
            self.soon(2_000, Todo::Ring);
        }
        let faults = &self.env.faults;
        let may_die = !self.env.faults_ended() && self.deaths < faults.deaths;
        let fuse = may_die.then(|| self.env.dice.between(1, faults.fuse));
        self.started += 1;
        self.env.note("started", &format!("{} {fuse:?}", self.started));
        let liveness = Liveness::new(self.started, fuse);
        self.processes.push(Process::start(&self.env, &self.disk, &self.sent, liveness));
    }

    /// The process that accepts requests.
    fn front(&self) -> Option<&Process> {
        self.processes.iter().rev().find(|process| !process.halted && !process.is_stopping())
    }

    fn perform(&mut self, what: Todo) {
        match what {
            Todo::Act => self.act(),
            Todo::Ring => self.ring(),
            Todo::Send(index) => self.send(index),
            Todo::Start if self.processes.iter().all(|process| process.halted) => self.start(),
            Todo::Start => {}
            Todo::Continue(node) => {
                self.env.note("continues", &node.to_string());
                self.processes.iter_mut().filter(|p| p.liveness.node == node).for_each(|p| p.halted = false);
            }
            Todo::Kill(node) => {
                self.env.note("killed", &node.to_string());
                self.processes.iter().filter(|p| p.liveness.node == node).for_each(|p| p.liveness.kill());
            }
        }
    }

    fn request(&mut self, what: Accept, token: String, due_to: Vec<AgentId>) {
        let index = self.requests.len();
        self.requests.push(ClientRequest { what, token, due_to, answered: None, sent_to: None });
        self.send(index);
    }

    /// A client sends its request to the process that accepts requests; later, if there is none.
    fn send(&mut self, index: usize) {
        if self.requests[index].sent_to.is_some() {
            return;
        }
        let Some((node, handle)) =
            self.front().map(|process| (process.liveness.node, process.node().clone()))
        else {
            return self.soon(3_000, Todo::Send(index));
        };
        // The API sets the time of acceptance, at each attempt.
        let (mut what, at) = (self.requests[index].what.clone(), self.env.clock.now());
        match &mut what {
            Accept::Message(message) => message.at = at,
            Accept::Event(_, event) => event.at = at,
        }
        self.requests[index].sent_to = Some(node);
        if self.sabotage == Sabotage::EarlyAcknowledge {
            self.requests[index].answered.get_or_insert(true);
        }
        let (env, answers) = (Arc::clone(&self.env), Arc::clone(&self.answers));
        let refusal = env.refusal();
        let cost = Arc::clone(&self.env);
        let apply = move |sqlite: &storage::sqlite::Sqlite| match refusal {
            Some(refusal) => Err(refusal),
            None => cost.command(sqlite, "accept", 0, || now(sqlite.accept(what, None))),
        };
        self.disk.submit(node, apply, move |done| {
            if let Ok(Accepted::Fresh { wake, .. }) = &done {
                let arrived: Vec<_> =
                    wake.iter().copied().filter(|wakeup| env.signal_arrives(wakeup.agent)).collect();
                handle.signal(&arrived);
                if env.fault(|faults| faults.doubled) {
                    handle.signal(&arrived);
                }
            }
            answers.lock().unwrap().push((index, done));
        });
    }

    /// Handles the answers to clients.
    fn take_answers(&mut self) {
        let answers = std::mem::take(&mut *self.answers.lock().unwrap());
        for (index, done) in answers {
            let node = self.requests[index].sent_to.take();
            let what = match &done {
                Ok(Accepted::Fresh { .. }) => "fresh",
                Ok(Accepted::Duplicate { .. }) => "duplicate",
                Ok(Accepted::Conflict) => "conflict",
                Ok(Accepted::Denied(_)) => "denied",
                Err(_) => "refused",
            };
            self.env.note(what, &self.requests[index].token.clone());
            if matches!(done, Ok(Accepted::Fresh { .. } | Accepted::Duplicate { .. }))
                && self.requests[index].token.starts_with("<ring")
            {
                self.env.waits.accepted(&self.requests[index].token, node.unwrap_or(0));
            }
            match done {
                Ok(Accepted::Fresh { .. }) => {
                    let before = self.requests[index].answered.replace(true);
                    let early = self.sabotage == Sabotage::EarlyAcknowledge;
                    self.env.check(before != Some(true) || early, || {
                        format!("P1: {} was acknowledged, and is new again", self.requests[index].token)
                    });
                    if self.env.fault(|faults| faults.repeated) {
                        self.soon(5_000, Todo::Send(index));
                    }
                }
                Ok(Accepted::Duplicate { .. }) => self.requests[index].answered = Some(true),
                Ok(Accepted::Denied(_) | Accepted::Conflict) => self.requests[index].answered = Some(false),
                Err(_)
                    if self.requests[index].answered == Some(true)
                        && self.sabotage == Sabotage::EarlyAcknowledge => {}
                Err(_) => self.soon(3_000, Todo::Send(index)),
            }
        }
    }

    /// No more faults from now on: all agents are active, and clients retry.
    fn end_faults(&mut self) {
        self.env.end_faults();
        self.todo.retain(|_, what| matches!(what, Todo::Send(_)));
        for process in &mut self.processes {
            process.liveness.spare();
            if process.halted || process.is_stopping() {
                process.liveness.kill();
            }
        }
        if let Some((_, zombies)) = self.processes.split_last() {
            zombies.iter().for_each(|zombie| zombie.liveness.kill());
        }
        self.settle();
        if self.processes.is_empty() {
            self.soon(1_000, Todo::Start);
        }
        // Earlier commands of operators are applied first: a later suspension would remain.
        self.disk.sync();
        let (sqlite, at) = (self.disk.sqlite(), self.env.clock.now());
        for agent in &self.agents {
            now(sqlite.set_standing(*agent, Standing::Active, at)).unwrap();
            self.env.audit.operator_acted(*agent, self.env.ms());
        }
    }

    /// Runs until no agent has anything to do.
    fn run_until_idle(&mut self) {
        let begun = self.env.ms();
        // A clock that was set back a day delays planned times by that long.
        let most = begun + 3 * 24 * 3_600_000;
        for _ in 0..20_000 {
            self.settle();
            if self.is_idle() {
                if self.all_finished() {
                    let ms = self.env.ms() - begun;
                    for never in self.env.waits.never() {
                        self.env.violation(format!("fairness: the bystander was never shown {never}"));
                    }
                    return self.env.note("idle", &format!("after {ms} ms"));
                }
                self.skip_idle();
            }
            if !self.advance(None) || self.env.ms() > most {
                break;
            }
        }
        self.env.violation(format!("the world did not become idle: {}", self.unfinished()));
    }

    /// Skips time up to the next due event, if only sweeps lie between.
    fn skip_idle(&self) {
        let (sqlite, at) = (self.disk.sqlite(), self.env.clock.now());
        // An agent that is due now is queued until the store is tried again.
        if now(sqlite.due(at, None, 1)).is_ok_and(|due| !due.is_empty()) {
            return;
        }
        let Some(due) = now(sqlite.next_due(at)).ok().and_then(NextDue::first) else { return };
        let ahead = u64::try_from(due.as_millisecond() - at.as_millisecond()).unwrap_or(0);
        self.pass(ahead.saturating_sub(1));
    }

    /// Whether only the next sweep is pending.
    fn is_idle(&self) -> bool {
        let busy = !self.todo.is_empty() || self.disk.due().is_some() || self.processes.len() != 1;
        !busy && self.env.clock.pending().len() == 1
    }

    fn all_finished(&self) -> bool {
        let sqlite = self.disk.sqlite();
        let totals = now(sqlite.totals()).unwrap();
        let calls = || self.agents.iter().all(|agent| now(sqlite.open_calls(*agent)).unwrap().is_empty());
        let answered =
            self.requests.iter().all(|request| request.answered.is_some() && request.sent_to.is_none());
        answered && totals.waiting == 0 && totals.open_cycles == 0 && calls()
    }

    fn unfinished(&self) -> String {
        let sqlite = self.disk.sqlite();
        let mut why = vec![format!("{:?} at {}", now(sqlite.totals()).unwrap(), self.env.ms())];
        for agent in &self.agents {
            let card = now(Reader::agent(&sqlite, *agent)).unwrap().unwrap();
            why.push(format!(
                "{agent}: {}, {} wait, open {:?}, idle until {:?} ({:?}), calls {:?}",
                card.standing.as_str(),
                card.waiting,
                card.open.map(|open| (open.id, open.step)),
                card.not_before,
                card.idle_reason,
                now(sqlite.open_calls(*agent)).unwrap().len()
            ));
        }
        let open = self
            .requests
            .iter()
            .filter(|request| request.answered.is_none())
            .map(|request| request.token.clone());
        why.extend(open);
        why.join("; ")
    }
}
