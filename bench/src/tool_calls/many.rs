//! The overhead of a step of an agent with many tools against one with few, as `history` measures it.

use agent::config::AgentConfig;
use anyhow::{Context, Result};
use serde_json::json;
use tools::ToolKit;

use super::declared;
use crate::history::{alternate, build, build_history};
use crate::measure::short;
use crate::report::{Floor, Goal, Metric};
use crate::stub::Stub;
use crate::{Bench, server};

/// Tools of the two agents, the one that they call included.
const FEW: usize = 10;
const MANY: usize = 120;
/// Tokens of their histories, in thousands.
const HISTORY: usize = 10;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let stub = Stub::start()?;
    let server = build(&threads, &stub, dir.path(), kit()?)?;
    let config = |count: usize| {
        let names = (1..count).map(name).chain(["put".to_owned()]);
        AgentConfig { tools: Some(names.collect()), ..server::config() }
    };
    let mut few = build_history(&threads, &server, &stub, "few", HISTORY, config(FEW))?;
    let mut many = build_history(&threads, &server, &stub, "many", HISTORY, config(MANY))?;
    alternate(&threads, &server, &stub, [&mut few, &mut many])?;
    threads.block_on(server.stop())?;
    let note = format!(
        "CPU of the process from the settled step to the first byte of the next request at the model, {MANY} tools ({}) against \
         {FEW} ({}), both after {HISTORY}k tokens of history; wall clock {} us against {} us",
        many.cpu.spread(),
        few.cpu.spread(),
        short(many.wall.median()),
        short(few.wall.median()),
    );
    let value = (many.cpu.median(), "us");
    Ok(vec![Metric::new(
        "tools.many_ratio",
        value,
        Floor::Twin(few.cpu.median()),
        Goal::RatioAtMost(1.3),
        note,
    )])
}

fn name(number: usize) -> String {
    format!("record_{number}")
}

/// All tools but the called one, each with a description and arguments as long as is usual.
fn kit() -> Result<ToolKit> {
    (1..MANY).try_fold(tools::prebuilt(), |kit, number| {
        let field = |text: &str| json!({"type": "string", "description": format!("{text} of the record, as it was written down.")});
        let tool = declared(&json!({
            "name": name(number), "kind": "http",
            "description": format!("Finds records of kind {number} by any of their fields, the newest first, and returns one page."),
            "effect": "read_only",
            "input": {"type": "object", "properties": {
                "title": field("Title"), "author": field("Author"), "place": field("Place"), "from": field("First day"),
                "to": field("Last day"), "page": {"type": "integer", "minimum": 1},
            }},
            "http": {"method": "GET", "url": "http://127.0.0.1:9/records", "query": {"title": "{{ title }}"}, "allow": ["127.0.0.1"]},
        }))?;
        kit.with(tool).context("the kit refuses a tool")
    })
}
