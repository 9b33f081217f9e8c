//! Random actions of people and operators: they post, send events, cancel, suspend, remove members, set clocks, kill.
//!
//! Must not know the results.

use std::sync::Arc;

use agent::config::AgentConfig;
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
use agent::id::{AgentId, EventId, MessageId, RootId};
use agent::life::Standing;
use agent::port::{Accept, Clock as _, Ids as _, InboxFilter, PageRequest, Reader as _, Registry as _};
use agent::space::NewMessage;
use jiff::SignedDuration;
use runtime::node::Node;
use serde_json::json;
use storage::sqlite::Sqlite;

use super::{Todo, World};
use crate::disk::now;
use crate::environment::Environment;
use crate::random_model::{DEADLY, FOUL, NAMES};

impl World {
    pub(super) fn act(&mut self) {
        self.acts += 1;
        let faults = self.env.faults.clone();
        let on = |flag: bool, weight: u64| if flag { weight } else { 0 };
        let what = self.env.dice.weighed(&[
            (40, "posts"),
            (10, "posts urgently"),
            (12, "calls"),
            (on(faults.poison, 6), "poisons"),
            (on(faults.operators, 5), "cancels"),
            (on(faults.operators, 4), "suspends"),
            (on(faults.operators, 4), "resumes"),
            (on(faults.operators, 12), "revokes"),
            (on(faults.operators, 8), "admits"),
            (on(faults.operators, 3), "amends"),
            (on(faults.operators, 3), "withdraws events"),
            (on(faults.operators, 3), "cancels a call"),
            (on(faults.operators, 3), "sends again"),
            (on(faults.zombies, 12), "halts"),
            (on(faults.outages, 12), "closes the store"),
            (on(faults.jumps, 6), "sets the clock"),
            (on(faults.deaths > 0, 5), "kills"),
            (4, "stops"),
        ]);
        self.env.note("act", what);
        match what {
            "posts" => self.post_message(false),
            "posts urgently" => self.post_message(true),
            "calls" => self.call_other("n"),
            "poisons" => {
                let kind = if faults.deaths > 0 && self.env.dice.chance(500) { DEADLY } else { FOUL };
                self.call_other(&kind[1..]);
            }
            "sets the clock" => {
                let by = *self.env.dice.pick(&["24h", "-24h", "1h", "-1h", "-40s", "40s", "-3s"]);
                let by: SignedDuration = by.parse().unwrap();
                self.env.clock.jump_wall(by);
                self.agents.iter().for_each(|agent| self.env.audit.operator_acted(*agent, self.env.ms()));
                let what = if by.is_negative() { "set back" } else { "set ahead" };
                self.env.note(what, &format!("by {by}"));
            }
            "kills" => {
                if let Some(node) = self.front().map(|process| process.liveness.node) {
                    self.soon(3_000, Todo::Kill(node));
                }
            }
            "stops" => {
                if self.processes.len() == 1 && !self.processes[0].halted {
                    self.processes[0].stop();
                }
            }
            "halts" => self.halt(),
            "closes the store" => {
                let ms = self.env.dice.between(2_000, 60_000);
                self.env.close_store_until(self.env.ms() + ms);
            }
            _ => self.operate(what),
        }
    }

    /// The process is halted and another one takes over; later it continues for a while, and is killed.
    fn halt(&mut self) {
        if self.processes.len() != 1 || self.processes[0].is_stopping() {
            return;
        }
        self.processes[0].halted = true;
        let node = self.processes[0].liveness.node;
        let at = self.env.ms();
        self.soon(10_000, Todo::Start);
        let continues = at + self.env.dice.between(5_000, 60_000);
        self.plan(continues, Todo::Continue(node));
        self.plan(continues + self.env.dice.between(1, 20_000), Todo::Kill(node));
    }

    pub(super) fn post_message(&mut self, urgent: bool) {
        let (space, members) = self.env.dice.pick(&self.spaces).clone();
        let sender = *self.env.dice.pick(&self.people);
        let token = format!("<m{}>", self.requests.len());
        let named = if self.env.dice.chance(200) { " @ada" } else { "" };
        let id = MessageId(self.env.ids.uuid());
        let message = NewMessage {
            id,
            space,
            sender,
            text: format!("{token} hello{named}"),
            mentions: Vec::new(),
            urgent,
            at: self.env.clock.now(),
            cycle: None,
            call: None,
            data: None,
            principal: Principal::Entity(sender),
            trust: Trust::Member,
            root: RootId(id.to_string()),
            hop: 0,
        };
        let due_to = members.into_iter().filter(|agent| !self.revoked.contains(&(space, *agent))).collect();
        self.request(Accept::Message(message), token, due_to);
    }

    fn call_other(&mut self, kind: &str) {
        let agent = *self.env.dice.pick(self.others());
        self.call(agent, kind);
    }

    /// Sends an innocent event to the bystander.
    pub(super) fn ring(&mut self) {
        self.call(*self.agents.last().unwrap(), "ring");
    }

    /// All agents but the bystander.
    fn others(&self) -> &[AgentId] {
        &self.agents[..self.agents.len() - 1]
    }

    fn call(&mut self, agent: AgentId, kind: &str) {
        let token = format!("<{kind}{}>", self.requests.len());
        let event = Event {
            id: EventId(format!("api:c:{}", self.requests.len())),
            kind: EventKind::Service,
            urgent: kind == "n" && self.env.dice.chance(200),
            at: self.env.clock.now(),
            envelope: Envelope {
                principal: Principal::Credential("c".into()),
                channel: Channel::Api,
                trust: Trust::Operator,
                root: RootId(token.clone()),
                hop: 0,
            },
            data: EventData::Service { name: "bell".into(), payload: json!({ "n": token }) },
            cites: None,
        };
        self.request(Accept::Event(agent, event), token, vec![agent]);
    }

    /// An operator changes something. A change that is not allowed has no effect.
    fn operate(&mut self, what: &'static str) {
        let Some(process) = self.front() else { return };
        let (node, handle) = (process.liveness.node, process.node().clone());
        let agent = *self.env.dice.pick(self.others());
        let (space, members) = self.env.dice.pick(&self.spaces).clone();
        let at = self.env.clock.now();
        match what {
            "suspends" => {
                self.suspended.insert(agent);
            }
            "revokes" if members.contains(&agent) => {
                self.revoked.insert((space, agent));
            }
            _ => {}
        }
        let limit = self.env.dice.below(3);
        let max_steps = self.env.dice.between(1, 8);
        let fresh = EventId(self.env.ids.uuid().to_string());
        let noted = Arc::clone(&self.env);
        let apply = move |sqlite: &Sqlite| match what {
            "cancels" => drop(now(sqlite.cancel(agent, None))),
            "suspends" => drop(now(sqlite.set_standing(agent, Standing::Suspended, at))),
            "resumes" => drop(now(sqlite.set_standing(agent, Standing::Active, at))),
            "revokes" if members.contains(&agent) => drop(now(sqlite.remove_member(space, agent.entity()))),
            "admits" if members.contains(&agent) => {
                drop(now(sqlite.add_member(space, agent.entity(), "member".into(), at)));
            }
            "amends" => {
                let patch = json!({"limits": {"max_steps": max_steps}});
                drop(now(sqlite.amend_agent(agent, None, Some(patch), at)));
            }
            "withdraws events" => {
                for row in inbox(sqlite, agent, "waiting").into_iter().take(limit as usize) {
                    drop(now(sqlite.cancel_event(agent, row)));
                }
            }
            "cancels a call" => {
                let open = now(sqlite.open_calls(agent)).unwrap_or_default();
                for row in open.into_iter().take(1) {
                    drop(now(sqlite.cancel_call(agent, row.id)));
                }
            }
            "sends again" => {
                for row in inbox(sqlite, agent, "dead").into_iter().take(1) {
                    noted.again.lock().unwrap().insert(row.0.clone());
                    drop(now(sqlite.send_again(agent, row, fresh.clone(), None, at)));
                }
            }
            _ => {}
        };
        let env = Arc::clone(&self.env);
        let done = move |sqlite: &Sqlite| {
            apply(sqlite);
            env.audit.operator_acted(agent, env.ms());
        };
        let env = Arc::clone(&self.env);
        self.disk.submit(node, done, move |()| recheck(&env, &handle, agent));
    }
}

fn recheck(env: &Environment, node: &Node, agent: AgentId) {
    if !env.fault(|faults| faults.lost_signals) {
        node.recheck(agent);
    }
}

fn inbox(sqlite: &Sqlite, agent: AgentId, state: &str) -> Vec<EventId> {
    let page = PageRequest { cursor: None, limit: 50 };
    let rows = now(sqlite.inbox(agent, InboxFilter::in_state(state), page));
    rows.map(|page| page.items.into_iter().map(|row| row.event.id).collect()).unwrap_or_default()
}

/// A random agent config.
pub(super) fn config(env: &Environment, agent: AgentId) -> AgentConfig {
    let dice = &env.dice;
    let (debounce, per_cycle) = dice.weighed(&[(3, (0, 100)), (1, (2_000, 4))]);
    let mut config = json!({
        "model": format!("{}+{agent}", dice.pick(&NAMES)),
        "awareness": dice.pick(&["none", "preview", "inject", "preview+inject", "interrupt"]),
        "barrier": dice.chance(700),
        "debounce": debounce,
        "hop_limit": dice.weighed(&[(2, 8), (1, 2)]),
        "limits": {
            "max_steps": dice.weighed(&[(3, 6), (1, 2), (1, 20)]),
            "events_per_cycle": per_cycle,
            "max_attempts": dice.weighed(&[(3, 5), (1, 2)]),
            "model_retries": dice.weighed(&[(2, 3), (1, 0)]),
        },
    });
    // Small enough that many lives are compacted.
    let entries = dice.weighed(&[(2, 400), (1, 6), (1, 20)]);
    config["history"] = json!({"max_entries": entries, "summary": dice.pick(&["model", "digest", "off"])});
    config["workspace"] = json!({"placement": dice.pick(&["append", "fresh"])});
    if dice.chance(300) {
        config["fallback"] = json!([format!("two/large+{agent}")]);
    }
    if dice.chance(150) {
        config["urgency"] = json!({"all": true});
    }
    if dice.chance(150) {
        config["wake_on"] = json!("mention");
    }
    if dice.chance(150) {
        config["stop"] = json!({"require_tool": true});
    }
    serde_json::from_value(config).unwrap()
}
