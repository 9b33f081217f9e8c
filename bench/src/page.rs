//! The tables of `docs/performance.md`: written from the figures of a whole run, never by hand. The page marks where each stands.
//! Must not know how anything is measured.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Zoned;

use crate::machine::Machine;
use crate::measure::short;
use crate::report::Metric;

/// The tables of the page by their marks, each with the families of metrics that it shows.
const TABLES: [(&str, &[&str]); 5] = [
    ("core", &["core", "stream", "fair"]),
    ("mind", &["mind"]),
    ("tools", &["tools"]),
    ("alarms", &["alarms"]),
    ("density", &["density"]),
];

/// The mark of the line that says when and where.
const MACHINE: &str = "machine";

/// What a metric is, in the words of the page.
const WORDS: [(&str, &str); 58] = [
    ("core.wake_fsyncs", "from POST to the model"),
    (
        "core.wake_ratio",
        "time from POST to the model without the fsync, against a round trip and a task switch",
    ),
    ("core.accepts_per_fsync", "64 clients that post at once"),
    ("core.accept_cpu_ratio", "the writer against bare inserts"),
    ("core.cycles_per_s", "durable, two steps, 32 agents, against the disk alone"),
    ("core.step_fsyncs", "one step with a tool"),
    ("core.step_ms", "the same in time, against its fsyncs"),
    ("core.step_overhead_ratio", "CPU of a step with 100k tokens of history, against 10k"),
    ("core.idle_rss_mb", "memory of an idle server, against a program with threads and nothing else"),
    ("core.answered_rss_mb", "after its first reply"),
    ("core.binary_mb", "the file `viv`"),
    ("core.ready_ms", "first start until ready, against the same program"),
    ("stream.delta", "a delta's way from the model to a subscriber, against a bare relay"),
    ("stream.delta_p99", "the same, p99"),
    ("stream.cpu", "CPU of a delta, against decoding and encoding it"),
    ("stream.fanout", "deliveries to 1 000 subscribers per CPU second, against bare writes"),
    ("stream.fanout_drafts", "the same of drafts, which are gathered"),
    ("stream.memory", "memory of a subscriber"),
    ("stream.idle_watchers", "memory of 500 watchers that never read, beside none"),
    ("stream.idle_watchers_after", "what is left of it when they are gone"),
    ("stream.interrupt", "p99 from an urgent message to the end of the model's stream"),
    ("fair.store_failure", "requests to a model per agent while the store refuses commits"),
    ("fair.store_back", "until all are served when it works again"),
    ("fair.after_crash", "from a POST to another agent's model request, while 300 cycles are open"),
    ("fair.silent_provider", "beside 256 agents at a provider that never answers, against alone"),
    ("fair.writer", "the most expensive command in a full store, CPU"),
    ("fair.resume", "bytes read to continue a cycle of 50 steps, against those of one step"),
    ("mind.step_overhead_ratio", "CPU of a step with workspaces that stay, 100k tokens against 10k"),
    ("mind.accounting_ratio", "counting what a step adds, against counting the history"),
    ("mind.assembly_ratio", "a step's request of 100k tokens, against one copy of its bytes"),
    ("mind.life_tokens_ratio", "what 200 cycles of a support agent cost, against none of its means"),
    ("mind.life_lost_facts", "of 40 facts, those that it does not know when asked"),
    ("mind.recall", "p99 of searches in the 100 000 entries of one of 1 000 agents"),
    ("mind.index_lag", "the longest that an entry could not be found, at 500 entries/s"),
    ("mind.tailer", "commits of 8 agents while the index is fed, against commits that nobody indexes"),
    ("tools.http_fsyncs", "one more step with a call of an HTTP tool"),
    ("tools.http_cpu_ms", "CPU of that step without the bare request, beside that request"),
    ("tools.many_ratio", "CPU of a step of an agent with 120 tools, against 10"),
    ("tools.claim_ms", "from a decision's commit to the worker that holds its call, beyond one fsync"),
    ("tools.claim_fsyncs", "commits from the decision to the worker that holds its call"),
    ("tools.worker_memory", "memory of a worker that waits, against a subscriber of a space"),
    (
        "alarms.hook",
        "CPU of the server for a delivery of 2 KiB to a hook, verified and on disk, 16 in flight",
    ),
    ("alarms.late", "how late 99 of 100 events of plans are on disk, with 1 000 plans due per second"),
    ("alarms.plan_bytes", "memory of one of a million plans, beside a sleeping Tokio task"),
    ("alarms.paused_mb", "memory of a server with 100 000 paused agents, beside as many asleep"),
    ("alarms.answer_fsyncs", "from a person's answer to the resumed request"),
    ("alarms.answer_ratio", "the same in time, less that sync, beside a wake by a message"),
    ("density.sleeping_bytes", "memory for each of 1 000 000 that sleep, against an Erlang process"),
    (
        "density.warm_bytes",
        "memory for each that is warm with an empty history, against a warm actor of an actor engine",
    ),
    (
        "density.restart_ready",
        "after a death, 100 000 agents of whom 1 000 have something to do, against none",
    ),
    ("density.restart_served", "until the first of them asks its model, beside ready"),
    ("density.rush", "11 000 of 1 000 000 due at once, the longest wait against the middle one"),
    ("density.wake_among", "a random one of 1 000 000, POST to request, against one of 100"),
    (
        "density.wake_warm_pages",
        "agent not in memory, its file in the page cache, 100k tokens of history, against reading it once and a round trip",
    ),
    ("density.wake_cold_pages", "the same with nothing in the page cache either"),
    ("density.cycle_bytes", "written to the write-ahead log per cycle, 400k tokens of history against 11k"),
    ("density.late_cycles", "CPU of cycles 906 to 1 000 against 6 to 100"),
    ("density.neighbour", "p99 of a quiet agent's activations beside a flooded one, against alone"),
];

/// Writes the tables of the page in the tree.
pub(crate) fn write(metrics: &[Metric], machine: &Machine) -> Result<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs").join("performance.md");
    let page =
        std::fs::read_to_string(&file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let measured = format!("Measured on {} on {}.", Zoned::now().date(), machine.line());
    std::fs::write(&file, filled(&page, metrics, &measured)?)
        .with_context(|| format!("`{}` cannot be written", file.display()))?;
    Ok(file)
}

fn filled(page: &str, metrics: &[Metric], measured: &str) -> Result<String> {
    let mut page = between(page, MACHINE, measured)?;
    for (mark, families) in TABLES {
        let is_in =
            |line: &&Metric| families.iter().any(|family| line.metric.split('.').next() == Some(family));
        page = between(&page, mark, &table(metrics.iter().filter(is_in)))?;
    }
    Ok(page)
}

/// The page with this text between the marks of this name.
fn between(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}: measured -->\n"), format!("<!-- {name}: end -->"));
    let (before, rest) =
        page.split_once(&begin).with_context(|| format!("the page has no `{}`", begin.trim()))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("the page has no `{end}`"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim_end()))
}

fn table<'a>(metrics: impl Iterator<Item = &'a Metric>) -> String {
    let mut table = "| metric | value | floor | ratio | goal | met |\n|---|---|---|---|---|---|\n".to_owned();
    for Metric { metric, value, unit, floor, ratio, goal, met, .. } in metrics {
        let words = WORDS.iter().find(|(name, _)| name == metric).map_or("", |(_, words)| *words);
        let separator = if words.is_empty() { "" } else { ": " };
        let met = if *met { "yes" } else { "NO" };
        let goal = goal.replace("<=", "≤").replace(">=", "≥");
        table.push_str(&format!(
            "| `{metric}`{separator}{words} | {} {unit} | {} {unit} | {} | {goal} | {met} |\n",
            spaced(*value),
            spaced(*floor),
            spaced(*ratio),
        ));
    }
    table
}

/// A number with its thousands apart.
fn spaced(value: f64) -> String {
    let text = short(value);
    let digits = text.trim_start_matches('-').split('.').next().map_or(0, str::len);
    let sign = text.len() - text.trim_start_matches('-').len();
    let apart = |(at, letter): (usize, char)| {
        let is_gap = at > sign && at < sign + digits && (sign + digits - at).is_multiple_of(3);
        is_gap.then_some(' ').into_iter().chain([letter])
    };
    text.chars().enumerate().flat_map(apart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Floor, Goal};

    fn metric(name: &'static str, value: f64) -> Metric {
        Metric::new(name, (value, "us"), Floor::Bound(161.0), Goal::RatioAtMost(4.0), String::new())
    }

    #[test]
    fn each_figure_stands_in_the_table_of_its_family_and_what_stood_there_is_gone() {
        let mark = |name: &str| format!("<!-- {name}: measured -->\nold\n<!-- {name}: end -->\nand {name}\n");
        let page: String = ["machine", "core", "mind", "tools", "alarms", "density"].map(mark).concat();
        let metrics = [
            metric("core.wake_ratio", 322.0),
            metric("density.late_cycles", 1_234_567.0),
            metric("fair.new", 161.0),
        ];
        let page = filled(&page, &metrics, "Today.").unwrap();
        let begin = "| metric | value | floor | ratio | goal | met |\n|---|---|---|---|---|---|\n";
        assert!(page.contains(&format!(
            "<!-- core: measured -->\n\n{begin}| `core.wake_ratio`: time from POST to the model without the fsync, against a \
             round trip and a task switch | 322 us | 161 us | 2.00 | ratio ≤ 4 | yes |\n| `fair.new` | 161 us | 161 us | 1.00 | \
             ratio ≤ 4 | yes |\n\n<!-- core: end -->\nand core\n"
        )), "{page}");
        assert!(page.contains("| 1 234 567 us | 161 us | 7 668 | ratio ≤ 4 | NO |"), "{page}");
        assert!(
            page.contains("<!-- machine: measured -->\n\nToday.\n\n<!-- machine: end -->")
                && !page.contains("old")
        );
        let twice = filled(&page, &metrics, "Today.").unwrap();
        assert_eq!(twice, page);
    }

    #[test]
    fn the_page_in_the_tree_has_every_mark() {
        filled(include_str!("../../docs/performance.md"), &[], "Today.").unwrap();
        assert!(
            filled("no marks", &[], "Today.").unwrap_err().to_string().contains("<!-- machine: measured -->")
        );
    }

    #[test]
    fn numbers_are_short_with_their_thousands_apart() {
        let all = [
            (0.0, "0"),
            (0.05, "0.050"),
            (999.4, "999"),
            (1_000.0, "1 000"),
            (-31_000.0, "-31 000"),
            (12.34, "12.3"),
        ];
        for (value, text) in all {
            assert_eq!(spaced(value), text);
        }
    }
}
