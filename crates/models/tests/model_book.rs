//! Creating a model from its name, and the errors if that fails.

use std::sync::Arc;

use agent::port::{ModelError, Models as _, ReasoningReplay};
use models::model_book::{KeyRing, ModelBook, ModelConfig, Reasoning, ToolMode};
use models::scripted::{Script, Scripted};
use models::secret::Secret;

use crate::support::NoClock;

fn book(default: &str, keys: KeyRing) -> ModelBook {
    ModelBook::new(ModelConfig::named(default), keys, Arc::new(NoClock))
}

fn refused(default: &str) -> String {
    let keys = KeyRing::gather(|_| None, &[], "/data/secrets.toml");
    match book(default, keys).model(None) {
        Ok(_) => panic!("`{default}` should be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_missing_key_names_the_variable_and_the_file() {
    let text = refused("anthropic/claude-opus-5");
    assert!(text.starts_with("auth: `anthropic` needs a key"), "{text}");
    assert!(text.contains("ANTHROPIC_API_KEY") && text.contains("/data/secrets.toml"), "{text}");
}

#[test]
fn an_unknown_name_gets_an_error_that_lists_the_known_ones() {
    assert!(refused("antropic/claude").contains("did you mean `anthropic`?"));
    assert!(refused("gpt-5").contains("wanted `demo` or `provider/model`"));
    assert!(refused("openai/").contains("wanted `demo` or `provider/model`"));
    assert!(refused("openai-compatible/x").contains("set `base_url`"));
    let keys = KeyRing::default();
    let config = ModelConfig { base_url: Some("localhost:1".into()), ..ModelConfig::named("vllm/x") };
    let error = ModelBook::new(config, keys, Arc::new(NoClock)).model(None).err().unwrap();
    assert!(matches!(&error, ModelError::NoModel(text) if text.contains("`http://`")), "{error:?}");
}

#[test]
fn a_tool_mode_that_the_wire_lacks_is_refused() {
    let keys = || KeyRing::gather(|_| Some("sk-0123456789".into()), &[], "f");
    let create = |name: &str, base_url: Option<&str>| {
        let config = ModelConfig {
            tool_mode: Some(ToolMode::JsonSchema),
            base_url: base_url.map(str::to_owned),
            ..ModelConfig::named(name)
        };
        ModelBook::new(config, keys(), Arc::new(NoClock)).model(None).map(|_| ())
    };
    for name in ["google/gemini-3.8-flash", "openai/gpt-5", "openai-responses/x", "anthropic/claude-opus-5"] {
        let error = create(name, None).unwrap_err();
        assert!(matches!(&error, ModelError::NoModel(text) if text.contains("leave it out")), "{error:?}");
    }
    for (name, url) in [("openai-chat/gpt-5", None), ("openai/x", Some("http://127.0.0.1:1/v1"))] {
        create(name, url).unwrap();
    }
}

#[test]
fn the_output_limit_is_higher_for_models_whose_reasoning_counts() {
    let room = |name: &str, base_url: Option<&str>| {
        let keys = KeyRing::gather(|_| Some("sk-0123456789".into()), &[], "f");
        let base_url = base_url.map(str::to_owned);
        let config = ModelConfig { base_url, ..ModelConfig::named(name) };
        ModelBook::new(config, keys, Arc::new(NoClock)).model(None).unwrap().info().max_output
    };
    assert_eq!(room("openai/gpt-5", None), 32_768);
    assert_eq!(room("openai/gpt-4o", None), 16_384);
    assert_eq!(room("openai/anything", Some("http://127.0.0.1:1/v1")), 16_384);
    assert_eq!(room("google/gemini-3.8-flash", None), 32_768);
}

#[test]
fn a_reply_that_needs_more_than_half_of_the_window_is_refused() {
    let create = |name: &str, change: fn(&mut ModelConfig)| {
        let keys = KeyRing::gather(|_| Some("sk-0123456789".into()), &[], "f");
        let mut config = ModelConfig { context_window: Some(20_000), ..ModelConfig::named(name) };
        change(&mut config);
        ModelBook::new(config, keys, Arc::new(NoClock)).model(None).map(|model| model.info().max_output)
    };
    let claude = "anthropic/claude-sonnet-4-5";
    assert_eq!(
        create(claude, |config| config.max_output = Some(10_000)).unwrap(),
        10_000,
        "as it was asked for"
    );
    let unfit: [fn(&mut ModelConfig); 2] = [
        |config| config.max_output = Some(10_001),
        |config| config.reasoning = Some(Reasoning::Budget(1_000_000)),
    ];
    for change in unfit {
        let error = create(claude, change).unwrap_err();
        assert!(
            matches!(&error, ModelError::NoModel(text) if text.contains("lower `max_output`")),
            "{error:?}"
        );
    }
}

#[test]
fn the_second_variable_of_a_key_is_read_after_the_first() {
    let env = |name: &str| match name {
        "GOOGLE_API_KEY" => Some("second".to_owned()),
        "GEMINI_API_KEY" => Some(" ".to_owned()),
        _ => None,
    };
    let keys = KeyRing::gather(env, &[], "f");
    assert_eq!(keys.providers().iter().map(|provider| provider.name).collect::<Vec<_>>(), ["google"]);
    let google = models::catalog::provider("google").unwrap();
    assert_eq!(keys.found_under(google), Some("GOOGLE_API_KEY"));
    assert!(book("gemini/gemini-3.8-flash", keys).model(None).is_ok());
    let file = [("GOOGLE_API_KEY".to_owned(), Secret::new("from-file"))];
    assert_eq!(KeyRing::gather(|_| None, &file, "f").providers().len(), 1);
}

#[test]
fn keys_come_from_the_environment_before_the_file() {
    let file = [("OPENAI_API_KEY", "from-file"), ("ANTHROPIC_API_KEY", "also"), ("GROQ_API_KEY", " ")];
    let file = file.map(|(name, key)| (name.to_owned(), Secret::new(key)));
    let env = |name: &str| (name == "OPENAI_API_KEY").then(|| "from-env".to_owned());
    let keys = KeyRing::gather(env, &file, "f");
    let names: Vec<_> = keys.providers().iter().map(|provider| provider.name).collect();
    assert_eq!(names, ["anthropic", "openai", "openai-responses", "openai-chat"]);
    assert!(!format!("{keys:?}").contains("from-"), "a key ring prints no key");
}

#[test]
fn models_are_created_once_and_have_correct_info() {
    let keys = KeyRing::gather(|_| Some("sk-0123456789".into()), &[], "f");
    let book = book("deepseek/deepseek-reasoner", keys).with(ModelConfig {
        context_window: Some(2_000),
        max_tools: Some(7),
        key: Some(Secret::new("own")),
        ..ModelConfig::named("llamacpp/tiny")
    });
    let first = book.model(None).unwrap();
    assert!(Arc::ptr_eq(&first, &book.model(Some("deepseek/deepseek-reasoner")).unwrap()));
    assert_eq!(first.info().reasoning_replay, ReasoningReplay::All);
    let tiny = book.model(Some("llamacpp/tiny")).unwrap();
    assert_eq!((tiny.info().context_window, tiny.info().max_output), (2_000, 500));
    assert_eq!((tiny.info().max_tools, first.info().max_tools), (Some(7), Some(128)));
    let hosted = book.model(Some("openrouter/any/thing")).unwrap();
    assert_eq!((hosted.info().context_window, hosted.info().price), (128_000, None));
    let priced = book.model(Some("anthropic/claude-opus-5-5")).unwrap();
    assert_eq!(priced.info().price.unwrap().output, 20_000_000);
    assert!(book.model(Some("demo")).unwrap().info().demo);
}

#[test]
fn a_scripted_model_can_be_registered_under_any_name() {
    let scripted = Arc::new(Scripted::new([Script::new().text("hi")]));
    let book = book("demo", KeyRing::default()).with_model("scripted/one", scripted);
    assert_eq!(book.model(Some("scripted/one")).unwrap().info().name, "scripted");
}

#[test]
fn models_of_a_provider_with_settings_need_none_of_their_own() {
    let own = |name: &str, base_url: &str, window| ModelConfig {
        base_url: Some(base_url.to_owned()),
        context_window: Some(window),
        ..ModelConfig::named(name)
    };
    let book = ModelBook::new(ModelConfig::named("demo"), KeyRing::default(), Arc::new(NoClock))
        .with(own("openai-compatible", "http://127.0.0.1:1/v1", 4_096))
        .with(own("openai-compatible/b", "http://127.0.0.1:2/v1", 8_192))
        .with(own("vllm", "ftp://h", 4_096));
    let info = |name: &str| book.model(Some(name)).map(|model| model.info().clone());
    let (a, b, c) = (info("openai-compatible/a"), info("openai-compatible/b"), info("openai-compatible/c"));
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    assert_eq!((a.name.as_str(), a.context_window, b.context_window), ("openai-compatible/a", 4_096, 8_192));
    assert!(a.provider == c.provider && a.provider != b.provider, "one server has one breaker");
    assert!(book.check("openai-compatible").is_ok());
    for (name, why) in [("vllm", "base_url"), ("opnai", "did you mean `openai`"), ("vllm/x", "base_url")] {
        assert!(book.check(name).unwrap_err().to_string().contains(why), "{name}");
    }
    assert!(info("openai-compatible").is_err(), "a provider is no model");
}
