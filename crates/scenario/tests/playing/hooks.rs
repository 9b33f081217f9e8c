//! Agents that are woken without a message: by what a hook delivers, and by plans of operators.

use scenario::write::written;

use crate::stage::{file, played, read, shown};

const SCRIPT: &str = "      - when: build 7 failed\n        say in lobby: I look into build 7\n      \
                      - when: Look around\n        say in lobby: all is well\n";
const EXPECT: &str = "  - ada ran cycles: at least 1\n";

/// A file with these hooks and this story.
fn with(hooks: &str, story: &str, expect: &str) -> String {
    file(SCRIPT, story, expect).replace("story:\n", &format!("hooks:\n{hooks}story:\n"))
}

const MAPPED: &str = "  ci: {to: [ada], template: \"build {{ body.n }} {{ body.state }}\"}\n";

#[tokio::test]
async fn a_delivery_that_is_repeated_with_its_id_is_one_event() {
    let story = "  - id: d1\n    hook ci delivers: {n: 7, state: failed}\n".repeat(2);
    let expect = "  - ada processed ids: d1\n  - ada ran cycles: [{events: 1}]\n  \
                  - ada said in lobby: {equals: I look into build 7, times: 1}\n";
    let outcome = played(&with(MAPPED, &story, expect)).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.broken_off, outcome.unmet);
    let line = r#"0 - hook ci delivers: {"n":7,"state":"failed"}"#.to_owned();
    assert!(shown(&outcome.transcript).contains(&line), "{:?}", shown(&outcome.transcript));
}

#[tokio::test]
async fn a_delivery_without_an_id_is_an_event_each_time_also_while_the_server_is_down() {
    let story = "  - the server is killed\n  - times: 3\n    hook ci delivers: {n: 7, state: failed}\n  \
                 - the server starts\n";
    let outcome = played(&with(MAPPED, story, "  - ada ran cycles: [{events: 3}]\n")).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.broken_off, outcome.unmet);
}

#[tokio::test]
async fn a_delivery_that_the_hook_is_not_for_wakes_nobody() {
    let failures = "  ci: {to: ada, template: \"build {{ body.n }} {{ body.state }}\", only_if: body.state == 'failed'}\n";
    let story = "  - hook ci delivers: {n: 6, state: passed}\n  - hook ci delivers: {n: 7, state: failed}\n";
    let outcome = played(&with(failures, story, "  - ada ran cycles: [{events: 1}]\n")).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.broken_off, outcome.unmet);
}

#[tokio::test]
async fn a_delivery_that_the_template_cannot_be_written_with_ends_the_story_with_its_line() {
    let mapped = "  ci: {to: [ada], template: \"build {{ 1 + body.n }}\"}\n";
    let outcome = played(&with(mapped, "  - hook ci delivers: {n: seven}\n", EXPECT)).await;
    let why = outcome.broken_off.unwrap();
    assert!(why.starts_with("line 15: the delivery is refused: the hook's template cannot"), "{why}");
}

#[tokio::test]
async fn a_plan_of_an_operator_fires_at_each_of_its_times() {
    let story = "  - ada plans: {name: look, instruction: Look around., every: 1h}\n  - after: 150m\n    everyone is quiet:\n";
    let expect = "  - ada said in lobby: {equals: all is well, times: 2}\n";
    let outcome = played(&file(SCRIPT, story, expect)).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.broken_off, outcome.unmet);
    assert_eq!(
        shown(&outcome.transcript)[0],
        "0 - an operator sets ada the plan look (every 1h from 2026-01-01T09:00:00Z)"
    );
}

#[test]
fn hooks_and_plans_are_written_as_they_are_read() {
    let hooks = "  ci: ada\n  pager: {to: ada, template: \"{{ body.text }}\", urgent: body.level > 3}\n";
    let story = "  - id: d1\n    hook ci delivers: {n: 1}\n  - hook pager delivers: [1, two]\n  \
                 - ada plans: {name: a, instruction: b, cron: 0 8 * * 1-5, zone: Europe/Berlin, missed: skip}\n";
    let first = read(&with(hooks, story, EXPECT)).unwrap();
    let second = read(&written(&first)).unwrap();
    assert_eq!(first.hooks, second.hooks);
    assert_eq!(first.hooks[0].to, ["ada"]);
    let what = |scenario: &scenario::scene::Scenario| {
        scenario.story.iter().flat_map(|event| event.what.clone()).collect::<Vec<_>>()
    };
    assert_eq!(what(&first), what(&second));
    assert_eq!(what(&first).len(), 3);
}

#[test]
fn what_is_wrong_with_a_hook_or_a_plan_is_named_with_its_place() {
    let check = |hooks: &str, story: &str, wanted: &[&str]| {
        let flaws = read(&with(hooks, story, EXPECT)).unwrap_err();
        let flaws: Vec<String> = flaws.iter().map(|flaw| flaw.located("f")).collect();
        assert_eq!(flaws.len(), wanted.len(), "{flaws:#?}");
        for (flaw, wanted) in flaws.iter().zip(wanted) {
            assert!(flaw.starts_with(wanted), "{flaw}\n{wanted}");
        }
    };
    let hello = "  - husam says in lobby: hi\n";
    check("  ci: []\n", hello, &["f:13:7: wanted at least one agent, got none"]);
    check("  ci: {template: a}\n", hello, &["f:13:3: `to` is missing: name the agents"]);
    check("  ci: husam\n", hello, &["f:13:7: there is no agent `husam`"]);
    check(
        "  ci: {to: ada, tmplate: a}\n",
        hello,
        &["f:13:17: unknown key `tmplate`; did you mean `template`?"],
    );
    check("  ci: {to: ada, template: \"{{ bdy.x }}\"}\n", hello, &["f:13:17: `template`: "]);
    check("  ci: ada\n", "  - hook cj delivers: 1\n", &["f:15:5: there is no hook `cj`"]);
    check(
        "  ci: ada\n",
        "  - hook ci delivers\n",
        &["f:15:5: wanted what is delivered after `hook ci delivers:`"],
    );
    let plan =
        |plan: &str, wanted: &str| check("  ci: ada\n", &format!("  - ada plans: {plan}\n"), &[wanted]);
    plan("soon", "f:15:16: wanted a plan such as");
    plan("{name: a, instruction: b, evry: 1h}", "f:15:42: unknown key `evry`; did you mean `every`?");
    plan("{name: a, instruction: b, every: 1s}", "f:15:42: `every`: wanted at least 1m, got `1s`");
    plan("{name: a, instruction: b}", "f:15:16: wanted one of `at`, `after`, `every` and `cron`, got none");
    plan("{name: a, instruction: b, at: \"2020-01-01T00:00:00Z\"}", "f:15:42: `at` must be ahead");
}
