//! The tools and models that a config names. Only a server knows whether they exist; this module collects every
//! name, whatever key it is under.

use super::{AgentConfig, Gates, nearest};
use crate::call::Effect;
use crate::tool::{is_named, names};

/// Tools that a hint about `approve` names at most.
const ASKABLE_NAMED: usize = 20;

impl AgentConfig {
    /// Every tool that the config names, with the key that names it.
    pub fn named_tools(&self) -> Vec<(&'static str, &str)> {
        let mut named: Vec<(&'static str, &str)> = Vec::new();
        named.extend(self.tools.iter().flatten().map(|tool| ("tools", tool.as_str())));
        named.extend(self.approve.iter().map(|tool| ("approve", tool.as_str())));
        named.extend(self.stop.on_tools.iter().map(|tool| ("stop.on_tools", tool.as_str())));
        if let Gates::List(gates) = &self.gates {
            let active = gates.iter().flat_map(|gate| gate.active_tools.iter().flatten());
            named.extend(active.map(|tool| ("gates", tool.as_str())));
        }
        named
    }

    /// Every model that the config names, with the key that names it.
    pub fn named_models(&self) -> Vec<(&'static str, &str)> {
        let mut named: Vec<(&'static str, &str)> = Vec::new();
        named.extend(self.model.iter().map(|model| ("model", model.as_str())));
        named.extend(self.routing.iter().map(|route| ("routing", route.model.as_str())));
        named.extend(self.fallback.iter().map(|model| ("fallback", model.as_str())));
        let summary = self.history.summary_model.iter();
        named.extend(summary.map(|model| ("history.summary_model", model.as_str())));
        named
    }

    /// Entries that name tools of an MCP server, and no tool that is known now, each as key and message.
    pub fn unmatched_servers(&self, known: &[String]) -> Vec<(&'static str, String)> {
        let of_servers = self.named_tools().into_iter().filter(|(key, tool)| is_of_server(key, tool));
        let unmatched = of_servers.filter(|(_, tool)| !known.iter().any(|name| is_named(tool, name)));
        let message = |(key, tool): (&'static str, &str)| {
            let server = tool.split(':').next().unwrap_or_default();
            let so =
                if key == "tools" { "so the agent has none of it" } else { "so nobody is asked about one" };
            let what = format!(
                "`{key}`: no approved tool matches `{tool}`, {so}; is the MCP server `{server}` in the \
                 settings? `viv mcp approve {server}` approves what it offers"
            );
            (key, what)
        };
        unmatched.map(message).collect()
    }

    /// All entries that name tools of which none is known now, each as a message: also of tools that went after the config was
    /// checked.
    pub fn unmatched_tools(&self, known: &[String]) -> Vec<String> {
        let unknown = self.unknown_tools(known).into_iter().map(|(_, what, _)| what);
        unknown.chain(self.unmatched_servers(known).into_iter().map(|(_, what)| what)).collect()
    }

    /// The unknown tools among [`AgentConfig::named_tools`], each as key, message and hint.
    pub fn unknown_tools(&self, known: &[String]) -> Vec<(&'static str, String, String)> {
        let unknown = self.named_tools().into_iter().filter(|(key, tool)| {
            let pattern = matches!(*key, "tools" | "approve");
            let names = |name: &String| if pattern { is_named(tool, name) } else { name == tool };
            !is_of_server(key, tool) && !known.iter().any(names)
        });
        let mut found: Vec<(&'static str, String, String)> = Vec::new();
        for (key, tool) in unknown {
            let hint = match nearest(tool, known.iter().map(String::as_str)) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known are `{}`", known.join("`, `")),
            };
            let what = match tool.contains('*') {
                true => format!("`{key}`: no tool matches `{tool}`"),
                false => format!("`{key}`: there is no tool `{tool}`"),
            };
            if !found.iter().any(|(_, before, _)| *before == what) {
                found.push((key, what, hint));
            }
        }
        found
    }
}

impl AgentConfig {
    /// The first entry of `approve` that names only tools whose calls nobody is ever asked to approve, as message and hint.
    /// `effect` is what a known tool does.
    pub fn never_asked(
        &self,
        known: &[String],
        effect: impl Fn(&str) -> Option<Effect>,
    ) -> Option<(String, String)> {
        let asked =
            |name: &&String| name.as_str() != names::ASK_PERSON && effect(name) != Some(Effect::Inward);
        let in_vain = |entry: &&String| {
            let mut named = known.iter().filter(|name| is_named(entry, name)).peekable();
            named.peek().is_some() && !named.any(|name| asked(&name))
        };
        let entry = self.approve.iter().find(in_vain)?;
        let what = format!(
            "`approve`: nobody is asked about calls of `{entry}`: they reach nothing outside, or ask a person themselves"
        );
        let mut can: Vec<&str> = known.iter().filter(asked).map(String::as_str).collect();
        let more = if can.len() > ASKABLE_NAMED { " and more" } else { "" };
        can.truncate(ASKABLE_NAMED);
        let hint = match can.is_empty() {
            true => "this server has no tool that can be asked for; leave it out".to_owned(),
            false => format!("tools that can be asked for: `{}`{more}", can.join("`, `")),
        };
        Some((what, hint))
    }
}

/// Whether the entry names tools of an MCP server, as `github:*`. What a server offers may be approved later.
fn is_of_server(key: &str, tool: &str) -> bool {
    matches!(key, "tools" | "approve") && tool.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn approve_takes_patterns_and_refuses_what_is_never_asked_for() {
        let known = ["send_message", "ask_person", "fetch_page", "web__send"].map(str::to_owned);
        let effect =
            |name: &str| Some(if name == "send_message" { Effect::Inward } else { Effect::ReadOnly });
        for (entry, unknown, in_vain) in [
            ("fetch_page", false, false),
            ("fetch_*", false, false),
            ("*", false, false),
            ("web:*", false, false),
            ("other:*", false, false),
            ("send_message", false, true),
            ("send_*", false, true),
            ("ask_person", false, true),
            ("nothing*", true, false),
        ] {
            let config = AgentConfig::from_json(&json!({"approve": [entry]})).unwrap();
            assert_eq!(!config.unknown_tools(&known).is_empty(), unknown, "{entry}");
            let found = config.never_asked(&known, effect);
            assert_eq!(found.is_some(), in_vain, "{entry}: {found:?}");
            if let Some((what, hint)) = found {
                assert!(
                    what.contains(&format!("`{entry}`")) && hint.contains("`fetch_page`"),
                    "{what}; {hint}"
                );
            }
        }
        let none = AgentConfig::from_json(&json!({"approve": ["send_message"]})).unwrap();
        assert!(none.never_asked(&known[..1], effect).unwrap().1.contains("no tool that can be asked for"));
    }

    #[test]
    fn tools_and_models_are_collected_from_every_key_that_names_them() {
        let config = AgentConfig::from_json(&json!({
            "tools": ["look", "done", "send_message"], "stop": {"on_tools": ["done"]},
            "gates": [{"from": 0, "to": 1, "active_tools": ["look"]}, {"from": 2}],
            "model": "a/a", "routing": [{"from": 1, "model": "b/b"}], "fallback": ["c/c"],
        }))
        .unwrap();
        let tools = config.named_tools();
        assert_eq!(tools[3..], [("stop.on_tools", "done"), ("gates", "look")]);
        assert_eq!(config.named_models(), [("model", "a/a"), ("routing", "b/b"), ("fallback", "c/c")]);
        let known = ["done", "send_message", "lock"].map(str::to_owned);
        let unknown = config.unknown_tools(&known);
        assert_eq!(unknown.iter().map(|(key, ..)| *key).collect::<Vec<_>>(), ["tools", "gates"]);
        assert_eq!(unknown[1].1, "`gates`: there is no tool `look`");
        assert_eq!(unknown[1].2, "did you mean `lock`?");
        let config = AgentConfig::from_json(&json!({"tools": ["git:*", "web:get", "lo*", "x*"]})).unwrap();
        let known = ["web__get", "lock"].map(str::to_owned);
        let [(key, what)] = &config.unmatched_servers(&known)[..] else { panic!("wanted one") };
        assert!(*key == "tools" && what.contains("matches `git:*`, so the agent has none"), "{what}");
        assert_eq!(config.unmatched_tools(&known)[0], "`tools`: no tool matches `x*`");
        let unknown = config.unknown_tools(&known);
        assert_eq!(unknown.len(), 1);
        assert_eq!(unknown[0].1, "`tools`: no tool matches `x*`");
    }
}
