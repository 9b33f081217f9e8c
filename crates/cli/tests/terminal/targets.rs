//! Targets from the command line: added, told over a real connection, and listed with what did not arrive.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;

use crate::tools::files_with;
use crate::world::{Server, run, run_with};

const SECRET: &str = "whsec_Y2FuYXJ5LXNlY3JldC00NzExMDgxNQ==";
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that answers each request with the next status, and gives its head and body away.
fn listener(statuses: &'static [u16]) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, (sender, requests)) = (listener.local_addr().unwrap(), mpsc::channel());
    std::thread::spawn(move || {
        for (stream, status) in listener.incoming().flatten().zip(statuses) {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 2 {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            let _ = sender.send((head, String::from_utf8(body).unwrap()));
        }
    });
    (address.to_string(), requests)
}

#[test]
fn a_target_is_told_of_a_message_and_one_that_is_gone_is_switched_off() {
    let server = Server::start();
    let dir = server.dir.path();
    assert_eq!(run_with(dir, &["secrets", "set", "news"], SECRET, &[]).code, 0);
    let (board, told) = listener(&[200]);
    let (gone, refused) = listener(&[410]);
    for (name, address) in [("board", &board), ("gone", &gone)] {
        let url = format!("http://{address}/in");
        let args = ["targets", "add", name, &url, "--space", "home", "--secret", "news", "--allow", address];
        let added = run(dir, &args);
        assert_eq!(
            (added.code, added.out.as_str()),
            (0, format!("`{name}` is told of `home`: message\n").as_str())
        );
    }
    assert_eq!(run(dir, &["say", "hello"]).code, 0);
    let (head, body) = told.recv_timeout(PATIENCE).unwrap();
    assert!(head.starts_with("POST /in ") && head.contains("webhook-signature: v1,"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["type"], &body["data"]["text"]), (&"message".into(), &"hello".into()));
    refused.recv_timeout(PATIENCE).unwrap();
    let off = std::iter::repeat_with(|| run(dir, &["targets"]).out);
    let listed = off.take(1_000).find(|out| out.contains("off: it answered 410 Gone")).unwrap();
    assert!(listed.contains("board"), "{listed}");
    let doctor = run(dir, &["doctor", "--model", "demo"]);
    assert!(doctor.out.contains("told nothing: gone: it answered 410 Gone"), "{}", doctor.shown());
    assert_eq!(run(dir, &["targets", "dead", "gone"]).out, "no delivery to `gone` was given up\n");
    assert_eq!(run(dir, &["targets", "retry", "gone"]).out, "0 deliveries wait for `gone` again\n");
    assert_eq!(run(dir, &["targets", "rm", "gone"]).code, 0);
    let wrong =
        run(dir, &["targets", "add", "x", "file:///etc/passwd", "--space", "home", "--secret", "news"]);
    assert!(wrong.code == 3 && wrong.err.contains("`url`"), "{}", wrong.shown());
    assert_eq!(files_with(dir, "canary"), [] as [String; 0]);
    assert_eq!(files_with(dir, SECRET), ["tool-secrets.toml"]);
}

#[test]
fn a_target_inside_that_is_not_allowed_is_named_at_once_and_what_fails_is_listed_afterwards() {
    let server = Server::start();
    let dir = server.dir.path();
    assert_eq!(run_with(dir, &["secrets", "set", "news"], SECRET, &[]).code, 0);
    let why = "`127.0.0.1` is this machine, not the public internet";
    for (name, url) in [("ip", "http://127.0.0.1:9/in"), ("name", "http://localhost:9/in")] {
        let added = run(dir, &["targets", "add", name, url, "--space", "home", "--secret", "news"]);
        let said = added.out.contains("nothing will be sent: ") && added.out.contains("--allow ");
        assert!(added.code == 0 && said, "{}", added.shown());
    }
    let listed = run(dir, &["targets"]).out;
    assert!(listed.contains(why), "{listed}");
    let doctor = run(dir, &["doctor", "--model", "demo"]);
    assert!(doctor.out.contains(&format!("told nothing: ip: {why}")), "{}", doctor.shown());
    assert_eq!(run(dir, &["agents", "alerts"]).out, "no alerts\n");
    assert_eq!(run(dir, &["say", "hello"]).code, 0);
    let alerts = std::iter::repeat_with(|| run(dir, &["agents", "alerts"]).out);
    let alerts = alerts.take(1_000).find(|out| out.matches("target_failing").count() == 2).unwrap();
    assert!(alerts.contains("target ip") && alerts.contains("nothing was sent; "), "{alerts}");
    let shown = run(dir, &["targets", "show", "ip"]).out;
    for part in ["failing since", "next try", "failed attempts"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let one = run(dir, &["alerts", "--kind", "target_failing", "--limit", "1", "--json"]).json();
    assert_eq!(one["items"].as_array().unwrap().len(), 1, "{one}");
    assert_eq!(run(dir, &["agents", "alerts", "ada"]).out, "no alerts\n");
    let unknown = run(dir, &["agents", "alerts", "--kind", "target_failed"]);
    assert!(unknown.code == 2 && unknown.err.contains("`target_failing`"), "{}", unknown.shown());
    for args in [&["ps"][..], &["doctor", "--model", "demo"]] {
        let ran = run(dir, args);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(all.contains("2 alerts in the last day") && all.contains("viv agents alerts"), "{all}");
    }
}
