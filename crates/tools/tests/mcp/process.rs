//! Servers that are processes: what they are told, what their answers become, and what remains of them.

use std::time::Duration;

use agent::call::{Effect, OutcomeStatus};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tools::mcp::{McpDescription, McpLimits};

use super::fake::{CANARY, approved, call, config, server, server_hiding};
use crate::declared::secrets::{Log, assert_clean};

#[tokio::test]
async fn tools_of_all_pages_are_listed_and_called() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names[0], names[1], names.len()), ("echo", "env", 22));
    assert_eq!(names[21], "read_resource");

    let said = call(&server, &tools, "echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!((said.status, said.text.as_str()), (OutcomeStatus::Ok, "you said \"hi\""));
    let failed = call(&server, &tools, "fail", json!({})).await.unwrap();
    assert_eq!((failed.status, failed.text.as_str()), (OutcomeStatus::Error, "no luck"));
    let refused = call(&server, &tools, "refuse", json!({})).await.unwrap_err();
    assert_eq!(refused.model, "the MCP server `fake` refused: not so");
    let wrong = call(&server, &tools, "echo", json!({"text": 5})).await.unwrap_err();
    assert!(wrong.model.contains("the arguments of `fake__echo` do not fit"), "{wrong}");
}

#[tokio::test]
async fn a_server_without_a_handshake_is_asked_by_the_newest_version() {
    let server = server(config("newest", json!({})));
    let tools = approved(&server).await;
    let said = call(&server, &tools, "echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!(said.text, "you said \"hi\"");
}

#[tokio::test]
async fn settings_choose_tools_and_how_they_are_called() {
    let more = json!({"tools": ["e*", "bad.*"], "timeout": "5s", "tool": {"env": {"effect": "read_only", "timeout": "9s"}}});
    let server = server(config("plain", more));
    let tools = approved(&server).await;
    let (built, mistakes) = server.tools(&tools);
    assert_eq!(mistakes, []);
    let specs: Vec<_> = built.iter().map(|tool| tool.spec()).collect();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["fake__echo", "fake__env", "fake__bad_name_x"]);
    // What the server hints about an effect is not believed.
    assert_eq!((specs[0].effect, specs[0].timeout), (Effect::Unsafe, Duration::from_secs(5)));
    assert_eq!((specs[1].effect, specs[1].timeout), (Effect::ReadOnly, Duration::from_secs(9)));
    let said = call(&server, &tools, "bad.name/x", json!({})).await.unwrap();
    assert_eq!(said.text, "called bad.name/x");

    let twins = [tools[2].clone(), McpDescription { name: "bad/name/x".into(), ..tools[2].clone() }];
    let (built, mistakes) = server.tools(&twins);
    assert_eq!((built.len(), mistakes.len()), (1, 1));
    assert!(mistakes[0].to_string().contains("two tools as `fake__bad_name_x`"), "{}", mistakes[0]);
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    assert_eq!(server.resources().await.unwrap()[0].uri, "a://b");
    let said = call(&server, &tools, "read_resource", json!({"uri": "a://b"})).await.unwrap();
    assert_eq!(said.text, "read \"a://b\" [secret key]");
    assert_eq!(server.read_resource("a://b").await.unwrap(), said.text);
}

#[tokio::test]
async fn a_changed_description_is_refused_until_it_is_approved() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    assert!(call(&server, &tools, "change", json!({})).await.is_ok());
    let error = call(&server, &tools, "echo", json!({"text": "hi"})).await.unwrap_err();
    assert!(error.model.contains("approve them") && error.model.contains("`echo`"), "{error}");
    assert!(call(&server, &tools, "env", json!({})).await.is_ok());
    let mut gone = tools[0].clone();
    gone.name = "gone".into();
    let error = call(&server, &[gone], "gone", json!({})).await.unwrap_err();
    assert!(error.model.contains("no longer offers"), "{error}");

    let again = approved(&server).await;
    assert_ne!(again[0].hash, tools[0].hash);
    assert!(call(&server, &again, "echo", json!({"text": "hi"})).await.is_ok());
}

#[tokio::test]
async fn a_death_costs_one_call_and_the_next_one_starts_the_server_again() {
    let more = json!({"tool": {"die": {"effect": "read_only"}}});
    let server = server(config("plain", more));
    let tools = approved(&server).await;
    let error = call(&server, &tools, "die", json!({})).await.unwrap_err();
    assert_eq!(error.model, "the MCP server `fake` failed: it ended with status 3");
    let errors = error.operator.unwrap();
    assert!(errors.contains("a bug with [secret key]"), "{errors}");
    assert!(call(&server, &tools, "echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn an_unsafe_call_without_an_answer_has_an_unknown_outcome() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    let outcome = call(&server, &tools, "die", json!({})).await.unwrap();
    assert_eq!(outcome.status, OutcomeStatus::Unknown);
    assert!(outcome.text.contains("unknown whether it happened"), "{}", outcome.text);
    assert!(outcome.detail.unwrap().contains("a bug with [secret key]"));
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_left_alone() {
    let server = server(config("plain", json!({"effect": "read_only"})));
    let tools = approved(&server).await;
    for _ in 0..2 {
        assert!(call(&server, &tools, "die", json!({})).await.is_err());
    }
    let error = call(&server, &tools, "echo", json!({})).await.unwrap_err();
    assert!(error.model.contains("failed 2 times in a row, so nothing was sent"), "{error}");
    assert!(error.model.contains("it ended with status 3"), "{error}");
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let limits = McpLimits { call: Duration::from_millis(300), ..McpLimits::default() };
    let server = server(config("plain", json!({})));
    let server = std::sync::Arc::try_unwrap(server).unwrap().with_limits(limits);
    let server = std::sync::Arc::new(server);
    let tools = approved(&server).await;
    let late = call(&server, &tools, "hang", json!({})).await.unwrap();
    assert_eq!(late.status, OutcomeStatus::Unknown);
    assert!(late.text.contains("no answer within 300 ms"), "{}", late.text);
    let told = call(&server, &tools, "waits", json!({})).await.unwrap();
    assert!(told.text.starts_with("[\""), "{}", told.text);
    assert!(call(&server, &tools, "echo", json!({})).await.is_ok());
}

/// A call may take longer than its time-out, but not beside a server that has stopped to answer anything.
#[tokio::test]
async fn a_server_that_hangs_is_ended_and_started_again_for_the_next_call() {
    let limits = McpLimits { ping: Duration::from_millis(300), ..McpLimits::default() };
    let server = server(config("plain", json!({"timeout": "100ms"})));
    let server = std::sync::Arc::new(std::sync::Arc::try_unwrap(server).unwrap().with_limits(limits));
    let tools = approved(&server).await;
    let (hung, other) =
        tokio::join!(call(&server, &tools, "stop", json!({})), call(&server, &tools, "hang", json!({})));
    for ended in [hung.unwrap(), other.unwrap()] {
        assert_eq!(ended.status, OutcomeStatus::Unknown);
        assert!(
            ended.text.contains("hangs: it gave no answer within 100 ms") || ended.text.contains("failed:"),
            "{}",
            ended.text
        );
    }
    assert_eq!(call(&server, &tools, "echo", json!({"text": "hi"})).await.unwrap().text, "you said \"hi\"");
}

#[tokio::test]
async fn nonsense_among_the_answers_changes_nothing() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    let said = call(&server, &tools, "garbage", json!({})).await.unwrap();
    assert_eq!(said.text, "after garbage");
}

#[tokio::test]
async fn what_a_server_asks_is_refused_and_a_ping_is_answered() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    let said = call(&server, &tools, "ask", json!({})).await.unwrap().text;
    assert_eq!(said.matches("-32601").count(), 2, "{said}");
    assert!(
        said.contains(r#"\"id\":\"a\",\"jsonrpc\":\"2.0\",\"result\":{}"#)
            || said.contains(r#"\"result\":{}"#),
        "{said}"
    );
}

#[tokio::test]
async fn a_flood_and_a_line_without_end_cost_one_call() {
    let server = server(config("plain", json!({"effect": "read_only"})));
    let tools = approved(&server).await;
    for (tool, wanted) in [
        ("flood", "far more than it was asked for"),
        ("giant", "a line of more than 16777216 bytes"),
        ("many", "values"),
    ] {
        let error = call(&server, &tools, tool, json!({})).await.unwrap_err();
        assert!(error.model.contains(wanted), "{tool}: {error}");
        assert!(call(&server, &tools, "echo", json!({})).await.is_ok(), "{tool}");
    }
}

#[tokio::test]
async fn a_server_sees_few_variables_and_its_secrets_are_hidden_in_what_it_says() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    let said = call(&server, &tools, "env", json!({})).await.unwrap().text;
    let mut names: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // The wall adds where it starts.
    names.retain(|name| *name != "PWD");
    names.sort_unstable();
    let wanted = ["FAKE_MCP", "HOME", "KEY", "LANG", "PATH"];
    assert_eq!(names, wanted);
    assert!(std::env::vars().any(|(name, _)| !wanted.contains(&name.as_str())), "there is something to hide");
    assert!(said.contains("KEY=[secret key]") && !said.contains("canary"), "{said}");
    assert!(!said.contains(&format!("HOME={}\n", std::env::var("HOME").unwrap_or_default())), "{said}");
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why_without_secrets() {
    let server = server(config("exit", json!({})));
    let error = server.list().await.unwrap_err();
    assert_eq!(error.model, "the MCP server `fake` did not start: it ended with status 7");
    let errors = error.operator.unwrap();
    assert!(errors.contains("cannot open the file; the key is [secret key]"), "{errors}");

    let error = super::fake::server(config("plain", json!({"command": ["no-such-program"]})))
        .list()
        .await
        .unwrap_err();
    assert!(
        error.model.contains("no program `no-such-program`") || error.model.contains("did not start"),
        "{error}"
    );
    let missing = json!({"env": {"A": "{{ secret('none') }}"}});
    let error = super::fake::server(config("plain", missing)).list().await.unwrap_err();
    assert!(error.model.contains("there is no secret `none`"), "{error}");
    assert!(!format!("{error:?}").contains(CANARY));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let limits = McpLimits { start: Duration::from_millis(200), ..McpLimits::default() };
    let server = std::sync::Arc::try_unwrap(server(config("silent", json!({})))).unwrap().with_limits(limits);
    let error = server.list().await.unwrap_err();
    assert!(error.model.contains("did not agree on the protocol within 200 ms"), "{error}");
}

/// Ways out that were found in walls like this one, for root, too. Each prints `out` if it is open.
const WAYS_OUT: [(&str, &str); 12] = [
    (
        "the hidden folder, uncovered",
        "umount DATA; umount -l DATA; grep -s token DATA/secrets.toml && echo out",
    ),
    (
        "the same as root of a new namespace",
        "unshare -Urm sh -c 'umount -l DATA; grep -s token DATA/secrets.toml' && echo out",
    ),
    (
        "the hidden folder by another mount",
        "mkdir -p m && mount --bind / m && grep -s token mDATA/secrets.toml && echo out",
    ),
    (
        "the hidden folder by another process",
        "for p in /proc/[0-9]*; do grep -s token $p/rootDATA/secrets.toml && echo out; done",
    ),
    ("variables of the server", "tr '\\0' '\\n' 2>/dev/null </proc/OWN/environ && echo out"),
    (
        "the disk",
        "for d in /dev/sd* /dev/vd* /dev/nvme* /dev/loop* /dev/mem /dev/kmsg; do test -e $d && echo out; done",
    ),
    ("a device of its own", "mknod d c 1 1 && head -c 1 d && echo out"),
    ("commands of other users", "touch /etc/cron.d-x 2>/dev/null && rm /etc/cron.d-x && echo out"),
    ("files beside the hidden folder", "touch DATA/../VIV_ESCAPED && echo out"),
    ("the kernel's settings", "cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern && echo out"),
    ("sockets of services", "find /run /var/run -type s 2>/dev/null | grep . && echo out"),
    ("capabilities", "grep -E 'Cap(Eff|Prm|Inh|Amb):.*[1-9a-f]' /proc/self/status && echo out"),
];

#[tokio::test]
async fn behind_a_wall_a_server_sees_neither_hidden_files_nor_other_processes() {
    // The machine has one; without it nothing here is tested.
    crate::child::wall().await;
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = data.path().join("secrets.toml");
    std::fs::write(&file, "token").unwrap();
    let server =
        server_hiding(config("plain", json!({})), vec![data.path().to_owned(), data.path().join("absent")]);
    assert!(server.is_walled().await);
    let tools = approved(&server).await;
    let own = format!("/proc/{}/environ", std::process::id());
    for path in [file.to_str().unwrap(), &own] {
        let said = call(&server, &tools, "read", json!({"text": path})).await.unwrap().text;
        assert!(said.starts_with("Err"), "{said}");
    }
    let folder = data.path().canonicalize().unwrap();
    for (what, script) in WAYS_OUT {
        let script =
            script.replace("DATA", folder.to_str().unwrap()).replace("OWN", &std::process::id().to_string());
        let said = call(&server, &tools, "run", json!({"text": script})).await.unwrap().text;
        assert!(!said.lines().any(|line| line == "out"), "{what} is a way out: {said}");
    }
    assert!(!folder.parent().unwrap().join("VIV_ESCAPED").exists());
}

#[tokio::test]
async fn behind_a_wall_a_server_writes_its_home_and_what_its_settings_name() {
    crate::child::wall().await;
    let open = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = server(config("plain", json!({"write": [open.path()]})));
    let tools = approved(&server).await;
    let script = format!(
        "touch {} \"$HOME/a\" /tmp/b && stat -c %a \"$HOME\" && echo done",
        open.path().join("c").display()
    );
    let said = call(&server, &tools, "run", json!({"text": script})).await.unwrap().text;
    assert_eq!(said, "700\ndone\n");
    assert!(open.path().join("c").exists());
    // What it has written is there at its next start.
    server.stop();
    let said = call(&server, &tools, "run", json!({"text": "ls \"$HOME/a\" | wc -l; ls /tmp/b"}))
        .await
        .unwrap()
        .text;
    assert!(said.starts_with("1\n") && said.contains("No such file"), "{said}");

    let gone = super::fake::server(config("plain", json!({"write": ["/no/such/folder"]})));
    let error = gone.list().await.unwrap_err();
    assert!(error.model.contains("its `write` names `/no/such/folder`, which does not exist"), "{error}");
}

#[tokio::test]
async fn what_viv_reads_is_kept_from_a_server_that_may_write_around_it() {
    crate::child::wall().await;
    let open = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| open.path().canonicalize().unwrap().join(name);
    for folder in ["project/agents", "project/tools", "project/.viv", "project/notes"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    std::fs::write(at("project/vivarium.toml"), "").unwrap();
    let kept = ["project/vivarium.toml", "project/agents", "project/tools"].map(at).to_vec();
    for write in ["project", ""] {
        let server = super::fake::server_keeping(
            config("plain", json!({"write": [at(write)]})),
            vec![at("project/.viv")],
            kept.clone(),
        );
        let tools = approved(&server).await;
        let script = "cd PROJECT; echo x >vivarium.toml; touch tools/a agents/a; rm -rf vivarium.toml tools agents; \
                      mv tools t; mv vivarium.toml v; mv .viv w; ln -sfn /tmp tools; cd ..; mv project other; umount PROJECT/tools; \
                      mount -o remount,rw,bind PROJECT/tools; touch PROJECT/tools/a; touch PROJECT/notes/a; echo done";
        let script = script.replace("PROJECT", at("project").to_str().unwrap());
        let said = call(&server, &tools, "run", json!({"text": script})).await.unwrap().text;
        assert!(said.contains("done"), "{said}");
        for folder in ["project/agents", "project/tools", "project/.viv"] {
            assert_eq!(std::fs::read_dir(at(folder)).unwrap().count(), 0, "{folder} with {write}: {said}");
        }
        assert_eq!(std::fs::read_to_string(at("project/vivarium.toml")).unwrap(), "");
        std::fs::remove_file(at("project/notes/a")).expect("it may be written");
    }
    std::fs::remove_dir(at("project/tools")).unwrap();
    let server =
        super::fake::server_keeping(config("plain", json!({"write": [at("project")]})), Vec::new(), kept);
    let error = server.list().await.unwrap_err();
    assert!(error.model.contains("project/tools`, which viv reads, and which is not there"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_used_costs_nothing_else() {
    let server = server(config("plain", json!({"effect": "read_only"})));
    let listing = server.list().await.unwrap();
    let left: Vec<&str> = listing.left_out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["deep", "task"]);
    for (tool, wanted) in
        [("half", "cut \u{fffd}"), ("odd", "[content of a kind that is not known: `hologram`]\nseen")]
    {
        assert_eq!(call(&server, &listing.tools, tool, json!({})).await.unwrap().text, wanted);
    }
    let answer = call(&server, &listing.tools, "unreadable", json!({}));
    let error = tokio::time::timeout(Duration::from_secs(20), answer).await.expect("at once").unwrap_err();
    assert_eq!(error.model, "the MCP server `fake` answered, but its answer cannot be read");
}

#[tokio::test]
async fn a_death_is_noticed_at_once_although_a_child_of_the_server_holds_its_output() {
    let server = server(config("plain", json!({"effect": "read_only"})));
    let tools = approved(&server).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(call(&server, &tools, "spawn", json!({"port": port})).await.is_ok());
    let _held = listener.accept().await.unwrap();
    let death = call(&server, &tools, "die", json!({}));
    let error = tokio::time::timeout(Duration::from_secs(20), death).await.expect("at once").unwrap_err();
    assert_eq!(error.model, "the MCP server `fake` failed: it ended with status 3");
    assert!(call(&server, &tools, "echo", json!({})).await.is_ok());
}

/// Whoever asks first may give up; the start goes on for the others.
#[tokio::test]
async fn a_start_is_one_for_all_who_ask_however_long_they_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = server(config("slow", json!({"env": {"FAKE_MCP": "slow", "PORT": port}})));
    let mut started = {
        let first = server.list();
        tokio::pin!(first);
        tokio::select! {
            _ = &mut first => panic!("it has not started"),
            accepted = listener.accept() => accepted.unwrap().0,
        }
    };
    let (second, third, ()) = tokio::join!(server.list(), server.list(), async {
        tokio::task::yield_now().await;
        tokio::io::AsyncWriteExt::shutdown(&mut started).await.unwrap();
    });
    assert_eq!((second.unwrap().tools.len(), third.unwrap().tools.len()), (22, 22));
    let again = std::pin::pin!(listener.accept());
    assert!(futures_util::poll!(again).is_pending(), "it was started once");
}

#[tokio::test]
async fn what_a_server_repeats_is_in_no_log() {
    let log = Log::default();
    let writer = log.clone();
    let logging =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(logging.finish());
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    for tool in ["env", "read_resource", "die"] {
        let said = call(&server, &tools, tool, json!({"uri": "a://b"})).await;
        assert_clean(&format!("{said:?}"), tool);
    }
    let error = super::fake::server(config("exit", json!({}))).list().await.unwrap_err();
    assert_clean(&format!("{error:?} {server:?}"), "an error");
    let said = log.text();
    assert!(said.contains("a bug with [secret key]"), "{said}");
    assert_clean(&said, "the log");
}

#[tokio::test]
async fn dropping_a_server_ends_all_that_it_started() {
    let server = server(config("plain", json!({})));
    let tools = approved(&server).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(call(&server, &tools, "spawn", json!({"port": port})).await.is_ok());
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(server);
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut [0; 8])).await;
    assert!(matches!(end, Ok(Ok(0) | Err(_))), "{end:?}");
}
