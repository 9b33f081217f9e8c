//! `viv scenario run`: plays what was read, each scenario as often as asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::port::{Clock, Models};
use runtime::clock::SystemClock;
use scenario::flaw::FilePosition;
use scenario::scene::Scenario;
use serde_json::json;

use super::report::{self, Played};
use super::{files, stage};
use crate::args::{Global, ScenarioRunArgs};
use crate::asking;
use crate::errors::{Exit, Failure, Result};
use crate::model;
use crate::output::Screen;
use crate::progress::Progress;
use crate::settings::Settings;

/// Plays.
pub(super) async fn run(global: &Global, screen: Screen, args: ScenarioRunArgs) -> Result<Exit> {
    let found = files::read_all(&args.files.files)?;
    let scenarios = files::all_good(found)?;
    let models = models(&args, global, &screen).await?;
    if models.is_none() {
        scripts_are_there(&scenarios)?;
    }
    let most = Duration::from_secs(args.timeout);
    let begun = Instant::now();
    let mut all = Vec::with_capacity(scenarios.len());
    for (file, scenario) in scenarios {
        let mut played = Played { file, scenario: Arc::new(scenario), outcomes: Vec::new() };
        for number in 1..=args.repeat {
            let progress = Progress::start(&screen, doing(&played, number, args.repeat));
            let outcome = match &models {
                None => stage::simulated(Arc::clone(&played.scenario), most).await?,
                Some(models) => stage::real(&played.scenario, Arc::clone(models), most).await?,
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
    let runs: usize = all.iter().map(|played| played.outcomes.len()).sum();
    let passed: usize = all.iter().map(Played::passed).sum();
    let enough = passed * 100 >= usize::from(args.at_least) * runs;
    if screen.json {
        let scenarios: Vec<_> = all.iter().map(|played| report::to_json(played, args.transcript)).collect();
        screen.json_line(&json!({"passed": passed, "runs": runs, "ok": enough, "scenarios": scenarios}));
    } else {
        report::summary(&screen, &all, args.at_least, begun.elapsed());
    }
    Ok(if enough { Exit::Answered } else { Exit::Failed })
}

fn doing(played: &Played, number: u32, of: u32) -> String {
    let which = if of > 1 { format!(" ({number} of {of})") } else { String::new() };
    format!("playing {}{which}", played.file)
}

/// The model that was asked for, if one was. It must answer before anything is played: what nobody
/// could play is no scenario that failed.
async fn models(args: &ScenarioRunArgs, global: &Global, screen: &Screen) -> Result<Option<Arc<dyn Models>>> {
    let most = asking::WAIT.min(Duration::from_secs(args.timeout));
    let args = &args.model;
    if args.model.is_none() {
        if args.base_url.is_some() || args.tool_mode.is_some() || args.context_window.is_some() {
            return Err(Failure::usage("without a model the scripts of the scenarios think")
                .hint("add --model PROVIDER/MODEL"));
        }
        return Ok(None);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let settings = Settings::load(global, args.given())?;
    let chosen = model::choose(&settings, clock).await?;
    if !chosen.info.demo {
        let progress = Progress::start(screen, format!("asking {}", chosen.info.name));
        let answer = asking::ask(&*chosen.models, most).await;
        drop(progress);
        answer.map_err(|error| {
            let failure = asking::no_answer(&chosen.info.name, &chosen.address, &error, most);
            // What failed is not the scenario.
            let exit = if failure.exit == Exit::Failed { Exit::Usage } else { failure.exit };
            Failure { exit, ..failure }
        })?;
    }
    Ok(Some(chosen.models))
}

fn scripts_are_there(scenarios: &[(String, Scenario)]) -> Result<()> {
    for (file, scenario) in scenarios {
        if let Some(actor) = scenario.agents.iter().find(|actor| actor.script.is_none()) {
            let FilePosition { line, column } = actor.place;
            let place = format!("{file}:{line}:{column}");
            let failure =
                Failure::new(Exit::Usage, "no_script", format!("{place}: `{}` has no script", actor.name));
            return Err(failure.hint("give it a `script`, or name a model with --model"));
        }
    }
    Ok(())
}
