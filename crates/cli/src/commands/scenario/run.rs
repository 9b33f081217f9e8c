//! `viv scenario run`: runs each scenario as often as requested.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::port::{Clock, Models};
use models::conformance::answers;
use runtime::clock::SystemClock;
use scenario::flaw::FilePosition;
use scenario::report::{Played, counts, summary};
use scenario::scene::Scenario;
use serde_json::json;

use super::{files, report, runner};
use crate::args::{Global, ScenarioRunArgs};
use crate::errors::{Exit, Failure, Result};
use crate::model;
use crate::output::Screen;
use crate::probe;
use crate::progress::Progress;
use crate::settings::Settings;

pub(super) async fn run(global: &Global, screen: Screen, args: ScenarioRunArgs) -> Result<Exit> {
    let found = files::read_all(global, &args.files.files)?;
    let scenarios = files::valid(found)?;
    let models = models(&args, global, &screen).await?;
    if models.is_none() {
        check_scripts(&scenarios)?;
    }
    let max = Duration::from_secs(args.timeout);
    let started = Instant::now();
    let mut all = Vec::with_capacity(scenarios.len());
    for (file, scenario) in scenarios {
        let mut played = Played { file, scenario: Arc::new(scenario), outcomes: Vec::new() };
        for number in 1..=args.repeat {
            let of = args.repeat;
            let which = if of > 1 { format!(" ({number} of {of})") } else { String::new() };
            let progress = Progress::start(&screen, format!("running {}{which}", played.file));
            let outcome = match &models {
                None => runner::simulated(Arc::clone(&played.scenario), max).await?,
                Some(models) => runner::real(&played.scenario, Arc::clone(models), max).await?,
            };
            drop(progress);
            played.outcomes.push(outcome);
        }
        if !screen.json {
            report::played(&screen, &played, args.transcript);
            if args.runs {
                report::runs(&screen, &played);
            }
        }
        all.push(played);
    }
    let (runs, passed) = counts(&all);
    let enough = passed * 100 >= usize::from(args.at_least) * runs;
    if screen.json {
        let scenarios: Vec<_> = all.iter().map(|played| played.to_json(args.transcript)).collect();
        screen.json_line(&json!({"passed": passed, "runs": runs, "ok": enough, "scenarios": scenarios}));
    } else {
        screen.line(&summary(&all, args.at_least, started.elapsed()));
    }
    Ok(if enough { Exit::Answered } else { Exit::Failed })
}

/// The model that was requested, if any. It must answer before a scenario is run: a model that cannot be
/// reached is not a failed scenario.
async fn models(args: &ScenarioRunArgs, global: &Global, screen: &Screen) -> Result<Option<Arc<dyn Models>>> {
    let max = probe::WAIT.min(Duration::from_secs(args.timeout));
    let args = &args.model;
    if args.model.is_none() {
        if args.base_url.is_some() || args.tool_mode.is_some() || args.context_window.is_some() {
            return Err(Failure::usage("`--base-url`, `--tool-mode` and `--context-window` need a model")
                .hint("add --model PROVIDER/MODEL"));
        }
        return Ok(None);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let settings = Settings::load(global, args)?;
    let chosen = model::choose(&settings, clock).await?;
    if !chosen.info.demo {
        let progress = Progress::start(screen, format!("asking {}", chosen.info.name));
        let answer = answers(&*chosen.model, max).await;
        drop(progress);
        answer.map_err(|error| {
            let failure = probe::explain(&chosen.info.name, &chosen.address, &error, max);
            // The scenario itself did not fail.
            let exit = if failure.exit == Exit::Failed { Exit::Usage } else { failure.exit };
            Failure { exit, ..failure }
        })?;
    }
    Ok(Some(chosen.models))
}

fn check_scripts(scenarios: &[(String, Scenario)]) -> Result<()> {
    for (file, scenario) in scenarios {
        if let Some(actor) = scenario.agents.iter().find(|actor| actor.script.is_none()) {
            let FilePosition { line, column } = actor.place;
            let position = format!("{file}:{line}:{column}");
            let failure =
                Failure::new(Exit::Usage, "no_script", format!("{position}: `{}` has no script", actor.name));
            return Err(failure.hint("give it a `script`, or name a model with --model"));
        }
    }
    Ok(())
}
