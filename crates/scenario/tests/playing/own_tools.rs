//! Tools that a scenario brings along: what they return, how often they run, and who must approve them.

use scenario::write::written;

use crate::stage::{file, played, read, shown};

const SCRIPT: &str = "      - when: what now\n        steps:\n          - call look:\n          - call look:\n      \
                      - when: {inbox: what was it, knows: [red, green]}\n        say: red, then green\n      \
                      - when: is late\n        steps:\n          - call pay: {sum: 3}\n          - say: done with it\n";
const TOOLS: &str = "  look: {effect: read_only, labels: [], outcome: [red, green]}\n  pay: {outcome: ok}\n";
const ASKED: &str = "  - husam says in lobby: the bill is late\n";

/// A file whose agent has these tools and asks before it pays.
fn with(tools: &str, story: &str, expect: &str) -> String {
    let config = "    tools: [look, pay, send_message, done]\n    approve: [pay]\n    script:\n";
    let text = file(SCRIPT, story, expect).replace("    script:\n", config);
    text.replace("agents:\n", &format!("tools:\n{tools}agents:\n"))
}

async fn passes(text: &str) {
    let outcome = played(text).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.broken_off, outcome.unmet);
}

#[tokio::test]
async fn each_run_returns_the_next_outcome_and_is_counted() {
    let story = "  - husam says in lobby: what now?\n  - husam says in lobby: what was it?\n";
    let expect = "  - look ran: 2\n  - pay ran: 0\n  - ada said in lobby: red, then green\n";
    passes(&with(TOOLS, story, expect)).await;
    let outcome = played(&with(TOOLS, story, "  - look ran: at most 1\n")).await;
    let lines = shown(&outcome.transcript);
    let looks: Vec<&String> = lines.iter().filter(|line| line.contains(" look")).collect();
    assert_eq!(
        looks,
        [
            "100 ada calls look {}",
            "100 ada look returns red",
            "200 ada calls look {}",
            "200 ada look returns green"
        ]
    );
    let unmet = &outcome.unmet[0];
    assert_eq!((unmet.wanted.as_str(), unmet.got.as_str()), ("at most 1 runs of `look`", "2"));
}

#[tokio::test]
async fn what_wants_approval_runs_once_it_has_it_and_not_otherwise() {
    let called = "  - ada called pay: 1\n  - pay ran: ";
    passes(&with(TOOLS, ASKED, &format!("{called}0\n"))).await;
    let killed = "  - the server is killed\n  - the server starts\n";
    let approved = format!("{ASKED}{killed}  - husam approves pay of ada\n{killed}");
    passes(&with(TOOLS, &approved, &format!("{called}1\n  - ada said in lobby: done with it\n"))).await;
    let refused = format!("{ASKED}  - husam refuses pay of ada: not yet\n");
    passes(&with(TOOLS, &refused, &format!("{called}0\n  - ada said in lobby: done with it\n"))).await;
}

#[tokio::test]
async fn the_guard_asks_a_person_once_a_delivery_is_in_what_the_agent_reads() {
    let free = |text: String| text.replace("    approve: [pay]\n", "");
    passes(&free(with(TOOLS, ASKED, "  - pay ran: 1\n"))).await;
    let hooks = |text: String| text.replace("story:\n", "hooks:\n  bills: ada\nstory:\n");
    let story = "  - hook bills delivers: the bill is late\n";
    passes(&hooks(free(with(TOOLS, story, "  - ada called pay: 1\n  - pay ran: 0\n")))).await;
}

#[tokio::test]
async fn a_tool_can_fail_has_a_schema_and_answers_to_the_pattern_of_its_server() {
    let tools = "  bank__pay: {effect: idempotent, labels: [], outcome: [{error: no money}, paid],\n    \
                 input: {type: object, required: [sum], properties: {sum: {type: integer}}}}\n";
    let script = "      - steps:\n          - call bank__pay: {}\n          - call bank__pay: {sum: 1}\n          \
                  - call bank__pay: {sum: 1}\n          - say: done with it\n";
    for named in ["bank__pay", "'bank:pay'", "'bank:*'", "'bank__*'"] {
        let text = file(script, ASKED, "  - ada called bank__pay: 3\n  - bank__pay ran: 2\n");
        let config = format!("    tools: [{named}, send_message, done]\n    fallback: [x/y]\n    script:\n");
        let text =
            text.replace("    script:\n", &config).replace("agents:\n", &format!("tools:\n{tools}agents:\n"));
        let outcome = played(&text).await;
        assert!(outcome.passed(), "{named}: {:?} {:?}", outcome.broken_off, outcome.unmet);
        let lines = shown(&outcome.transcript);
        assert!(lines.iter().any(|line| line.ends_with("bank__pay returns paid")), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.ends_with("bank__pay failed")).count(), 2, "{lines:#?}");
    }
}

#[tokio::test]
async fn an_operator_answers_what_only_operators_may() {
    let asked = "  - hook bills delivers: the bill is late\n";
    let hooks = |text: String| text.replace("story:\n", "hooks:\n  bills: ada\nstory:\n");
    let story = format!("{asked}  - operator approves pay of ada\n");
    passes(&hooks(with(TOOLS, &story, "  - pay ran: 1\n"))).await;
}

#[test]
fn tools_are_written_as_they_are_read() {
    let tools = "  look: {effect: idempotent, labels: [private, outside], description: \"Looks: well\", input: {type: object}, outcome: [a, {error: b}]}\n  \
                 pay: {outcome: ok}\n";
    let first = read(&with(tools, ASKED, "  - look ran: at most 2\n")).unwrap();
    let second = read(&written(&first)).unwrap();
    assert_eq!(first.tools, second.tools);
    assert_eq!(first.expect[0].what, second.expect[0].what);
}

#[test]
fn what_is_wrong_with_a_tool_is_named_with_its_place() {
    let check = |tools: &str, expect: &str, wanted: &str| {
        let flaws = read(&with(&format!("{TOOLS}{tools}"), ASKED, expect)).unwrap_err();
        let flaws: Vec<String> = flaws.iter().map(|flaw| flaw.located("f")).collect();
        assert!(flaws.len() == 1 && flaws[0].starts_with(wanted), "{flaws:#?}\n{wanted}");
    };
    let ran = "  - look ran: 0\n";
    check("  done: {outcome: a}\n", ran, "f:6:3: every server has a tool `done`: give this one another name");
    check("  a b: {outcome: a}\n", ran, "f:6:3: wanted a name of 1 to 64 characters");
    check(
        "  x: {effect: inward, outcome: a}\n",
        ran,
        "f:6:15: wanted `read_only`, `idempotent` or `unsafe`, got `inward`",
    );
    check(
        "  x: {labels: [secret], outcome: a}\n",
        ran,
        "f:6:15: wanted `private`, `exfiltrates` or `outside`, got `secret`",
    );
    check("  x: {}\n", ran, "f:6:3: `outcome` is missing");
    check("  x: {outcome: a, effekt: unsafe}\n", ran, "f:6:19: unknown key `effekt`; did you mean `effect`?");
    check(
        "",
        "  - done ran: 1\n",
        "f:26:5: there is no tool `done` in this scenario; there are `look`, `pay`",
    );
    let text =
        with(TOOLS, "  - husam approves pya of ada\n", ran).replace("approve: [pay]", "approve: [pya]");
    let flaws = read(&text).unwrap_err();
    assert!(
        flaws.len() == 2 && flaws.iter().all(|flaw| flaw.message.contains("did you mean `pay`?")),
        "{flaws:?}"
    );
}
