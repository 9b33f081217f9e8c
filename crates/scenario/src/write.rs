//! Writes a scenario as a file that people read and change. Reading the file returns the same scenario.

use std::fmt::Write as _;
use std::time::Duration;

use agent::config::{AgentConfig, WakeOn};
use agent::tool::ToolLabel;
use serde_json::{Map, Value, json};

use crate::scene::{
    Act, Actor, Amount, Condition, Expectation, Expected, PersonReply, ProviderState, Rule, Scenario,
    SceneHook, SceneOutcome, SceneTool, Server, StoryAction, StoryEvent, TextPattern, When,
};

/// The text of a scenario.
pub fn written(scenario: &Scenario) -> String {
    let mut out = format!("scenario: {}\n", scalar(&scenario.name));
    if !scenario.about.is_empty() {
        let _ = writeln!(out, "about: {}", block(&scenario.about, 2));
    }
    let _ = writeln!(out, "\npeople: [{}]", scenario.people.join(", "));
    if !scenario.tools.is_empty() {
        out.push_str("tools:\n");
        scenario.tools.iter().for_each(|own| tool(&mut out, own));
    }
    if !scenario.agents.is_empty() {
        out.push_str("agents:\n");
        scenario.agents.iter().for_each(|actor| agent(&mut out, actor));
    }
    if !scenario.spaces.is_empty() {
        out.push_str("spaces:\n");
        for room in &scenario.spaces {
            let members = format!("[{}]", room.members.join(", "));
            let _ = match room.wake_on {
                WakeOn::All => writeln!(out, "  {}: {members}", room.name),
                rule => {
                    writeln!(out, "  {}: {{members: {members}, wake_on: {}}}", room.name, rule.as_str())
                }
            };
        }
    }
    if !scenario.hooks.is_empty() {
        out.push_str("hooks:\n");
        scenario.hooks.iter().for_each(|own| hook(&mut out, own));
    }
    out.push_str("\nstory:\n");
    scenario.story.iter().for_each(|event| story_event(&mut out, event));
    out.push_str("\nexpect:\n");
    scenario.expect.iter().for_each(|expectation| expectation_line(&mut out, expectation));
    out
}

fn tool(out: &mut String, tool: &SceneTool) {
    let SceneTool { name, effect, labels, description, input, outcomes } = tool;
    let labels: Vec<&str> = labels.iter().map(ToolLabel::as_str).collect();
    let mut keys = vec![format!("effect: {}", effect.as_str()), format!("labels: [{}]", labels.join(", "))];
    if !description.is_empty() {
        keys.push(format!("description: {}", Value::from(description.as_str())));
    }
    keys.extend(input.iter().map(|schema| format!("input: {schema}")));
    let outcomes = outcomes.iter().map(|SceneOutcome { text, failed }| match failed {
        true => json!({"error": text}),
        false => json!(text),
    });
    let outcomes: Vec<Value> = outcomes.collect();
    let _ = writeln!(out, "  {name}: {{{}, outcome: {}}}", keys.join(", "), json!(outcomes));
}

fn hook(out: &mut String, hook: &SceneHook) {
    let SceneHook { name, to, template, only_if, urgent, trusted } = hook;
    let mut keys = vec![format!("to: [{}]", to.join(", "))];
    for (key, text) in [("template", template), ("only_if", only_if), ("urgent", urgent)] {
        keys.extend(text.as_ref().map(|text| format!("{key}: {}", Value::from(text.as_str()))));
    }
    keys.extend(trusted.then(|| "trusted: true".to_owned()));
    let _ = writeln!(out, "  {name}: {{{}}}", keys.join(", "));
}

fn agent(out: &mut String, actor: &Actor) {
    let _ = writeln!(out, "  {}:", actor.name);
    let before = out.len();
    let config = actor.config.to_json();
    let default = AgentConfig::default().to_json();
    for (key, value) in changed(&config, &default) {
        let value = value.as_str().map_or_else(|| value.to_string(), |text| block(text, 6));
        let _ = writeln!(out, "    {key}: {value}");
    }
    if let Some(rules) = &actor.script {
        out.push_str("    script:\n");
        rules.iter().for_each(|rule| script(out, rule));
    }
    if out.len() == before {
        out.truncate(before - 1);
        out.push_str(" {}\n");
    }
}

/// The keys whose values differ from the default.
fn changed(config: &Value, default: &Value) -> Map<String, Value> {
    let (Value::Object(config), Value::Object(default)) = (config, default) else { return Map::new() };
    let mut keys = Map::new();
    for (key, value) in config {
        match default.get(key) {
            Some(same) if same == value => {}
            Some(below @ Value::Object(_)) => {
                keys.insert(key.clone(), Value::Object(changed(value, below)));
            }
            _ => {
                keys.insert(key.clone(), value.clone());
            }
        }
    }
    keys
}

fn script(out: &mut String, rule: &Rule) {
    let mut lines: Vec<String> = Vec::new();
    let Condition { inbox, shown, knows, cycle } = &rule.when;
    let mut when: Vec<String> = cycle.iter().map(|cycle| format!("cycle: {cycle}")).collect();
    for (key, words) in [("inbox", inbox), ("shown", shown), ("knows", knows)] {
        if !words.is_empty() {
            when.push(format!("{key}: {}", Value::from(words.clone())));
        }
    }
    if !when.is_empty() {
        lines.push(format!("when: {{{}}}", when.join(", ")));
    }
    match rule.steps.as_slice() {
        [step] if !step.is_empty() && !has_duplicates(step) => {
            lines.extend(step.iter().map(|act| act_line(act, 10)))
        }
        [] => lines.push("steps: []".to_owned()),
        steps => {
            lines.push("steps:".to_owned());
            for step in steps {
                let duplicates = has_duplicates(step);
                for (index, act) in step.iter().enumerate() {
                    let lead = if index == 0 { "  - " } else { "    " };
                    let (item, indent) = if duplicates { ("- ", 16) } else { ("", 14) };
                    lines.push(format!("{lead}{item}{}", act_line(act, indent)));
                }
            }
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let lead = if index == 0 { "      - " } else { "        " };
        let _ = writeln!(out, "{lead}{line}");
    }
}

/// Whether a key would be twice in the mapping of a step.
fn has_duplicates(step: &[Act]) -> bool {
    let keys: Vec<String> = step.iter().map(key).collect();
    keys.iter().enumerate().any(|(index, key)| keys[..index].contains(key))
}

fn key(act: &Act) -> String {
    match act {
        Act::Think(_) => "think".to_owned(),
        Act::Wait(_) => "wait".to_owned(),
        Act::Say { space: Some(space), .. } => format!("say in {space}"),
        Act::Say { space: None, .. } => "say".to_owned(),
        Act::Call { tool, .. } => format!("call {tool}"),
        Act::Miscall { .. } => "miscall".to_owned(),
        Act::Skip(_) => "skip".to_owned(),
        Act::Done(_) => "done".to_owned(),
    }
}

fn act_line(act: &Act, indent: usize) -> String {
    let value = match act {
        Act::Think(text) | Act::Say { text, .. } => block(text, indent),
        Act::Wait(time) => shown(*time),
        Act::Call { arguments, .. } => arguments.to_string(),
        Act::Miscall { tool, arguments } => {
            format!("{{tool: {}, arguments: {arguments}}}", Value::from(tool.as_str()))
        }
        Act::Skip(remark) | Act::Done(remark) => {
            remark.as_ref().map(|text| block(text, indent)).unwrap_or_default()
        }
    };
    // In a mapping with other keys a key needs its colon, even without a value.
    format!("{}: {value}", key(act)).trim_end().to_owned()
}

fn story_event(out: &mut String, event: &StoryEvent) {
    let mut lines: Vec<String> = Vec::new();
    match event.when {
        When::Quiet => {}
        When::At(time) => lines.push(format!("at: {}", shown(time))),
        When::After(time) => lines.push(format!("after: {}", shown(time))),
    }
    if event.times > 1 {
        lines.push(format!("times: {}", event.times));
    }
    for what in &event.what {
        if let StoryAction::Says { id: Some(id), .. }
        | StoryAction::Calls { id: Some(id), .. }
        | StoryAction::Delivers { id: Some(id), .. } = what
        {
            lines.push(format!("id: {}", scalar(id)));
        }
        lines.push(match what {
            StoryAction::Says { who, space, text, .. } => {
                format!("{who} says in {space}: {}", block(text, 6))
            }
            StoryAction::Calls { service, agent, payload, .. } => {
                format!("{service} calls {agent}: {payload}")
            }
            StoryAction::Delivers { hook, body, .. } => format!("hook {hook} delivers: {body}"),
            StoryAction::Plans { agent, terms } => format!("{agent} plans: {}", json!(terms)),
            StoryAction::Due { agent, name, instruction } => {
                format!("{agent} is due: {}", json!({"name": name, "instruction": instruction}))
            }
            StoryAction::Joins { who, space } => format!("{who} joins {space}:"),
            StoryAction::Leaves { who, space } => format!("{who} leaves {space}:"),
            StoryAction::Suspended(agent) => format!("{agent} is suspended:"),
            StoryAction::Resumed(agent) => format!("{agent} is resumed:"),
            StoryAction::Canceled(agent) => format!("{agent} is canceled:"),
            StoryAction::Answers { who, agent, tool, reply, may } => {
                let tool = tool.as_deref().unwrap_or_default();
                match (reply, may) {
                    (PersonReply::Approves, true) => format!("{who} approves {tool} of {agent}:"),
                    (PersonReply::Approves, false) => format!("{who} may not approve {tool} of {agent}:"),
                    (PersonReply::Refuses(reason), _) => {
                        format!("{who} refuses {tool} of {agent}: {}", Value::from(reason.as_str()))
                    }
                    (PersonReply::Says(answer), true) => format!("{who} answers {agent}: {answer}"),
                    (PersonReply::Says(answer), false) => format!("{who} may not answer {agent}: {answer}"),
                }
            }
            StoryAction::Server(Server::Stops) => "the server stops:".to_owned(),
            StoryAction::Server(Server::Killed) => "the server is killed:".to_owned(),
            StoryAction::Server(Server::Starts) => "the server starts:".to_owned(),
            StoryAction::Server(Server::Restarts) => "the server restarts:".to_owned(),
            StoryAction::Provider(ProviderState::Fails) => "the provider fails:".to_owned(),
            StoryAction::Provider(ProviderState::Works) => "the provider works:".to_owned(),
            StoryAction::Quiet => "everyone is quiet:".to_owned(),
        });
    }
    for (index, line) in lines.iter().enumerate() {
        let lead = if index == 0 { "  - " } else { "    " };
        let _ = writeln!(out, "{lead}{line}");
    }
}

fn expectation_line(out: &mut String, expectation: &Expectation) {
    let value = match &expectation.what {
        Expected::Said { words, times, .. } => texts(words, Some(*times)),
        Expected::Heard { messages, .. } => {
            let one = |(who, words): &(String, TextPattern)| match texts(words, None) {
                text if text.is_empty() => format!("\n      - {who}"),
                text => format!("\n      - {who}: {text}"),
            };
            messages.iter().map(one).collect()
        }
        Expected::Called { with, times, .. } => {
            format!("{{with: {}, times: {times}}}", Value::from(with.clone()))
        }
        Expected::Ran { times, .. } | Expected::Skipped { times, .. } | Expected::Cycles { times, .. } => {
            times.to_string()
        }
        Expected::CycleList { cycles, .. } => {
            cycles.iter().map(|cycle| format!("\n      - {cycle}")).collect()
        }
        Expected::Ids { ids, .. } => Value::from(ids.clone()).to_string(),
        Expected::Tokens { count, .. } => count.to_string(),
        Expected::Remembers { words, .. } => texts(words, None),
        Expected::Forgot { .. } => String::new(),
    };
    // Negative sentences take no value.
    let no_value = matches!(expectation.what, Expected::Forgot { .. })
        || (expectation.sentence.contains(" did not ") && !expectation.sentence.contains(" say "));
    let space = if value.starts_with('\n') || value.is_empty() { "" } else { " " };
    let tail = if no_value { String::new() } else { format!(":{space}{value}") };
    let _ = writeln!(out, "  - {}{tail}", expectation.sentence);
}

fn texts(words: &TextPattern, times: Option<Amount>) -> String {
    let times = times.filter(|times| !matches!(times, Amount::AtLeast(1) | Amount::Exactly(0)));
    if words.matches_all() && times.is_none() {
        return String::new();
    }
    let mut keys = Vec::new();
    if let Some(whole) = &words.equals {
        keys.push(format!("equals: {}", Value::from(whole.clone())));
    }
    for (key, words) in [("contains", &words.all), ("any", &words.any)] {
        if !words.is_empty() {
            keys.push(format!("{key}: {}", Value::from(words.clone())));
        }
    }
    keys.extend(times.map(|times| format!("times: {times}")));
    format!("{{{}}}", keys.join(", "))
}

fn shown(time: Duration) -> String {
    let ms = time.as_millis();
    if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

/// A text of several lines as a block with this indentation, if YAML allows it.
fn block(text: &str, indent: usize) -> String {
    let plain = |line: &str| !line.ends_with([' ', '\t']) && !line.contains(char::is_control);
    let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    let fits = lines.len() > 1 && !lines[0].starts_with(' ') && lines.iter().all(|line| plain(line));
    if !fits || text.ends_with("\n\n") || text.starts_with('\n') {
        return scalar(text);
    }
    let mut out = String::from(if text.ends_with('\n') { "|" } else { "|-" });
    for line in lines {
        out.push('\n');
        if !line.is_empty() {
            let _ = write!(out, "{}{line}", " ".repeat(indent));
        }
    }
    out
}

/// A text of one line, in quotes if YAML could read it as something else.
fn scalar(text: &str) -> String {
    let begins = text.starts_with(|c: char| c.is_alphabetic());
    let ends = text.ends_with(|c: char| !c.is_whitespace() && c != ':');
    let inside = !text.contains(": ") && !text.contains(" #") && !text.contains(char::is_control);
    let word = ["true", "false", "null", "yes", "no", "on", "off", "nan", "inf"];
    let taken = word.contains(&text.to_lowercase().as_str());
    if begins && ends && inside && !taken && !text.contains(is_unsafe) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// Characters that YAML treats as line ends or that are not portable.
fn is_unsafe(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{80}'..='\u{9f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read;
    use crate::flaw::FilePosition;

    /// The scenario without positions, for comparison.
    fn bare(mut scenario: Scenario) -> Scenario {
        scenario.agents.iter_mut().for_each(|actor| actor.place = FilePosition::default());
        scenario.story.iter_mut().for_each(|event| event.place = FilePosition::default());
        scenario.expect.iter_mut().for_each(|expectation| expectation.place = FilePosition::default());
        scenario
    }

    fn check(text: &str) {
        let tools = ["read_messages", "set_memories", "send_message"].map(str::to_owned);
        let first = read(text.as_bytes(), &tools).unwrap_or_else(|flaws| panic!("{flaws:#?}"));
        let out = written(&first);
        let second = read(out.as_bytes(), &tools).unwrap_or_else(|flaws| panic!("{flaws:#?}\n{out}"));
        assert_eq!(bare(first), bare(second), "{out}");
    }

    #[test]
    fn a_written_scenario_is_read_back_unchanged() {
        check(
            "scenario: \"All: of it\"\nabout: |\n  One.\n\n  Two.\npeople: [a, b]\nagents:\n  x:\n    \
             instructions: \"a\\n b\\n\"\n    debounce: 5\n    limits: {max_steps: 3}\n    script:\n      \
             - when: {cycle: 2, inbox: [\"a \\\"q\\\"\", b], knows: c}\n        steps:\n          \
             - think: \"# no comment\"\n            wait: 1500ms\n            say in s: \"two\\nlines\"\n          \
             - call read_messages: {space: s}\n          - call read_messages: \"{broken\"\n          - - say in s: one\n            \
             - say in s: two\n          - done: \"yes\"\n      \
             - skip\n  y: {}\nspaces:\n  s: [a, x]\n  t: {members: [y], wake_on: mention}\nstory:\n  - a says in s: \"@x: hi\"\n  \
             - at: 2s\n    id: m 1\n    a says in s: \" odd \\t\"\n  - after: 1ms\n    svc calls x: {k: [1, null]}\n    \
             b joins s:\n  - b leaves s\n  - x is suspended\n  - x is resumed\n  - the server restarts\n  \
             - the provider fails\n  - the provider works\n  - everyone is quiet\nexpect:\n  - x said in s: {equals: \"a\\nb\", times: at most 2}\n  \
             - x said in s\n  - a did not say in s: [u, v]\n  - x did not call read_messages\n  - x did not skip\n  \
             - s heard: [a, {x: hello}]\n  - x called read_messages: {with: s, times: 1}\n  - x skipped: at least 1\n  \
             - x ran cycles: 2\n  - x ran cycles: [{events: 1, ended: completed}, {}]\n  - x processed ids: [m 1]\n  \
             - x used tokens: at most 500\n  - x remembers a key: {any: [u, v]}\n  - x does not remember a key\n",
        );
    }

    #[test]
    fn texts_that_yaml_could_misread_are_quoted() {
        for (text, quoted) in [
            ("plain words, and more.", false),
            ("4", true),
            ("true", true),
            ("a: b", true),
            ("a #b", true),
            ("@x", true),
            ("", true),
            ("ends:", true),
            ("a\u{2028}b", true),
        ] {
            assert_eq!(scalar(text).starts_with('"'), quoted, "{text}");
        }
    }
}
