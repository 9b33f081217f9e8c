//! The life of a support agent: a ticket in each cycle, which it looks up and answers. Some tickets state a fact in passing; the
//! last cycles ask for these facts. The answers do not depend on what the agent knows, so that every variant lives the same life.

use agent::port::ReplyPart;
use serde_json::json;

use super::facts::{CUSTOMERS, PlantedFact, of_customers};
use super::{Around, LongLife};

/// How often the agent keeps a note on a customer, and a goal: in every so many cycles.
const NOTE_EVERY: usize = 8;
const GOAL_EVERY: usize = 25;
/// Sentences of a ticket, of an answer and of a record.
const TICKET_SENTENCES: usize = 5;
const ANSWER_SENTENCES: usize = 4;
const RECORD_LINES: usize = 6;

pub(super) const TICKET: [&str; 9] = [
    "Since the change of last week the screen in the warehouse stays dark until somebody turns it off and on again.",
    "Two of the parcels came without their labels, and nobody here can say to whom they belong.",
    "The report of the last month shows twelve units more than we counted on the shelf.",
    "Our new colleague cannot log in, although her account was confirmed on the same day.",
    "The printer at the loading bay takes a minute for each page since it was moved.",
    "We were promised a call back by Tuesday and have heard nothing so far.",
    "Please tell us as well whether the spare parts can be sent together with the next order.",
    "It happens only in the mornings, before the second shift begins, and never on a weekend.",
    "A photo of the error is attached to the first message, in case it is of use.",
];

pub(super) const ANSWER: [&str; 7] = [
    "Thank you for the details, they helped to find it.",
    "A technician has looked at the records, and the cause is a setting that was lost when the unit was replaced.",
    "The setting is restored; please turn the unit off once and on again.",
    "The missing labels are printed and will arrive with the next delivery.",
    "If it happens again, write down the time, so that we can compare it with our log.",
    "The ticket stays open until you tell us that all is well.",
    "We are sorry for the delay and have told the colleague who is responsible.",
];

/// A life of so many cycles, the last of which ask for `facts` facts (40 at most), one each.
pub fn support(cycles: usize, facts: usize) -> LongLife {
    let facts = of_customers(facts);
    let tickets = cycles.saturating_sub(facts.len());
    let mut messages: Vec<String> = (0..tickets).map(|n| ticket(n, told(n, tickets, &facts))).collect();
    messages.extend(facts.iter().map(|fact| format!("A question from the field: {}", fact.question)));
    LongLife {
        name: "support",
        tools: vec![("look_up", "Returns the record of a ticket.")],
        replies: (0..messages.len()).map(replies).collect(),
        outcomes: (0..messages.len()).map(record).collect(),
        messages,
        facts,
        around: Around::default(),
    }
}

/// The fact that this ticket states: the facts are spread evenly over the tickets.
fn told(ticket: usize, tickets: usize, facts: &[PlantedFact]) -> Option<&PlantedFact> {
    let before = ticket * facts.len() / tickets;
    facts.get(before).filter(|_| (ticket + 1) * facts.len() / tickets > before)
}

fn ticket(n: usize, told: Option<&PlantedFact>) -> String {
    let fact = told.map(|fact| format!(" For your records: {}.", fact.statement)).unwrap_or_default();
    let who = CUSTOMERS[n % CUSTOMERS.len()];
    format!("Ticket {n} of {who}: {}{fact}", sentences(&TICKET, n, TICKET_SENTENCES))
}

fn replies(n: usize) -> Vec<Vec<ReplyPart>> {
    let call = |name: &str, arguments: serde_json::Value| ReplyPart::Call {
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    let mut answer = vec![call("send_message", json!({"text": sentences(&ANSWER, n, ANSWER_SENTENCES)}))];
    let who = CUSTOMERS[n / NOTE_EVERY % CUSTOMERS.len()];
    if n % NOTE_EVERY == NOTE_EVERY - 1 {
        let value = format!("wrote last in ticket {n}; {}", sentences(&ANSWER, n + 3, 1));
        answer.push(call("set_memories", json!({"memories": [{"key": who, "value": value}]})));
    }
    if n % GOAL_EVERY == GOAL_EVERY - 1 {
        let description = format!("Ask {who} whether the unit of ticket {n} works since it was replaced");
        answer.push(call("set_goals", json!({"goals": [{"description": description}]})));
    }
    answer.push(call("done", json!({"summary": format!("answered message {n}")})));
    vec![vec![call("look_up", json!({"n": n}))], answer]
}

fn record(n: usize) -> String {
    let line = |k: usize| {
        let (day, unit) = (1 + (n + k) % 28, 300 + (n * 17 + k * 5) % 400);
        format!("2026-03-{day:02} unit {unit}: {}", sentences(&ANSWER, n + 2 * k, 1))
    };
    let lines: Vec<String> = (0..RECORD_LINES).map(line).collect();
    format!("record {n}, {}\n{}", CUSTOMERS[n % CUSTOMERS.len()], lines.join("\n"))
}

/// So many sentences, others for each `seed`.
pub(super) fn sentences(from: &[&str], seed: usize, count: usize) -> String {
    let sentence = |k: usize| from[(seed * 7 + k * (1 + seed % 3)) % from.len()];
    (0..count).map(sentence).collect::<Vec<_>>().join(" ")
}
