//! Which model is the default, and why: the one that is named, else one with a key, else one that runs on
//! this machine, else the demo model.

use std::sync::Arc;

use agent::port::{Clock, ModelError, ModelInfo, Models};
use models::catalog;
use models::client::display_url;
use models::demo;
use models::local::{self, LocalServer};
use models::model_book::{KeyRing, ModelBook, ModelConfig};

use crate::errors::{Exit, Failure, Result};
use crate::secrets;
use crate::settings::{Origin, Settings};

/// The default model of a server.
pub(crate) struct Chosen {
    /// All models; the chosen one is the default.
    pub(crate) models: Arc<dyn Models>,
    /// Its address; empty if it has none.
    pub(crate) address: String,
    /// What is known about it.
    pub(crate) info: ModelInfo,
    /// Why it was chosen, in a few words.
    pub(crate) why: String,
    /// Whether the context window is known, not assumed.
    pub(crate) window_known: bool,
}

/// Chooses the model that the settings name or imply.
pub(crate) async fn choose(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Chosen> {
    let secrets = secrets::gather(settings.data_dir(), &settings.key_refs())?;
    let configured = |name: &str, default: bool| settings.model(name, default, |name| secrets.named(name));
    let wanted = settings.get("model.name");
    let (config, why) = match wanted.value.as_str() {
        Some(demo::NAME) if settings.describes_the_model() => {
            return Err(Failure::usage("the demo model has no address, tool mode or window")
                .hint("leave these out, or name a PROVIDER/MODEL"));
        }
        Some(demo::NAME) => (ModelConfig::named(demo::NAME), why(&wanted.origin)),
        Some(name) => (probed(configured(name, true)?).await, why(&wanted.origin)),
        None if !settings.get("model.base_url").value.is_null() => {
            return Err(Failure::usage("`--base-url` says where a model is, but not which")
                .hint("add --model PROVIDER/MODEL"));
        }
        None => {
            let (found, why) = match first_with_key(&secrets.ring) {
                Some(found) => found,
                None => local_or_demo(local::probe().await),
            };
            let real = found.name != demo::NAME;
            (if real { merged(configured(&found.name, true)?, found) } else { found }, why)
        }
    };
    let name = config.name.clone();
    let stated = config.context_window.is_some();
    let base_url = config.base_url.clone();
    let mut book = ModelBook::new(config, secrets.ring.clone(), clock);
    for other in settings.model_names().filter(|other| *other != name) {
        book = book.with(configured(other, false)?);
    }
    check_names(&book, settings)?;
    let models: Arc<dyn Models> = Arc::new(book);
    let info =
        models.model(None).map_err(|error| unusable(&name, base_url.as_deref(), error))?.info().clone();
    let window_known = stated || info.demo || is_in_catalog(&info);
    let provider = name.split('/').next().and_then(catalog::provider);
    let usual = provider.and_then(|provider| provider.base_url);
    let address = base_url.or_else(|| usual.map(str::to_owned)).unwrap_or_default();
    Ok(Chosen { models, address: display_url(&address), info, why, window_known })
}

fn why(origin: &Origin) -> String {
    match origin {
        Origin::Default | Origin::Flag(_) => "as requested".to_owned(),
        Origin::File(..) | Origin::Env(_) => {
            format!("named by {}", origin.to_string().replace("environment ", ""))
        }
    }
}

/// Checks the models that the file configures: each must exist. Keys are needed only at first use.
fn check_names(book: &ModelBook, settings: &Settings) -> Result<()> {
    for (model, _, _, origin) in settings.of_models() {
        if let Err(ModelError::NoModel(why)) = book.model(Some(model)) {
            let message = format!("`[models.\"{model}\"]` ({origin}): {why}");
            return Err(Failure::new(Exit::Usage, "bad_model", message));
        }
    }
    Ok(())
}

/// Asks a local server for its context window: some servers report the one they were started with.
async fn probed(config: ModelConfig) -> ModelConfig {
    let Some(provider) = config.name.split('/').next().and_then(catalog::provider) else { return config };
    let Some(address) = config.base_url.as_deref().or(provider.base_url) else { return config };
    let found = local::probe_for(provider, address).await;
    match found.as_ref().and_then(LocalServer::model) {
        Some(found) => ModelConfig {
            tool_mode: config.tool_mode.or(found.tool_mode),
            context_window: config.context_window.or(found.context_window),
            ..config
        },
        None => config,
    }
}

/// The configured values override the detected ones.
fn merged(configured: ModelConfig, found: ModelConfig) -> ModelConfig {
    ModelConfig {
        base_url: configured.base_url.or(found.base_url),
        tool_mode: configured.tool_mode.or(found.tool_mode),
        context_window: configured.context_window.or(found.context_window),
        ..configured
    }
}

fn first_with_key(keys: &KeyRing) -> Option<(ModelConfig, String)> {
    let mut found = keys.providers().into_iter();
    let (provider, model) = found.find_map(|provider| Some((provider, catalog::first_model(provider)?)))?;
    let name = format!("{}/{model}", provider.name);
    let found = keys.found_under(provider).unwrap_or(provider.key_env);
    Some((ModelConfig::named(name), format!("its key was found: {found}")))
}

fn local_or_demo(found: Vec<LocalServer>) -> (ModelConfig, String) {
    for server in &found {
        if let Some(model) = server.model() {
            let address = &server.base_url;
            return (model, format!("found running on this machine at {address}"));
        }
    }
    let why = "no key and no model server found".to_owned();
    (ModelConfig::named(demo::NAME), why)
}

/// Whether the catalog knows the model: it has a price for known models and assumes a window for others.
pub(crate) fn is_in_catalog(info: &ModelInfo) -> bool {
    let Some((provider, model)) = info.name.split_once('/') else { return false };
    catalog::provider(provider).is_some_and(|provider| {
        let (known, unknown) = (catalog::facts(provider, model), catalog::facts(provider, ""));
        known.price.is_some() || known.context_window != unknown.context_window
    })
}

/// Why a name cannot be used as a model; `base_url` is the address that was given, if any.
pub(crate) fn unusable(name: &str, base_url: Option<&str>, error: ModelError) -> Failure {
    match error {
        ModelError::NoModel(why) => {
            Failure::new(Exit::Usage, "bad_model", format!("cannot use `{name}`: {why}"))
        }
        ModelError::Auth(why) => Failure::new(Exit::Usage, "key_missing", why).hint(
            keyless_hint(name, base_url).unwrap_or("or try without a key: `viv up --model demo`".into()),
        ),
        other => Failure::new(Exit::Failed, "model_unusable", format!("cannot use `{name}`: {other}")),
    }
}

fn keyless_hint(name: &str, base_url: Option<&str>) -> Option<String> {
    let other = catalog::keyless_name(name, base_url?)?;
    Some(format!("if that server needs no key, use the name `{other}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use runtime::clock::SystemClock;

    async fn choose_named(line: &[&str]) -> Result<Chosen> {
        use clap::Parser;
        let line = ["viv", "up"].iter().chain(line);
        let crate::args::Command::Up(up) = crate::args::Cli::try_parse_from(line).unwrap().command else {
            panic!("not up")
        };
        choose(&settings("", up.given()), Arc::new(SystemClock::new())).await
    }

    #[tokio::test]
    async fn the_demo_model_takes_no_address() {
        let chosen = choose_named(&["--model", "demo"]).await.unwrap();
        assert!(chosen.info.demo && chosen.window_known);
        let failure = choose_named(&["--model", "demo", "--base-url", "http://h"]).await.err().unwrap();
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[tokio::test]
    async fn an_unusable_model_is_refused_before_anything_is_started() {
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
    async fn for_a_private_address_the_hint_names_the_keyless_provider() {
        let hint = async |line: &[&str]| choose_named(line).await.err().unwrap().hint.unwrap();
        let own = ["--model", "openai/x", "--base-url", "http://127.0.0.1:1/v1"];
        assert_eq!(hint(&own).await, "if that server needs no key, use the name `openai-compatible/x`");
        assert!(hint(&["--model", "mistral/x"]).await.contains("demo"));
        let other = ["--model", "anthropic/x", "--base-url", "http://127.0.0.1:1/v1"];
        assert!(hint(&other).await.contains("demo"));
    }

    #[tokio::test]
    async fn a_context_window_is_known_or_marked_as_assumed() {
        let chosen =
            choose_named(&["--model", "vllm/x", "--base-url", "http://127.0.0.1:1/v1"]).await.unwrap();
        assert!(!chosen.window_known);
        let line = ["--model", "vllm/x", "--base-url", "http://127.0.0.1:1/v1", "--context-window", "4096"];
        let chosen = choose_named(&line).await.unwrap();
        assert!(chosen.window_known && chosen.info.context_window == 4096);
    }

    #[tokio::test]
    async fn a_model_configured_in_the_file_must_exist() {
        let text = "[model]\nname = \"demo\"\n[models.\"opnai/x\"]\nmax_output = 5\n";
        let failure = choose(&settings(text, vec![]), Arc::new(SystemClock::new())).await.err().unwrap();
        assert!(failure.message.contains("vivarium.toml:4") && failure.code == "bad_model", "{failure}");
        let text = "[model]\nname = \"vllm/x\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
                    [models.\"vllm/x\"]\ncontext_window = 4096\n";
        let chosen = choose(&settings(text, vec![]), Arc::new(SystemClock::new())).await.unwrap();
        assert_eq!(chosen.info.context_window, 4_096);
        assert!(chosen.why.ends_with("vivarium.toml:2"), "{}", chosen.why);
    }

    #[test]
    fn without_a_key_and_a_local_server_the_demo_model_is_the_default() {
        let (config, why) = local_or_demo(Vec::new());
        assert_eq!((config.name.as_str(), why.as_str()), ("demo", "no key and no model server found"));
        for (variable, expected) in
            [("OPENAI_API_KEY", "openai/gpt-6.1-terra"), ("GOOGLE_API_KEY", "google/gemini-3.8-flash")]
        {
            let keys = KeyRing::gather(|name| (name == variable).then(|| "sk".into()), &[], "");
            let (config, why) = first_with_key(&keys).unwrap();
            assert_eq!((config.name.as_str(), why), (expected, format!("its key was found: {variable}")));
        }
    }
}
