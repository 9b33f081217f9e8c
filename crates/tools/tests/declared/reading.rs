//! Declarations as files: what is read, and what is reported.

use std::time::Duration;

use agent::call::Effect;
use serde_json::json;
use tools::declare::{Declaration, DeclarationMistake, ToolLabel, read_files, read_json, read_toml};

const ISSUES: &str = r#"
name = "create_issue"
kind = "http"
description = "Creates an issue and returns its number."
effect = "idempotent"
visible = true
timeout = "45s"
concurrency = 2
rate = "10/min"
labels = ["exfiltrates", "outside"]

[input]
type = "object"
required = ["title"]
additionalProperties = false
properties.title = { type = "string" }
properties.labels = { type = "array", items = { type = "string" } }

[http]
method = "POST"
url = "https://api.example.com/repos/acme/issues"
headers.authorization = 'Bearer {{ secret("issues_token") }}'
json = { title = "{{ title }}", labels = "{{ labels }}" }
outcome = "/number"
"#;

fn mistakes(text: &str) -> Vec<String> {
    let wrong = read_toml("tools/x.toml", text, &[]).expect_err("there are mistakes");
    wrong.iter().map(DeclarationMistake::to_string).collect()
}

/// The mistakes of the example after one change.
fn changed(from: &str, to: &str) -> Vec<String> {
    assert!(ISSUES.contains(from), "{from}");
    mistakes(&ISSUES.replacen(from, to, 1))
}

#[test]
fn a_declaration_is_read_and_written_with_the_same_names() {
    let read = read_toml("tools/issues.toml", ISSUES, &[]).unwrap();
    assert_eq!((read.effect, read.visible, read.asynchronous), (Effect::Idempotent, true, false));
    assert_eq!((read.timeout, read.concurrency), (Duration::from_secs(45), 2));
    assert!(read.labels().iter().eq([ToolLabel::Exfiltrates, ToolLabel::Outside]));
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!((&written["timeout"], &written["rate"]), (&json!("45s"), &json!("10/min")));
    assert_eq!(read_json(&written, &[]).unwrap(), read);
}

#[test]
fn what_is_not_said_has_a_careful_default() {
    let text =
        "name = 't'\nkind = 'http'\ndescription = 'd'\nhttp = { method = 'GET', url = 'https://a.example/' }";
    let read = read_toml("t", text, &[]).unwrap();
    assert_eq!((read.effect, read.timeout), (Effect::Unsafe, Duration::from_secs(30)));
    assert_eq!(
        read.labels().iter().count(),
        3,
        "an outward tool counts as everything until its declaration says otherwise"
    );
    assert_eq!(read.input, Declaration::default().input);
}

#[test]
fn a_tool_of_workers_has_a_version_and_none_of_what_its_workers_decide() {
    let worker = "name = 't'\nkind = 'worker'\ndescription = 'd'\n";
    assert_eq!(read_toml("t", worker, &[]).unwrap().worker, None, "version 1");
    let versioned = format!("{worker}[worker]\nversion = '2'\n");
    let read = read_toml("t", &versioned, &[]).unwrap();
    assert_eq!(read.worker.as_ref().unwrap().version, "2");
    assert_eq!(read_json(&serde_json::to_value(&read).unwrap(), &[]).unwrap(), read);
    for (text, wanted) in [
        (format!("{worker}rate = '10/min'\n"), "`concurrency`: a tool of kind `worker` has neither"),
        (format!("{worker}concurrency = 2\n"), "`concurrency`: a tool of kind `worker` has neither"),
        (
            format!("{worker}http = {{ method = 'GET', url = 'https://a.example' }}\n"),
            "`http`: a tool of kind `worker` sends no",
        ),
        (format!("{worker}[worker]\nversion = ''\n"), "`worker.version`: wanted 1 to 64 bytes"),
        (format!("{worker}[worker]\nversoin = '2'\n"), "versoin"),
        (
            format!("{ISSUES}\n[worker]\nversion = '2'\n"),
            "`worker`: a table `[worker]` needs `kind = \"worker\"`",
        ),
    ] {
        let wrong = mistakes(&text);
        assert!(wrong.iter().any(|found| found.contains(wanted)), "{text}: wanted `{wanted}` in {wrong:#?}");
    }
}

#[test]
fn a_schema_can_be_json_in_a_string() {
    let text = ISSUES
        .replace("[input]\ntype = \"object\"\nrequired = [\"title\"]\nadditionalProperties = false\n", "");
    let text = text.replace("properties.title = { type = \"string\" }\n", "");
    let text = text.replace("properties.labels = { type = \"array\", items = { type = \"string\" } }\n", "");
    let input = r#"input = '{"type":"object","properties":{"labels":{},"title":{"type":"string"}}}'"#;
    let read = read_toml("t", &format!("{input}\n{text}"), &[]).unwrap();
    assert_eq!(read.input["properties"]["title"]["type"], "string");
    let wrong = mistakes(&format!("input = '{{'\n{text}"));
    assert!(
        wrong[0].starts_with("tools/x.toml:1: `input`: wanted a JSON Schema, but this is not JSON"),
        "{wrong:?}"
    );
}

#[test]
fn each_mistake_names_its_file_and_its_key() {
    let check = |from: &str, to: &str, wanted: &str| {
        let found = changed(from, to);
        assert!(found.iter().any(|text| text.contains(wanted)), "{to}: wanted `{wanted}` in {found:#?}");
        assert!(found.iter().all(|text| text.starts_with("tools/x.toml:")), "{found:#?}");
    };
    check("name = \"create_issue\"", "name = \"create issue\"", "`name`: wanted 1 to 64 characters");
    check(
        "name = \"create_issue\"",
        "name = \"send_message\"",
        "`name`: `send_message` is the name of another tool",
    );
    check(
        "name = \"create_issue\"",
        "name = \"read_outcome\"",
        "`name`: `read_outcome` is the name of another tool",
    );
    check("name = \"create_issue\"", "", "`name`: wanted 1 to 64 characters");
    check(
        "kind = \"http\"",
        "kind = \"htp\"",
        "`kind`: wanted one of `http`, `mcp`, `worker`, got `htp`; did you mean `http`?",
    );
    check("Creates an issue and returns its number.", " ", "`description`: wanted a sentence");
    for (given, got) in [("inward", "`inward`"), ("unsave", "`unsave`; did you mean `unsafe`?")] {
        let wanted = format!("`effect`: wanted one of `read_only`, `idempotent`, `unsafe`, got {got}");
        check("effect = \"idempotent\"", &format!("effect = \"{given}\""), &wanted);
    }
    check("effect = \"idempotent\"", "effect = 7", "`effect`: ");
    check("timeout = \"45s\"", "timeout = \"45\"", "`timeout`: wanted a span of time such as `30s`");
    check("timeout = \"45s\"", "timeout = \"2h\"", "`timeout`: wanted 100ms to 900s, got 7200s");
    check("timeout = \"45s\"", "timeout = \"1ms\"", "`timeout`: wanted 100ms to 900s, got 1ms");
    check("timeout = \"45s\"", "async = true\ntimeout = \"25h\"", "`timeout`: wanted 100ms to 86400s");
    check("concurrency = 2", "concurrency = 0", "`concurrency`: wanted 1 to 256 calls at once, got 0");
    check("concurrency = 2", "concurrency = -1", "`concurrency`: invalid value");
    check("rate = \"10/min\"", "rate = \"10/week\"", "`rate`: wanted a rate such as `10/min`");
    check("rate = \"10/min\"", "rate = \"0/min\"", "`rate`: wanted 1 to 10000 calls");
    check(
        "\"exfiltrates\"",
        "\"exfiltrate\"",
        "`labels[0]`: wanted one of `private`, `exfiltrates`, `outside`, got `exfiltrate`; did you mean `exfiltrates`?",
    );
    check(
        "visible = true",
        "visibel = true",
        "`visibel`: there is no such key\nhint: did you mean `visible`?",
    );
    check(
        "method = \"POST\"",
        "methd = \"POST\"",
        "`http.methd`: there is no such key\nhint: did you mean `method`?",
    );
    check(
        "[input]\ntype = \"object\"",
        "[input]\ntype = \"array\"",
        "`input`: wanted a JSON Schema with `type = \"object\"`",
    );
    check(
        "title = { type = \"string\" }",
        "title = { type = \"strng\" }",
        "`input`: this is no valid JSON Schema",
    );
    check(
        "{{ title }}",
        "{{ titel }}",
        "`http.json.title`: `titel` is no argument of the schema\nhint: did you mean `title`?",
    );
    check("{{ title }}", "{{ title", "`http.json.title`: this is no valid template");
    check("https://api.example.com/", "https://{{ title }}/", "`http.url`: the host is constant");
    check("https://api.example.com/", "file:///", "`http.url`: wanted a URL that begins with");
    check("acme/issues", "{{ secret('k') }}", "`http.url`: a URL is written to logs");
    check(
        "headers.authorization",
        "headers.host",
        "`http.headers.host`: this header is set by the connection",
    );
    check("headers.authorization", "headers.\"a b\"", "`http.headers.a b`: this is no name of a header");
    check(
        "'Bearer",
        "\"\"\"a\nb\"\"\"\nheaders.x = 'Bearer",
        "`http.headers.authorization`: the value has characters",
    );
    check("method = \"POST\"", "method = \"TRACE\"", "`http.method`: wanted one of `GET`");
    check("method = \"POST\"", "method = \"GET\"", "`http.method`: a `GET` request has no body");
    check("outcome = \"/number\"", "outcome = \"number\"", "`http.outcome`: wanted a JSON pointer");
    check("outcome = \"/number\"", "body = \"x\"", "`http.json`: wanted one of `body`, `json` and `form`");
    check("outcome = \"/number\"", "allow = [\"*.corp\"]", "`http.allow`: wanted a host name");
    check("outcome = \"/number\"", "allow = \"corp\"", "`http.allow`: invalid type");
    let deletes = "method = \"DELETE\"\n";
    let reads = ISSUES.replace("effect = \"idempotent\"", "effect = \"read_only\"");
    let found = mistakes(&reads.replace("method = \"POST\"\n", deletes));
    assert!(
        found.iter().any(|text| text.contains("`effect`: a `DELETE` request changes something")),
        "{found:?}"
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let found =
        mistakes("nam = 1\nkind = 'http'\ntimeout = 5\nrate = 'x'\n[http]\nurl = 7\nmethod = 'GET'\nfoo = 1");
    let keys: Vec<&str> = found.iter().filter_map(|text| text.split('`').nth(1)).collect();
    assert_eq!(keys, ["nam", "http.foo", "http.url", "rate", "timeout", "name", "description"]);
}

#[test]
fn text_that_is_no_declaration_is_refused_with_the_line() {
    let check =
        |text: &str, wanted: &str| assert!(mistakes(text)[0].contains(wanted), "{:?}", mistakes(text));
    check("name = 'a'\nkind = \n", "line 2: this is not TOML");
    check(&format!("name = '{}'", "x".repeat(300_000)), "wanted at most 262144 bytes");
    check(
        "name = 'a'\nkind = 'http'\ndescription = 'd'",
        "`http`: a tool of kind `http` needs a table `[http]`",
    );
    let large = format!("\"object\"\ndescription = \"{}\"", "x".repeat(70_000));
    let found = changed("\"object\"", &large);
    assert!(found[0].contains("`input`: wanted at most 65536 bytes of JSON Schema"), "{found:?}");
}

#[test]
fn of_two_declarations_with_one_name_the_second_is_a_mistake() {
    let file = |name: &str| (name.to_owned(), ISSUES.to_owned());
    let (found, wrong) = read_files(&[file("a.toml"), file("b.toml"), ("c.toml".into(), "x".into())]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        wrong[0].to_string(),
        "b.toml: `name`: `create_issue` is declared in a.toml already\nhint: give it another name"
    );
    assert!(wrong[1].to_string().starts_with("c.toml: line 1"), "{}", wrong[1]);
}
