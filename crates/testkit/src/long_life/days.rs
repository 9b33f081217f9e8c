//! Lives that differ in what happens around the agent: a plan that fires each minute, many memories that others change, busy
//! spaces, and a wake each hour, after which no provider has anything in its cache. They have no facts that are asked for.

use std::time::Duration;

use agent::plan::PlanTerms;
use agent::port::ReplyPart;
use serde_json::{Value, json};

use super::facts::CUSTOMERS;
use super::support::{ANSWER, TICKET, sentences};
use super::{Around, LongLife};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Memories of the life of many memories.
const MEMORIES: usize = 120;
/// Those that change before each message.
const CHANGED: usize = 2;
/// Sentences of a message and of an answer.
const SENTENCES: usize = 2;

/// Five plans, of which one fires each minute, for so many minutes.
pub fn minutely(minutes: usize) -> LongLife {
    let minute =
        plan("watch the queue", "Look at the queue, and say something only if it grows.", "* * * * *");
    let others = [
        ("morning report", "Write the report of the night for the desk.", "0 7 * * *"),
        ("stock", "Compare the shelves with the orders of the week.", "30 18 * * 5"),
        ("invoices", "Remind those who have not paid for a month.", "0 9 1 * *"),
        ("backup", "Ask whether the backup of the night can be read.", "15 4 * * *"),
    ];
    let others = others.map(|(name, instruction, cron)| plan(name, instruction, cron));
    let plans = [minute].into_iter().chain(others).flatten().collect();
    let life = life("a plan each minute", vec![String::new(); minutes], |n| {
        vec![done(&format!("the queue is short, check {n}"))]
    });
    LongLife { around: Around { pause: MINUTE, plans, ..Around::default() }, ..life }
}

/// 120 memories, two of which others change before each of so many messages.
pub fn many_memories(messages: usize) -> LongLife {
    let memory = |n: usize, version: usize| {
        let key = format!("{} {}", CUSTOMERS[n % CUSTOMERS.len()], n / CUSTOMERS.len());
        (key, format!("version {version}: {}", sentences(&ANSWER, n + version, 1)))
    };
    let edits = |at: usize| (0..CHANGED).map(|k| memory((at * CHANGED + k) * 7 % MEMORIES, at + 1)).collect();
    let around = Around {
        memories: (0..MEMORIES).map(|n| memory(n, 0)).collect(),
        edits: (0..messages).map(edits).collect(),
        ..Around::default()
    };
    LongLife { around, ..life("120 memories that change", written(messages), answers) }
}

/// So many messages in three spaces.
pub fn three_spaces(messages: usize) -> LongLife {
    let around = Around { spaces: 3, pause: MINUTE, ..Around::default() };
    LongLife { around, ..life("three busy spaces", written(messages), answers) }
}

/// A message each hour, for so many hours. Others change a memory every second hour.
pub fn hourly(hours: usize) -> LongLife {
    let memory = |n: usize| (CUSTOMERS[n % CUSTOMERS.len()].to_owned(), sentences(&ANSWER, n, 1));
    let edits = |n: usize| if n.is_multiple_of(2) { vec![memory(n)] } else { Vec::new() };
    let around = Around {
        pause: HOUR,
        memories: (0..CUSTOMERS.len()).map(memory).collect(),
        edits: (0..hours).map(edits).collect(),
        forgets: true,
        ..Around::default()
    };
    LongLife { around, ..life("hourly, with an expired cache", written(hours), answers) }
}

fn life(name: &'static str, messages: Vec<String>, replies: impl Fn(usize) -> Vec<ReplyPart>) -> LongLife {
    LongLife {
        name,
        facts: Vec::new(),
        tools: Vec::new(),
        replies: (0..messages.len()).map(|n| vec![replies(n)]).collect(),
        outcomes: Vec::new(),
        messages,
        around: Around::default(),
    }
}

fn written(messages: usize) -> Vec<String> {
    (0..messages).map(|n| format!("Message {n}: {}", sentences(&TICKET, n, SENTENCES))).collect()
}

fn answers(n: usize) -> Vec<ReplyPart> {
    let text = sentences(&ANSWER, n, SENTENCES);
    vec![call("send_message", &json!({"text": text})), done(&format!("answered message {n}"))]
}

fn done(summary: &str) -> ReplyPart {
    call("done", &json!({"summary": summary}))
}

fn call(name: &str, arguments: &Value) -> ReplyPart {
    ReplyPart::Call { name: name.to_owned(), arguments: arguments.to_string() }
}

fn plan(name: &str, instruction: &str, cron: &str) -> Option<PlanTerms> {
    serde_json::from_value(json!({"name": name, "instruction": instruction, "cron": cron, "zone": "UTC"}))
        .ok()
}
