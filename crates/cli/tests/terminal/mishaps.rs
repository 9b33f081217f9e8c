//! Bad input and a bad environment: one clear message each, the right exit code, nothing half-written.

use std::fs;

use crate::world::{Server, run, run_with};

#[test]
fn errors_quote_the_wrong_name() {
    let server = Server::start();
    let mut all = String::new();
    for args in [
        &["say", "--agent", "bob", "hi"][..],
        &["say", "--space", "nowhere", "hi"],
        &["say", "--as", "bob", "hi"],
        &["show", "agent", "nobody"],
        &["show", "run", "00000000-0000-0000-0000-000000000000"],
        &["show", "run"],
        &["show", "inbox", "--state", "nonsense"],
        &["say", ""],
        &["--json", "show", "agent", "nobody"],
    ] {
        all.push_str(&format!("$ viv {}\n{}\n", args.join(" "), server.run(args).shown()));
    }
    insta::assert_snapshot!("wrong_names", all);
}

#[test]
fn a_failed_start_gives_a_reason_and_leaves_no_files() {
    let server = Server::start();
    let listen = server.url().trim_start_matches("http://").to_owned();
    let mut all = String::new();
    for args in [
        &["up", "--listen", &listen, "--model", "demo"][..],
        &["up", "--listen", "0.0.0.0:0", "--model", "demo"],
        &["up", "--listen", "nonsense", "--model", "demo"],
        &["up", "--listen", "127.0.0.1:0", "--model", "gpt"],
        &["up", "--listen", "127.0.0.1:0", "--model", "openai/gpt-5"],
        &["up", "--listen", "127.0.0.1:0", "--model", "demo", "--context-window", "9000"],
        &["up", "--listen", "127.0.0.1:0", "--tool-mode", "magic"],
        &["up", "--bogus", "--json"],
    ] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("viv");
        let ran = run(&dir, args);
        assert!(!dir.exists(), "`{}` left something", args.join(" "));
        all.push_str(&format!("$ viv {}\n{}\n", args.join(" "), ran.shown().replace(&listen, "<taken>")));
    }
    insta::assert_snapshot!("cannot_start", all.replace(&listen, "<taken>"));
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let server = Server::start();
    let ran = server.run(&["up", "--listen", "127.0.0.1:0", "--model", "demo", "--json"]);
    assert_eq!((ran.code, &ran.error()["error"]["code"]), (3, &"data_dir_in_use".into()), "{}", ran.shown());
    assert_eq!(server.run(&["ps"]).code, 0);
}

#[test]
fn a_file_that_is_not_a_store_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vivarium.db");
    fs::write(&file, "not a database, just words ".repeat(400)).unwrap();
    let before = fs::read(&file).unwrap();
    let ran = run(dir.path(), &["up", "--listen", "127.0.0.1:0", "--model", "demo", "--json"]);
    assert_eq!((ran.code, &ran.error()["error"]["code"]), (1, &"store_foreign".into()), "{}", ran.shown());
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(!dir.path().join("credentials.json").exists());
}

#[test]
fn a_missing_server_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(dir.path(), &["ps", "--json"]);
    assert_eq!((ran.code, &ran.error()["error"]["code"]), (5, &"no_server".into()));
    let settings = [("VIV_URL", "http://127.0.0.1:1"), ("VIV_KEY", "viv_x")];
    assert_eq!(run_with(dir.path(), &["ps"], "", &settings).code, 5);
    let settings = [("VIV_URL", "http://127.0.0.1:1")];
    assert_eq!(run_with(dir.path(), &["ps"], "", &settings).code, 2);
    // A crash leaves a credential file behind.
    let dir = Server::start().kill();
    assert_eq!(run(dir.path(), &["ps"]).code, 5);
    assert_eq!(run(dir.path(), &["doctor", "--model", "demo"]).code, 0);
}

#[test]
fn a_wrong_key_is_refused() {
    let server = Server::start();
    let ran = run_with(server.dir.path(), &["ps", "--json"], "", &[("VIV_KEY", "viv_wrong")]);
    assert_eq!((ran.code, &ran.error()["error"]["code"]), (3, &"key_invalid".into()), "{}", ran.shown());
    for command in ["ps", "doctor"] {
        let ran = run_with(server.dir.path(), &[command], "", &[("VIV_KEY", "a b")]);
        let shown = ran.shown();
        assert!(
            ran.code != 0 && shown.contains("the value in `VIV_KEY` is no key: keys begin with `viv_`"),
            "{shown}"
        );
    }
    let address = format!("{}/v1", server.url());
    let ran = run_with(server.dir.path(), &["ps"], "", &[("VIV_URL", address.as_str())]);
    assert!(ran.code == 2 && ran.err.contains("leave out `/v1`"), "{}", ran.shown());
}

#[test]
fn a_secrets_file_readable_by_others_prevents_the_start() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secrets.toml"), "OPENAI_API_KEY = \"sk-canary\"").unwrap();
    let ran = run(dir.path(), &["up", "--listen", "127.0.0.1:0", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(!ran.shown().contains("canary"));
    assert!(!dir.path().join("vivarium.db").exists());
}
