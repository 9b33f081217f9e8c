//! What happens: sentences, in order, each with its time.

use std::time::Duration;

use serde_json::Value;

use super::cast::Cast;
use super::value::{self, Reader};
use super::{listed, quoted_whole, section};
use crate::bounds;
use crate::flaw::{FileFlaw, FilePosition, shown};
use crate::scene::{Amount, ProviderState, Room, Server, StoryEvent, What, When};
use crate::yaml::{Is, YamlKey, YamlNode};

/// What can happen, as sentences.
const SENTENCES: &[&str] = &[
    "WHO says in SPACE: TEXT",
    "SERVICE calls AGENT: PAYLOAD",
    "WHO joins SPACE",
    "WHO leaves SPACE",
    "AGENT is suspended",
    "AGENT is resumed",
    "AGENT is canceled",
    "the server stops",
    "the server is killed",
    "the server starts",
    "the server restarts",
    "the provider fails",
    "the provider works",
    "everyone is quiet",
];

/// Keys of a happening that are no sentences.
const TIMES: &[&str] = &["at", "after", "id", "times"];

/// How far the story has come.
struct Course {
    /// The time that it has reached at least; nobody knows how long quiet takes.
    earliest: Duration,
    /// The line that says so.
    line: u64,
}

/// What the story has made of the world so far.
struct Sofar {
    rooms: Vec<Room>,
    /// Whether a server runs.
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
        let mut sofar = Sofar { rooms: rooms.to_vec(), up: true, works: true };
        let mut story = Vec::with_capacity(items.len());
        let mut course = Course { earliest: Duration::ZERO, line: node.place.line };
        for item in items {
            let Some(happening) = self.happening(item, cast, &mut sofar) else { continue };
            self.in_order(item, &happening, &mut course);
            story.push(happening);
        }
        if !sofar.up && !story.is_empty() {
            let message = "the server does not run in the end, so that nobody could do anything";
            self.flaws.add(FileFlaw::new(node.place, message).hint("end with `- the server starts`"));
        }
        if !sofar.works && !story.is_empty() {
            let message = "the provider does not work in the end, so that nobody could think";
            self.flaws.add(FileFlaw::new(node.place, message).hint("end with `- the provider works`"));
        }
        story
    }

    /// A time that is over before its sentence comes is a mistake: nothing could happen then.
    fn in_order(&mut self, item: &YamlNode, happening: &StoryEvent, course: &mut Course) {
        let reached = match happening.when {
            When::At(time) => time,
            When::After(time) => course.earliest.saturating_add(time),
            When::Quiet => return,
        };
        if reached < course.earliest {
            let place = self.place_of_time(item);
            let time = value::shown_time(reached);
            let before = value::shown_time(course.earliest);
            let line = course.line;
            let message = format!(
                "`at: {time}` is impossible: line {line} has reached {before}, and time does not run backwards"
            );
            let hint = "put what happens in the order of its times, or say with `after` how long it waits";
            self.flaws.add(FileFlaw::new(place, message).hint(hint));
            return;
        }
        // `after: 0s` stays at the time of the line that said one.
        if reached > course.earliest || matches!(happening.when, When::At(_)) {
            *course = Course { earliest: reached, line: happening.place.line };
        }
    }

    fn place_of_time(&self, item: &YamlNode) -> FilePosition {
        let pairs: &[(YamlKey, YamlNode)] = if let Is::Map(pairs) = &item.is { pairs } else { &[] };
        section(pairs, "at").map_or(item.place, |at| at.place)
    }

    fn happening(&mut self, node: &YamlNode, cast: &mut Cast, sofar: &mut Sofar) -> Option<StoryEvent> {
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
            what.extend(self.sentence(key, value, id.as_deref(), cast, sofar));
        }
        if what.is_empty() && pairs.iter().all(|(key, _)| TIMES.contains(&key.text.as_str())) {
            self.wrong(node.place, "a time, and nothing that happens then");
        }
        if let Some(id) = id {
            if what.len() > 1 || times > 1 {
                self.wrong(node.place, "an `id` names one message or event: write the others apart");
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
            // It is told already; taken for a time it would be one that is over.
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
        sofar: &mut Sofar,
    ) -> Option<What> {
        let words: Vec<&str> = key.text.split_whitespace().collect();
        let what = match words.as_slice() {
            [who, "says", "in", space] => {
                let (who, space) = self.who_where(key.place, who, space, cast, sofar, true)?;
                let text = self.text(value, "what is said")?;
                return Some(What::Says { who, space, text, id: id.map(str::to_owned) });
            }
            [service, "calls", agent] => {
                let agent = self.known(key.place, "agent", agent, &cast.agents)?;
                let payload = if matches!(value.is, Is::Nothing) { Value::Null } else { value.json() };
                let service = (*service).to_owned();
                return Some(What::Calls { service, agent, payload, id: id.map(str::to_owned) });
            }
            [who, "joins", space] => {
                let (who, space) = self.who_where(key.place, who, space, cast, sofar, false)?;
                let room = sofar.rooms.iter_mut().find(|room| room.name == space);
                room.into_iter().for_each(|room| room.members.push(who.clone()));
                What::Joins { who, space }
            }
            [who, "leaves", space] => {
                let (who, space) = self.who_where(key.place, who, space, cast, sofar, true)?;
                let room = sofar.rooms.iter_mut().find(|room| room.name == space);
                room.into_iter().for_each(|room| room.members.retain(|member| *member != who));
                What::Leaves { who, space }
            }
            [agent, "is", "suspended"] => What::Suspended(self.agent(key, agent, cast)?),
            [agent, "is", "resumed"] => What::Resumed(self.agent(key, agent, cast)?),
            [agent, "is", "canceled"] => What::Canceled(self.agent(key, agent, cast)?),
            ["the", "server", verb @ ..] => self.server(key, verb, sofar)?,
            ["the", "provider", verb] => self.provider(key, verb, sofar)?,
            ["everyone", "is", "quiet"] => What::Quiet,
            _ => {
                self.no_sentence(key);
                return None;
            }
        };
        if !matches!(value.is, Is::Nothing) {
            self.wrong(value.place, format!("nothing is wanted behind `{}:`", shown(&key.text)));
        }
        Some(what)
    }

    fn agent(&mut self, key: &YamlKey, name: &str, cast: &Cast) -> Option<String> {
        self.known(key.place, "agent", name, &cast.agents)
    }

    /// Who and where; with `inside`, who must be a member by now, else must not.
    fn who_where(
        &mut self,
        place: FilePosition,
        who: &str,
        space: &str,
        cast: &Cast,
        sofar: &Sofar,
        inside: bool,
    ) -> Option<(String, String)> {
        let who = self.known(place, "person or agent", who, &cast.actors);
        let space = self.known(place, "space", space, &cast.spaces);
        let who = who?;
        let space = space?;
        let members = sofar.rooms.iter().find(|room| room.name == space).map(|room| &room.members);
        let is_member = members.is_some_and(|members| members.contains(&who));
        if is_member == inside {
            return Some((who, space));
        }
        let flaw = if inside {
            FileFlaw::new(place, format!("`{who}` is no member of `{space}` at that time"))
                .hint(format!("add it to the members of `{space}`, or let it join before"))
        } else {
            FileFlaw::new(place, format!("`{who}` is a member of `{space}` already"))
        };
        self.flaws.add(flaw);
        None
    }

    fn server(&mut self, key: &YamlKey, verb: &[&str], sofar: &mut Sofar) -> Option<What> {
        let server = match verb {
            ["stops"] => Server::Stops,
            ["is", "killed"] => Server::Killed,
            ["starts"] => Server::Starts,
            ["restarts"] => Server::Restarts,
            _ => {
                self.no_sentence(key);
                return None;
            }
        };
        if (server == Server::Starts) == sofar.up {
            let state = if sofar.up { "runs already" } else { "does not run" };
            self.wrong(key.place, format!("`{}`: it {state} at that time", shown(&key.text)));
        }
        sofar.up = matches!(server, Server::Starts | Server::Restarts);
        Some(What::Server(server))
    }

    fn provider(&mut self, key: &YamlKey, verb: &str, sofar: &mut Sofar) -> Option<What> {
        let provider = match verb {
            "fails" => ProviderState::Fails,
            "works" => ProviderState::Works,
            _ => {
                self.no_sentence(key);
                return None;
            }
        };
        if (provider == ProviderState::Works) == sofar.works {
            let state = if sofar.works { "works" } else { "fails" };
            self.wrong(key.place, format!("`{}`: it {state} already at that time", shown(&key.text)));
        }
        sofar.works = provider == ProviderState::Works;
        Some(What::Provider(provider))
    }

    fn no_sentence(&mut self, key: &YamlKey) {
        let flaw = FileFlaw::new(key.place, format!("`{}` is nothing that can happen", shown(&key.text)));
        let hint = quoted_whole(key).unwrap_or_else(|| format!("what can: {}", listed(SENTENCES)));
        self.flaws.add(flaw.hint(hint));
    }
}
