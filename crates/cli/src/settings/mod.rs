//! The settings of a server and where each came from: default < file < environment < flag. Must not know
//! the server; the meaning of the values is defined where they are used.

mod file;
pub(crate) mod keys;
mod model;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};

use models::client::display_url;
use serde_json::{Value, json};

use crate::args::Global;
use crate::errors::{Failure, Result};
use file::{Entry, FileValue};
use keys::{KEYS, Key, Kind};

/// The file that is looked for in the current directory and above.
const FILE: &str = "vivarium.toml";
/// The variable that names another file.
const FILE_VARIABLE: &str = "VIV_CONFIG";
/// The data directory if nothing sets it.
const DATA_DIR: &str = ".viv";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Not set anywhere.
    Default,
    /// The settings file and the line.
    File(String, usize),
    /// An environment variable.
    Env(&'static str),
    /// The command line.
    Flag(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(file, line) => write!(f, "{file}:{line}"),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One setting with its effective value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Its key.
    pub(crate) key: &'static Key,
    /// Its value; `null` if it has none.
    pub(crate) value: Value,
    /// Where the value comes from.
    pub(crate) origin: Origin,
}

impl Setting {
    /// The value for display: if it may contain a secret, the secret is hidden.
    pub(crate) fn shown(&self) -> Value {
        shown(self.key, &self.value)
    }
}

/// A value for display.
pub(crate) fn shown(key: &Key, value: &Value) -> Value {
    match (key.kind, value) {
        (Kind::Headers, Value::Object(headers)) => {
            headers.iter().map(|(name, _)| (name.clone(), json!("(hidden)"))).collect()
        }
        (_, Value::String(url)) if key.name.ends_with("base_url") => display_url(url).into(),
        _ => value.clone(),
    }
}

/// A value from the command line.
pub(crate) type Given = (&'static str, Value);

/// All settings of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// Whether clients started in the same directory find the data directory without options.
    pub(crate) found_by_clients: bool,
    values: Vec<Setting>,
    models: Vec<(String, Vec<Entry>)>,
    shown_file: String,
}

impl Settings {
    /// Reads all settings.
    pub(crate) fn load(global: &Global, given: Vec<Given>) -> Result<Self> {
        Self::load_with(global, given, &variable)
    }

    fn load_with(global: &Global, mut given: Vec<Given>, env: &Env<'_>) -> Result<Self> {
        if let Some(dir) = &global.data_dir {
            given.push(("data_dir", json!(utf8(dir, "--data-dir")?)));
        }
        let config_file = ConfigFile::find(global, env, &[FILE])?;
        let shown_file = config_file.shown();
        let from_file = match &config_file.text {
            Some(text) => file::read(text, &shown_file)?,
            None => FileValue::default(),
        };
        let layers = Layers { given, from_file: &from_file, env, config_file: &config_file };
        let mut values = KEYS.iter().map(|key| layers.setting(key)).collect::<Result<Vec<_>>>()?;
        layers.drop_settings_of_another_model(&mut values)?;
        let mut settings = Self {
            found_by_clients: false,
            file: config_file.text.is_some().then(|| config_file.file.clone()),
            values,
            models: from_file.models,
            shown_file,
        };
        settings.found_by_clients = settings.data_dir_is_from_the_file() && !config_file.named;
        Ok(settings)
    }

    /// All settings, in the order of the table.
    pub(crate) fn all(&self) -> &[Setting] {
        &self.values
    }

    /// The file's settings for single models: the model, the key, its value, its line.
    pub(crate) fn of_models(&self) -> impl Iterator<Item = (&str, &'static Key, &Value, Origin)> {
        self.models.iter().flat_map(|(model, entries)| {
            entries.iter().filter_map(|entry| {
                let origin = Origin::File(self.shown_file.clone(), entry.line);
                Some((model.as_str(), keys::known(entry.key)?, &entry.value, origin))
            })
        })
    }

    /// One setting.
    pub(crate) fn get(&self, name: &str) -> &Setting {
        self.values
            .iter()
            .find(|setting| setting.key.name == name)
            .expect("settings are asked for by names of the table")
    }

    /// Limits of concurrency.
    pub(crate) fn bounds(&self) -> runtime::Bounds {
        let whole = |name: &str| self.get(name).value.as_u64().and_then(|n| usize::try_from(n).ok());
        let default = runtime::Bounds::default();
        runtime::Bounds {
            awake: whole("awake_max").unwrap_or(default.awake),
            requests_per_provider: whole("requests_per_provider").unwrap_or(default.requests_per_provider),
        }
    }

    /// A text; empty if it has no value.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).value.as_str().unwrap_or_default()
    }

    /// A switch.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).value.as_bool().unwrap_or_default()
    }

    /// A list of texts.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let all = self.get(name).value.as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The data directory.
    pub(crate) fn data_dir(&self) -> &Path {
        Path::new(self.text("data_dir"))
    }

    /// Whether the data directory is determined by the file alone.
    pub(crate) fn data_dir_is_from_the_file(&self) -> bool {
        matches!(self.get("data_dir").origin, Origin::Default | Origin::File(..))
    }

    /// The folder of agent files.
    pub(crate) fn agents_dir(&self) -> &Path {
        Path::new(self.text("agents_dir"))
    }
}

/// The data directory alone, for commands that talk to a server: other errors in the file do not concern
/// them.
pub(crate) fn data_dir(global: &Global) -> Result<PathBuf> {
    if let Some(dir) = &global.data_dir {
        return Ok(dir.clone());
    }
    if let Some(dir) = std::env::var_os("VIV_DATA_DIR").filter(|dir| !dir.is_empty()) {
        return Ok(PathBuf::from(dir));
    }
    let config_file = ConfigFile::find(global, &variable, &[FILE, DATA_DIR])?;
    let table = match &config_file.text {
        Some(text) => {
            text.parse::<toml::Table>().map_err(|_| match file::read(text, &config_file.shown()) {
                Err(failure) => failure,
                Ok(_) => Failure::usage(format!("cannot read `{}`", config_file.shown())),
            })?
        }
        None => toml::Table::new(),
    };
    let dir = table.get("data_dir").and_then(toml::Value::as_str).unwrap_or(DATA_DIR);
    Ok(config_file.root().join(dir))
}

type Env<'a> = dyn Fn(&str) -> Result<Option<String>> + 'a;

/// An environment variable; an empty one counts as unset.
fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.trim().is_empty() => Ok(None),
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => Err(Failure::usage(format!("wanted text in `{name}`, got bytes that are not UTF-8"))),
    }
}

fn utf8(path: &Path, what: &str) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("wanted a path in UTF-8 for {what}, got `{}`", path.display())))
}

/// The settings file, whether it exists or not.
struct ConfigFile {
    file: PathBuf,
    /// Whether the user named it.
    named: bool,
    text: Option<String>,
}

impl ConfigFile {
    /// The file that was named, else the one of the project: of the nearest directory, from the current one upwards,
    /// with one of these `marks` in it.
    fn find(global: &Global, env: &Env<'_>, marks: &[&str]) -> Result<Self> {
        let wanted = match &global.config {
            Some(file) => Some(file.clone()),
            None => env(FILE_VARIABLE)?.map(PathBuf::from),
        };
        let named = wanted.is_some();
        let file = wanted.unwrap_or_else(|| project_dir(marks).unwrap_or_default().join(FILE));
        let text = file::text(&file)?;
        if named && text.is_none() {
            let message = format!("there is no file `{}`", file.display());
            return Err(Failure::usage(message).hint("write one with `viv init`, or leave out --config"));
        }
        Ok(Self { file, named, text })
    }

    fn shown(&self) -> String {
        self.file.display().to_string()
    }

    /// The folder to which relative paths in the file, and default paths, are relative.
    fn root(&self) -> PathBuf {
        match self.file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        }
    }
}

/// The nearest directory above the current one with one of these marks in it; `None` if the current one has one, or no
/// directory has.
fn project_dir(marks: &[&str]) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let found = here.ancestors().find(|dir| marks.iter().any(|mark| dir.join(mark).exists()))?;
    (found != here).then(|| found.to_owned())
}

struct Layers<'a> {
    given: Vec<Given>,
    from_file: &'a FileValue,
    env: &'a Env<'a>,
    config_file: &'a ConfigFile,
}

impl Layers<'_> {
    fn setting(&self, key: &'static Key) -> Result<Setting> {
        let setting = |value, origin| Ok(Setting { key, value, origin });
        if let Some((value, flag)) = self.of_flag(key) {
            let value = key.kind.check(value).map_err(|why| Failure::usage(format!("`{flag}`: {why}")))?;
            return setting(value, Origin::Flag(flag));
        }
        if let Some((value, name)) = self.of_env(key)? {
            return setting(value, Origin::Env(name));
        }
        if let Some((value, line)) = self.of_file(key)? {
            return setting(value, Origin::File(self.config_file.shown(), line));
        }
        setting(self.resolve_path(key, key.default_value())?, Origin::Default)
    }

    fn of_flag(&self, key: &Key) -> Option<(Value, &'static str)> {
        let (_, value) = self.given.iter().find(|(name, _)| *name == key.name)?;
        Some((value.clone(), key.flag?))
    }

    fn of_env(&self, key: &Key) -> Result<Option<(Value, &'static str)>> {
        let Some(name) = key.env else { return Ok(None) };
        let Some(text) = (self.env)(name)? else { return Ok(None) };
        let value = key.kind.parse(&text).map_err(|why| Failure::usage(format!("`{name}`: {why}")))?;
        Ok(Some((value, name)))
    }

    fn of_file(&self, key: &Key) -> Result<Option<(Value, usize)>> {
        let Some(entry) = self.from_file.entries.iter().find(|entry| entry.key == key.name) else {
            return Ok(None);
        };
        Ok(Some((self.resolve_path(key, entry.value.clone())?, entry.line)))
    }

    fn resolve_path(&self, key: &Key, value: Value) -> Result<Value> {
        match (key.kind, value.as_str()) {
            (Kind::Path, Some(path)) => Ok(json!(utf8(&self.config_file.root().join(path), key.name)?)),
            _ => Ok(value),
        }
    }

    /// Drops model settings of a layer that names a different model than the effective one.
    fn drop_settings_of_another_model(&self, values: &mut [Setting]) -> Result<()> {
        let Some(name) = values.iter().find(|setting| setting.key.name == "model.name") else {
            return Ok(());
        };
        let (name, key) = (name.value.clone(), name.key);
        let other = |value: Option<Value>| value.is_some_and(|value| value != name);
        let of_file = other(self.of_file(key)?.map(|(value, _)| value));
        let of_env = other(self.of_env(key)?.map(|(value, _)| value));
        for setting in values.iter_mut().filter(|setting| setting.key.name.starts_with("model.")) {
            let dropped = match setting.origin {
                Origin::File(..) => of_file,
                Origin::Env(_) => of_env,
                Origin::Default | Origin::Flag(_) => false,
            };
            if dropped {
                setting.value = setting.key.default_value();
                setting.origin = Origin::Default;
                // If the environment's value is dropped, the file's may still apply.
                if let Some((value, line)) = self.of_file(setting.key)?.filter(|_| !of_file) {
                    setting.value = value;
                    setting.origin = Origin::File(self.config_file.shown(), line);
                }
            }
        }
        Ok(())
    }
}
