//! `viv doctor`: checks everything that can prevent a server from working; changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use api::{Agent, HookJson, ReadyJson, TargetJson, ToolJson, Whoami};
use jiff::Timestamp;
use models::conformance::answers;
use runtime::clock::SystemClock;
use serde::Serialize;
use serde_json::json;
use storage::sqlite::{self, Checked, UpkeepError};

use crate::args::{Global, ModelArgs};
use crate::assemble;
use crate::commands::hooks::without_agents;
use crate::commands::ps::unmatched_of;
use crate::commands::targets::silent;
use crate::commands::{alerts, doctor_mcp, up, upkeep};
use crate::errors::{Exit, Failure, Result};
use crate::listen;
use crate::model::{self, Chosen};
use crate::output::{Screen, Style};
use crate::probe;
use crate::progress::Progress;
use crate::settings::Settings;
use client::{Client, ClientError, ErrorClass, segment};

/// Free space, in bytes: below the first the store will soon be full, below the second it may become full.
const SPACE_FAIL: u64 = 64 << 20;
const SPACE_WARN: u64 = 1 << 30;
const AGENTS_MAX: usize = 100_000;
const REASONS_MAX: usize = 5;
/// No correct clock shows a time before this version was built.
const BUILT_AFTER: i64 = 1_790_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warn,
    Fail,
    Skip,
}

#[derive(Serialize)]
pub(super) struct Check {
    name: &'static str,
    #[serde(rename = "status")]
    pub(super) verdict: Verdict,
    pub(super) detail: String,
    pub(super) hint: Option<String>,
}

impl Check {
    pub(super) fn new(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { name, verdict, detail: detail.into(), hint: None }
    }

    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, detail)
    }

    fn warn(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, detail)
    }

    fn fail(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Fail, detail)
    }

    pub(super) fn of(name: &'static str, failure: impl Into<Failure>) -> Self {
        let failure = failure.into();
        Self { hint: failure.hint, ..Self::fail(name, failure.message) }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Runs all checks, prints them, and fails if one failed.
pub(crate) async fn run(global: Global, screen: Screen, args: ModelArgs) -> Result<Exit> {
    let settings = Settings::load(&global, &args)?;
    let dir = settings.data_dir();
    let running = listen::is_locked(dir);
    let mut checks = vec![
        Check::ok("version", format!("viv {}", env!("CARGO_PKG_VERSION"))),
        clock(),
        data_dir(dir),
        free_space(dir),
    ];
    let progress = Progress::start(&screen, "checking the store, and asking servers and the model");
    checks.extend(store(dir, running));
    checks.extend(leftovers(dir));
    let (of_server, theirs) = server(dir, running).await;
    checks.extend(of_server);
    checks.extend(doctor_mcp::check(&settings, running).await);
    let chosen = model::choose(&settings, Arc::new(SystemClock::new())).await;
    checks.extend(agent_files(&settings, running, chosen.as_ref().ok()));
    checks.extend(model(&settings, chosen, theirs.as_deref()).await);
    drop(progress);
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    if screen.json {
        screen.json_line(&json!({"ok": !failed, "checks": checks}));
    } else {
        checks.iter().for_each(|check| print(&screen, check));
    }
    Ok(if failed { Exit::Failed } else { Exit::Answered })
}

fn print(screen: &Screen, check: &Check) {
    let (style, verdict) = match check.verdict {
        Verdict::Ok => (Style::Green, "ok  "),
        Verdict::Warn => (Style::Yellow, "warn"),
        Verdict::Fail => (Style::Red, "fail"),
        Verdict::Skip => (Style::Dim, "skip"),
    };
    let verdict = screen.paint(style, verdict);
    screen.wrapped(&format!("{verdict}  {:11}  {}", check.name, screen.clean_line(&check.detail)), 6);
    if let Some(hint) = &check.hint {
        screen.wrapped(&format!("      hint: {}", screen.clean_line(hint)), 8);
    }
}

fn clock() -> Check {
    let now = Timestamp::now();
    if now.as_second() < BUILT_AFTER {
        return Check::fail("clock", format!("it shows {now:.0}, which is in the past"))
            .hint("set the clock: plans and certificates depend on it");
    }
    Check::ok("clock", format!("{now:.0}"))
}

fn data_dir(dir: &Path) -> Check {
    let shown = dir.display();
    let metadata = match std::fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Check::warn("data", format!("`{shown}` does not exist yet")).hint("`viv up` creates it");
        }
        Err(error) => return Check::fail("data", format!("cannot read `{shown}`: {error}")),
    };
    if !metadata.is_dir() {
        return Check::fail("data", format!("`{shown}` is not a directory")).hint("name another --data-dir");
    }
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err() {
        return Check::fail("data", format!("this user may not write in `{shown}`"));
    }
    if std::os::unix::fs::MetadataExt::mode(&metadata) & 0o077 != 0 {
        return Check::warn("data", format!("`{shown}` is readable by others"))
            .hint(format!("chmod 700 {shown}"));
    }
    Check::ok("data", format!("`{shown}`"))
}

fn free_space(dir: &Path) -> Check {
    let nearest = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let nearest = if nearest.as_os_str().is_empty() { Path::new(".") } else { nearest };
    let free = match rustix::fs::statvfs(nearest) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => return Check::warn("disk", format!("cannot determine the free space: {error}")),
    };
    let detail = format!("{} MB free", free >> 20);
    match free {
        ..SPACE_FAIL => {
            Check::fail("disk", detail).hint("free space on the disk: soon the server can accept nothing")
        }
        SPACE_FAIL..SPACE_WARN => Check::warn("disk", detail),
        _ => Check::ok("disk", detail),
    }
}

/// The store's file, opened read-only. A running server reports on its own store.
fn store(dir: &Path, running: bool) -> Vec<Check> {
    if running {
        return vec![Check::ok("store", "in use by a server")];
    }
    let found = match sqlite::look(dir, AGENTS_MAX) {
        Ok(found) => found,
        Err(UpkeepError::Missing { .. }) => return vec![Check::ok("store", "none yet; `viv up` creates it")],
        Err(error) => return vec![Check::of("store", upkeep::failure(dir, error))],
    };
    let version = found.version;
    let mut checks = vec![match sqlite::check(dir, Duration::from_millis(limits::STORE_CHECK_MS)) {
        Ok(Checked::Sound) => Check::ok("store", format!("sound, schema version {version}, not in use")),
        Ok(Checked::Damaged(what)) => damaged_store(&what),
        Ok(Checked::Unfinished) => {
            let detail =
                format!("readable, schema version {version}, not in use; too large to be checked here");
            Check::ok("store", detail).hint("`viv verify` checks all of it")
        }
        Err(error) => Check::of("store", upkeep::failure(dir, error)),
    }];
    if found.lost_frames > 0 {
        let detail =
            format!("damaged: {} frames follow a broken one; their content is lost", found.lost_frames);
        checks.push(
            Check::fail("log", detail).hint(
                "`viv restore` restores a backup; `viv up` continues with the intact data, without them",
            ),
        );
    }
    checks.extend(quarantine(found.damaged.iter().map(|(name, why)| format!("{name}: {why}"))));
    checks
}

/// A page of the file is not what was written.
fn damaged_store(what: &str) -> Check {
    Check::fail("store", format!("its file is damaged: {what}")).hint(
        "`viv verify` lists what is wrong, `viv agents export` saves an agent that can be read, `viv restore` restores a backup",
    )
}

/// Incomplete copies that a killed backup or restore left in the usual folders.
fn leftovers(dir: &Path) -> Option<Check> {
    let folders: BTreeSet<PathBuf> =
        [dir, Path::new(".")].into_iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let left: Vec<PathBuf> = folders.iter().flat_map(|folder| sqlite::left_behind(folder)).collect();
    let names: Vec<String> = left.iter().map(|copy| format!("`{}`", copy.display())).collect();
    let detail = format!("left behind by an interrupted backup or restore: {}", names.join(", "));
    let hint = "remove it; the next backup to that folder removes it too";
    (!left.is_empty()).then(|| Check::warn("backups", detail).hint(hint))
}

/// Checks of the server, its default model and the key; and the model's name.
async fn server(data_dir: &Path, running: bool) -> (Vec<Check>, Option<String>) {
    let ready = async {
        let client = Client::find(PathBuf::from(data_dir))?;
        let ready: ReadyJson = client.get_as("/v1/ready").await?;
        Ok((client, ready))
    };
    let (client, ready) = match ready.await {
        Ok(found) => found,
        // Without a server there is no credential file, or a stale one after a crash.
        Err(ClientError { class: ErrorClass::Unreachable, .. })
            if !running && std::env::var_os("VIV_URL").is_none() =>
        {
            let none = Check::warn("server", "none is running").hint("start one with `viv up`");
            return (vec![none], None);
        }
        Err(failure) => return (vec![Check::of("server", failure)], None),
    };
    let (url, ours, theirs) = (client.url(), env!("CARGO_PKG_VERSION"), &ready.version);
    let mut checks = vec![match theirs == ours {
        true => Check::ok("server", format!("{url} answers")),
        false => Check::warn("server", format!("{url} is version {theirs}, this is {ours}"))
            .hint("use the same version on both sides"),
    }];
    checks.push(match client.get_as::<Whoami>("/v1/whoami").await {
        Ok(who) => {
            let detail = who.entity.map_or(who.scope, |entity| format!("posts as {}", entity.handle));
            Check::ok("key", format!("valid: {detail}"))
        }
        Err(failure) => Check::of("key", failure),
    });
    if let Some(totals) = &ready.totals {
        checks.extend(totals.damage.as_deref().map(damaged_store));
        checks.extend(totals.unindexed_since.and_then(index_lag));
    }
    // Only an admin key may list agents.
    match client.list_as::<Agent>("/v1/agents?brief=true", AGENTS_MAX).await {
        Ok(agents) => {
            let damaged = |agent: &Agent| Some(format!("{}: {}", agent.handle, agent.damage.as_ref()?));
            checks.extend(quarantine(agents.iter().filter_map(damaged)));
            checks.extend(backing_off(&agents));
            checks.extend(unguarded(&agents));
            checks.extend(cut_tools(&agents));
            checks.extend(unmatched(&agents));
            let recent = alerts::recent(&client).await;
            checks.extend(recent.map(|recent| {
                Check::warn("alerts", recent)
                    .hint("`viv agents alerts` lists them, and what each of them costs")
            }));
            match client.all_as::<HookJson>("/v1/hooks").await {
                Ok(hooks) => checks.extend(unready_hooks(&hooks).into_iter().chain(unheard_hooks(&hooks))),
                Err(failure) => checks.push(Check::of("hooks", failure)),
            }
            match client.all_as::<TargetJson>("/v1/targets").await {
                Ok(targets) => checks.extend(untold(&targets)),
                Err(failure) => checks.push(Check::of("targets", failure)),
            }
            match client.all_as::<ToolJson>("/v1/tools").await {
                Ok(tools) => {
                    checks.extend(unserved(&tools));
                    checks.extend(secretless(&with_secrets(&client, &tools).await));
                }
                Err(failure) => checks.push(Check::of("tools", failure)),
            }
        }
        Err(failure) if failure.code == "forbidden" => {}
        Err(failure) => checks.push(Check::of("agents", failure)),
    }
    let Some(model) = ready.model else { return (checks, None) };
    let (verdict, what) = match model.demo {
        true => (Verdict::Warn, " (the demo model: scripted, no language model)"),
        false => (Verdict::Ok, ""),
    };
    let detail = format!("the server uses {}{what}, window {} tokens", model.name, model.context_window);
    checks.push(Check::new("default", verdict, detail));
    (checks, Some(model.name))
}

/// A search index that is behind for longer than it takes to write it.
fn index_lag(since: Timestamp) -> Option<Check> {
    let behind = Timestamp::now().duration_since(since).as_millis();
    let detail = format!("searches may miss what happened since {since:.0}");
    let hint =
        "it catches up by itself; if it does not, stop the server and run `viv verify --rebuild-index`";
    (behind > i128::from(limits::INDEX_LAG_REPORTED_MS)).then(|| Check::warn("index", detail).hint(hint))
}

/// Hooks with a secret that is not set: those with no other one accept nothing.
fn unready_hooks(hooks: &[HookJson]) -> Option<Check> {
    let secrets = |hook: &HookJson| -> Vec<String> {
        hook.missing_secrets.iter().map(|(name, why)| format!("`{name}` of {}: {why}", hook.name)).collect()
    };
    let lines: Vec<String> = hooks.iter().flat_map(secrets).collect();
    let shut =
        hooks.iter().any(|hook| !hook.secrets.is_empty() && hook.missing_secrets.len() == hook.secrets.len());
    let detail = format!("secrets cannot be used: {}", lines.join(", "));
    let verdict = if shut { Verdict::Fail } else { Verdict::Warn };
    let hint =
        "set it with `viv secrets set NAME`; until then the hook answers 503, or uses its other secrets";
    (!lines.is_empty()).then(|| Check::new("hooks", verdict, detail).hint(hint))
}

/// Hooks with agents that are retired: those with no other one accept nothing.
fn unheard_hooks(hooks: &[HookJson]) -> Option<Check> {
    let unheard: Vec<&HookJson> = hooks.iter().filter(|hook| !hook.retired_agents.is_empty()).collect();
    let lines: Vec<String> =
        unheard.iter().map(|hook| format!("`{}`: {}", hook.name, without_agents(hook))).collect();
    let dead = unheard.iter().any(|hook| hook.retired_agents.len() == hook.agents.len());
    let verdict = if dead { Verdict::Fail } else { Verdict::Warn };
    let hint = "add the hook again with `--to` an agent that is not retired, or remove it with `viv hooks remove NAME`";
    (!lines.is_empty()).then(|| Check::new("hooks", verdict, lines.join("; ")).hint(hint))
}

/// Targets that are told nothing.
fn untold(targets: &[TargetJson]) -> Option<Check> {
    let why =
        |target: &TargetJson| target.off.clone().or_else(|| silent(target)).or_else(|| target.why.clone());
    let lines: Vec<String> =
        targets.iter().filter_map(|target| Some(format!("{}: {}", target.name, why(target)?))).collect();
    let detail = format!("told nothing: {}", lines.join("; "));
    let hint = "correct the target and add it again, or remove it with `viv targets remove NAME`";
    (!lines.is_empty()).then(|| Check::warn("targets", detail).hint(hint))
}

/// The declared tools that name secrets, each with those that cannot be used.
async fn with_secrets(client: &Client, tools: &[ToolJson]) -> Vec<ToolJson> {
    let mut found = Vec::new();
    let names_some =
        |tool: &&ToolJson| tool.declaration.as_ref().is_some_and(|it| it.to_string().contains("secret("));
    for tool in tools.iter().filter(names_some) {
        found.extend(client.get_as::<ToolJson>(&format!("/v1/tools/{}", segment(&tool.name))).await.ok());
    }
    found
}

/// Tools with a secret that is not set: a person would approve a call that cannot be made.
fn secretless(tools: &[ToolJson]) -> Option<Check> {
    let lines = |tool: &ToolJson| -> Vec<String> {
        tool.missing_secrets.iter().map(|(name, why)| format!("`{name}` of {}: {why}", tool.name)).collect()
    };
    let lines: Vec<String> = tools.iter().flat_map(lines).collect();
    let detail = format!("secrets cannot be used: {}", lines.join(", "));
    let hint = "set it with `viv secrets set NAME`; until then a call of the tool fails";
    (!lines.is_empty()).then(|| Check::warn("secrets", detail).hint(hint))
}

/// Tools whose calls no worker takes.
fn unserved(tools: &[ToolJson]) -> Option<Check> {
    let waits = |tool: &&ToolJson| {
        tool.workers.is_some_and(|workers| workers.unclaimed_calls > 0 && workers.waiting_workers == 0)
    };
    let names: Vec<&str> = tools.iter().filter(waits).map(|tool| tool.name.as_str()).collect();
    let detail = format!("calls wait for a worker, and none is there: {}", names.join(", "));
    let hint = "start the program that serves them; `viv tools show NAME` counts its calls and workers";
    (!names.is_empty()).then(|| Check::warn("workers", detail).hint(hint))
}

/// Agents whose guard is off.
fn unguarded(agents: &[Agent]) -> Option<Check> {
    let off = agents.iter().filter(|agent| agent.guard == "off").map(|agent| agent.handle.as_str());
    let names: Vec<&str> = off.collect();
    let detail =
        format!("strangers' text can make these agents give away what is private: {}", names.join(", "));
    let hint = "set `guard: ask`, or leave the key out";
    (!names.is_empty()).then(|| Check::warn("guard", detail).hint(hint))
}

/// Agents that name more tools than their models accept.
fn cut_tools(agents: &[Agent]) -> Option<Check> {
    let cut = agents.iter().filter(|agent| !agent.tools_left_out.is_empty());
    let lines: Vec<String> =
        cut.map(|agent| format!("{} of {}", agent.tools_left_out.len(), agent.handle)).collect();
    let detail = format!("left out, because they are more than the model accepts: {}", lines.join(", "));
    let hint = "name fewer in the agent's `tools`; `viv agents show NAME` lists what is left out";
    (!lines.is_empty()).then(|| Check::warn("tools", detail).hint(hint))
}

/// Agents whose configs name what does not exist.
fn unmatched(agents: &[Agent]) -> Option<Check> {
    let lines: Vec<String> = agents.iter().flat_map(unmatched_of).take(REASONS_MAX).collect();
    let hint = "`viv agents set NAME KEY=VALUE` or the agent's file corrects it";
    (!lines.is_empty()).then(|| Check::warn("names", lines.join("; ")).hint(hint))
}

/// Agents that have work and back off, grouped by reason: each provider's message is printed once.
fn backing_off(agents: &[Agent]) -> Option<Check> {
    let mut by_why: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for agent in agents {
        let Some(class) = agent.reason.as_deref() else { continue };
        if !matches!(class, "suspended" | "damaged" | "place" | "summary") {
            let why = agent.why.as_deref().unwrap_or(class);
            by_why.entry(why).or_insert((&agent.handle, 0)).1 += 1;
        }
    }
    let line = |(why, (name, count)): (&&str, &(&str, usize))| match count {
        1 => format!("`{name}`: {why}"),
        _ => format!("`{name}` and {} more: {why}", count - 1),
    };
    let lines: Vec<String> = by_why.iter().take(REASONS_MAX).map(line).collect();
    let hint =
        "nothing is lost, agents retry by themselves; `viv agents resume NAME` makes one retry at once";
    (!lines.is_empty()).then(|| Check::warn("backing off", lines.join("; ")).hint(hint))
}

/// Agents with a record that cannot be read: each with the reason.
fn quarantine(damaged: impl Iterator<Item = String>) -> Option<Check> {
    let damaged: Vec<String> = damaged.collect();
    let detail = format!("quarantined, because a record cannot be read: {}", damaged.join("; "));
    let hint = "`viv verify` lists what is wrong, `viv restore` restores a backup; `viv agents resume NAME` tries again";
    (!damaged.is_empty()).then(|| Check::fail("agents", detail).hint(hint))
}

/// Mistakes in agent files: those that the server which runs on the data directory found, else those that would stop a
/// start.
fn agent_files(settings: &Settings, running: bool, chosen: Option<&Chosen>) -> Option<Check> {
    if !running {
        let kit = assemble::kit(settings, None).ok()?;
        let wrong = match up::read_tools(settings, &kit, &BTreeSet::new()) {
            Ok(_) => up::read_files(settings, chosen?, kit, false, &BTreeSet::new()).err()?,
            Err(wrong) => wrong,
        };
        return Some(Check::of("files", wrong));
    }
    let problems = project::reconcile::problems(settings.data_dir());
    let worst = problems.iter().min_by_key(|one| one.warning)?;
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let verdict = if worst.warning { Verdict::Warn } else { Verdict::Fail };
    Some(Check::new("files", verdict, lines.join("; ")).hint(worst.while_running()))
}

/// Asks the model that `viv up` would use with these arguments for one word. `theirs` is the model of the
/// running server, which may have keys and addresses that are unknown here.
async fn model(settings: &Settings, chosen: Result<Chosen>, theirs: Option<&str>) -> Vec<Check> {
    let chosen = match chosen {
        Ok(chosen) => chosen,
        Err(failure) => return vec![Check::of("model", failure)],
    };
    let name = &chosen.info.name;
    let other = theirs.filter(|theirs| theirs != name && settings.get("model.name").value.is_null());
    if let Some(theirs) = other {
        let detail = "not tested: the server was started with settings that are not visible here";
        let hint = format!("`viv models try {theirs}` tests it from here");
        return vec![Check::new("model", Verdict::Skip, detail).hint(hint)];
    }
    if chosen.info.demo && theirs.is_some() {
        return Vec::new();
    }
    if chosen.info.demo {
        let detail = format!("`viv up` would use the demo model: {}", chosen.why);
        return vec![Check::warn("model", detail).hint(up::real_model())];
    }
    let window = chosen.info.context_window;
    let windowed = if chosen.window_known {
        Check::ok("window", format!("{window} tokens"))
    } else {
        Check::warn("window", format!("{window} tokens, assumed"))
            .hint("set it with --context-window if it is different")
    };
    let answered = match answers(&*chosen.model, probe::WAIT).await {
        Ok(()) => Check::ok("model", format!("{name} answers ({})", chosen.why)),
        Err(error) => Check::of("model", probe::explain(name, &chosen.address, &error, probe::WAIT)),
    };
    vec![answered, windowed]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_store_fails_and_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(store(dir.path(), false)[0].verdict, Verdict::Ok);
        let file = dir.path().join("vivarium.db");
        std::fs::write(&file, "x".repeat(200)).unwrap();
        assert_eq!(store(dir.path(), false)[0].verdict, Verdict::Fail);
        assert_eq!(std::fs::read_to_string(&file).unwrap().len(), 200);
    }

    #[test]
    fn an_index_that_is_far_behind_is_a_warning_with_the_time() {
        assert!(index_lag(Timestamp::now()).is_none());
        let since = "2026-11-21T14:03:05.5Z".parse().unwrap();
        let check = index_lag(since).unwrap();
        assert_eq!(check.verdict, Verdict::Warn);
        assert_eq!(check.detail, "searches may miss what happened since 2026-11-21T14:03:05Z");
    }

    #[test]
    fn a_tool_without_its_secret_is_a_warning() {
        let tool = |missing: serde_json::Value| -> ToolJson {
            serde_json::from_value(json!({
                "name": "pay", "description": "", "input": {}, "effect": "unsafe", "visible": false, "async": false,
                "timeout_ms": 1, "labels": [], "version": "1", "prebuilt": false, "missing_secrets": missing,
            }))
            .unwrap()
        };
        assert!(secretless(&[tool(json!({}))]).is_none());
        let check = secretless(&[tool(json!({"bank.key": "it is not set"}))]).unwrap();
        assert_eq!(check.detail, "secrets cannot be used: `bank.key` of pay: it is not set");
    }

    #[test]
    fn calls_that_no_worker_takes_are_a_warning() {
        let tool = |unclaimed: usize, workers: usize| -> ToolJson {
            serde_json::from_value(json!({
                "name": "resize", "description": "", "input": {}, "effect": "unsafe", "visible": false, "async": false,
                "timeout_ms": 1, "labels": [], "version": "1", "prebuilt": false,
                "workers": {"waiting_workers": workers, "unclaimed_calls": unclaimed, "claimed_calls": 1},
            }))
            .unwrap()
        };
        assert!(unserved(&[tool(0, 0), tool(1, 1)]).is_none());
        assert!(unserved(&[tool(1, 0)]).unwrap().detail.ends_with("none is there: resize"));
    }

    #[test]
    fn a_missing_directory_is_not_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("deep/missing");
        assert_eq!(data_dir(&missing).verdict, Verdict::Warn);
        assert_ne!(free_space(&missing).verdict, Verdict::Fail);
        assert_eq!(clock().verdict, Verdict::Ok);
    }
}
