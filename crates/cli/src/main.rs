//! The binary `viv`: starts a server, or talks to one. This file holds only the start and the end of the
//! process; `commands` does the work.

mod args;
mod assemble;
mod bars;
mod charset;
mod commands;
mod errors;
mod heap;
mod input;
mod link_key;
mod listen;
mod model;
mod output;
mod probe;
mod progress;
mod secrets;
mod settings;
mod signals;
mod templates;
mod tool_secrets;
mod world;
mod written_by;

use std::ffi::OsString;
use std::pin::Pin;
use std::process::ExitCode;

use clap::error::ErrorKind;
use serde_json::json;

use crate::args::{Cli, Command, VerifyArgs};
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use client::Client;

fn main() -> ExitCode {
    if let Some(ended) = tools::child::hold_if_asked() {
        return ended;
    }
    heap::limit_arenas();
    let line = args::renamed(std::env::args_os().collect());
    let cli = match args::read(&line) {
        Ok(cli) => cli,
        Err(error) => return handle_clap_error(&error, &line),
    };
    let screen = Screen::detect(cli.global.json, cli.global.quiet);
    errors::advise_for(&cli.global);
    net::install_crypto();
    let done = start(cli, screen);
    let exit = match output::unwritten().map_or(done, Err) {
        Ok(exit) => exit,
        Err(failure) => {
            screen.failure(&failure.clone().of_command(&line));
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}

fn start(cli: Cli, screen: Screen) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Failed, "no_runtime", format!("cannot start threads: {error}"))
    })?;
    // Boxed: `block_on` is compiled into three loops, each of which would otherwise hold all commands (2
    // MB).
    let command: Pin<Box<dyn Future<Output = _>>> = Box::pin(perform(cli, screen));
    let exit = runtime.block_on(command);
    // A thread that waits for the keyboard must not keep the process running.
    runtime.shutdown_background();
    exit
}

async fn perform(cli: Cli, screen: Screen) -> Result<Exit> {
    let client = || Ok::<_, Failure>(Client::find(settings::data_dir(&cli.global)?)?);
    match cli.command {
        Command::Up(args) => commands::up::run(cli.global, screen, args).await,
        Command::Stop => commands::up::stop(&cli.global, screen).await,
        Command::Logs(args) => commands::up::logs(&cli.global, screen, &args).await,
        Command::Doctor(args) => commands::doctor::run(cli.global, screen, args).await,
        Command::Backup { to } => commands::upkeep::backup(&cli.global, screen, &to),
        Command::Restore(args) => commands::upkeep::restore(&cli.global, screen, &args),
        Command::Verify(VerifyArgs { rebuild_index: true, .. }) => {
            commands::upkeep::rebuild_index(&cli.global, screen)
        }
        Command::Verify(VerifyArgs { backup, .. }) => commands::upkeep::verify(&cli.global, screen, backup),
        Command::Models(args) => commands::models::run(cli.global, screen, args).await,
        Command::Chat(args) => {
            let data_dir = settings::data_dir(&cli.global)?;
            commands::chat::run(client()?, &data_dir, screen, args).await
        }
        Command::Say(args) => commands::say::run(client()?, screen, args).await,
        Command::Init { dir } => commands::init::run(screen, &dir),
        Command::Config(command) => commands::config::run(cli.global, screen, command).await,
        Command::Events(args) => commands::events::run(client()?, screen, args).await,
        Command::Ps(args) => commands::ps::run(client()?, screen, args).await,
        Command::Runs(args) => commands::runs::run(client()?, screen, args).await,
        Command::Agents(args) => commands::agents::run(&cli.global, screen, args).await,
        Command::Memories(args) => commands::memories::run(client()?, screen, args).await,
        Command::Approvals(args) => commands::approvals::run(client()?, screen, args).await,
        Command::Plans(args) => commands::plans::run(client()?, screen, args).await,
        Command::Tools(args) => commands::tools::run(client, screen, args).await,
        Command::Mcp(args) => commands::mcp::run(&cli.global, screen, args).await,
        Command::Hooks(args) => commands::hooks::run(&cli.global, screen, args).await,
        Command::Targets(args) => commands::targets::run(client()?, screen, args).await,
        Command::Secrets(args) => commands::secrets::run(&cli.global, &screen, args),
        Command::Spaces(args) => commands::spaces::run(client()?, screen, args).await,
        Command::Entities(args) => commands::entities::run(client()?, screen, args).await,
        Command::Keys(args) => commands::keys::run(&cli.global, screen, args).await,
        Command::Scenario(verb) => commands::scenario::run(cli.global, screen, verb).await,
        Command::Completions { shell } => commands::pages::completions(screen, shell),
        Command::Man { dir } => commands::pages::man(screen, dir),
        Command::Watch(args) => commands::watch::run(client()?, screen, args).await,
        Command::Top(args) => commands::top::run(client()?, screen, args).await,
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            screen.result(&json!({"version": version}), &format!("viv {version}"));
            Ok(Exit::Answered)
        }
    }
}

fn handle_clap_error(error: &clap::Error, line: &[OsString]) -> ExitCode {
    let given = |wanted: &[&str]| std::env::args_os().any(|arg| wanted.iter().any(|name| arg == *name));
    let (json, quiet) = (given(&["--json"]), given(&["--quiet", "-q"]));
    let screen = Screen::detect(json, quiet);
    let (asked, incomplete) = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => (true, false),
        // Whether the command line is incomplete also depends on settings from the environment.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => (false, !json),
        _ => (false, false),
    };
    if incomplete && std::env::args_os().len() == 1 {
        screen.line(args::WELCOME);
        return ExitCode::SUCCESS;
    }
    if asked {
        let page = match screen.colour {
            true => error.render().ansi().to_string(),
            false => error.render().to_string(),
        };
        match json {
            true => screen.json_line(&json!({"page": page.trim_end()})),
            false => screen.page(page.trim_end()),
        }
        return ExitCode::SUCCESS;
    }
    // For a group without a command, clap renders its help page.
    if incomplete && error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        screen.failure_page(error.render().to_string().trim_end());
        return ExitCode::from(Exit::Usage as u8);
    }
    screen.failure(&Failure::bad_command_line(error, line));
    ExitCode::from(Exit::Usage as u8)
}
