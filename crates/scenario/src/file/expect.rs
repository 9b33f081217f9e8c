//! Reads the expectations, which are sentences.

use agent::run::Ending;

use super::cast::Cast;
use super::value::Reader;
use super::{listed, quoted_whole};
use crate::bounds;
use crate::flaw::{FileFlaw, shown};
use crate::scene::{Amount, CycleShape, Expectation, Expected, TextPattern};
use crate::yaml::{Is, YamlKey, YamlNode};

/// The sentences of expectations.
const SENTENCES: &[&str] = &[
    "WHO said in SPACE: TEXT",
    "WHO did not say in SPACE: TEXT",
    "SPACE heard: [WHO: TEXT, ...]",
    "AGENT called TOOL: TIMES",
    "AGENT did not call TOOL",
    "TOOL ran: TIMES",
    "AGENT skipped: TIMES",
    "AGENT did not skip",
    "AGENT ran cycles: TIMES",
    "AGENT processed ids: [ID, ...]",
    "AGENT skipped ids: [ID, ...]",
    "AGENT used tokens: at most N",
    "AGENT remembers KEY: TEXT",
    "AGENT does not remember KEY",
];

const NEVER: Amount = Amount::Exactly(0);
const SOME: Amount = Amount::AtLeast(1);

impl Reader<'_> {
    pub(super) fn expect(&mut self, node: &YamlNode, cast: &Cast) -> Vec<Expectation> {
        let items = self.list(node, "a list of what must be true at the end", bounds::LINES_MAX);
        if items.is_empty() {
            let message = format!("nothing is expected: add a sentence such as `{}`", SENTENCES[0]);
            self.wrong(node.place, message);
        }
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            match &item.is {
                Is::Map(pairs) => {
                    for (key, value) in pairs {
                        all.extend(self.expectation(key, value, cast));
                    }
                }
                Is::Scalar { written, .. } => {
                    let key = YamlKey { place: item.place, text: written.clone() };
                    let nothing = YamlNode { place: item.place, is: Is::Nothing };
                    all.extend(self.expectation(&key, &nothing, cast));
                }
                _ => self.wrong(item.place, format!("wanted a sentence, got {}", item.kind())),
            }
        }
        all
    }

    fn expectation(&mut self, key: &YamlKey, value: &YamlNode, cast: &Cast) -> Option<Expectation> {
        let words: Vec<&str> = key.text.split_whitespace().collect();
        let what = match words.as_slice() {
            [who, "said", "in", space] => self.said(key, who, space, value, SOME, cast)?,
            [who, "did", "not", "say", "in", space] => self.said(key, who, space, value, NEVER, cast)?,
            [space, "heard"] => self.heard(key, space, value, cast)?,
            [who, "called", tool] => self.called(key, who, tool, value, cast)?,
            [who, "did", "not", "call", tool] => {
                self.no_value(key, value);
                let agent = self.expected_agent(key, who, cast);
                let tool = self.tool(key.place, tool);
                Expected::Called { agent: agent?, tool: tool?, with: Vec::new(), times: NEVER }
            }
            [tool, "ran"] => {
                let tool = self.known(key.place, "tool", tool, &cast.tools);
                Expected::Ran { times: self.count(value)?, tool: tool? }
            }
            [who, "skipped"] => {
                let agent = self.expected_agent(key, who, cast)?;
                let times = if matches!(value.is, Is::Nothing) { SOME } else { self.count(value)? };
                Expected::Skipped { agent, times }
            }
            [who, "did", "not", "skip"] => {
                self.no_value(key, value);
                Expected::Skipped { agent: self.expected_agent(key, who, cast)?, times: NEVER }
            }
            [who, "ran", "cycles"] => self.cycles(key, who, value, cast)?,
            [who, state @ ("processed" | "skipped"), "ids"] => {
                let agent = self.expected_agent(key, who, cast)?;
                let ids = self.ids(value, cast);
                Expected::Ids { agent, state: (*state).to_owned(), ids }
            }
            [who, "used", "tokens"] => {
                Expected::Tokens { agent: self.expected_agent(key, who, cast)?, count: self.count(value)? }
            }
            [who, "remembers", kept @ ..] if !kept.is_empty() => {
                let agent = self.expected_agent(key, who, cast)?;
                let words = self.anything_or(value, &mut SOME.clone());
                Expected::Remembers { agent, key: kept.join(" "), words }
            }
            [who, "does", "not", "remember", kept @ ..] if !kept.is_empty() => {
                self.no_value(key, value);
                Expected::Forgot { agent: self.expected_agent(key, who, cast)?, key: kept.join(" ") }
            }
            _ => {
                let text = format!("`{}` is not a known expectation", shown(&key.text));
                let hint =
                    quoted_whole(key).unwrap_or_else(|| format!("known sentences: {}", listed(SENTENCES)));
                self.flaws.add(FileFlaw::new(key.place, text).hint(hint));
                return None;
            }
        };
        let sentence = words.join(" ");
        Some(Expectation { what, sentence, place: key.place })
    }

    fn expected_agent(&mut self, key: &YamlKey, name: &str, cast: &Cast) -> Option<String> {
        self.known(key.place, "agent", name, &cast.agents)
    }

    fn no_value(&mut self, key: &YamlKey, value: &YamlNode) {
        if !matches!(value.is, Is::Nothing) {
            self.wrong(value.place, format!("wanted no value after `{}:`", shown(&key.text)));
        }
    }

    fn anything_or(&mut self, value: &YamlNode, times: &mut Amount) -> TextPattern {
        if matches!(value.is, Is::Nothing) { TextPattern::default() } else { self.words(value, times) }
    }

    fn said(
        &mut self,
        key: &YamlKey,
        who: &str,
        space: &str,
        value: &YamlNode,
        mut times: Amount,
        cast: &Cast,
    ) -> Option<Expected> {
        let who = self.known(key.place, "person or agent", who, &cast.actors);
        let space = self.known(key.place, "space", space, &cast.spaces);
        let words = self.anything_or(value, &mut times);
        Some(Expected::Said { who: who?, space: space?, words, times })
    }

    fn heard(&mut self, key: &YamlKey, space: &str, value: &YamlNode, cast: &Cast) -> Option<Expected> {
        let space = self.known(key.place, "space", space, &cast.spaces);
        let mut messages = Vec::new();
        for item in self.list(value, "a list of who said what, such as `- ada: hello`", bounds::LINES_MAX) {
            let pairs = match &item.is {
                Is::Map(pairs) => pairs.as_slice(),
                // Only the sender.
                Is::Scalar { written, .. } => {
                    let who = self.known(item.place, "person or agent", written, &cast.actors);
                    messages.extend(who.map(|who| (who, TextPattern::default())));
                    continue;
                }
                _ => {
                    self.wrong(item.place, format!("wanted `WHO: TEXT`, got {}", item.kind()));
                    continue;
                }
            };
            for (who, said) in pairs {
                let name = self.known(who.place, "person or agent", &who.text, &cast.actors);
                let words = self.anything_or(said, &mut SOME.clone());
                messages.extend(name.map(|name| (name, words)));
            }
        }
        Some(Expected::Heard { space: space?, messages })
    }

    fn called(
        &mut self,
        key: &YamlKey,
        who: &str,
        tool: &str,
        value: &YamlNode,
        cast: &Cast,
    ) -> Option<Expected> {
        let agent = self.expected_agent(key, who, cast);
        let tool = self.tool(key.place, tool);
        let mut with = Vec::new();
        let mut times = SOME;
        match &value.is {
            Is::Nothing => {}
            Is::Map(pairs) => {
                for (key, value) in pairs {
                    match key.text.as_str() {
                        "with" => with = self.texts(value, "words of the arguments"),
                        "times" => times = self.count(value)?,
                        _ => self.unknown(key, &["with", "times"]),
                    }
                }
            }
            _ => times = self.count(value)?,
        }
        Some(Expected::Called { agent: agent?, tool: tool?, with, times })
    }

    fn cycles(&mut self, key: &YamlKey, who: &str, value: &YamlNode, cast: &Cast) -> Option<Expected> {
        let agent = self.expected_agent(key, who, cast)?;
        let Is::List(items) = &value.is else {
            return Some(Expected::Cycles { agent, times: self.count(value)? });
        };
        let cycles = items.iter().map(|item| self.shape(item)).collect();
        Some(Expected::CycleList { agent, cycles })
    }

    fn shape(&mut self, node: &YamlNode) -> CycleShape {
        let mut shape = CycleShape::default();
        for (key, value) in self.map(node, "a cycle such as `{events: 1, steps: 2, ended: completed}`") {
            match key.text.as_str() {
                "events" => shape.events = self.count(value),
                "steps" => shape.steps = self.count(value),
                "ended" => {
                    let word = value.words().unwrap_or_default();
                    shape.ended = Ending::try_from(word).ok();
                    if shape.ended.is_none() {
                        let wanted = "`completed`, `exhausted`, `canceled` or `failed`";
                        self.wrong(value.place, format!("wanted {wanted}, got {}", value.kind()));
                    }
                }
                _ => self.unknown(key, &["events", "steps", "ended"]),
            }
        }
        shape
    }

    fn ids(&mut self, value: &YamlNode, cast: &Cast) -> Vec<String> {
        let items: Vec<&YamlNode> = match &value.is {
            Is::List(items) => items.iter().collect(),
            _ => vec![value],
        };
        let mut ids = Vec::new();
        for item in items {
            let Some(name) = self.text(item, "the `id` of a message or event") else { continue };
            if cast.ids.contains(&name) {
                ids.push(name);
            } else {
                let flaw =
                    FileFlaw::new(item.place, format!("nothing in the story has the id `{}`", shown(&name)));
                self.flaws.add(flaw.hint("add `id: NAME` to the sentence"));
            }
        }
        ids
    }
}
