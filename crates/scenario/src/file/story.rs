//! Reads the story: sentences in order, each with its time.

use std::time::Duration;

use serde_json::Value;

use super::cast::Cast;
use super::value::{self, Reader};
use super::{listed, quoted_whole, section};
use crate::bounds;
use crate::flaw::{FileFlaw, FilePosition, shown};
use crate::scene::{
    Amount, OPERATOR, PersonReply, ProviderState, Room, Server, StoryAction, StoryEvent, When,
};
use crate::yaml::{Is, YamlKey, YamlNode};

/// The sentences of a story.
const SENTENCES: &[&str] = &[
    "WHO says in SPACE: TEXT",
    "SERVICE calls AGENT: PAYLOAD",
    "hook NAME delivers: BODY",
    "AGENT plans: PLAN",
    "AGENT is due: PLAN",
    "WHO joins SPACE",
    "WHO leaves SPACE",
    "AGENT is suspended",
    "AGENT is resumed",
    "AGENT is canceled",
    "WHO approves TOOL of AGENT",
    "WHO refuses TOOL of AGENT: REASON",
    "WHO answers AGENT: ANSWER",
    "WHO may not approve TOOL of AGENT",
    "WHO may not answer AGENT: ANSWER",
    "the server stops",
    "the server is killed",
    "the server starts",
    "the server restarts",
    "the provider fails",
    "the provider works",
    "everyone is quiet",
];

/// Keys of a story entry that are not sentences.
const TIMES: &[&str] = &["at", "after", "id", "times"];

/// How far the story has progressed.
struct Progress {
    /// The earliest time that it can have reached. How long agents take to become idle is unknown.
    earliest: Duration,
    /// The line that sets this time.
    line: u64,
}

/// The state of the world at this point of the story.
struct WorldState {
    rooms: Vec<Room>,
    /// Whether the server runs.
    up: bool,
    /// Whether the provider of the models works.
    works: bool,
}

impl Reader<'_> {
    pub(super) fn story(&mut self, node: &YamlNode, cast: &mut Cast, rooms: &[Room]) -> Vec<StoryEvent> {
        let items = self.list(node, "a list of what happens", bounds::LINES_MAX);
        if items.is_empty() {
            let message = format!("nothing happens: a story needs a sentence such as `{}`", SENTENCES[0]);
            self.wrong(node.place, message);
        }
        let mut now = WorldState { rooms: rooms.to_vec(), up: true, works: true };
        let mut story = Vec::with_capacity(items.len());
        let mut progress = Progress { earliest: Duration::ZERO, line: node.place.line };
        for item in items {
            let Some(entry) = self.entry(item, cast, &mut now) else { continue };
            self.in_order(item, &entry, &mut progress);
            story.push(entry);
        }
        if !now.up && !story.is_empty() {
            let message = "the server does not run at the end of the story, so no agent could act";
            self.flaws.add(FileFlaw::new(node.place, message).hint("end with `- the server starts`"));
        }
        if !now.works && !story.is_empty() {
            let message = "the provider does not work at the end of the story, so no model could answer";
            self.flaws.add(FileFlaw::new(node.place, message).hint("end with `- the provider works`"));
        }
        story
    }

    /// Reports a time that lies before the time of an earlier entry.
    fn in_order(&mut self, item: &YamlNode, entry: &StoryEvent, progress: &mut Progress) {
        let reached = match entry.when {
            When::At(time) => time,
            When::After(time) => progress.earliest.saturating_add(time),
            When::Quiet => return,
        };
        if reached < progress.earliest {
            let place = self.place_of_time(item);
            let time = value::shown_time(reached);
            let before = value::shown_time(progress.earliest);
            let line = progress.line;
            let message = format!(
                "`at: {time}` is impossible: line {line} has reached {before}, and time does not run backwards"
            );
            let hint = "sort the entries by time, or use `after` for a pause";
            self.flaws.add(FileFlaw::new(place, message).hint(hint));
            return;
        }
        // `after: 0s` keeps the time and the line of the entry before.
        if reached > progress.earliest || matches!(entry.when, When::At(_)) {
            *progress = Progress { earliest: reached, line: entry.place.line };
        }
    }

    fn place_of_time(&self, item: &YamlNode) -> FilePosition {
        let pairs: &[(YamlKey, YamlNode)] = if let Is::Map(pairs) = &item.is { pairs } else { &[] };
        section(pairs, "at").map_or(item.place, |at| at.place)
    }

    fn entry(&mut self, node: &YamlNode, cast: &mut Cast, now: &mut WorldState) -> Option<StoryEvent> {
        let nothing = YamlNode { place: node.place, is: Is::Nothing };
        let pairs: Vec<(YamlKey, &YamlNode)> = match &node.is {
            Is::Map(pairs) => pairs.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Is::Scalar { written, .. } => {
                vec![(YamlKey { place: node.place, text: written.clone() }, &nothing)]
            }
            _ => {
                self.wrong(node.place, format!("wanted a sentence, got {}", node.kind()));
                return None;
            }
        };
        let own: &[(YamlKey, YamlNode)] = if let Is::Map(pairs) = &node.is { pairs } else { &[] };
        let id = section(own, "id").and_then(|id| self.text(id, "a name for the message or event"));
        let when = self.when(own);
        let times = section(own, "times").map_or(1, |node| self.times(node));
        let mut what = Vec::new();
        for (key, value) in pairs.iter().filter(|(key, _)| !TIMES.contains(&key.text.as_str())) {
            what.extend(self.sentence(key, value, id.as_deref(), cast, now));
        }
        if what.is_empty() && pairs.iter().all(|(key, _)| TIMES.contains(&key.text.as_str())) {
            self.wrong(node.place, "a time without anything that happens then");
        }
        if let Some(id) = id {
            if what.len() > 1 || times > 1 {
                self.wrong(node.place, "an `id` names one message or event: write the others separately");
            }
            cast.ids.push(id);
        }
        Some(StoryEvent { when, what, times, place: node.place })
    }

    fn times(&mut self, node: &YamlNode) -> usize {
        match self.count(node) {
            Some(Amount::Exactly(times)) if (1..=bounds::LINES_MAX as u64).contains(&times) => {
                usize::try_from(times).unwrap_or(bounds::LINES_MAX)
            }
            Some(_) => {
                self.wrong(node.place, format!("wanted a number from 1 to {}", bounds::LINES_MAX));
                1
            }
            None => 1,
        }
    }

    fn when(&mut self, pairs: &[(YamlKey, YamlNode)]) -> When {
        let at = section(pairs, "at").map(|node| (node.place, self.time(node)));
        let after = section(pairs, "after").map(|node| self.time(node));
        if let (Some((place, _)), Some(_)) = (at, after) {
            self.wrong(place, "wanted `at` or `after`, got both");
        }
        match (at, after) {
            (Some((_, Some(time))), _) => When::At(time),
            // The flaw is already reported. A time of zero here could cause a second one.
            (Some((_, None)), _) => When::After(Duration::ZERO),
            (_, Some(time)) => When::After(time.unwrap_or(Duration::ZERO)),
            (None, None) => When::Quiet,
        }
    }

    fn sentence(
        &mut self,
        key: &YamlKey,
        value: &YamlNode,
        id: Option<&str>,
        cast: &Cast,
        now: &mut WorldState,
    ) -> Option<StoryAction> {
        let words: Vec<&str> = key.text.split_whitespace().collect();
        let what = match words.as_slice() {
            [who, "says", "in", space] => {
                let (who, space) = self.who_where(key.place, who, space, cast, now, true)?;
                let text = self.text(value, "the text of the message")?;
                return Some(StoryAction::Says { who, space, text, id: id.map(str::to_owned) });
            }
            [service, "calls", agent] => {
                let agent = self.known(key.place, "agent", agent, &cast.agents)?;
                let payload = if matches!(value.is, Is::Nothing) { Value::Null } else { value.json() };
                let service = (*service).to_owned();
                return Some(StoryAction::Calls { service, agent, payload, id: id.map(str::to_owned) });
            }
            ["hook", hook, "delivers"] => return self.delivers(key, hook, value, id, cast),
            [agent, "plans"] => {
                let agent = self.agent(key, agent, cast)?;
                return self.plans(agent, value);
            }
            [agent, "is", "due"] => {
                let agent = self.agent(key, agent, cast)?;
                return self.due(agent, value);
            }
            [who, "refuses", tool, "of", agent] => {
                let reason = self.text(value, "the reason");
                let (tool, reason) = (Some(self.tool(key.place, tool)?), reason?);
                return self.answers(key, (who, agent), tool, (PersonReply::Refuses(reason), true), cast);
            }
            [_, "answers", _] | [_, "may", "not", "answer", _] if matches!(value.is, Is::Nothing) => {
                let message = format!("wanted an answer after `{}:`", shown(&key.text));
                self.wrong(value.place, message);
                return None;
            }
            [who, "answers", agent] => {
                return self.answers(key, (who, agent), None, (PersonReply::Says(value.json()), true), cast);
            }
            [who, "may", "not", "answer", agent] => {
                return self.answers(key, (who, agent), None, (PersonReply::Says(value.json()), false), cast);
            }
            [who, "approves", tool, "of", agent] => {
                let tool = self.tool(key.place, tool);
                self.answers(key, (who, agent), Some(tool?), (PersonReply::Approves, true), cast)?
            }
            [who, "may", "not", "approve", tool, "of", agent] => {
                let tool = self.tool(key.place, tool);
                self.answers(key, (who, agent), Some(tool?), (PersonReply::Approves, false), cast)?
            }
            [who, "joins", space] => {
                let (who, space) = self.who_where(key.place, who, space, cast, now, false)?;
                let room = now.rooms.iter_mut().find(|room| room.name == space);
                room.into_iter().for_each(|room| room.members.push(who.clone()));
                StoryAction::Joins { who, space }
            }
            [who, "leaves", space] => {
                let (who, space) = self.who_where(key.place, who, space, cast, now, true)?;
                let room = now.rooms.iter_mut().find(|room| room.name == space);
                room.into_iter().for_each(|room| room.members.retain(|member| *member != who));
                StoryAction::Leaves { who, space }
            }
            [agent, "is", "suspended"] => StoryAction::Suspended(self.agent(key, agent, cast)?),
            [agent, "is", "resumed"] => StoryAction::Resumed(self.agent(key, agent, cast)?),
            [agent, "is", "canceled"] => StoryAction::Canceled(self.agent(key, agent, cast)?),
            ["the", "server", verb @ ..] => self.server(key, verb, now)?,
            ["the", "provider", verb] => self.provider(key, verb, now)?,
            ["everyone", "is", "quiet"] => StoryAction::Quiet,
            _ => {
                self.unknown_sentence(key);
                return None;
            }
        };
        if !matches!(value.is, Is::Nothing) {
            self.wrong(value.place, format!("wanted no value after `{}:`", shown(&key.text)));
        }
        Some(what)
    }

    /// A person answers an agent. Agents answer nothing.
    fn answers(
        &mut self,
        key: &YamlKey,
        (who, agent): (&str, &str),
        tool: Option<String>,
        (reply, may): (PersonReply, bool),
        cast: &Cast,
    ) -> Option<StoryAction> {
        let who = match who {
            OPERATOR if !cast.actors.iter().any(|actor| actor == OPERATOR) => OPERATOR.to_owned(),
            who => self.known(key.place, "person or agent", who, &cast.actors)?,
        };
        let agent = self.agent(key, agent, cast)?;
        if cast.agents.contains(&who) {
            let message = format!("`{who}` is an agent, and only people answer what waits for a person");
            self.wrong(key.place, message);
            return None;
        }
        Some(StoryAction::Answers { who, agent, tool, reply, may })
    }

    fn agent(&mut self, key: &YamlKey, name: &str, cast: &Cast) -> Option<String> {
        self.known(key.place, "agent", name, &cast.agents)
    }

    /// An actor and a space. With `inside` the actor must be a member at that point, otherwise it must not be one.
    fn who_where(
        &mut self,
        place: FilePosition,
        who: &str,
        space: &str,
        cast: &Cast,
        now: &WorldState,
        inside: bool,
    ) -> Option<(String, String)> {
        let who = self.known(place, "person or agent", who, &cast.actors);
        let space = self.known(place, "space", space, &cast.spaces);
        let who = who?;
        let space = space?;
        let members = now.rooms.iter().find(|room| room.name == space).map(|room| &room.members);
        let is_member = members.is_some_and(|members| members.contains(&who));
        if is_member == inside {
            return Some((who, space));
        }
        let flaw = if inside {
            FileFlaw::new(place, format!("`{who}` is not a member of `{space}` at that time"))
                .hint(format!("add it to the members of `{space}`, or let it join before"))
        } else {
            FileFlaw::new(place, format!("`{who}` is already a member of `{space}`"))
        };
        self.flaws.add(flaw);
        None
    }

    fn server(&mut self, key: &YamlKey, verb: &[&str], now: &mut WorldState) -> Option<StoryAction> {
        let server = match verb {
            ["stops"] => Server::Stops,
            ["is", "killed"] => Server::Killed,
            ["starts"] => Server::Starts,
            ["restarts"] => Server::Restarts,
            _ => {
                self.unknown_sentence(key);
                return None;
            }
        };
        if (server == Server::Starts) == now.up {
            let state = if now.up { "already runs" } else { "does not run" };
            self.wrong(key.place, format!("`{}`: it {state} at that time", shown(&key.text)));
        }
        now.up = matches!(server, Server::Starts | Server::Restarts);
        Some(StoryAction::Server(server))
    }

    fn provider(&mut self, key: &YamlKey, verb: &str, now: &mut WorldState) -> Option<StoryAction> {
        let provider = match verb {
            "fails" => ProviderState::Fails,
            "works" => ProviderState::Works,
            _ => {
                self.unknown_sentence(key);
                return None;
            }
        };
        if (provider == ProviderState::Works) == now.works {
            let state = if now.works { "works" } else { "fails" };
            self.wrong(key.place, format!("`{}`: it already {state} at that time", shown(&key.text)));
        }
        now.works = provider == ProviderState::Works;
        Some(StoryAction::Provider(provider))
    }

    fn unknown_sentence(&mut self, key: &YamlKey) {
        let flaw =
            FileFlaw::new(key.place, format!("`{}` is not a known sentence of a story", shown(&key.text)));
        let hint = quoted_whole(key).unwrap_or_else(|| format!("known sentences: {}", listed(SENTENCES)));
        self.flaws.add(flaw.hint(hint));
    }
}
