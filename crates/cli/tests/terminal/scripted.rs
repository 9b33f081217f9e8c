//! A model server that plays the scripts of a scenario, so that its story can happen on a real server. It outlives every kill
//! of the binary, and knows nothing but the request: an interrupted cycle gets the same reply again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use ::scenario::scene::{Act, Condition, Rule, Scenario};
use serde_json::{Value, json};

/// Changes the arguments of a call when it is made.
pub(crate) type Amend = fn(Value) -> Value;

/// The address of a new server that plays this scenario. Its threads end with the test's process.
pub(crate) fn serve(scenario: Scenario, amend: Amend) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let scenario = Arc::new(scenario);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let scenario = Arc::clone(&scenario);
            std::thread::spawn(move || answer(stream, &scenario, amend));
        }
    });
    url
}

/// Answers one request of a connection. The client may be killed at any time.
fn answer(mut stream: TcpStream, scenario: &Scenario, amend: Amend) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).ok()? > 2 {
        let header = line.to_lowercase();
        length = header.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request: Value = serde_json::from_slice(&body).unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let delta = delta(&acts(scenario, &request), &request, amend);
    let reason = if delta["tool_calls"].is_null() { "stop" } else { "tool_calls" };
    let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
    let chunk =
        json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": choices});
    write!(stream, "{head}data: {chunk}\n\ndata: [DONE]\n\n").ok()
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

fn inbox(message: &Value) -> Option<&str> {
    let text = text(message);
    text.lines().any(|line| line.starts_with("[INBOX — ")).then_some(text)
}

/// What the agent of this request does now: the next step of the first rule that fits, or nothing more.
fn acts(scenario: &Scenario, request: &Value) -> Vec<Act> {
    let messages = request["messages"].as_array().unwrap();
    let is_own = |name: &str| text(&messages[0]).contains(&format!("(@{name})"));
    let agent = scenario.agents.iter().find(|actor| is_own(&actor.name)).unwrap();
    let at = messages.iter().rposition(|message| inbox(message).is_some()).unwrap();
    let step = messages[at..].iter().filter(|message| message["role"] == "assistant").count();
    let (inbox, all) = (text(&messages[at]).to_lowercase(), json!(messages).to_string().to_lowercase());
    let holds = |text: &str, words: &[String]| words.iter().all(|word| text.contains(&word.to_lowercase()));
    let fits = |Rule { when: Condition { inbox: new, knows, .. }, .. }: &&Rule| {
        holds(&inbox, new) && holds(&all, knows)
    };
    let rule = agent.script.as_ref().unwrap().iter().find(fits);
    let step = rule.and_then(|rule| rule.steps.get(step));
    step.cloned().unwrap_or_else(|| vec![Act::Done(None)])
}

/// The reply with these actions.
fn delta(acts: &[Act], request: &Value, amend: Amend) -> Value {
    let messages = request["messages"].as_array().unwrap();
    let inbox = messages.iter().rev().find_map(inbox).unwrap();
    let first_space =
        inbox.split_once(". [space ").and_then(|(_, rest)| rest.split_once(']')).map(|(space, _)| space);
    let calls = acts.iter().enumerate().map(|(index, act)| {
        let (tool, arguments) = match act {
            Act::Say { space, text } => {
                let space = space.as_deref().or(first_space);
                ("send_message", json!({"space": space, "text": text}))
            }
            Act::Call { tool, arguments } => (tool.as_str(), amend(arguments.clone())),
            Act::Done(_) => ("done", json!({})),
            other => panic!("these stories need no {other:?}"),
        };
        let function = json!({"name": tool, "arguments": arguments.to_string()});
        json!({"index": index, "id": format!("call_{}_{index}", messages.len()), "type": "function", "function": function})
    });
    json!({"role": "assistant", "tool_calls": calls.collect::<Vec<_>>()})
}
