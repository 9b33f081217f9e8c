//! Shipped scenarios on a real server: what their stories tell is done with commands, what they expect is read with commands.
//! The scripts of the agents are played by a model server.

use std::collections::BTreeSet;

use ::scenario::file;
use ::scenario::scene::{
    Amount, Expectation, Expected, PersonReply, Scenario, Server as ServerEvent, StoryAction,
};
use ::tools::prebuilt;
use agent::config::{AgentConfig, WakeOn};
use agent::port::Toolbox as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::approvals::until;
use crate::scripted::{self, Amend};
use crate::world::{Ran, Server, run};

/// The world of a scenario on a server that can be stopped.
struct Stage {
    scenario: Scenario,
    model: String,
    /// `None` while it is down.
    server: Option<Server>,
    /// The data directory while it is down.
    dir: Option<TempDir>,
    /// What was said while it was down: sent again once it is there, as clients do.
    unsent: Vec<Vec<String>>,
}

impl Stage {
    /// A server with the people, agents and spaces of a shipped file. `amend` changes the arguments of its agents' calls.
    fn of(name: &str, amend: Amend) -> Self {
        let path = format!("{}/../../scenarios/{name}", env!("CARGO_MANIFEST_DIR"));
        let scenario = file::read(&std::fs::read(path).unwrap(), &prebuilt().names()).unwrap();
        let model = scripted::serve(scenario.clone(), amend);
        let dir = Some(tempfile::tempdir().unwrap());
        let mut stage = Self { scenario, model, server: None, dir, unsent: Vec::new() };
        stage.start();
        stage.build();
        stage
    }

    fn start(&mut self) {
        let model = ["--model", "openai-compatible/script", "--base-url", &self.model];
        self.server = Some(Server::start_as(self.dir.take().unwrap(), &model));
        for said in std::mem::take(&mut self.unsent) {
            self.viv(&said);
        }
    }

    fn kill(&mut self) {
        self.dir = self.server.take().map(Server::kill);
    }

    fn stop(&mut self) {
        let (code, dir) = self.server.take().unwrap().stop();
        assert_eq!(code, 0);
        self.dir = Some(dir);
    }

    /// Runs a command that must succeed.
    fn viv(&self, args: &[impl AsRef<str>]) -> Ran {
        let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        let ran = run(self.server.as_ref().unwrap().dir.path(), &args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
        ran
    }

    /// The items that a command lists.
    fn items(&self, args: &[&str]) -> Vec<Value> {
        self.viv(&[args, &["--json"]].concat()).json()["items"].as_array().unwrap().clone()
    }

    fn build(&self) {
        for person in &self.scenario.people {
            self.viv(&["entities", "add", person]);
        }
        let default = AgentConfig::default().to_json();
        for actor in &self.scenario.agents {
            // The first start has created an agent of that name.
            if actor.name != "ada" {
                self.viv(&["agents", "create", &actor.name]);
            }
            let config = actor.config.to_json();
            for key in ["instructions", "tools"].into_iter().filter(|key| config[key] != default[key]) {
                self.viv(&["agents", "set", &actor.name, &format!("{key}={}", config[key])]);
            }
        }
        for room in &self.scenario.spaces {
            self.viv(&["spaces", "open", &room.name]);
            for member in &room.members {
                self.viv(&["spaces", "add", &room.name, member]);
            }
            if room.wake_on != WakeOn::default() {
                self.viv(&["spaces", "set", &room.name, &format!("wake_on={}", room.wake_on.as_str())]);
            }
        }
    }

    fn perform(&mut self, action: &StoryAction) {
        match action {
            StoryAction::Says { who, space, text, .. } => {
                let said = ["say", "--space", space, "--as", who, text].map(str::to_owned).to_vec();
                match self.server {
                    Some(_) => drop(self.viv(&said)),
                    None => self.unsent.push(said),
                }
            }
            StoryAction::Answers { who, agent, tool, reply, .. } => {
                let is_asked = |asked: &Value| {
                    asked["agent_handle"] == agent.as_str()
                        && tool.as_ref().is_none_or(|tool| asked["tool"] == tool.as_str())
                };
                let asked = self.items(&["approvals", "list"]).into_iter().find(is_asked).unwrap();
                let call = asked["call"].as_str().unwrap();
                let answer = match reply {
                    PersonReply::Approves => vec!["approve"],
                    PersonReply::Says(text) => vec!["--text", text.as_str().unwrap()],
                    PersonReply::Refuses(_) => panic!("nobody refuses in these stories"),
                };
                self.viv(&[&["approvals", "answer", call, "--as", who][..], &answer].concat());
            }
            StoryAction::Server(ServerEvent::Killed) => self.kill(),
            StoryAction::Server(ServerEvent::Starts) => self.start(),
            other => panic!("this story needs no {other:?}"),
        }
    }

    /// Waits until no agent has work, but for those that wait for a person.
    fn quiet(&self) {
        let rests = |agent: &Value| {
            agent["state"] == "paused" || (agent["state"] == "sleeping" && agent["waiting"] == 0)
        };
        until(|| self.items(&["ps"]).iter().all(rests).then_some(()));
    }

    /// The runs of an agent, oldest first.
    fn runs(&self, agent: &str) -> Vec<Value> {
        let cycles = self.items(&["show", "inbox", agent]).into_iter();
        let cycles = cycles.filter(|event| event["state"] == "processed");
        let cycles = cycles.filter_map(|event| event["cycle"].as_str().map(str::to_owned));
        // Ids of cycles are in the order of time.
        let cycles: BTreeSet<String> = cycles.collect();
        cycles.iter().map(|cycle| self.viv(&["show", "run", cycle, "--json"]).json()).collect()
    }

    fn is_met(&self, expectation: &Expectation) -> bool {
        match &expectation.what {
            Expected::Said { who, space, words, times } => {
                let messages = self.items(&["spaces", "read", space]);
                let fitting = messages.iter().filter(|message| {
                    message["sender_handle"] == who.as_str()
                        && words.matches(message["text"].as_str().unwrap())
                });
                times.fits(fitting.count() as u64)
            }
            Expected::Called { agent, tool, times, .. } => {
                let runs = self.runs(agent);
                let calls = runs.iter().flat_map(|run| run["steps"].as_array().unwrap());
                let calls = calls.flat_map(|step| step["calls"].as_array().unwrap());
                times.fits(calls.filter(|call| call["tool"] == tool.as_str()).count() as u64)
            }
            Expected::CycleList { agent, cycles } => {
                let runs = self.runs(agent);
                let fits = |events: Option<Amount>, run: &Value| {
                    events.is_none_or(|events| events.fits(run["events"].as_u64().unwrap()))
                };
                runs.len() == cycles.len()
                    && runs.iter().zip(cycles).all(|(run, shape)| fits(shape.events, run))
            }
            other => panic!("these stories expect no {other:?}"),
        }
    }

    fn check(&self) {
        for expectation in &self.scenario.expect {
            let shown =
                || self.scenario.agents.iter().map(|agent| self.runs(&agent.name)).collect::<Vec<_>>();
            assert!(self.is_met(expectation), "{}: {}", expectation.sentence, json!(shown()));
        }
    }
}

#[test]
fn a_persons_answer_resumes_the_same_cycle_after_a_kill() {
    let mut stage = Stage::of("6-human-input.yaml", |arguments| arguments);
    for event in stage.scenario.story.clone() {
        if stage.server.is_some() {
            stage.quiet();
        }
        event.what.iter().for_each(|action| stage.perform(action));
    }
    stage.quiet();
    stage.check();
    // The question and what came of it are one cycle. When something else wanted the agent, the answer came as an event.
    let runs = stage.runs("ada");
    let steps = |run: &Value| {
        run["steps"].as_array().unwrap().iter().map(|step| step["tools"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(runs.len(), 4, "{}", json!(runs));
    assert_eq!(steps(&runs[0]), [r#"["ask_person"]"#, r#"["send_message"]"#, r#"["done"]"#]);
}

#[test]
fn an_agent_acts_on_its_own_and_makes_up_for_a_time_that_passed_while_the_server_was_down() {
    // Nobody waits an hour here.
    let mut stage = Stage::of("5-proactive.yaml", |mut arguments| {
        if arguments["plans"][0]["every"] == "1h" {
            arguments["plans"][0] =
                json!({"name": "health", "instruction": "Check the servers.", "after": "1s"});
        }
        arguments
    });
    let first = stage.scenario.story[0].what.clone();
    first.iter().for_each(|action| stage.perform(action));
    stage.quiet();
    let said = |stage: &Stage, times: usize| {
        until(|| {
            let read = stage.viv(&["spaces", "read", "ops"]).out;
            (read.matches("The load of server 2").count() == times).then_some(())
        });
        stage.quiet();
    };
    said(&stage, 1);
    // An hourly plan whose next time comes while the server is down.
    let at = Timestamp::now() + SignedDuration::from_secs(3);
    let from = (at - SignedDuration::from_hours(1)).to_string();
    stage.viv(&["plans", "add", "ada", "again", "Check the servers.", "--every", "1h", "--from", &from]);
    stage.stop();
    let dir = stage.dir.as_ref().unwrap();
    until(|| {
        assert_ne!(run(dir.path(), &["ps"]).code, 0, "nobody answers while it is down");
        (Timestamp::now() > at).then_some(())
    });
    stage.start();
    said(&stage, 2);
    stage.check();
}
