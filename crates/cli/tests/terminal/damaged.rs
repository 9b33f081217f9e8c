//! An agent with a damaged record, with the built binary: it is shown, named, quarantined and retired,
//! while all others keep running.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::world::{Server, run};

/// A stopped server in which `cyd`'s config is damaged.
fn with_damaged_config() -> TempDir {
    let server = Server::start();
    let created =
        ["agents", "create", "cyd", "--space", "home", "--instructions", "be as unmistakable as a bell"];
    assert_eq!(server.run(&created).code, 0);
    let (_, dir) = server.stop();
    let file = dir.path().join("vivarium.db");
    let mut bytes = fs::read(&file).unwrap();
    let config = br#""be as unmistakable as a bell""#;
    let begins: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(config)).collect();
    assert_eq!(begins.len(), 1, "the config is in the file once");
    bytes[begins[0]] ^= 0x01;
    fs::write(&file, bytes).unwrap();
    dir
}

#[test]
fn an_agent_with_a_damaged_config_is_reported_and_can_be_retired() {
    let dir = with_damaged_config();
    let doctor = run(dir.path(), &["doctor", "--model", "demo"]);
    assert!(doctor.code == 1 && doctor.out.contains("cyd: a config cannot be read"), "{}", doctor.shown());

    let server = Server::start_in(dir);
    assert!(server.run(&["ps"]).out.contains("sleeping (damaged)"));
    let doctor = server.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("cyd: a config cannot be read"), "{}", doctor.shown());
    for args in
        [&["agents", "set", "cyd", "ephemeral=true", "--json"][..], &["agents", "resume", "cyd", "--json"]]
    {
        let ran = server.run(args);
        let error = &ran.error()["error"];
        assert_eq!((ran.code, &error["code"]), (1, &json!("damaged")), "{}", ran.shown());
        assert!(
            error["message"].as_str().unwrap().contains("agent `cyd`: a config cannot be read"),
            "{error}"
        );
        let hint = error["hint"].as_str().unwrap();
        assert!(
            hint.contains("quarantined") && hint.contains("viv restore") && !hint.contains("doctor"),
            "{hint}"
        );
    }
    let shown = server.run(&["show", "agent", "cyd", "--json"]).json();
    assert_eq!(shown["agent"]["standing"], "suspended");
    assert_eq!(server.run(&["agents", "suspend", "cyd"]).code, 0);
    let ada = server.run(&["say", "--wait", "--agent", "ada", "are you there?"]);
    assert_eq!(ada.code, 0, "{}", ada.shown());
    let retired = server.run(&["agents", "retire", "cyd", "--yes"]);
    assert!(retired.code == 0 && retired.out.contains("`cyd` is retired"), "{}", retired.shown());
    let listed = server.run(&["agents", "--state", "retired"]);
    assert!(listed.out.contains("cyd"), "{}", listed.shown());
    assert_eq!(server.run(&["say", "--wait", "--agent", "ada", "and now?"]).code, 0);
}

#[test]
fn an_agent_file_of_a_damaged_agent_does_not_stop_the_others() {
    let dir = with_damaged_config();
    let agents = tempfile::tempdir().unwrap();
    let text = "---\nspaces: [home]\n---\nbe as unmistakable as two bells\n";
    fs::write(agents.path().join("cyd.md"), text).unwrap();
    let files = ["--model", "demo", "--agents", agents.path().to_str().unwrap()];
    let server = Server::start_as(dir, &files);
    let ada = server.run(&["say", "--wait", "--agent", "ada", "are you there?"]);
    assert_eq!(ada.code, 0, "{}", ada.shown());
}

/// Writes nonsense over the first page of a table that a start does not read.
fn with_torn_page() -> TempDir {
    let (_, dir) = Server::start().stop();
    let file = dir.path().join("vivarium.db");
    let mut bytes = fs::read(&file).unwrap();
    let size = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    // In the schema the number of a table's first page stands between its name and its text.
    let find = |text: &[u8], from: usize| {
        from + bytes[from..].windows(text.len()).position(|at| at == text).unwrap()
    };
    let name = b"tablehook_deliveryhook_delivery";
    let number = find(name, 0) + name.len();
    let end = find(b"CREATE ", number);
    let page = bytes[number..end].iter().fold(0, |page, byte| page << 8 | usize::from(*byte));
    bytes[(page - 1) * size..page * size].fill(0xA5);
    fs::write(&file, bytes).unwrap();
    dir
}

#[test]
fn a_page_that_no_start_reads_is_checked_beside_the_work_and_named() {
    let dir = with_torn_page();
    let doctor = run(dir.path(), &["doctor", "--model", "demo"]);
    assert!(doctor.code == 1 && doctor.out.contains("its file is damaged"), "{}", doctor.shown());
    let server = Server::start_in(dir);
    let doctors = std::iter::repeat_with(|| server.run(&["doctor"]));
    let doctor = doctors.take(1_000).find(|doctor| doctor.out.contains("its file is damaged")).unwrap();
    assert!(doctor.code == 1 && doctor.out.contains("viv restore"), "{}", doctor.shown());
    assert_eq!(server.run(&["say", "--wait", "--agent", "ada", "are you there?"]).code, 0);
}
