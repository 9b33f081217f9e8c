//! What the settings of an MCP server must be, beyond the types of their keys. Every mistake is found, not only the first.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::limits;
use reqwest::Method;
use reqwest::header::HeaderName;

use super::config::McpServerConfig;
use crate::connector::{AllowedTarget, Outgoing, is_reserved};
use crate::declare::DeclarationMistake;
use crate::template::{self, Slot};

/// Headers that the protocol sets itself.
const OF_PROTOCOL: &[&str] = &[
    "accept",
    "content-type",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
    "mcp-name",
];

struct McpMistakes<'a> {
    server: &'a str,
    found: Vec<DeclarationMistake>,
}

impl McpMistakes<'_> {
    fn add(&mut self, key: &str, why: impl Into<String>) {
        let dot = if key.is_empty() { "" } else { "." };
        let key = Some(format!("mcp.{}{dot}{key}", self.server));
        self.found.push(DeclarationMistake { file: None, key, why: why.into() });
    }
}

/// Every mistake in the settings of the server of this name; each names its key, such as `mcp.files.url`.
pub fn check_mcp_server(name: &str, config: &McpServerConfig) -> Vec<DeclarationMistake> {
    let shown: String = name.chars().take(80).collect();
    let mut mistakes = McpMistakes { server: &shown, found: Vec::new() };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let max = limits::MCP_NAME_MAX_CHARS;
    if !(1..=max).contains(&name.len()) || !name.bytes().all(plain) {
        let why =
            format!("wanted a server's name of 1 to {max} characters from a-z, 0-9 and `-`, got `{shown}`");
        mistakes.add("", why);
    }
    match (&config.command, &config.url) {
        (Some(_), Some(_)) => mistakes.add("url", "wanted either `command` or `url`, got both"),
        (None, None) => {
            mistakes.add("", "wanted `command` (a program on this machine) or `url` (streamable HTTP)")
        }
        (Some(command), None) => check_command(command, config, &mut mistakes),
        (None, Some(url)) => check_url(url, config, &mut mistakes),
    }
    for entry in &config.allow {
        if let Err(why) = entry.parse::<AllowedTarget>() {
            mistakes.add("allow", why);
        }
    }
    if let Some(patterns) = &config.tools {
        if patterns.is_empty() {
            mistakes.add("tools", "an empty list allows no tool\nhint: leave it out to allow all");
        }
        if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
            mistakes.add(
                "tools",
                "wanted names of tools, or patterns with `*` such as `read_*`, got an empty text",
            );
        }
    }
    check_bounds("", Some(config.timeout), Some(config.concurrency), &mut mistakes);
    for (tool, own) in &config.tool {
        let at = format!("tool.{tool}.");
        if !config.allows(tool) {
            mistakes.add(at.trim_end_matches('.'), "`tools` does not allow this tool, so this has no effect");
        }
        check_bounds(&at, own.timeout, own.concurrency, &mut mistakes);
    }
    mistakes.found
}

fn check_command(command: &[String], config: &McpServerConfig, mistakes: &mut McpMistakes<'_>) {
    let program = command.first().map(String::as_str).unwrap_or_default();
    if program.trim().is_empty() {
        mistakes.add(
            "command",
            "wanted a program and its arguments, such as `[\"npx\", \"-y\", \"some-server\"]`",
        );
    } else if program.contains('/') && !program.starts_with('/') {
        // A server runs in a directory of its own.
        mistakes.add("command", format!("wanted a program's name or its whole path, got `{program}`"));
    }
    if command.iter().any(|part| part.contains('\0')) {
        mistakes.add("command", "a program cannot be given the character U+0000");
    }
    for path in config.write.iter().filter(|path| !path.is_absolute()) {
        let why = format!("wanted the whole path of a file or folder, got `{}`", path.display());
        mistakes.add("write", why);
    }
    for (name, value) in &config.env {
        let key = format!("env.{name}");
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
            mistakes.add(&key, "wanted a variable's name from a-z, A-Z, 0-9 and `_`");
        }
        if value.contains('\0') {
            mistakes.add(&key, "a variable cannot contain the character U+0000");
        }
        check_template(&key, value, mistakes);
    }
    if !config.headers.is_empty() {
        mistakes.add("headers", "only a server with `url` is sent headers\nhint: use `env`");
    }
    if !config.allow.is_empty() {
        mistakes.add("allow", "only for `url`: what a program on this machine reaches is not checked");
    }
}

fn check_url(url: &str, config: &McpServerConfig, mistakes: &mut McpMistakes<'_>) {
    if let Err(error) = Outgoing::new(Method::POST, url) {
        mistakes.add("url", error.to_string());
    }
    let mut seen = BTreeSet::new();
    for (name, value) in &config.headers {
        let key = format!("headers.{name}");
        let lower = name.to_ascii_lowercase();
        if HeaderName::try_from(name.as_str()).is_err() {
            mistakes.add(&key, "this is no name of a header");
        } else if is_reserved(&lower) || OF_PROTOCOL.contains(&lower.as_str()) {
            mistakes.add(&key, "this header is set by the connection itself\nhint: leave it out");
        }
        if value.contains(|c: char| c.is_ascii_control()) {
            mistakes.add(&key, "the value has characters that no header may have, such as a line break");
        }
        if !seen.insert(lower) {
            mistakes.add(&key, "this header is given twice");
        }
        check_template(&key, value, mistakes);
    }
    if !config.write.is_empty() {
        mistakes.add("write", "only a server with `command` writes files on this machine");
    }
    if !config.env.is_empty() {
        mistakes.add("env", "only a server with `command` has variables\nhint: use `headers`");
    }
}

fn check_template(key: &str, value: &str, mistakes: &mut McpMistakes<'_>) {
    if let Err(why) = template::check(value, Slot::Value, &BTreeSet::new()) {
        mistakes.add(key, why);
    }
}

fn check_bounds(
    at: &str,
    timeout: Option<Duration>,
    concurrency: Option<u32>,
    mistakes: &mut McpMistakes<'_>,
) {
    let range = Duration::from_millis(limits::TOOL_TIMEOUT_MIN_MS)..=Duration::from_millis(limits::LATE_MS);
    if let Some(timeout) = timeout.filter(|timeout| !range.contains(timeout)) {
        let (least, most) = range.into_inner();
        mistakes.add(&format!("{at}timeout"), format!("wanted {least:?} to {most:?}, got {timeout:?}"));
    }
    let max = limits::TOOL_CONCURRENCY_MAX;
    if let Some(count) = concurrency.filter(|count| !(1..=max).contains(count)) {
        mistakes.add(&format!("{at}concurrency"), format!("wanted 1 to {max} calls at once, got {count}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: &str, text: &str) -> Vec<String> {
        let config: McpServerConfig = toml::from_str(text).unwrap();
        check_mcp_server(name, &config).into_iter().map(|mistake| mistake.to_string()).collect()
    }

    #[test]
    fn settings_that_name_one_server_are_right() {
        assert_eq!(
            wrong("files", "command = [\"/usr/bin/server\", \"../x\"]\nenv.A = 'x'"),
            Vec::<String>::new()
        );
        let text = "url = 'https://a.example/mcp'\nallow = ['10.0.0.0/8']\n\
                    headers.authorization = \"Bearer {{ secret('k') }}\"";
        assert_eq!(wrong("a-1b", text), Vec::<String>::new());
    }

    #[test]
    fn every_mistake_is_named_with_its_key() {
        for text in ["effect = 'unsave'", "[tool.t]\neffect = 'unsave'"] {
            let why = toml::from_str::<McpServerConfig>(text).unwrap_err().to_string();
            assert!(why.contains("got `unsave`; did you mean `unsafe`?") && !why.contains("inward"), "{why}");
        }
        let check = |name: &str, text: &str, wanted: &[&str]| {
            let found = wrong(name, text);
            assert_eq!(found.len(), wanted.len(), "{text}: {found:#?}");
            for (found, wanted) in found.iter().zip(wanted) {
                assert!(found.contains(wanted), "{text}: wanted `{wanted}` in `{found}`");
            }
        };
        check("x", "", &["`mcp.x`: wanted `command`"]);
        check("x", "command = ['a']\nurl = 'https://a.example'", &["`mcp.x.url`: wanted either"]);
        check("", "command = ['a']", &["wanted a server's name of 1 to 32"]);
        check("Big", "command = ['a']", &["got `Big`"]);
        check(&"x".repeat(33), "command = ['a']", &["1 to 32"]);
        check("x", "command = []", &["`mcp.x.command`: wanted a program"]);
        check("x", "command = ['./a']", &["got `./a`"]);
        check("x", "url = 'file:///etc/passwd'", &["`mcp.x.url`: wanted an `http`"]);
        check("x", "url = 'https://me:pw@a.example'", &["put credentials into a header"]);
        check(
            "x",
            "url = 'https://a.example'\nallow = ['http://b']\nenv.A = '1'\ntools = []\n\
             timeout = '1ms'\nconcurrency = 0\n[headers]\nhost = 'b'\nMcp-Session-Id = '1'\nx = '{{ secret( }}'\n\
             y = '{{ other }}'\n[tool.t]\ntimeout = '2h'",
            &[
                "`mcp.x.headers.Mcp-Session-Id`: this header is set",
                "`mcp.x.headers.host`: this header is set",
                "`mcp.x.headers.x`: this is no valid template",
                "`mcp.x.headers.y`: `other` is no argument",
                "`mcp.x.env`: only a server with `command`",
                "`mcp.x.allow`: wanted a host name",
                "`mcp.x.tools`: an empty list",
                "`mcp.x.timeout`: wanted 100ms to 900s, got 1ms",
                "`mcp.x.concurrency`: wanted 1 to 256",
                "`mcp.x.tool.t`: `tools` does not allow",
                "`mcp.x.tool.t.timeout`: wanted",
            ],
        );
        check(
            "x",
            "command = ['a']\nheaders.x = '1'\nallow = ['b']\nenv.1A = 'b'",
            &["`mcp.x.env.1A`: wanted a variable", "`mcp.x.headers`: only", "`mcp.x.allow`: only for `url`"],
        );
    }
}
