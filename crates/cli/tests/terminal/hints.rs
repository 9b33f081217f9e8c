//! The hint of an error fits the command that failed.

use crate::world::{Server, run_with};

#[test]
fn hints_fit_the_command_that_failed() {
    let server = Server::start();
    for args in [
        &["agents", "create", "bob"][..],
        &["entities", "add", "tom"],
        &["spaces", "open", "kitchen", "--members", "owner,ada"],
    ] {
        assert_eq!(server.run(args).code, 0, "{args:?}");
    }
    let id = "00000000-0000-0000-0000-000000000000";
    for (args, wanted) in [
        (&["keys", "rotate", id][..], "hint: `viv keys`"),
        (&["keys", "rotate", "gh"], "hint: `viv keys`"),
        (&["keys", "revoke", "gh"], "error: no key is called `gh`\nhint: `viv keys`"),
        (&["keys", "rotate", id, "--overlap", "40d"], "`--overlap` of at most 30 days, got `40d`"),
        (&["keys", "add", "person"], "hint: name one with `--entity NAME`"),
        (&["keys", "add", "wizard"], "hint: `viv keys add --help`"),
        (&["keys", "add", "service:"], "hint: `viv keys add --help`"),
        (&["keys", "add", "service:ci", "--expires", "tomorrow"], "wanted a time such as `24h` or `90d`"),
        (&["keys", "create"], "hint: did you mean `viv keys add`?"),
        (&["spaces", "set", "kitchen", "wake_on=nope"], "hint: `viv spaces set --help`"),
        (&["memories", "ada", "set", "", "x"], "error: the key is empty\n"),
        (&["say", "hi", "--wait", "--timeout", "0"], "hint: see `viv say --help`"),
        (&["ps", "--state", "awake"], "hint: see `viv ps --help`"),
        (&["tail", "-n", "abc"], "hint: see `viv watch --help`"),
        (&["say", "--wait", "--agent", "ada", ""], "hint: for example `viv say "),
        (&["up", "--listen", "7953"], "hint: a port needs an address: `--listen 127.0.0.1:7953`"),
        (&["up", "--listen", "127.0.0.1:0", "--model", "gpt-5"], "hint: write it as `PROVIDER/MODEL`"),
        (&["show", "run", "12345"], "error: no run or agent is called `12345`\n"),
        (&["event", "ada", "deploy", "not json"], "error: wanted JSON as the payload, got `not json`\n"),
        (&["chat", "--agent", "bob"], "hint: `viv spaces add SPACE bob`"),
        (&["chat", "--as", "tom", "--space", "home"], "error: `tom` is not a member of the space `home`\n"),
        (&["chat", "kitchen"], "hint: name the space with `--space kitchen`"),
        (
            &["agents", "retire", "bob"],
            "hint: confirm with --yes, or suspend it with `viv agents suspend`; nothing was",
        ),
        (&["spaces", "close", "kitchen"], "hint: confirm with --yes; nothing was changed"),
        (&["say", "kitchen", "hi"], "hint: the space is an option: `--space kitchen`"),
    ] {
        let ran = server.run(args);
        assert!(ran.code != 0 && ran.err.contains(wanted), "{args:?}: {}", ran.shown());
        assert!(ran.err.matches("\nhint: ").count() == 1, "{args:?}: {}", ran.shown());
    }
}

#[test]
fn a_key_that_may_not_do_something_is_not_sent_there_by_a_hint() {
    let server = Server::start();
    let key = |args: &[&str]| server.run(args).out.trim().to_owned();
    let person = key(&["keys", "add", "person", "--entity", "owner", "-q"]);
    let service = key(&["keys", "add", "service:ci", "-q"]);
    let with = |key: &str, args: &[&str]| {
        let settings = [("VIV_URL", server.url()), ("VIV_KEY", key)];
        run_with(server.dir.path(), args, "", &settings).err
    };
    let ps = with(&person, &["ps"]);
    assert_eq!(ps.matches("needs an admin key").count(), 1, "{ps}");
    let watch = with(&service, &["watch", "ops"]);
    assert!(!watch.contains("viv ps"), "{watch}");
}

#[test]
fn a_suspended_agent_is_said_to_be_suspended() {
    let server = Server::start();
    assert_eq!(server.run(&["agents", "suspend", "ada"]).code, 0);
    let ran = server.run(&["say", "--wait", "--timeout", "1", "hello?"]);
    assert!(
        ran.err.contains("(it is suspended)") && ran.err.contains("`viv agents resume ada`"),
        "{}",
        ran.shown()
    );
    assert!(!ran.err.contains("backing off"), "{}", ran.shown());
}

#[test]
fn an_event_without_a_payload_says_so() {
    let server = Server::start();
    let ran = server.run(&["event", "ada", "deploy"]);
    assert!(ran.code == 0 && ran.out.contains("accepted it without a payload"), "{}", ran.shown());
}

#[test]
fn a_closed_space_names_the_command_that_opens_it_again() {
    let server = Server::start();
    assert_eq!(server.run(&["spaces", "close", "home", "--yes"]).code, 0);
    let ran = server.run(&["say", "--space", "home", "hi"]);
    assert!(ran.code == 3 && ran.err.contains("`viv spaces reopen NAME`"), "{}", ran.shown());
}
