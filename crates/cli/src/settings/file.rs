//! Reads `vivarium.toml`: each value with its line, and all errors at once. Knows the table of keys, not
//! their meaning.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use agent::config::nearest;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use tools::mcp::{McpServerConfig, check_mcp_server};

use super::keys::{self, MCP, MODEL, MODELS};
use super::{Origin, Setting};
use crate::errors::{Failure, Result};

const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// The content of a settings file. Each setting has its line as its origin.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FileValue {
    pub(crate) server: Vec<Setting>,
    /// The settings in `[models."…"]`, by model.
    pub(crate) models: Vec<(String, Vec<Setting>)>,
    /// The MCP servers in `[mcp.NAME]`.
    pub(crate) mcp: BTreeMap<String, McpServerConfig>,
}

/// The text of a file; `None` if there is no file.
pub(crate) fn text(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    let unreadable = |why: String| Failure::usage(format!("cannot read `{shown}`: {why}"));
    let bytes = match bytes(path, FILE_MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        unreadable(format!("it is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
    })?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

/// What is in a file of at most so many bytes. A device or a pipe, which may never end, is no file.
pub(crate) fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// Parses the text of a file; errors and origins show the file as `shown`.
pub(super) fn read(text: &str, shown: &str) -> Result<FileValue> {
    let table = table(text, shown)?;
    let mut parser = Parser { text, shown, problems: Vec::new() };
    let parsed = parser.top(table.get_ref());
    if parser.problems.is_empty() { Ok(parsed) } else { Err(refused(shown, parser.problems)) }
}

/// Parses the text as TOML, without a look at its keys.
pub(super) fn table<'t>(text: &'t str, shown: &str) -> Result<Spanned<DeTable<'t>>> {
    DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = line_of(text, at);
        let what = match text.lines().nth(line - 1).and_then(unquoted) {
            Some(value) => format!("a text is written in quotes: `\"{value}\"`"),
            None => error.message().to_owned(),
        };
        refused(shown, vec![(line, what)])
    })
}

/// The value of a line that has a text without quotes, which the parser takes for a number of some kind.
fn unquoted(line: &str) -> Option<&str> {
    let (_, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let is_text = value.starts_with(|first: char| first.is_alphabetic() || matches!(first, '/' | '~' | '.'));
    (is_text && !["true", "false", "inf", "nan"].contains(&value)).then_some(value)
}

fn refused(shown: &str, mut problems: Vec<(usize, String)>) -> Failure {
    problems.sort();
    let lines: Vec<String> = problems.iter().map(|(line, what)| format!("{shown}:{line}: {what}")).collect();
    let message = match lines.as_slice() {
        [one] => one.clone(),
        all => format!("`{shown}` has {} problems\n  {}", all.len(), all.join("\n  ")),
    };
    Failure::usage(message).hint("all keys: `viv config keys`")
}

fn line_of(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

struct Parser<'a> {
    text: &'a str,
    shown: &'a str,
    problems: Vec<(usize, String)>,
}

type Name<'t> = Spanned<DeString<'t>>;
type Content<'t> = Spanned<DeValue<'t>>;

impl Parser<'_> {
    fn line(&self, name: &Name<'_>) -> usize {
        line_of(self.text, name.span().start)
    }

    fn top(&mut self, table: &DeTable<'_>) -> FileValue {
        let mut parsed = FileValue::default();
        for (name, value) in table {
            match name.get_ref().as_ref() {
                MODEL => parsed.server.extend(self.model(MODEL, name, value, keys::of_model().collect())),
                MODELS => {
                    for (name, value) in self.table(MODELS, name, value).into_iter().flatten() {
                        let path = format!("{MODELS}.\"{}\"", name.get_ref());
                        let known = keys::of_model().filter(|known| *known != "name").collect();
                        let settings = self.model(&path, name, value, known);
                        parsed.models.push((name.get_ref().to_string(), settings));
                    }
                }
                MCP => parsed.mcp = self.servers(name, value),
                _ => parsed.server.extend(self.setting("", "", name, value, &keys::top_level())),
            }
        }
        parsed
    }

    /// The MCP servers.
    fn servers(&mut self, name: &Name<'_>, value: &Content<'_>) -> BTreeMap<String, McpServerConfig> {
        #[derive(Deserialize)]
        struct Servers {
            mcp: BTreeMap<String, McpServerConfig>,
        }
        let servers = match toml::from_str::<Servers>(self.text) {
            Ok(Servers { mcp }) => mcp,
            Err(error) => {
                let line = error.span().map_or(self.line(name), |span| line_of(self.text, span.start));
                self.problems.push((line, format!("in `[{MCP}]`: {}", error.message())));
                return BTreeMap::new();
            }
        };
        let places = value.get_ref().as_table();
        for (server, config) in &servers {
            let place = places.and_then(|places| places.keys().find(|key| key.get_ref().as_ref() == server));
            let line = self.line(place.unwrap_or(name));
            let wrong = check_mcp_server(server, config).into_iter();
            self.problems.extend(wrong.map(|mistake| (line, mistake.to_string())));
        }
        servers
    }

    /// The settings in the table of a model, which may have these keys.
    fn model(
        &mut self,
        path: &str,
        name: &Name<'_>,
        value: &Content<'_>,
        known: Vec<&'static str>,
    ) -> Vec<Setting> {
        let table = self.table(path, name, value).into_iter().flatten();
        let prefix = format!("{path}.");
        table.filter_map(|(name, value)| self.setting(&prefix, "model.", name, value, &known)).collect()
    }

    fn table<'t>(&mut self, path: &str, name: &Name<'_>, value: &'t Content<'t>) -> Option<&'t DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let what = format!("wanted a table `[{path}]`, got {}", value.get_ref().type_str());
            self.problems.push((self.line(name), what));
        }
        table
    }

    /// The setting whose key begins with `family` and is one of the `known`; errors show `path` before it.
    fn setting(
        &mut self,
        path: &str,
        family: &str,
        name: &Name<'_>,
        value: &Content<'_>,
        known: &[&'static str],
    ) -> Option<Setting> {
        let word = name.get_ref().as_ref();
        let key = keys::known(&format!("{family}{word}")).filter(|_| known.contains(&word));
        let value = Value::deserialize(value.clone().into_deserializer());
        let checked = match key {
            None => {
                let near = nearest(word, known.iter().copied());
                let near = near.map(|near| format!("; did you mean `{path}{near}`?")).unwrap_or_default();
                Err(format!("unknown key `{path}{word}`{near}"))
            }
            Some(key) => value
                .map_err(|error| error.message().to_owned())
                .and_then(|value| key.kind.check(value))
                .map(|value| (key, value))
                .map_err(|why| format!("`{path}{word}`: {why}")),
        };
        let line = self.line(name);
        match checked {
            Ok((key, value)) => {
                Some(Setting { key, value, origin: Origin::File(self.shown.to_owned(), line) })
            }
            Err(what) => {
                self.problems.push((line, what));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(text: &str, expected: &str) {
        assert_eq!(read(text, "vivarium.toml").unwrap_err().message, expected, "{text}");
    }

    #[test]
    fn each_value_has_its_line() {
        let parsed =
            read("\nlisten = \"h:1\"\n[model]\nname = \"demo\"\ncontext_window = 9_000\n", "x").unwrap();
        let read: Vec<_> =
            parsed.server.iter().map(|e| (e.key.name, e.value.clone(), e.origin.to_string())).collect();
        let expected = [
            ("listen", json!("h:1"), "x:2".to_owned()),
            ("model.context_window", json!(9000), "x:5".to_owned()),
            ("model.name", json!("demo"), "x:4".to_owned()),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_text_without_quotes_is_told_what_it_lacks() {
        wrong(
            "listen = \"h:1\"\nlog = info # more",
            "vivarium.toml:2: a text is written in quotes: `\"info\"`",
        );
        wrong("data_dir = /srv/viv", "vivarium.toml:1: a text is written in quotes: `\"/srv/viv\"`");
    }

    #[test]
    fn a_single_model_has_its_own_keys() {
        let text = "[models.\"ollama/qwen3\"]\ntool_mode = \"json_schema\"\nprice = { input = 1, cached = 0.5, output = 2 }";
        let parsed = read(text, "x").unwrap();
        assert_eq!((parsed.models[0].0.as_str(), parsed.models[0].1.len()), ("ollama/qwen3", 2));
        wrong(
            "[models.\"ollama/qwen3\"]\nname = \"x\"",
            "vivarium.toml:2: unknown key `models.\"ollama/qwen3\".name`",
        );
    }

    #[test]
    fn an_error_names_line_key_and_what_was_wanted() {
        wrong("listn = \"x\"", "vivarium.toml:1: unknown key `listn`; did you mean `listen`?");
        wrong("\nlisten = 5", "vivarium.toml:2: `listen`: wanted text, got 5");
        wrong(
            "[model]\nnaem = \"x\"",
            "vivarium.toml:2: unknown key `model.naem`; did you mean `model.name`?",
        );
        wrong("model = \"x\"", "vivarium.toml:1: wanted a table `[model]`, got string");
        wrong("[models]\nx = 1", "vivarium.toml:2: wanted a table `[models.\"x\"]`, got integer");
        wrong(
            "[model]\ncontext_window = 12",
            "vivarium.toml:2: `model.context_window`: wanted whole number from 1024, got 12",
        );
        let two = "a = 1\nallow_remote = \"yes\"";
        wrong(
            two,
            "`vivarium.toml` has 2 problems\n  vivarium.toml:1: unknown key `a`\n  \
             vivarium.toml:2: `allow_remote`: wanted true or false, got \"yes\"",
        );
        let failure = read("listen = \n", "vivarium.toml").unwrap_err();
        assert!(failure.message.starts_with("vivarium.toml:1: "), "{failure}");
    }

    #[test]
    fn a_secret_under_a_wrong_key_is_not_printed() {
        for text in [
            "[model]\nkey = \"sk-canary\"",
            "[model]\nkey_ref = \"sk-canary\"",
            "[model.headers]\na = [\"canary\"]",
        ] {
            let failure = read(text, "vivarium.toml").unwrap_err();
            assert!(!failure.to_string().contains("canary"), "{failure}");
        }
    }
}
