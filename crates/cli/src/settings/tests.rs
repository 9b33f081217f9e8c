//! Tests of the layers and their origins, and settings for other modules' tests.

use super::*;

/// Settings from a file with this text and from options, without the environment.
pub(crate) fn settings(text: &str, options: impl Serialize) -> Settings {
    load(text, options, &[]).unwrap()
}

fn load(text: &str, options: impl Serialize, env: &[(&str, &str)]) -> Result<Settings> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vivarium.toml");
    std::fs::write(&file, text).unwrap();
    let global = Global { config: Some(file), ..Global::default() };
    let env =
        |name: &str| Ok(env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()));
    Settings::load_with(&global, given(&options), &env)
}

#[test]
fn flags_override_environment_overrides_file_overrides_default() {
    let text = "listen = \"h:1\"\nlog = \"debug\"\nhosts = [\"a\"]\n";
    let env = [("VIV_LISTEN", "h:2"), ("VIV_LOG", "info")];
    let read = load(text, json!({"listen": "h:3"}), &env).unwrap();
    let origin = |name: &str| read.get(name).origin.to_string();
    assert_eq!((read.text("listen"), origin("listen").as_str()), ("h:3", "flag --listen"));
    assert_eq!((read.text("log"), origin("log").as_str()), ("info", "environment VIV_LOG"));
    assert!(origin("hosts").ends_with("vivarium.toml:3"));
    assert_eq!((read.flag("allow_remote"), origin("allow_remote").as_str()), (false, "default"));
}

#[test]
fn paths_in_the_file_are_relative_to_it() {
    let read = settings("data_dir = \"data\"\nagents_dir = \"/srv/agents\"", ());
    assert!(read.data_dir().is_absolute() && read.data_dir().ends_with("data"));
    assert_eq!(read.agents_dir(), Path::new("/srv/agents"));
}

#[test]
fn model_settings_do_not_apply_to_another_model() {
    let text = "[model]\nname = \"ollama/a\"\nbase_url = \"http://h/v1\"\ncontext_window = 4096\n";
    let other = settings(text, json!({"model.name": "ollama/b"}));
    assert_eq!(other.get("model.base_url").value, Value::Null);
    let same = settings(text, json!({"model.name": "ollama/a"}));
    assert_eq!(same.text("model.base_url"), "http://h/v1");
    let unnamed = settings("[model]\ncontext_window = 4096", json!({"model.name": "ollama/b"}));
    assert_eq!(unnamed.get("model.context_window").value, json!(4096));
}

#[test]
fn the_error_names_the_bad_variable() {
    let failure = load("", (), &[("VIV_ALLOW_REMOTE", "maybe")]).unwrap_err();
    assert_eq!(failure.message, "`VIV_ALLOW_REMOTE`: wanted true or false, got \"maybe\"");
}

#[test]
fn headers_and_passwords_in_addresses_are_not_shown() {
    let read = settings("[model]\nname = \"ollama/a\"\nheaders = { authorization = \"canary\" }", ());
    assert_eq!(read.get("model.headers").shown(), json!({"authorization": "(hidden)"}));
    let read = settings("[model]\nname = \"ollama/a\"\nbase_url = \"http://me:canary@h/v1\"", ());
    assert_eq!(read.get("model.base_url").shown(), json!("http://h/v1"));
}

#[test]
fn concurrency_limits_default_to_the_runtimes_and_can_be_set() {
    assert_eq!(settings("", ()).bounds(), runtime::Bounds::default());
    let read = settings("awake_max = 8\nrequests_per_provider = 2", ());
    assert_eq!(read.bounds(), runtime::Bounds { awake: 8, requests_per_provider: 2, ..Default::default() });
}
