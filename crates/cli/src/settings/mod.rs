//! The settings of a server and where each came from: default < file < environment < flag. Must not know
//! the server; the meaning of the values is defined where they are used.

mod file;
pub(crate) mod keys;
mod model;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use net::display_url;
use serde::Serialize;
use serde_json::{Map, Value, json};

use tools::mcp::McpServerConfig;

use crate::args::Global;
use crate::errors::{Failure, Result};
use file::FileValue;
pub(crate) use file::{bytes, text};
use keys::{KEYS, Key, Kind};

/// The file that is looked for in the current directory and above.
pub(crate) const FILE: &str = "vivarium.toml";
/// The variable that names another file.
const FILE_VARIABLE: &str = "VIV_CONFIG";
/// The data directory if nothing sets it.
const DATA_DIR: &str = ".viv";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(String, usize),
    Env(&'static str),
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
    pub(crate) key: &'static Key,
    /// Its value; `null` if it has none.
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

impl Setting {
    /// The value for display: if it may contain a secret, the secret is hidden.
    pub(crate) fn shown(&self) -> Value {
        match (self.key.kind, &self.value) {
            (Kind::Headers, Value::Object(headers)) => {
                headers.keys().map(|name| (name.clone(), json!("(hidden)"))).collect()
            }
            (_, Value::String(url))
                if self.key.name.ends_with("base_url") || self.key.kind == Kind::Proxy =>
            {
                display_url(url).into()
            }
            (_, value) => value.clone(),
        }
    }
}

/// The MCP servers in that file, as it is now; none without a file.
pub(crate) fn mcp_servers(file: &Path) -> Result<BTreeMap<String, McpServerConfig>> {
    let text = text(file)?.unwrap_or_default();
    Ok(file::read(&text, &file.display().to_string())?.mcp)
}

/// The options of a command line that are settings, by the names of the settings. Options that are not set are left
/// out, `null`, `false` or empty.
pub(crate) fn given(options: &impl Serialize) -> Map<String, Value> {
    let unset = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || *value == json!([]);
    match json!(options) {
        Value::Object(options) => options.into_iter().filter(|(_, value)| !unset(value)).collect(),
        _ => Map::new(),
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) file: Option<PathBuf>,
    /// Whether clients started in the same directory find the data directory without options.
    pub(crate) found_by_clients: bool,
    values: Vec<Setting>,
    /// The file's settings of single models, by the model's name.
    models: Vec<(String, Vec<Setting>)>,
    /// The MCP servers, by name.
    pub(crate) mcp: BTreeMap<String, McpServerConfig>,
}

impl Settings {
    /// Reads all settings; those on the command line are in `options`.
    pub(crate) fn load(global: &Global, options: &impl Serialize) -> Result<Self> {
        Self::load_with(global, given(options), &variable)
    }

    fn load_with(global: &Global, mut given: Map<String, Value>, env: &Env<'_>) -> Result<Self> {
        if let Some(dir) = &global.data_dir {
            given.insert("data_dir".to_owned(), json!(utf8(dir, "--data-dir")?));
        }
        let config_file = ConfigFile::find(global, env, &[FILE])?;
        let text = config_file.text.as_deref().unwrap_or_default();
        let FileValue { server, models, mcp } = file::read(text, &config_file.shown())?;
        let root = config_file.root();
        let mut layers = [of_flags(&given)?, of_environment(env)?, Vec::new()];
        for Setting { key, value, origin } in server {
            layers[2].push(Setting { key, value: resolved(&root, key, value)?, origin });
        }
        let named = |layer: &[Setting]| layer.iter().find(|one| one.key.name == keys::NAME).cloned();
        let model = layers.iter().find_map(|layer| named(layer)).map(|model| model.value);
        // A model's settings do not apply to another model.
        for layer in &mut layers {
            if named(layer).is_some_and(|named| Some(named.value) != model) {
                layer.retain(|one| one.key.of_model().is_none());
            }
        }
        let setting = |key: &'static Key| match layers.iter().flatten().find(|one| one.key == key) {
            Some(setting) => Ok(setting.clone()),
            None => {
                let value = resolved(&root, key, key.default_value())?;
                Ok(Setting { key, value, origin: Origin::Default })
            }
        };
        let mut settings = Self {
            found_by_clients: false,
            file: config_file.text.is_some().then(|| config_file.file.clone()),
            values: KEYS.iter().map(setting).collect::<Result<_>>()?,
            models,
            mcp,
        };
        settings.found_by_clients = settings.data_dir_is_from_the_file() && !config_file.named;
        Ok(settings)
    }

    /// The settings file, or the one that would be written.
    pub(crate) fn file_to_write(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| PathBuf::from(FILE))
    }

    pub(crate) fn all(&self) -> &[Setting] {
        &self.values
    }

    /// The file's settings for single models, each with the name of its model.
    pub(crate) fn of_models(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.models.iter().flat_map(|(model, all)| all.iter().map(|setting| (model.as_str(), setting)))
    }

    pub(crate) fn get(&self, name: &str) -> &Setting {
        self.values
            .iter()
            .find(|setting| setting.key.name == name)
            .expect("settings are asked for by names of the table")
    }

    pub(crate) fn bounds(&self) -> runtime::Bounds {
        let whole = |name: &str| self.get(name).value.as_u64().and_then(|n| usize::try_from(n).ok());
        let default = runtime::Bounds::default();
        runtime::Bounds {
            awake: whole("awake_max").unwrap_or(default.awake),
            requests_per_provider: whole("requests_per_provider").unwrap_or(default.requests_per_provider),
            ..default
        }
    }

    /// A text; empty if it has no value.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).value.as_str().unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).value.as_bool().unwrap_or_default()
    }

    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let all = self.get(name).value.as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(crate) fn data_dir(&self) -> &Path {
        Path::new(self.text("data_dir"))
    }

    /// Whether the data directory is determined by the file alone.
    pub(crate) fn data_dir_is_from_the_file(&self) -> bool {
        matches!(self.get("data_dir").origin, Origin::Default | Origin::File(..))
    }

    pub(crate) fn tools_dir(&self) -> &Path {
        Path::new(self.text("tools_dir"))
    }

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
    let text = config_file.text.as_deref().unwrap_or_default();
    let table = file::table(text, &config_file.shown())?;
    let dir = table.get_ref().get("data_dir").and_then(|dir| dir.get_ref().as_str()).unwrap_or(DATA_DIR);
    Ok(config_file.root().join(dir))
}

/// The folder of the project with its scenarios, whether it exists or not.
pub(crate) fn scenarios(global: &Global) -> Result<PathBuf> {
    Ok(ConfigFile::find(global, &variable, &[FILE, DATA_DIR])?.root().join("scenarios"))
}

type Env<'a> = dyn Fn(&str) -> Result<Option<String>> + 'a;

fn variable(name: &str) -> Result<Option<String>> {
    Ok(client::variable(name)?)
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
        let text = text(&file)?;
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

fn of_flags(given: &Map<String, Value>) -> Result<Vec<Setting>> {
    let flags = KEYS.iter().filter_map(|key| Some((key, key.flag?, given.get(key.name)?)));
    let setting = |(key, flag, value): (&'static Key, &'static str, &Value)| {
        let value = key.kind.check(value.clone());
        let value = value.map_err(|why| Failure::usage(format!("`{flag}`: {why}")))?;
        Ok(Setting { key, value, origin: Origin::Flag(flag) })
    };
    flags.map(setting).collect()
}

fn of_environment(env: &Env<'_>) -> Result<Vec<Setting>> {
    let mut found = Vec::new();
    for (key, name) in KEYS.iter().filter_map(|key| Some((key, key.env?))) {
        if let Some(text) = env(name)? {
            let value = key.kind.parse(&text);
            let value = value.map_err(|why| Failure::usage(format!("`{name}`: {why}")))?;
            found.push(Setting { key, value, origin: Origin::Env(name) });
        }
    }
    Ok(found)
}

/// A value of the file or a default: a path is relative to the folder of the file.
fn resolved(root: &Path, key: &Key, value: Value) -> Result<Value> {
    match (key.kind, value.as_str()) {
        (Kind::Path, Some(path)) => Ok(json!(utf8(&root.join(path), key.name)?)),
        _ => Ok(value),
    }
}
