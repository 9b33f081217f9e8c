//! Which model is the default, and why: the one that the settings name, else one that is found.

use std::path::Path;
use std::sync::Arc;

use agent::port::{Clock, Model, ModelError, ModelInfo, Models};
use models::model_book::{ModelBook, ModelConfig};
use models::{catalog, default_model, demo};
use net::proxy::{self, ProxyChoice};
use net::{display_url, roots};

use crate::errors::{Exit, Failure, Result};
use crate::secrets::{self, Secrets};
use crate::settings::{self, Origin, Setting, Settings};

pub(crate) struct Chosen {
    /// All models; the chosen one is the default.
    pub(crate) models: Arc<dyn Models>,
    pub(crate) model: Arc<dyn Model>,
    /// Its address; empty if it has none.
    pub(crate) address: String,
    pub(crate) info: ModelInfo,
    /// Why it was chosen, in a few words.
    pub(crate) why: String,
    /// Whether the context window is known, not assumed.
    pub(crate) window_known: bool,
}

/// Largest `ca_file`. All authorities of a machine, each with its text beside it, are a few hundred kilobytes.
const CA_FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// From here on, this process also trusts the authorities in `ca_file`, and reaches models through the proxy of the settings.
pub(crate) fn connect_as_set(settings: &Settings) -> Result<()> {
    if let Some(file) = settings.get("ca_file").value.as_str() {
        let pem = settings::bytes(Path::new(file), CA_FILE_MAX_BYTES).map_err(|error| error.to_string());
        pem.and_then(|pem| roots::add(&pem)).map_err(|why| {
            Failure::usage(format!("cannot use `{file}` as `ca_file`: {why}"))
                .hint("name a file that holds certificates in PEM form")
        })?;
    }
    let choice = ProxyChoice::parse(settings.text("proxy")).map_err(Failure::usage)?;
    proxy::choose(choice);
    Ok(())
}

/// The secrets of the models.
pub(crate) fn secrets_of(settings: &Settings) -> Result<Secrets> {
    connect_as_set(settings)?;
    secrets::gather(settings.data_dir(), &settings.key_refs())
}

/// Chooses the model that the settings name or imply.
pub(crate) async fn choose(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Chosen> {
    let secrets = secrets_of(settings)?;
    let configured = |name: &str, default: bool| settings.model(name, default, |name| secrets.named(name));
    let wanted = settings.get("model.name");
    let (config, why) = match wanted.value.as_str() {
        Some(demo::NAME) if settings.of_default().any(|(setting, _)| setting != "name") => {
            return Err(Failure::usage("the demo model has no address, tool mode or window")
                .hint("leave these out, or name a PROVIDER/MODEL"));
        }
        Some(demo::NAME) => (ModelConfig::named(demo::NAME), why(&wanted.origin)),
        Some(name) => (default_model::completed(configured(name, true)?).await, why(&wanted.origin)),
        None if !settings.get("model.base_url").value.is_null() => {
            return Err(Failure::usage("`--base-url` says where a model is, but not which")
                .hint("add --model PROVIDER/MODEL"));
        }
        None => {
            let (found, why) = default_model::find(&secrets.ring).await;
            let real = found.name != demo::NAME;
            (if real { configured(&found.name, true)?.or(found) } else { found }, why)
        }
    };
    let name = config.name.clone();
    let stated = config.context_window.is_some();
    let (address, base_url) = (config.address(), config.base_url.clone());
    let mut book = ModelBook::new(config, secrets.ring.clone(), clock);
    for other in settings.model_names().filter(|other| *other != name) {
        book = book.with(configured(other, false)?);
    }
    check_names(&book, settings)?;
    let models: Arc<dyn Models> = Arc::new(book);
    let model = models.model(None).map_err(|error| unusable(&name, base_url.as_deref(), error))?;
    let info = model.info().clone();
    let window_known = stated || info.demo || catalog::knows(&name);
    Ok(Chosen { models, model, address: display_url(&address), info, why, window_known })
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
    for (model, Setting { origin, .. }) in settings.of_models() {
        if let Err(ModelError::NoModel(why)) = book.check(model) {
            let message = format!("`[models.\"{model}\"]` ({origin}): {why}");
            return Err(Failure::new(Exit::Usage, "bad_model", message));
        }
    }
    Ok(())
}

/// Why a name cannot be used as a model; `base_url` is the address that was given, if any.
pub(crate) fn unusable(name: &str, base_url: Option<&str>, error: ModelError) -> Failure {
    match error {
        ModelError::NoModel(why) => {
            Failure::new(Exit::Usage, "bad_model", format!("cannot use `{name}`: {why}"))
                .hint("write it as `PROVIDER/MODEL`; `viv models` lists what can be reached")
        }
        ModelError::Auth(why) => {
            let keyless = base_url.and_then(|url| catalog::keyless_name(name, url));
            Failure::new(Exit::Usage, "key_missing", why).hint(match keyless {
                Some(other) => format!("if that server needs no key, use the name `{other}`"),
                None => "or try without a key: `viv up --model demo`".to_owned(),
            })
        }
        other => Failure::new(Exit::Failed, "model_unusable", format!("cannot use `{name}`: {other}")),
    }
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
        choose(&settings("", up), Arc::new(SystemClock::new())).await
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
        let failure = choose(&settings(text, ()), Arc::new(SystemClock::new())).await.err().unwrap();
        assert!(failure.message.contains("vivarium.toml:4") && failure.code == "bad_model", "{failure}");
        let text = "[model]\nname = \"vllm/x\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
                    [models.\"vllm/x\"]\ncontext_window = 4096\n";
        let chosen = choose(&settings(text, ()), Arc::new(SystemClock::new())).await.unwrap();
        assert_eq!(chosen.info.context_window, 4_096);
        assert!(chosen.why.ends_with("vivarium.toml:2"), "{}", chosen.why);
    }

    #[tokio::test]
    async fn a_ca_file_without_certificates_is_refused_before_anything_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large.pem");
        std::fs::File::create(&large).unwrap().set_len(CA_FILE_MAX_BYTES + 1).unwrap();
        for (file, why) in [
            ("nowhere.pem", "No such file"),
            (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "no certificate"),
            (env!("CARGO_MANIFEST_DIR"), "not a file"),
            ("/dev/zero", "not a file"),
            (large.to_str().unwrap(), "larger than 4194304 bytes"),
        ] {
            let read =
                settings(&format!("ca_file = \"{file}\"\n"), serde_json::json!({"model": {"name": "demo"}}));
            let failure = choose(&read, Arc::new(SystemClock::new())).await.err().unwrap();
            assert!(failure.exit == Exit::Usage && failure.message.contains(why), "{failure}");
        }
    }
}
