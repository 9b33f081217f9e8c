//! `viv models try`: tests everything that agents need of a model, in every tool mode that its API
//! supports, and recommends a mode.

use std::sync::Arc;
use std::time::Duration;

use agent::entity::{Entity, EntityKind};
use agent::id::EntityId;
use agent::port::{Clock, Model, Models as _, ToolSpec};
use agent::workspace;
use models::bounds::CONFORMANCE_OUTPUT;
use models::catalog;
use models::conformance::{self, Advice, Check, Column, Finding, Speed, Trial, Verdict, advice};
use models::model_book::{ModelBook, ModelConfig, ToolMode};
use net::display_url;
use runtime::clock::SystemClock;
use serde_json::{Value, json};

use super::setup::{Setup, provider};
use crate::args::{Global, ToolModeArg, TryArgs};
use crate::errors::{Exit, Result};
use crate::model;
use crate::output::{Screen, Style};
use crate::probe;
use crate::progress::Progress;

struct TrialModel {
    config: ModelConfig,
    base_url: String,
    modes: Vec<ToolMode>,
    /// Whether settings or the server state its window.
    window_stated: bool,
}

struct Tried {
    column: Column,
    speed: Speed,
}

/// Tests the model, prints the result, and fails if the model is not good enough in any mode.
pub(super) async fn run(global: &Global, screen: Screen, args: TryArgs) -> Result<Exit> {
    let setup = Setup::load(global)?;
    let subject = subject(&setup, &args).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut models = Vec::new();
    for mode in &subject.modes {
        let config = ModelConfig { tool_mode: Some(*mode), ..subject.config.clone() };
        let book = ModelBook::new(config, setup.secrets.ring.clone(), Arc::clone(&clock));
        let model = book.model(None).map_err(|error| {
            model::unusable(&subject.config.name, subject.config.base_url.as_deref(), error)
        })?;
        models.push((*mode, model));
    }
    if !screen.json {
        head(&screen, &subject, models.first().map(|(_, model)| &**model));
    }
    // The greeting is asked as the first agent of a server is asked.
    let tools = agent::port::Toolset::of(&tools::prebuilt(), None);
    let specs = Arc::clone(tools.specs());
    let system = first_system(&specs);
    let mut tried: Vec<Tried> = Vec::new();
    for (mode, model) in models {
        let trial = Trial::new(model, mode, Arc::clone(&clock), Duration::from_secs(args.timeout));
        let trial = trial.of_agent(&system, Arc::clone(&specs));
        // A server that went silent does not answer in another mode either.
        let silent = tried.iter().flat_map(|tried| &tried.column.findings).any(Finding::is_silence);
        tried.push(match silent {
            true => untried(mode),
            false => try_mode(&screen, &subject, trial, mode, tried.is_empty()).await?,
        });
    }
    let columns: Vec<Column> = tried.iter().map(|tried| tried.column.clone()).collect();
    let advice = advice(&columns);
    if screen.json {
        screen.json_line(&as_json(&subject, &tried, &advice));
    } else {
        show(&screen, &subject, &columns, &advice);
    }
    let silent = columns.iter().flat_map(|column| &column.findings).any(Finding::is_silence);
    Ok(match advice.mode {
        Some(_) => Exit::Answered,
        None if silent => Exit::TimedOut,
        None => Exit::Failed,
    })
}

fn first_system(specs: &[ToolSpec]) -> String {
    let config = crate::world::first_config();
    let ada = Entity {
        id: EntityId(uuid::Uuid::nil()),
        kind: EntityKind::Agent,
        name: crate::world::AGENT.to_owned(),
        display_name: "Ada".to_owned(),
        external_id: None,
        created_at: jiff::Timestamp::UNIX_EPOCH,
    };
    workspace::system(&ada, &config, specs)
}

async fn subject(setup: &Setup, args: &TryArgs) -> Result<TrialModel> {
    let name = setup.full_name(&args.model, args.base_url.as_deref()).await?;
    let provider = provider(name.split('/').next().unwrap_or_default())?;
    let mut config = setup.config(&name)?;
    config.base_url = args.base_url.clone().or(config.base_url);
    config.max_output = Some(config.max_output.map_or(CONFORMANCE_OUTPUT, |max| max.min(CONFORMANCE_OUTPUT)));
    let base_url = config.address();
    let modes = match args.tool_mode {
        Some(ToolModeArg::Native) => vec![ToolMode::Native],
        Some(ToolModeArg::JsonSchema) => vec![ToolMode::JsonSchema],
        None => conformance::tool_modes(provider, &base_url).to_vec(),
    };
    let window_stated = config.context_window.is_some();
    Ok(TrialModel { config, base_url: display_url(&base_url), modes, window_stated })
}

fn untried(mode: ToolMode) -> Tried {
    let findings = Check::ALL.map(|check| Finding::untried(check, "the server went silent before")).to_vec();
    Tried { column: Column { mode, findings }, speed: Speed::default() }
}

async fn try_mode(
    screen: &Screen,
    subject: &TrialModel,
    mut trial: Trial,
    mode: ToolMode,
    first: bool,
) -> Result<Tried> {
    let mut findings = Vec::new();
    for check in Check::ALL {
        let waiting = Progress::start(screen, format!("{}: {}", mode.as_str(), check.label()));
        let finding = trial.run(check).await;
        drop(waiting);
        if let Some(error) = finding.fatal_error().filter(|_| first) {
            let name = &subject.config.name;
            return Err(probe::explain(name, &subject.base_url, error, trial.first_wait()));
        }
        findings.push(finding);
    }
    Ok(Tried { column: Column { mode, findings }, speed: trial.speed() })
}

fn head(screen: &Screen, subject: &TrialModel, model: Option<&dyn Model>) {
    let mut pairs = vec![
        ("model", screen.clean_line(&subject.config.name)),
        ("at", screen.clean_line(&subject.base_url)),
    ];
    if let Some(model) = model {
        let tokens = model.info().context_window;
        let assumed = !subject.window_stated && !catalog::knows(&model.info().name);
        pairs.push((
            "window",
            match assumed {
                true => format!("{tokens} tokens, assumed (set it with --context-window N)"),
                false => format!("{tokens} tokens"),
            },
        ));
    }
    screen.pairs(&pairs);
    screen.line("");
}

fn show(screen: &Screen, subject: &TrialModel, columns: &[Column], advice: &Advice) {
    let modes: Vec<String> = columns.iter().map(|column| column.mode.as_str().to_uppercase()).collect();
    let head: Vec<&str> = std::iter::once("CHECK").chain(modes.iter().map(String::as_str)).collect();
    let rows: Vec<Vec<String>> = Check::ALL.iter().map(|check| row(*check, columns)).collect();
    screen.table(&head, &rows);
    for column in columns {
        screen.line(&format!("\n{}", screen.paint(Style::Bold, column.mode.as_str())));
        for finding in &column.findings {
            let description = screen.clean_line(&finding.describe());
            screen.wrapped(&format!("  {}: {description}", finding.check.label()), 4);
        }
    }
    let style = if advice.mode.is_some() { Style::Green } else { Style::Red };
    screen.line("");
    screen.wrapped(&screen.paint(style, &screen.clean_line(&advice.text)), 2);
    if let Some(mode) = advice.mode {
        screen.wrapped(&format!("  {}", screen.clean_line(&command(subject, mode))), 4);
    }
}

fn row(check: Check, columns: &[Column]) -> Vec<String> {
    let verdict = |column: &Column| {
        let found = column.findings.iter().find(|finding| finding.check == check);
        found.map_or("-", |finding| finding.verdict.as_str()).to_owned()
    };
    std::iter::once(check.label().to_owned()).chain(columns.iter().map(verdict)).collect()
}

fn command(subject: &TrialModel, mode: ToolMode) -> String {
    let mut command = format!("viv up --model {}", subject.config.name);
    if let Some(url) = &subject.config.base_url {
        command.push_str(&format!(" --base-url {}", display_url(url)));
    }
    if mode != ToolMode::Native {
        command.push_str(&format!(" --tool-mode {}", mode.as_str()));
    }
    command
}

fn as_json(subject: &TrialModel, tried: &[Tried], advice: &Advice) -> Value {
    let modes: Vec<Value> = tried
        .iter()
        .map(|tried| {
            let checks: Vec<Value> = tried
                .column
                .findings
                .iter()
                .map(|finding| {
                    json!({
                        "check": finding.check.as_str(),
                        "verdict": finding.verdict.as_str(),
                        "detail": finding.describe(),
                        "ms": finding.ms,
                    })
                })
                .collect();
            json!({
                "tool_mode": tried.column.mode.as_str(),
                "usable": tried.column.verdict() >= Verdict::Partly,
                "checks": checks,
                "first_chunk_ms": tried.speed.first_ms,
                "tokens_per_second": tried.speed.tokens_per_second,
            })
        })
        .collect();
    json!({
        "model": subject.config.name,
        "base_url": subject.base_url,
        "usable": advice.mode.is_some(),
        "tool_mode": advice.mode.map(ToolMode::as_str),
        "advice": advice.text,
        "modes": modes,
    })
}
