//! Converts settings to model configurations: `[model]`, `[models."…"]` and `[models.PROVIDER]` in the form of `models`.

use models::model_book::ModelConfig;
use models::secret::Secret;
use serde_json::{Map, Value};

use super::Settings;
use super::keys::Kind;
use crate::errors::{Failure, Result};

impl Settings {
    pub(crate) fn key_refs(&self) -> Vec<&str> {
        let of_models = self.of_models().map(|(_, setting)| setting);
        let all = std::iter::once(self.get("model.key_ref")).chain(of_models);
        all.filter(|setting| setting.key.kind == Kind::KeyRef).filter_map(|one| one.value.as_str()).collect()
    }

    /// The configuration of a model: its provider's `[models.PROVIDER]`, overridden by its own `[models."name"]`, and by
    /// `[model]` if it is the default. `secret` finds a secret by its name.
    pub(crate) fn model(
        &self,
        name: &str,
        default: bool,
        secret: impl Fn(&str) -> Option<Secret>,
    ) -> Result<ModelConfig> {
        let provider = name.split_once('/').map(|(provider, _)| provider);
        let of_provider = self.of_models().filter(|(model, _)| Some(*model) == provider);
        let own = of_provider.chain(self.of_models().filter(|(model, _)| *model == name));
        let own = own.filter_map(|(_, setting)| Some((setting.key.of_model()?, &setting.value)));
        let overrides = self.of_default().filter(|_| default);
        let mut keys: Map<String, Value> =
            own.chain(overrides).map(|(key, value)| (key.to_owned(), value.clone())).collect();
        keys.insert("name".to_owned(), name.into());
        let key_ref = keys.remove("key_ref");
        let mut model: ModelConfig = serde_json::from_value(Value::Object(keys))
            .map_err(|error| Failure::usage(format!("the settings of `{name}` are wrong: {error}")))?;
        if let Some(wanted) = key_ref.as_ref().and_then(Value::as_str) {
            let missing = || {
                Failure::usage(format!("`key_ref` of `{name}` names `{wanted}`, and there is no such secret"))
                    .hint(format!(
                        "set the variable `{wanted}`, or write `{wanted} = \"...\"` into secrets.toml"
                    ))
            };
            model.key = Some(secret(wanted).ok_or_else(missing)?);
        }
        Ok(model)
    }

    /// The models and providers with settings of their own in the file.
    pub(crate) fn model_names(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn of_default(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let set_values = self.values.iter().filter(|setting| !setting.value.is_null());
        set_values.filter_map(|setting| Some((setting.key.of_model()?, &setting.value)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;
    use agent::port::Price;
    use models::model_book::Reasoning;

    #[test]
    fn the_default_table_overrides_a_models_own_table() {
        let text = "[model]\nname = \"ollama/a\"\ntemperature = 0.5\n\
                    [models.\"ollama/a\"]\ntemperature = 1.5\nmax_output = 100\n\
                    price = { input = 2.5, cached = 0.25, output = 10 }\nkey_ref = \"MINE\"\n";
        let read = settings(text, ());
        let secret = |name: &str| (name == "MINE").then(|| Secret::new("canary"));
        let model = read.model("ollama/a", true, secret).unwrap();
        assert_eq!((model.temperature, model.max_output), (Some(0.5), Some(100)));
        assert_eq!(model.price, Some(Price { input: 2_500_000, cached: 250_000, output: 10_000_000 }));
        assert!(model.key.is_some());
        let alone = read.model("ollama/a", false, secret).unwrap();
        assert_eq!(alone.temperature, Some(1.5));
        let failure = read.model("ollama/a", false, |_| None).unwrap_err();
        assert_eq!(failure.message, "`key_ref` of `ollama/a` names `MINE`, and there is no such secret");
        assert_eq!(read.key_refs(), ["MINE"]);
    }

    #[test]
    fn the_models_of_a_provider_share_its_table_and_each_may_differ() {
        let text = "[models.openai-compatible]\nbase_url = \"http://h:1/v1\"\nkey_ref = \"MINE\"\nmax_output = 100\n\
                    [models.\"openai-compatible/b\"]\nmax_output = 200\n[models.ollama]\nbase_url = \"http://o\"\n";
        let read = settings(text, ());
        let secret = |name: &str| (name == "MINE").then(|| Secret::new("canary"));
        for (name, max_output) in
            [("openai-compatible/a", 100), ("openai-compatible/b", 200), ("openai-compatible", 100)]
        {
            let model = read.model(name, false, secret).unwrap();
            assert_eq!(model.base_url.as_deref(), Some("http://h:1/v1"), "{name}");
            assert_eq!((model.max_output, model.key.is_some()), (Some(max_output), true), "{name}");
        }
        assert_eq!(read.model("openai/a", false, secret).unwrap().base_url, None);
    }

    #[test]
    fn reasoning_is_a_level_or_a_number_of_tokens() {
        let of = |value: &str| {
            let read = settings(&format!("[model]\nreasoning = {value}"), ());
            read.model("ollama/a", true, |_| None).unwrap().reasoning
        };
        assert_eq!(of("\"low\""), Some(Reasoning::Effort("low".to_owned())));
        assert_eq!(of("2048"), Some(Reasoning::Budget(2_048)));
    }
}
