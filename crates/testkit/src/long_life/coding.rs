//! A transcript of a coding agent: one task, worked on in a single cycle of many steps. The files that it reads state facts in
//! comments; the message after the task asks for them.

use agent::port::ReplyPart;
use serde_json::{Value, json};

use super::facts::{MODULES, PlantedFact, of_modules};
use super::{Around, LongLife};

/// The steps go round: a file is read, changed, tested.
const READ: usize = 0;
const EDIT: usize = 1;
const ROUND: usize = 3;
/// Functions in a file that is read, and in a change.
const FILE_FUNCTIONS: usize = 9;
const EDIT_FUNCTIONS: usize = 2;

const TASK: &str = "Please move the four modules `queue`, `ledger`, `outbox` and `index` to the new error type. Work through them \
    file by file: read the file, change it, run its tests. Keep the public names. Do not touch the file format, because servers \
    of the version before must be able to read it. Write down what the files say about limits, known faults and old formats; \
    I will ask for it afterwards.";

/// A life of a cycle of so many steps with `facts` facts (12 at most), and a cycle that asks for them.
pub fn coding(steps: usize, facts: usize) -> LongLife {
    let facts = of_modules(facts);
    let questions: Vec<&str> = facts.iter().map(|fact| fact.question.as_str()).collect();
    let mut task: Vec<Vec<ReplyPart>> = (0..steps.saturating_sub(1)).map(|k| vec![step(k)]).collect();
    task.push(ending("All four modules use the new error type, and their tests pass."));
    LongLife {
        name: "coding",
        tools: vec![
            ("read_file", "Returns a file."),
            ("edit_file", "Replaces a part of a file."),
            ("run_tests", "Runs the tests of a module."),
        ],
        messages: vec![TASK.to_owned(), format!("Now the notes, please. {}", questions.join(" "))],
        replies: vec![task, vec![ending("The notes are in the file of changes.")]],
        outcomes: (0..steps).map(|k| outcome(k, stated(k, steps, &facts))).collect(),
        facts,
        around: Around::default(),
    }
}

/// The fact in the file that this step reads. The files of the last third of the steps state none, so that every fact has time to
/// be left out of the window.
fn stated(step: usize, steps: usize, facts: &[PlantedFact]) -> Option<&PlantedFact> {
    let reads = (steps * 2 / 3).div_ceil(ROUND).max(facts.len());
    let read = step / ROUND;
    let before = read * facts.len() / reads;
    let states = step % ROUND == READ && (read + 1) * facts.len() / reads > before;
    facts.get(before).filter(|_| states)
}

fn step(k: usize) -> ReplyPart {
    let path = path(k);
    match k % ROUND {
        READ => call("read_file", json!({"n": k, "path": path})),
        EDIT => call("edit_file", json!({"n": k, "path": path, "with": code(k, EDIT_FUNCTIONS)})),
        _ => call("run_tests", json!({"n": k, "path": path})),
    }
}

fn outcome(k: usize, stated: Option<&PlantedFact>) -> String {
    let path = path(k);
    match k % ROUND {
        READ => {
            let note = stated.map(|fact| format!("// Note: {}.\n", fact.statement)).unwrap_or_default();
            format!("// {path}\n{note}{}", code(k, FILE_FUNCTIONS))
        }
        EDIT => format!("{path}: {EDIT_FUNCTIONS} functions replaced"),
        _ => {
            let line = |n: usize| format!("test {path}::part_{}_{n} ... ok", k / ROUND);
            format!("{}\n\nresult: ok, 12 passed, 0 failed", (0..12).map(line).collect::<Vec<_>>().join("\n"))
        }
    }
}

fn path(k: usize) -> String {
    let round = k / ROUND;
    format!("src/{}/part_{}.rs", MODULES[round % MODULES.len()], round / MODULES.len())
}

fn code(seed: usize, functions: usize) -> String {
    let function = |n: usize| {
        let (name, limit) = (seed * 31 + n * 7, 10 + (seed * 13 + n) % 90);
        format!(
            "pub fn take_{name}(&mut self, key: &Key, left: usize) -> Result<Option<Row>, QueueError> {{\n    \
             if left > {limit} {{\n        return Err(QueueError::Full {{ key: key.clone(), left }});\n    }}\n    \
             let row = self.rows.get(key).filter(|row| row.due <= self.now);\n    Ok(row.cloned())\n}}\n"
        )
    };
    (0..functions).map(function).collect::<Vec<_>>().join("\n")
}

fn ending(text: &str) -> Vec<ReplyPart> {
    vec![call("send_message", json!({"text": text})), call("done", json!({"summary": text}))]
}

fn call(name: &str, arguments: Value) -> ReplyPart {
    ReplyPart::Call { name: name.to_owned(), arguments: arguments.to_string() }
}
