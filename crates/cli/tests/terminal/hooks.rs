//! Hooks from the command line: declared, tried with a secret of this machine, listed and removed.

use std::fs;

use crate::tools::files_with;
use crate::world::{Server, run, run_with};

const SECRET: &str = "canary-secret-0815";

#[test]
fn a_hook_is_declared_tried_and_listed_and_its_secret_is_only_where_secrets_are() {
    let server = Server::start();
    let dir = server.dir.path();
    let add = |name: &str, kind: &str, more: &[&str]| {
        run(dir, &[&["hooks", "add", name, "--kind", kind, "--to", "ada"], more].concat())
    };
    let added = add("ci", "github", &["--secret", "ci_hook"]);
    assert_eq!(added.code, 0, "{}", added.shown());
    assert!(added.out.contains("takes deliveries at") && added.out.contains("/v1/hooks/ci"), "{}", added.out);
    assert!(added.out.contains("viv secrets set ci_hook"), "{}", added.out);
    let listed = run(dir, &["hooks"]);
    assert!(listed.out.contains("no secret: answers 503"), "{}", listed.out);
    let doctor = run(dir, &["doctor", "--model", "demo"]);
    assert!(doctor.code == 1 && doctor.out.contains("`ci_hook` of ci: it is not set"), "{}", doctor.shown());
    let unset = run(dir, &["hooks", "send", "ci"]);
    assert!(unset.code == 2 && unset.err.contains("no secret of this hook is set"), "{}", unset.shown());

    // Within the time for which the server remembers that there is none, another hook has its own.
    assert_eq!(run_with(dir, &["secrets", "set", "shop"], SECRET, &[]).code, 0);
    for (name, kind) in [("shop", "stripe"), ("chat", "slack"), ("lab", "shared_secret"), ("hub", "github")] {
        assert_eq!(add(name, kind, &["--secret", "shop"]).code, 0);
        let sent = run(dir, &["hooks", "send", name, "--id", "one"]);
        assert_eq!(
            (sent.code, sent.out.as_str()),
            (0, format!("`{name}`: accepted, delivery one\n").as_str())
        );
        let again = run(dir, &["hooks", "send", name, "--id", "one", "--json"]);
        assert_eq!(again.json()["outcome"], "duplicate", "{}", again.shown());
    }
    assert_eq!(add("door", "key", &["--event", "{{ body.text }}"]).code, 0);
    // It takes no administrator's key, which could do more than what a hook is for: the delivery has a key of its own.
    let sent = run(dir, &["hooks", "send", "door"]);
    assert_eq!(sent.code, 0, "{}", sent.shown());
    let keys = run(dir, &["keys", "list", "--json"]).json();
    let own: Vec<_> =
        keys["items"].as_array().unwrap().iter().filter(|key| key["scope"] == "service:door").collect();
    assert!(own.len() == 1 && !own[0]["revoked_at"].is_null(), "{own:?}");
    let host = add("host", "shared_secret", &["--secret", "shop", "--header", "host"]);
    assert!(host.code == 3 && host.err.contains("`host` has a meaning of its own"), "{}", host.shown());
    assert_eq!(host.err.matches("hint:").count(), 1, "{}", host.shown());
    let wrong = run(dir, &["hooks", "send", "shop", "{}"]);
    assert!(wrong.code == 3 && wrong.err.contains("`id` in the body"), "{}", wrong.shown());
    let log = run(dir, &["hooks", "log", "shop"]);
    assert!(log.out.contains("bad_delivery") && log.out.contains("refused"), "{}", log.out);

    let backup = dir.join("copy.db");
    assert_eq!(run(dir, &["backup", backup.to_str().unwrap()]).code, 0);
    assert_eq!(files_with(dir, SECRET), ["tool-secrets.toml"]);
    for args in [&["hooks", "show", "shop"][..], &["hooks", "--json"], &["hooks", "log", "shop", "--json"]] {
        let shown = run(dir, args);
        assert!(shown.code == 0 && !shown.shown().contains("canary"), "{}", shown.shown());
    }
    assert!(run(dir, &["hooks"]).out.contains("ready"));
    let retired = run(dir, &["agents", "retire", "ada", "--yes"]);
    assert!(
        retired.code == 0 && retired.shown().contains("the hook `shop` names it: all its"),
        "{}",
        retired.shown()
    );
    let doctor = run(dir, &["doctor", "--model", "demo"]);
    assert!(
        doctor.code == 1 && doctor.out.contains("`shop`: all its agents are retired"),
        "{}",
        doctor.shown()
    );
    let listed = run(dir, &["hooks"]).out;
    assert!(listed.contains("all its agents are retired") && !listed.contains("ready"), "{listed}");
    assert_eq!(run(dir, &["hooks", "rm", "shop"]).code, 0);
    assert_eq!(run(dir, &["hooks", "rm", "shop"]).code, 4);
    fs::remove_file(backup).unwrap();
}
