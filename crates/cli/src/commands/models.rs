//! `viv models`: lists the models that can be reached, and tests whether one is good enough. Asks providers
//! and model servers directly, with the keys found here; needs no viv server.

mod list;
mod setup;
mod trial;

use crate::args::{Global, ModelsArgs, ModelsVerb};
use crate::errors::{Exit, Result};
use crate::output::Screen;

pub(crate) async fn run(global: Global, screen: Screen, args: ModelsArgs) -> Result<Exit> {
    match args.verb {
        Some(ModelsVerb::Try(args)) => trial::run(&global, screen, args).await,
        None => list::run(&global, screen, &args).await,
    }
}
