//! Which model is the default, and why: the one named, else one that there is a key for, else one
//! that runs on this machine, else the rehearsal.

use std::path::Path;
use std::sync::Arc;

use agent::port::{Clock, ModelError, ModelInfo, Voices};
use models::catalog;
use models::local::{self, LocalServer};
use models::rehearsal;
use models::voices::{KeyRing, ToolMode, VoiceBook, VoiceConfig};

use crate::args::{ModelArgs, ToolModeArg};
use crate::errors::{Exit, Failure, Result};
use crate::secrets;

/// The default model of a server.
pub(crate) struct Chosen {
    /// All voices; the chosen one is their default.
    pub(crate) voices: Arc<dyn Voices>,
    /// What is known of it.
    pub(crate) info: ModelInfo,
    /// Why it was chosen, in a few words.
    pub(crate) why: String,
    /// Whether the window is stated by somebody, not assumed.
    pub(crate) window_known: bool,
}

/// Chooses. `data_dir` may hold the secrets file.
pub(crate) async fn choose(args: &ModelArgs, data_dir: &Path, clock: Arc<dyn Clock>) -> Result<Chosen> {
    let keys = secrets::keys(data_dir)?;
    let (config, why) = match &args.model {
        Some(name) => (named(name, args).await?, "as asked for".to_owned()),
        None if args.base_url.is_some() => {
            return Err(Failure::usage("`--base-url` says where a model is, but not which")
                .hint("add --model PROVIDER/MODEL"));
        }
        None => match keyed(&keys) {
            Some(found) => found,
            None => on_this_machine(local::probe().await),
        },
    };
    let config = amended(config, args);
    let name = config.name.clone();
    let stated = config.context_window.is_some();
    let voices: Arc<dyn Voices> = Arc::new(VoiceBook::new(config, keys, clock));
    let info = voices.voice(None).map_err(|error| unusable(&name, error))?.info().clone();
    let window_known = stated || info.rehearsal || is_in_catalog(&info);
    Ok(Chosen { voices, info, why, window_known })
}

async fn named(name: &str, args: &ModelArgs) -> Result<VoiceConfig> {
    if name == rehearsal::NAME {
        if args.base_url.is_some() || args.tool_mode.is_some() || args.context_window.is_some() {
            return Err(Failure::usage("a rehearsal has no address, tool mode or window")
                .hint("leave these out, or name a PROVIDER/MODEL"));
        }
        return Ok(VoiceConfig::named(name));
    }
    let config = VoiceConfig { base_url: args.base_url.clone(), ..VoiceConfig::named(name) };
    // Some servers say themselves how large a window they were started with.
    let Some(provider) = name.split('/').next().and_then(catalog::provider) else { return Ok(config) };
    let Some(address) = config.base_url.as_deref().or(provider.base_url) else { return Ok(config) };
    let found = local::probe_for(provider, address).await;
    Ok(match found.as_ref().and_then(LocalServer::voice) {
        Some(found) => {
            VoiceConfig { tool_mode: found.tool_mode, context_window: found.context_window, ..config }
        }
        None => config,
    })
}

fn keyed(keys: &KeyRing) -> Option<(VoiceConfig, String)> {
    let mut found = keys.providers().into_iter();
    let (provider, model) = found.find_map(|provider| Some((provider, catalog::first_model(provider)?)))?;
    let name = format!("{}/{model}", provider.name);
    let found = keys.found_under(provider).unwrap_or(provider.key_env);
    Some((VoiceConfig::named(name), format!("its key was found: {found}")))
}

fn on_this_machine(found: Vec<LocalServer>) -> (VoiceConfig, String) {
    for server in &found {
        if let Some(voice) = server.voice() {
            let address = &server.base_url;
            return (voice, format!("found running on this machine at {address}"));
        }
    }
    let why = "no key and no model server found".to_owned();
    (VoiceConfig::named(rehearsal::NAME), why)
}

/// What the command line says stands above what was found.
fn amended(config: VoiceConfig, args: &ModelArgs) -> VoiceConfig {
    let tool_mode = args.tool_mode.map(|mode| match mode {
        ToolModeArg::Native => ToolMode::Native,
        ToolModeArg::JsonSchema => ToolMode::JsonSchema,
    });
    VoiceConfig {
        tool_mode: tool_mode.or(config.tool_mode),
        context_window: args.context_window.or(config.context_window),
        ..config
    }
}

/// The catalog prices what it knows; of what it does not know it assumes a window.
fn is_in_catalog(info: &ModelInfo) -> bool {
    let Some((provider, model)) = info.name.split_once('/') else { return false };
    catalog::provider(provider).is_some_and(|provider| {
        let (known, unheard_of) = (catalog::facts(provider, model), catalog::facts(provider, ""));
        known.price.is_some() || known.context_window != unheard_of.context_window
    })
}

fn unusable(name: &str, error: ModelError) -> Failure {
    match error {
        ModelError::NoModel(why) => {
            Failure::new(Exit::Usage, "bad_model", format!("cannot use `{name}`: {why}"))
        }
        ModelError::Auth(why) => Failure::new(Exit::Usage, "key_missing", why)
            .hint("or try without a key: `viv up --model rehearsal`"),
        other => Failure::new(Exit::Failed, "model_unusable", format!("cannot use `{name}`: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::clock::SystemClock;

    async fn choose_named(line: &[&str]) -> Result<Chosen> {
        use clap::Parser;
        let line = ["viv", "up"].iter().chain(line);
        let crate::args::Command::Up(up) = crate::args::Cli::try_parse_from(line).unwrap().command else {
            panic!("not up")
        };
        let dir = tempfile::tempdir().unwrap();
        choose(&up.model, dir.path(), Arc::new(SystemClock::new())).await
    }

    #[tokio::test]
    async fn a_rehearsal_is_named_as_one() {
        let chosen = choose_named(&["--model", "rehearsal"]).await.unwrap();
        assert!(chosen.info.rehearsal && chosen.window_known);
        let failure = choose_named(&["--model", "rehearsal", "--base-url", "http://h"]).await.err().unwrap();
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[tokio::test]
    async fn a_model_that_cannot_be_is_refused_before_anything_is_started() {
        for (line, code) in [
            (&["--model", "gpt-5"][..], "bad_model"),
            (&["--model", "opnai/gpt-5"], "bad_model"),
            (&["--model", "openai-compatible/x"], "bad_model"),
            (&["--model", "mistral/x"], "key_missing"),
            (&["--base-url", "http://127.0.0.1:1/v1"], "usage"),
        ] {
            let failure = choose_named(line).await.err().unwrap();
            assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, code), "{line:?}");
        }
    }

    #[tokio::test]
    async fn a_window_is_known_or_assumed_and_said_so() {
        let chosen =
            choose_named(&["--model", "vllm/x", "--base-url", "http://127.0.0.1:1/v1"]).await.unwrap();
        assert!(!chosen.window_known);
        let line = ["--model", "vllm/x", "--base-url", "http://127.0.0.1:1/v1", "--context-window", "4096"];
        let chosen = choose_named(&line).await.unwrap();
        assert!(chosen.window_known && chosen.info.context_window == 4096);
    }

    #[test]
    fn without_key_and_server_it_is_the_rehearsal() {
        let (config, why) = on_this_machine(Vec::new());
        assert_eq!((config.name.as_str(), why.as_str()), ("rehearsal", "no key and no model server found"));
        for (variable, expected) in
            [("OPENAI_API_KEY", "openai/gpt-6.1-terra"), ("GOOGLE_API_KEY", "google/gemini-3.8-flash")]
        {
            let keys = KeyRing::gather(|name| (name == variable).then(|| "sk".into()), &[], "");
            let (config, why) = keyed(&keys).unwrap();
            assert_eq!((config.name.as_str(), why), (expected, format!("its key was found: {variable}")));
        }
    }
}
