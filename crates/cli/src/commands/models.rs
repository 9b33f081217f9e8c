//! `viv models`: which models can be reached, and whether one is good enough. Asks providers and
//! model servers directly, with the keys that are found here; no server of ours is needed.

mod list;
mod setup;
mod trial;

use crate::args::{Global, ModelsArgs, ModelsVerb};
use crate::errors::{Exit, Result};
use crate::output::Screen;

/// Lists, or tries one.
pub(crate) async fn run(global: Global, screen: Screen, args: ModelsArgs) -> Result<Exit> {
    match args.verb {
        Some(ModelsVerb::Try(args)) => trial::run(&global, screen, args).await,
        None => list::run(&global, screen, &args).await,
    }
}
