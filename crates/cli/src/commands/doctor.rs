//! `viv doctor`: checks everything that can prevent a server from working; changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::port::{ModelError, TimeoutKind};
use api::{ReadyJson, Whoami};
use jiff::Timestamp;
use models::conformance::answers;
use runtime::clock::SystemClock;
use serde_json::{Value, json};
use storage::sqlite::{self, UpkeepError};

use crate::args::{Global, ModelArgs};
use crate::commands::upkeep;
use crate::errors::{Exit, Failure, Result};
use crate::listen;
use crate::model;
use crate::output::{Screen, Style};
use crate::probe;
use crate::progress::Progress;
use crate::settings::Settings;
use client::Client;
use client::ErrorClass;

/// Free space, in bytes: below the first the store will soon be full, below the second it may become full.
const SPACE_FAIL: u64 = 64 << 20;
const SPACE_WARN: u64 = 1 << 30;
/// Maximum number of agents that are checked.
const AGENTS_MAX: usize = 100_000;
/// Maximum number of different reasons that are printed.
const REASONS_MAX: usize = 5;
/// No correct clock shows a time before this version was built.
const BUILT_AFTER: i64 = 1_790_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

struct Check {
    name: &'static str,
    verdict: Verdict,
    detail: String,
    hint: Option<String>,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { name, verdict, detail: detail.into(), hint: None }
    }

    fn of(name: &'static str, failure: Failure) -> Self {
        Self { name, verdict: Verdict::Fail, detail: failure.message, hint: failure.hint }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Runs all checks, prints them, and fails if one failed.
pub(crate) async fn run(global: Global, screen: Screen, args: ModelArgs) -> Result<Exit> {
    let settings = Settings::load(&global, args.given())?;
    let dir = settings.data_dir();
    let running = listen::is_locked(dir);
    let mut checks = vec![
        Check::new("version", Verdict::Ok, format!("viv {}", env!("CARGO_PKG_VERSION"))),
        clock(),
        data_dir(dir),
        free_space(dir),
    ];
    checks.extend(store(dir, running));
    checks.extend(leftovers(dir));
    let progress = Progress::start(&screen, "asking servers and the model");
    let (of_server, theirs) = server(dir, running).await;
    checks.extend(of_server);
    checks.push(local_servers().await);
    checks.extend(model(&settings, theirs.as_deref()).await);
    drop(progress);
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    if screen.json {
        let rows: Vec<_> = checks
            .iter()
            .map(
                |c| json!({"name": c.name, "status": c.verdict.as_str(), "detail": c.detail, "hint": c.hint}),
            )
            .collect();
        screen.json_line(&json!({"ok": !failed, "checks": rows}));
    } else {
        checks.iter().for_each(|check| print(&screen, check));
    }
    Ok(if failed { Exit::Failed } else { Exit::Answered })
}

fn print(screen: &Screen, check: &Check) {
    let style = match check.verdict {
        Verdict::Ok => Style::Green,
        Verdict::Warn => Style::Yellow,
        Verdict::Fail => Style::Red,
    };
    let verdict = screen.paint(style, &format!("{:4}", check.verdict.as_str()));
    screen.wrapped(&format!("{verdict}  {:11}  {}", check.name, screen.clean_line(&check.detail)), 6);
    if let Some(hint) = &check.hint {
        screen.wrapped(&format!("      hint: {}", screen.clean_line(hint)), 8);
    }
}

fn clock() -> Check {
    let now = Timestamp::now();
    if now.as_second() < BUILT_AFTER {
        return Check::new("clock", Verdict::Fail, format!("it shows {now:.0}, which is in the past"))
            .hint("set the clock: plans and certificates depend on it");
    }
    Check::new("clock", Verdict::Ok, format!("{now:.0}"))
}

fn data_dir(dir: &Path) -> Check {
    let shown = dir.display();
    let metadata = match std::fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Check::new("data", Verdict::Warn, format!("`{shown}` does not exist yet"))
                .hint("`viv up` creates it");
        }
        Err(error) => return Check::new("data", Verdict::Fail, format!("cannot read `{shown}`: {error}")),
    };
    if !metadata.is_dir() {
        return Check::new("data", Verdict::Fail, format!("`{shown}` is not a directory"))
            .hint("name another --data-dir");
    }
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err() {
        return Check::new("data", Verdict::Fail, format!("this user may not write in `{shown}`"));
    }
    if std::os::unix::fs::MetadataExt::mode(&metadata) & 0o077 != 0 {
        return Check::new("data", Verdict::Warn, format!("`{shown}` is readable by others"))
            .hint(format!("chmod 700 {shown}"));
    }
    Check::new("data", Verdict::Ok, format!("`{shown}`"))
}

fn free_space(dir: &Path) -> Check {
    let nearest = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let nearest = if nearest.as_os_str().is_empty() { Path::new(".") } else { nearest };
    let free = match rustix::fs::statvfs(nearest) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => {
            return Check::new("disk", Verdict::Warn, format!("cannot determine the free space: {error}"));
        }
    };
    let detail = format!("{} MB free", free >> 20);
    match free {
        ..SPACE_FAIL => Check::new("disk", Verdict::Fail, detail)
            .hint("free space on the disk: soon the server can accept nothing"),
        SPACE_FAIL..SPACE_WARN => Check::new("disk", Verdict::Warn, detail),
        _ => Check::new("disk", Verdict::Ok, detail),
    }
}

/// The store's file, opened read-only. A running server reports on its own store.
fn store(dir: &Path, running: bool) -> Vec<Check> {
    if running {
        return vec![Check::new("store", Verdict::Ok, "in use by a server")];
    }
    let found = match sqlite::look(dir, AGENTS_MAX) {
        Ok(found) => found,
        Err(UpkeepError::Missing { .. }) => {
            return vec![Check::new("store", Verdict::Ok, "none yet; `viv up` creates it")];
        }
        Err(error) => return vec![Check::of("store", upkeep::failure(dir, error))],
    };
    let detail = format!("readable, schema version {}, not in use", found.version);
    let damaged: Vec<String> = found.damaged.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let store = Check::new("store", Verdict::Ok, detail);
    [store].into_iter().chain(log(found.lost_frames)).chain(quarantine_check(&damaged)).collect()
}

/// Incomplete copies that a killed backup or restore left in the usual folders.
fn leftovers(dir: &Path) -> Option<Check> {
    let folders: BTreeSet<PathBuf> =
        [dir, Path::new(".")].into_iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let left: Vec<PathBuf> = folders.iter().flat_map(|folder| sqlite::left_behind(folder)).collect();
    let names: Vec<String> = left.iter().map(|copy| format!("`{}`", copy.display())).collect();
    let detail = format!("left behind by an interrupted backup or restore: {}", names.join(", "));
    let hint = "remove it; the next backup to that folder removes it too";
    (!left.is_empty()).then(|| Check::new("backups", Verdict::Warn, detail).hint(hint))
}

/// Damage of the log next to the store's file.
fn log(lost: u64) -> Option<Check> {
    let detail = format!("damaged: {lost} frames follow a broken one; their content is lost");
    let hint = "`viv restore` restores a backup; `viv up` continues with the intact data, without them";
    (lost > 0).then(|| Check::new("log", Verdict::Fail, detail).hint(hint))
}

/// Checks of the server, its default model and the key; and the model's name.
async fn server(data_dir: &Path, running: bool) -> (Vec<Check>, Option<String>) {
    let none = || Check::new("server", Verdict::Warn, "none is running").hint("start one with `viv up`");
    let client = match Client::find(PathBuf::from(data_dir)) {
        Ok(client) => client,
        Err(failure) if failure.code == "no_server" && !running => return (vec![none()], None),
        Err(failure) => return (vec![Check::of("server", failure.into())], None),
    };
    let ready: ReadyJson = match client.get_as("/v1/ready").await {
        Ok(ready) => ready,
        // A stale credential file after a crash is not a failure.
        Err(failure)
            if failure.class == ErrorClass::Unreachable
                && !running
                && std::env::var_os("VIV_URL").is_none() =>
        {
            return (vec![none()], None);
        }
        Err(failure) => return (vec![Check::of("server", failure.into())], None),
    };
    let mut checks = vec![answering(&client, &ready)];
    checks.push(match client.get_as::<Whoami>("/v1/whoami").await {
        Ok(who) => {
            let detail = who.entity.map_or(who.scope, |entity| format!("posts as {}", entity.name));
            Check::new("key", Verdict::Ok, format!("valid: {detail}"))
        }
        Err(failure) => Check::of("key", failure.into()),
    });
    // Only an admin key may list agents.
    match client.list("/v1/agents?brief=true", AGENTS_MAX).await {
        Ok(agents) => checks.extend(quarantine(&agents).into_iter().chain(backing_off(&agents))),
        Err(failure) if failure.code == "forbidden" => {}
        Err(failure) => checks.push(Check::of("agents", failure.into())),
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

/// Agents that have work and back off, grouped by reason: each provider's message is printed once.
fn backing_off(agents: &[Value]) -> Option<Check> {
    let mut by_why: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for agent in agents {
        let class =
            agent["reason"].as_str().filter(|class| !matches!(*class, "suspended" | "damaged" | "place"));
        let (Some(name), Some(class)) = (agent["name"].as_str(), class) else { continue };
        by_why.entry(agent["why"].as_str().unwrap_or(class)).or_insert((name, 0)).1 += 1;
    }
    let line = |(why, (name, count)): (&&str, &(&str, usize))| match count {
        1 => format!("`{name}`: {why}"),
        _ => format!("`{name}` and {} more: {why}", count - 1),
    };
    let lines: Vec<String> = by_why.iter().take(REASONS_MAX).map(line).collect();
    if lines.is_empty() {
        return None;
    }
    let hint =
        "nothing is lost, agents retry by themselves; `viv agents resume NAME` makes one retry at once";
    Some(Check::new("backing off", Verdict::Warn, lines.join("; ")).hint(hint))
}

/// Agents with a record that cannot be read.
fn quarantine(agents: &[Value]) -> Option<Check> {
    let damaged: Vec<String> = agents
        .iter()
        .filter_map(|agent| Some(format!("{}: {}", agent["name"].as_str()?, agent["damage"].as_str()?)))
        .collect();
    quarantine_check(&damaged)
}

fn quarantine_check(damaged: &[String]) -> Option<Check> {
    if damaged.is_empty() {
        return None;
    }
    let detail = format!("quarantined, because a record cannot be read: {}", damaged.join("; "));
    let hint = "`viv verify` lists what is wrong, `viv restore` restores a backup; `viv agents resume NAME` tries again";
    Some(Check::new("agents", Verdict::Fail, detail).hint(hint))
}

fn answering(client: &Client, ready: &ReadyJson) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    let url = client.url();
    if !ready.ready {
        return Check::new("server", Verdict::Fail, format!("{url} answers, but does not run agents"))
            .hint("look at the server's log");
    }
    if ready.version != ours {
        return Check::new(
            "server",
            Verdict::Warn,
            format!("{url} is version {}, this is {ours}", ready.version),
        )
        .hint("use the same version on both sides");
    }
    Check::new("server", Verdict::Ok, format!("{url} answers"))
}

async fn local_servers() -> Check {
    let found = models::local::probe().await;
    if found.is_empty() {
        return Check::new("local", Verdict::Ok, "no model server on this machine (Ollama, llama.cpp)");
    }
    let lines: Vec<String> = found
        .iter()
        .map(|server| {
            let models =
                if server.models.is_empty() { "no model".to_owned() } else { server.models.join(", ") };
            format!("{} at {} with {models}", server.provider, server.base_url)
        })
        .collect();
    Check::new("local", Verdict::Ok, lines.join("; "))
}

/// Asks the model that `viv up` would use with these arguments for one word. `theirs` is the model of the
/// running server, which may have keys and addresses that are unknown here.
async fn model(settings: &Settings, theirs: Option<&str>) -> Vec<Check> {
    let chosen = match model::choose(settings, Arc::new(SystemClock::new())).await {
        Ok(chosen) => chosen,
        Err(failure) => return vec![Check::of("model", failure)],
    };
    let name = &chosen.info.name;
    if settings.get("model.name").value.is_null() && theirs.is_some_and(|theirs| theirs != name) {
        let detail = "not tested: the server was started with settings that are not visible here";
        return vec![
            Check::new("model", Verdict::Ok, detail).hint("`--model PROVIDER/MODEL` tests one from here"),
        ];
    }
    if chosen.info.demo && theirs.is_some() {
        return Vec::new();
    }
    if chosen.info.demo {
        let detail = format!("`viv up` would use the demo model: {}", chosen.why);
        return vec![Check::new("model", Verdict::Warn, detail).hint(
            "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, start Ollama, or try `make run-local`",
        )];
    }
    let window = chosen.info.context_window;
    let windowed = if chosen.window_known {
        Check::new("window", Verdict::Ok, format!("{window} tokens"))
    } else {
        Check::new("window", Verdict::Warn, format!("{window} tokens, assumed"))
            .hint("set it with --context-window if it is different")
    };
    let answered = match answers(&*chosen.model, probe::WAIT).await {
        Ok(()) => Check::new("model", Verdict::Ok, format!("{name} answers ({})", chosen.why)),
        Err(ModelError::TimedOut(TimeoutKind::FirstByte)) => Check::new(
            "model",
            Verdict::Fail,
            format!("{name} does not answer within {} s", probe::WAIT.as_secs()),
        ),
        Err(why) => Check::new("model", Verdict::Fail, format!("{name} does not answer: {why}"))
            .hint("check its key, its address and its name"),
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
    fn a_missing_directory_is_not_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("deep/missing");
        assert_eq!(data_dir(&missing).verdict, Verdict::Warn);
        assert_ne!(free_space(&missing).verdict, Verdict::Fail);
        assert_eq!(clock().verdict, Verdict::Ok);
    }
}
