//! Which model is the default if none is named: one whose key is found, else one that runs on this machine,
//! else the demo model.

use crate::catalog;
use crate::demo;
use crate::local::{self, LocalServer};
use crate::model_book::{KeyRing, ModelConfig};

/// The default model, and why it is the one, in a few words. Asks the model servers on this machine unless a
/// key is found.
pub async fn find(keys: &KeyRing) -> (ModelConfig, String) {
    match first_with_key(keys) {
        Some(found) => found,
        None => local_or_demo(&local::probe().await),
    }
}

/// Fills in what a local server reports about a model that was named: some report the window they were started
/// with. Settings that are given stay as they are.
pub async fn completed(config: ModelConfig) -> ModelConfig {
    let Some(provider) = config.provider() else { return config };
    let model = config.name.split_once('/').map_or("", |(_, model)| model);
    let found = local::probe_for(provider, &config.address(), model).await;
    match found.as_ref().and_then(LocalServer::model) {
        Some(found) => ModelConfig { base_url: config.base_url.clone(), ..config.or(found) },
        None => config,
    }
}

fn first_with_key(keys: &KeyRing) -> Option<(ModelConfig, String)> {
    let mut found = keys.providers().into_iter();
    let (provider, model) = found.find_map(|provider| Some((provider, catalog::first_model(provider)?)))?;
    let name = format!("{}/{model}", provider.name);
    let found = keys.found_under(provider).unwrap_or(provider.key_env);
    Some((ModelConfig::named(name), format!("its key was found: {found}")))
}

fn local_or_demo(found: &[LocalServer]) -> (ModelConfig, String) {
    let running = found.iter().find_map(|server| Some((server.model()?, &server.base_url)));
    match running {
        Some((model, address)) => (model, format!("found running on this machine at {address}")),
        None => (ModelConfig::named(demo::NAME), "no key and no model server found".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_key_and_a_local_server_the_demo_model_is_the_default() {
        let (config, why) = local_or_demo(&[]);
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
