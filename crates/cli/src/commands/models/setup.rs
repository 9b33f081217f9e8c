//! What both commands need: keys, the default model, and models as configured here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use models::catalog::{self, Provider};
use models::listing::{Reach, reach};
use models::model_book::ModelConfig;
use runtime::clock::SystemClock;

use crate::args::Global;
use crate::errors::{Exit, Failure, Result};
use crate::model::{self, Chosen};
use crate::secrets::Secrets;
use crate::settings::Settings;

pub(super) const LIST_WAIT: Duration = Duration::from_secs(4);

pub(super) struct Setup {
    settings: Settings,
    pub(super) secrets: Secrets,
}

impl Setup {
    pub(super) fn load(global: &Global) -> Result<Self> {
        let settings = Settings::load(global, &())?;
        let secrets = model::secrets_of(&settings)?;
        Ok(Self { settings, secrets })
    }

    pub(super) fn data_dir(&self) -> &Path {
        self.settings.data_dir()
    }

    /// The model that `viv up` would use, and everything that it would know.
    pub(super) async fn chosen(&self) -> Result<Chosen> {
        model::choose(&self.settings, Arc::new(SystemClock::new())).await
    }

    pub(super) fn config(&self, name: &str) -> Result<ModelConfig> {
        let default = self.settings.text("model.name") == name;
        self.settings.model(name, default, |secret| self.secrets.named(secret))
    }

    /// The configuration of one model of the provider, preferably the default: it contains the provider's
    /// address and key.
    pub(super) fn any_of(&self, provider: &Provider) -> Result<Option<ModelConfig>> {
        let names = std::iter::once(self.settings.text("model.name")).chain(self.settings.model_names());
        let mut of_it = names.filter(|name| name.split('/').next() == Some(provider.name));
        of_it.next().map(|name| self.config(name)).transpose()
    }

    /// `provider/model` for a name that may be only a provider: then its first model.
    pub(super) async fn full_name(&self, name: &str, base_url: Option<&str>) -> Result<String> {
        if name == models::demo::NAME {
            return Err(Failure::usage("the demo model is scripted: there is nothing to test")
                .hint("name a PROVIDER/MODEL; `viv models` lists some"));
        }
        if name.split_once('/').is_some_and(|(_, model)| !model.is_empty()) {
            return Ok(name.to_owned());
        }
        let provider = provider(name.trim_end_matches('/'))?;
        if let Some(model) = catalog::first_model(provider) {
            return Ok(format!("{}/{model}", provider.name));
        }
        let mut at = self.any_of(provider)?.unwrap_or_default();
        at.base_url = base_url.map(str::to_owned).or(at.base_url);
        let (exit, why) = match reach(provider, &at, &self.secrets.ring, LIST_WAIT).await {
            Reach::Reachable(list) => match list.first() {
                Some(first) => return Ok(format!("{}/{}", provider.name, first.model)),
                None => (Exit::Failed, "it serves no model".to_owned()),
            },
            Reach::Unreachable(why) => (Exit::Unreachable, why),
            other => (Exit::Failed, other.why().unwrap_or_default().to_owned()),
        };
        let message = format!("cannot find out which models `{}` serves: {why}", provider.name);
        Err(Failure::new(exit, "model_unreachable", message)
            .hint(format!("name one, such as `{}/MODEL`, and its address with --base-url", provider.name)))
    }
}

/// The provider with this name, or an error that suggests one.
pub(super) fn provider(name: &str) -> Result<&'static Provider> {
    catalog::provider(name).ok_or_else(|| {
        let names = || catalog::PROVIDERS.iter().map(|provider| provider.name);
        let hint = match agent::config::nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("providers are {}", names().collect::<Vec<_>>().join(", ")),
        };
        Failure::new(
            Exit::Usage,
            "bad_model",
            format!("wanted PROVIDER/MODEL, but `{name}` is not a provider"),
        )
        .hint(hint)
    })
}
