//! Tests of reading files: valid files, and the message of every flaw.

use super::*;
use agent::config::WakeOn;

use crate::scene::{Act, Amount, Condition, Expected, PersonReply, Room, Server, StoryAction, When};

fn tools() -> Vec<String> {
    ["send_message", "read_messages", "set_memories", "skip", "done"].map(str::to_owned).to_vec()
}

/// A complete file with this story and these expectations.
fn file(story: &str, expect: &str) -> String {
    format!(
        "scenario: A test\npeople: [husam]\nagents:\n  ada:\n    script:\n      - say: hello\n\
         spaces:\n  lobby: [husam, ada]\n  empty: [ada]\nstory:\n{story}expect:\n{expect}"
    )
}

fn flaws(text: &str) -> Vec<String> {
    let flaws = match read(text.as_bytes(), &tools()) {
        Ok(scenario) => panic!("nothing is wrong with {scenario:?}"),
        Err(flaws) => flaws,
    };
    flaws.iter().map(|flaw| format!("{}:{}: {flaw}", flaw.place.line, flaw.place.column)).collect()
}

const HELLO: &str = "  - husam says in lobby: hi\n";
const ANSWER: &str = "  - ada said in lobby: hello\n";

#[test]
fn a_complete_file_is_read() {
    let text = "\u{feff}scenario: All of it\nabout: |\n  More.\npeople: [Husam, ahmad]\nagents:\n  ada:\n    \
                instructions: Be kind.\n    debounce: 500\n    script:\n      - when: [one, two]\n        \
                think: hm\n        say in ops: 4\n      - when: {inbox: x, knows: y, cycle: 2}\n        \
                steps:\n          - call read_messages: {space: ops}\n          - wait: 2s\n            \
                done: all good\n      - skip\nspaces:\n  ops: [husam, ada]\nstory:\n  - husam says in ops: one\n  \
                - at: 5s\n    jira calls ada: {issue: 7}\n    ahmad joins ops\n  - everyone is quiet\n";
    // In a mapping each key needs a colon.
    let text = text.replace("ahmad joins ops\n", "ahmad joins ops:\n");
    let text = format!(
        "{text}  - after: 300ms\n    id: m1\n    ahmad says in ops: two\n  - the server is killed\n  \
         - the server starts\nexpect:\n  - ada said in ops: {{equals: \"4\", times: at most 2}}\n  \
         - ada ran cycles: [{{events: 1, steps: 2}}]\n  - ada processed ids: [m1]\n  - ada used tokens: at most 5_000\n"
    );
    let scenario = read(text.as_bytes(), &tools()).unwrap();
    assert_eq!(scenario.people, ["husam", "ahmad"]);
    assert_eq!(
        scenario.spaces,
        [Room { name: "ops".into(), members: vec!["husam".into(), "ada".into()], ..Room::default() }]
    );
    let ada = &scenario.agents[0];
    assert_eq!((ada.config.debounce, ada.config.instructions.as_str()), (500, "Be kind."));
    let rules = ada.script.as_ref().unwrap();
    assert_eq!(rules[0].when.inbox, ["one", "two"]);
    assert_eq!(
        rules[0].steps,
        [[Act::Think("hm".into()), Act::Say { space: Some("ops".into()), text: "4".into() }]]
    );
    let when = Condition {
        inbox: vec!["x".into()],
        knows: vec!["y".into()],
        cycle: Some(2),
        ..Condition::default()
    };
    assert_eq!((&rules[1].when, rules[1].steps.len()), (&when, 2));
    assert_eq!(rules[2].steps, [[Act::Skip(None)]]);
    assert_eq!(scenario.story[0].when, When::Quiet);
    assert_eq!((scenario.story[1].when, scenario.story[1].what.len()), (When::At(time(5_000)), 2));
    assert_eq!(scenario.story[3].when, When::After(time(300)));
    assert!(matches!(&scenario.story[3].what[0], StoryAction::Says { id: Some(id), .. } if id == "m1"));
    assert_eq!(scenario.story[4].what, [StoryAction::Server(Server::Killed)]);
    let Expected::Said { words, times, .. } = &scenario.expect[0].what else { panic!() };
    assert_eq!((words.equals.as_deref(), *times), (Some("4"), Amount::AtMost(2)));
    assert_eq!(scenario.expect[0].sentence, "ada said in ops");
}

#[test]
fn people_answer_agents_and_agents_answer_nobody() {
    let story = "  - husam approves done of ada\n  - husam refuses done of ada: too dear\n  - husam answers ada: {n: 3}\n  - husam may not approve done of ada\n  - husam may not answer ada: no\n";
    let scenario = read(file(story, ANSWER).as_bytes(), &tools()).unwrap();
    let answers = |tool: Option<&str>, reply, may| StoryAction::Answers {
        who: "husam".into(),
        agent: "ada".into(),
        tool: tool.map(str::to_owned),
        reply,
        may,
    };
    let what: Vec<StoryAction> = scenario.story.iter().flat_map(|event| event.what.clone()).collect();
    assert_eq!(
        what,
        [
            answers(Some("done"), PersonReply::Approves, true),
            answers(Some("done"), PersonReply::Refuses("too dear".into()), true),
            answers(None, PersonReply::Says(serde_json::json!({"n": 3})), true),
            answers(Some("done"), PersonReply::Approves, false),
            answers(None, PersonReply::Says(serde_json::json!("no")), false),
        ]
    );
    let again = read(crate::write::written(&scenario).as_bytes(), &tools()).unwrap();
    assert_eq!(again.story.iter().flat_map(|event| event.what.clone()).collect::<Vec<_>>(), what);
    let wrong = flaws(&file("  - ada approves done of ada\n", ANSWER));
    assert!(wrong.iter().any(|flaw| flaw.contains("only people answer")), "{wrong:?}");
    let empty = flaws(&file("  - husam answers ada:\n", ANSWER));
    assert!(
        empty.iter().any(|flaw| flaw.contains("wanted an answer after `husam answers ada:`")),
        "{empty:?}"
    );
}

fn time(ms: u64) -> std::time::Duration {
    std::time::Duration::from_millis(ms)
}

#[test]
fn an_unknown_actor_space_or_tool_names_the_nearest() {
    let story = "  - husan says in lobby: hi\n  - husam says in loby: hi\n  - mallory says in lobby: hi\n";
    assert_eq!(
        flaws(&file(story, ANSWER)),
        [
            "11:5: there is no person or agent `husan` in this scenario; did you mean `husam`?",
            "12:5: there is no space `loby` in this scenario; did you mean `lobby`?",
            "13:5: there is no person or agent `mallory` in this scenario; there are `husam`, `ada`",
        ]
    );
    let expect = "  - husam skipped: 1\n  - ada called read_mesages: 2\n";
    assert_eq!(
        flaws(&file(HELLO, expect)),
        [
            "13:5: there is no agent `husam` in this scenario; there are `ada`",
            "14:5: there is no tool `read_mesages`; did you mean `read_messages`?",
        ]
    );
}

#[test]
fn a_sender_must_be_a_member_at_that_time() {
    let story = "  - husam says in empty: hi\n  - husam joins empty\n  - husam says in empty: hi\n  \
                 - husam joins lobby\n";
    assert_eq!(
        flaws(&file(story, ANSWER)),
        [
            "11:5: `husam` is not a member of `empty` at that time",
            "14:5: `husam` is already a member of `lobby`",
        ]
    );
}

#[test]
fn a_sentence_with_times_happens_several_times_and_takes_no_id() {
    let scenario =
        read(file("  - times: 1_000\n    husam says in lobby: hi\n", ANSWER).as_bytes(), &tools()).unwrap();
    assert_eq!((scenario.story[0].times, scenario.story[0].what.len()), (1_000, 1));
    let story = "  - times: 0\n    husam says in lobby: hi\n  - times: 1001\n    husam says in lobby: hi\n  \
                 - times: 2\n    id: m1\n    husam says in lobby: hi\n";
    assert_eq!(
        flaws(&file(story, ANSWER)),
        [
            "11:12: wanted a number from 1 to 1000",
            "13:12: wanted a number from 1 to 1000",
            "15:5: an `id` names one message or event: write the others separately",
        ]
    );
}

#[test]
fn an_impossible_time_is_refused_with_the_reason() {
    let story = "  - at: -2s\n    husam says in lobby: hi\n  - after: 999h\n    husam says in lobby: hi\n  \
                 - at: soon\n    after: 1s\n    husam says in lobby: hi\n  - at: 3s\n";
    let wanted = "wanted a time such as `300ms`, `2s`, `5m`, `1h` or `2d`, got";
    assert_eq!(
        flaws(&file(story, ANSWER)),
        [
            format!("11:9: {wanted} `-2s`: time does not run backwards"),
            format!("13:12: {wanted} `999h`: at most 30 d are allowed"),
            format!("15:9: {wanted} `soon`"),
            "15:9: wanted `at` or `after`, got both".to_owned(),
            "18:5: a time without anything that happens then".to_owned(),
        ]
    );
}

#[test]
fn a_time_before_an_earlier_entry_is_refused_and_names_that_entry() {
    let story = "  - at: 90s\n    husam says in lobby: a\n  - husam says in lobby: b\n  - at: 1m\n    \
                 husam says in lobby: c\n  - at: 90s\n    husam says in lobby: d\n  - after: 2m\n    \
                 husam says in lobby: e\n  - after: 0s\n    husam says in lobby: f\n  - at: 3m\n    \
                 husam says in lobby: g\n";
    assert_eq!(
        flaws(&file(story, ANSWER)),
        [
            "14:9: `at: 1m` is impossible: line 11 has reached 90s, and time does not run backwards",
            "22:9: `at: 3m` is impossible: line 18 has reached 210s, and time does not run backwards",
        ]
    );
    read(
        file(
            &story
                .replace("at: 1m", "at: 91s")
                .replace("at: 90s\n    husam says in lobby: d", "at: 92s\n    husam says in lobby: d")
                .replace("at: 3m", "at: 1d"),
            ANSWER,
        )
        .as_bytes(),
        &tools(),
    )
    .unwrap();
}

#[test]
fn unknown_keys_and_sentences_are_reported_with_the_known_ones() {
    let text = file(HELLO, ANSWER).replace("scenario: A test", "scenario: A test\nexepct: []");
    assert_eq!(flaws(&text), ["2:1: unknown key `exepct`; did you mean `expect`?"]);
    let story = "  - husam shouts in lobby: hi\n";
    let found = read(file(story, ANSWER).as_bytes(), &tools()).unwrap_err();
    assert_eq!(found[0].to_string(), "`husam shouts in lobby` is not a known sentence of a story");
    assert!(found[0].hint.as_ref().unwrap().contains("`WHO says in SPACE: TEXT`"));
    let expect = "  - ada said: hello\n";
    let found = read(file(HELLO, expect).as_bytes(), &tools()).unwrap_err();
    assert_eq!(found[0].to_string(), "`ada said` is not a known expectation");
    let text = file(HELLO, ANSWER).replace("- say: hello", "- sya: hello");
    assert_eq!(flaws(&text), ["6:9: `sya` is not a known action; did you mean `say`?"]);
}

#[test]
fn a_config_is_checked_with_positions() {
    let with =
        |config: &str| file(HELLO, ANSWER).replace("    script:", &format!("    {config}\n    script:"));
    assert_eq!(
        flaws(&with("instruction: Be kind.")),
        ["5:5: unknown key `instruction`; did you mean `instructions`?"]
    );
    assert_eq!(flaws(&with("limits: {max_steps: 0}")), ["5:14: `limits.max_steps` must be 1 to 1000, got 0"]);
    assert_eq!(
        flaws(&with("tools: [send_mesage]")),
        ["5:13: there is no tool `send_mesage`; did you mean `send_message`?"]
    );
    assert_eq!(
        flaws(&with(
            "gates: [{from: 0, to: 1, active_tools: [skip, nope]}]\n    awareness: sometimes\n    limits: {max_steps: 0}"
        )),
        [
            "5:51: there is no tool `nope`; did you mean `done`?",
            "6:5: `awareness`: wanted one of `none`, `preview`, `inject`, `preview+inject`, `interrupt`, got \"sometimes\"",
            "7:14: `limits.max_steps` must be 1 to 1000, got 0",
        ]
    );
    let wrong = flaws(&with("debounce: soon"));
    assert!(wrong[0].starts_with("5:5: `debounce`: wanted a whole number"), "{wrong:?}");
}

#[test]
fn duplicate_names_are_refused() {
    let text = file(HELLO, ANSWER).replace("people: [husam]", "people: [husam, Husam, ada]");
    assert_eq!(
        flaws(&text)[..2],
        [
            "2:17: `husam` is listed twice",
            "4:3: the handle `ada` is used twice: people and agents need different handles",
        ]
    );
    let twice = file(HELLO, ANSWER).replace("  empty: [ada]", "  lobby: [ada]");
    assert_eq!(flaws(&twice), ["9:3: the key `lobby` is given twice"]);
}

#[test]
fn wrong_types_and_missing_sections_are_reported() {
    assert_eq!(
        flaws("people: husam\n"),
        [
            "1:1: `scenario` is missing: say in a sentence what it shows",
            "1:9: wanted a list of people such as `[husam, ahmad]`, got `husam`",
            "1:1: `story` is missing: a list of what happens",
            "1:1: `expect` is missing: a list of what must be true at the end",
        ]
    );
    assert!(flaws("")[0].starts_with("0:0: the file is empty; a scenario has the keys `scenario`"));
    assert!(flaws("# nothing\n")[0].contains("the file is empty"));
    assert!(flaws("just words\n")[0].starts_with("1:1: wanted a mapping with the keys"));
    assert_eq!(
        flaws(&file("  []\n", "  []\n")),
        [
            "11:3: nothing happens: a story needs a sentence such as `WHO says in SPACE: TEXT`",
            "13:3: nothing is expected: add a sentence such as `WHO said in SPACE: TEXT`",
        ]
    );
}

#[test]
fn a_server_cannot_start_twice_or_be_stopped_at_the_end() {
    let story = "  - the server starts\n  - the server stops\n";
    assert_eq!(
        flaws(&file(story, ANSWER)),
        [
            "11:5: `the server starts`: it already runs at that time",
            "11:3: the server does not run at the end of the story, so no agent could act",
        ]
    );
}

#[test]
fn bytes_that_are_not_utf8_are_refused_with_their_line() {
    let found = read(b"scenario: x\npeople: [\xff]\n", &tools()).unwrap_err();
    assert_eq!(
        (found[0].place.line, found[0].to_string().as_str()),
        (2, "wanted UTF-8 text, got other bytes")
    );
    let huge = vec![b'a'; bounds::FILE_MAX_BYTES + 1];
    assert!(read(&huge, &tools()).unwrap_err()[0].to_string().starts_with("wanted a file of at most"));
}

#[test]
fn an_unknown_id_is_refused() {
    assert_eq!(
        flaws(&file(HELLO, "  - ada processed ids: [m1]\n")),
        ["13:25: nothing in the story has the id `m1`"]
    );
}

#[test]
fn the_number_of_reported_flaws_is_limited() {
    let story = "  - nonsense\n".repeat(500);
    assert_eq!(flaws(&file(&story, ANSWER)).len(), bounds::FLAWS_MAX);
}

#[test]
fn keys_in_the_scenario_override_those_of_the_agent_file() {
    let text = "scenario: x\npeople: [mira]\nagents:\n  ops: {file: o.md, limits: {max_steps: 3}}\n\
                spaces: {home: [mira, ops]}\nstory: [{mira says in home: hi}]\nexpect: [{ops ran cycles: 1}]\n";
    let of_file = serde_json::json!({"instructions": "You are Ops.", "limits": {"max_steps": 9, "events_per_cycle": 4}});
    let file = |path: &str, _: &[String]| match path {
        "o.md" => Ok(of_file.as_object().unwrap().clone()),
        other => Err(vec![format!("{other}:2: it is not what it should be")]),
    };
    let ops = read_with(text.as_bytes(), &[], &file, &NoHooks).unwrap().agents.remove(0).config;
    let got = (ops.instructions.as_str(), ops.limits.max_steps, ops.limits.events_per_cycle);
    assert_eq!(got, ("You are Ops.", 3, 4));
    let flaws = read_with(text.replace("o.md", "p.md").as_bytes(), &[], &file, &NoHooks).unwrap_err();
    assert_eq!((flaws.len(), flaws[0].place.line), (1, 4), "{flaws:?}");
    assert_eq!(flaws[0].message, "p.md:2: it is not what it should be");
}

#[test]
fn a_space_is_a_list_of_members_or_a_mapping() {
    let with = |space: &str| {
        let text = format!(
            "scenario: x\npeople: [husam]\nspaces:\n  ops: {space}\nstory:\n  - husam says in ops: hi\nexpect:\n  - husam said in ops\n"
        );
        read(text.as_bytes(), &[]).map(|scenario| scenario.spaces).map_err(|flaws| format!("{flaws:?}"))
    };
    let members = vec!["husam".to_owned()];
    let quiet = Room { name: "ops".into(), members: members.clone(), wake_on: WakeOn::Mention };
    assert_eq!(with("{members: [husam], wake_on: mention}").unwrap(), [quiet]);
    let plain = Room { name: "ops".into(), members, wake_on: WakeOn::All };
    assert_eq!(with("{members: [husam]}").unwrap(), with("[husam]").unwrap());
    assert_eq!(with("[husam]").unwrap(), [plain]);
    let refused = |space: &str, words: &str| {
        let flaws = with(space).unwrap_err();
        assert!(flaws.contains(words), "{space}: {flaws}");
    };
    refused("{members: [husam], wake_on: never}", "wanted `all` or `mention`, got `never`");
    refused("{members: [husam], wakeon: all}", "did you mean `wake_on`");
}

#[test]
fn quotes_around_a_whole_sentence_are_reported() {
    let check = |story: &str, expect: &str, wanted: &str| {
        let flaws = read(file(story, expect).as_bytes(), &tools()).unwrap_err();
        let hints: Vec<String> = flaws.into_iter().filter_map(|flaw| flaw.hint).collect();
        assert!(hints.len() == 1 && hints[0].ends_with(wanted), "{hints:?}");
        assert!(hints[0].starts_with("put no quotes around the whole sentence"), "{hints:?}");
    };
    let sentence = "`- husam says in lobby: \"hi: you\"`";
    check("  - \"husam says in lobby: hi: you\"\n", ANSWER, sentence);
    check(HELLO, "  - 'ada said in lobby: hello'\n", "`- ada said in lobby: \"hello\"`");
    let other = read(file("  - husam sings\n", ANSWER).as_bytes(), &tools()).unwrap_err();
    assert!(other[0].hint.as_ref().unwrap().starts_with("known sentences: "), "{other:?}");
}
