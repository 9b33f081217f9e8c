//! `viv scenario`: what is shipped passes, what fails is told, what was lived is recorded.

use std::path::Path;

use crate::world::{Ran, Server, run};

/// A file with one person, one agent and one space.
const FILE: &str = "scenario: Hello\npeople: [husam]\nagents:\n  ada:\n    script:\n      - say: good morning\n\
                    spaces:\n  lobby: [husam, ada]\nstory:\n  - husam says in lobby: hi\n\
                    expect:\n  - ada said in lobby: good morning\n";

fn written(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Plays one file in a directory of its own.
fn played(text: impl AsRef<[u8]>, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let file = written(dir.path(), "one.yaml", text);
    let mut line = vec!["scenario", "run", &file];
    line.extend(args);
    let ran = run(dir.path(), &line);
    let place = format!("{}/", dir.path().display());
    Ran { out: ran.out.replace(&place, ""), err: ran.err.replace(&place, ""), code: ran.code }
}

#[test]
fn what_is_shipped_passes() {
    let dir = tempfile::tempdir().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let ran = run(dir.path(), &["scenario", "run", shipped, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let told = ran.json();
    assert_eq!((&told["passed"], &told["ok"]), (&told["runs"], &true.into()));
    assert!(told["runs"].as_u64().unwrap() >= 7, "{told}");
    assert_eq!(run(dir.path(), &["scenario", "check", shipped]).code, 0);
}

#[test]
fn one_that_passes_is_one_line_and_quietly_none() {
    let ran = played(FILE, &[]);
    assert!(ran.out.starts_with("✓ one.yaml  Hello\n1 scenario: 1 passed ("), "{}", ran.shown());
    let quiet = played(FILE, &["--quiet"]);
    assert!(quiet.out.starts_with("1 scenario: 1 passed"), "{}", quiet.shown());
    let told = played(FILE, &["--transcript"]);
    assert!(told.out.contains("0.1 s  lobby  ada    good morning\n"), "{}", told.shown());
}

#[test]
fn one_that_fails_shows_the_difference_and_what_happened() {
    let ran = played(FILE.replace("lobby: good morning", "lobby: good evening"), &[]);
    assert_eq!(ran.code, 1);
    let expected = "✗ one.yaml  Hello\n    one.yaml:12: ada said in lobby\n      \
        wanted   a message of `ada` in `lobby` with `good evening` in it\n      \
        got      1 there, none of them so\n      \
        - wanted good evening\n      + said   good morning\n                    ^\n    \
        what happened (0.2 s, 1 cycle)\n      0.0 s  lobby  husam  hi\n      0.1 s  lobby  ada    good morning\n      \
        0.2 s         ada    [cycle 1: 1 event, 2 steps]\n1 scenario: 0 passed, 1 failed (";
    assert!(ran.out.starts_with(expected), "{}", ran.shown());
}

#[test]
fn bad_files_are_told_with_their_places_and_nothing_is_played() {
    let check = |text: &[u8], code: i32, told: &str| {
        let ran = played(text, &[]);
        assert_eq!(ran.code, code, "{}", ran.shown());
        assert!(ran.err.contains(told), "{}", ran.shown());
        assert!(ran.out.is_empty() && ran.err.contains("\nhint: "), "{}", ran.shown());
    };
    check(
        FILE.replace("husam says", "husan says").as_bytes(),
        2,
        "error: not a scenario yet:\n  one.yaml:10:5: `husan` is no person",
    );
    check(b"scenario: \xff\n", 2, "one.yaml:1:1: wanted UTF-8 text");
    check(b"", 2, "one.yaml: the file is empty");
    check(FILE.replace("  - husam", "  - at: -1s\n    husam").as_bytes(), 2, "time does not run backwards");
    check(
        FILE.replace("    script:\n      - say: good morning", "    debounce: 5").as_bytes(),
        2,
        "no script",
    );
}

#[test]
fn files_that_are_not_there_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    let none = run(dir.path(), &["scenario", "check", &path]);
    assert!(none.code == 4 && none.err.contains("there is no scenario in `"), "{}", none.shown());
    let missing = run(dir.path(), &["scenario", "run", "nowhere.yaml"]);
    assert!(missing.code == 4 && missing.err.contains("cannot read `nowhere.yaml`"), "{}", missing.shown());
    let repeat = run(dir.path(), &["scenario", "run", &path, "--repeat", "3"]);
    assert!(repeat.code == 2 && repeat.err.contains("--model"), "{}", repeat.shown());
}

#[test]
fn a_check_lists_every_flaw_and_what_is_odd() {
    let dir = tempfile::tempdir().unwrap();
    let story = "story:\n  - at: 5s\n    husam says in lobby: a\n  - at: 1s\n    husam says in lobby: b\n";
    let odd = FILE.replace("story:\n  - husam says in lobby: hi\n", story);
    written(dir.path(), "a.yaml", odd);
    written(dir.path(), "b.yaml", FILE.replace("expect", "exepct"));
    let path = dir.path().display().to_string();
    let ran = run(dir.path(), &["scenario", "check", &path, "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    let told = ran.json();
    assert_eq!(told["files"][0]["notes"][0]["line"], 12, "{told}");
    assert_eq!(told["files"][1]["flaws"][0]["message"], "unknown key `exepct`; did you mean `expect`?");
}

#[test]
fn a_real_voice_plays_in_real_time_and_again() {
    let text = FILE.replace("    script:\n      - say: good morning\n", "    tools: [send_message, done]\n");
    let text = text.replace("ada said in lobby: good morning", "ada said in lobby: Hello Husam");
    let ran = played(text, &["--model", "rehearsal", "--repeat", "2", "--at-least", "50%"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(
        ran.out.starts_with("✓ one.yaml  2/2  Hello\n1 scenario, 2 runs: 2 passed, 100%"),
        "{}",
        ran.shown()
    );
}

#[test]
fn what_an_agent_lived_becomes_a_scenario_that_passes() {
    let server = Server::start();
    let none = server.run(&["scenario", "record", "ada"]);
    assert!(none.code == 4 && none.err.contains("has lived no cycle yet"), "{}", none.shown());
    for text in ["remember that the code is blue", "what do you remember?", "line one\nand: \"two\" #3"] {
        assert_eq!(server.run(&["say", "--wait", text]).code, 0);
    }
    let file = server.dir.path().join("recorded.yaml").display().to_string();
    let ran = server.run(&["scenario", "record", "ada", "-o", &file]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{}", ran.shown());
    assert!(ran.out.contains("wrote 3 cycles of `ada`"), "{}", ran.shown());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("you says in home: remember that the code is blue"), "{text}");
    let played = server.run(&["scenario", "run", &file]);
    assert!(played.code == 0 && played.out.contains("1 scenario: 1 passed"), "{}\n{text}", played.shown());
    let again = server.run(&["scenario", "record", "ada", "-o", &file]);
    assert!(again.code == 3 && again.err.contains("exists"), "{}", again.shown());
    let newest = server.run(&["scenario", "record", "--cycles", "1", "--json"]).json();
    assert_eq!((&newest["cycles"], &newest["passes"]), (&1.into(), &true.into()), "{newest}");
}
