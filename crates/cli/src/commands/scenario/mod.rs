//! `viv scenario`: runs and checks scenarios, and records them from a running server.

mod files;
mod record;
mod report;
mod run;
mod runner;

use serde_json::{Value, json};

use crate::args::{Global, ScenarioFiles, ScenarioVerb};
use crate::errors::{Exit, Result};
use crate::output::Screen;
use crate::settings;
use client::Client;

pub(crate) async fn run(global: Global, screen: Screen, verb: ScenarioVerb) -> Result<Exit> {
    match verb {
        ScenarioVerb::Run(args) => run::run(&global, screen, args).await,
        ScenarioVerb::Check(files) => check(&global, screen, &files),
        ScenarioVerb::Record(args) => {
            record::run(Client::find(settings::data_dir(&global)?)?, screen, args).await
        }
    }
}

fn check(global: &Global, screen: Screen, files: &ScenarioFiles) -> Result<Exit> {
    let found = files::read_all(global, &files.files)?;
    let good = found.iter().all(|file| file.scenario.is_ok());
    if screen.json {
        let files: Vec<Value> = found.iter().map(files::File::to_json).collect();
        screen.json_line(&json!({"ok": good, "files": files}));
    } else {
        found.iter().for_each(|file| report::checked(&screen, file));
    }
    Ok(if good { Exit::Answered } else { Exit::Usage })
}
