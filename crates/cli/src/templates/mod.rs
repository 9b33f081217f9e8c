//! The files of a new project. People keep and edit these examples, so their comments explain them.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    /// Its path, relative to the project's folder.
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
    /// What it is, in a few words.
    pub(crate) what: &'static str,
}

/// All files except [`GITIGNORE`].
pub(crate) const TEMPLATES: [Template; 4] = [
    template("vivarium.toml", include_str!("vivarium.toml"), "the server's settings, all optional"),
    template("agents/helper.md", include_str!("helper.md"), "an agent that people talk with"),
    template("agents/ops.md", include_str!("ops.md"), "an agent that services report to"),
    template("scenarios/first.yaml", include_str!("first.yaml"), "a scenario test of the helper"),
];

/// Keeps the data directory out of version control. Many projects have one already.
pub(crate) const GITIGNORE: Template =
    template(".gitignore", include_str!("gitignore"), "keeps the data out of git");

const fn template(path: &'static str, text: &'static str, what: &'static str) -> Template {
    Template { path, text, what }
}

/// The line that it must contain.
pub(crate) const IGNORED: &str = ".viv/";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys::KEYS;
    use crate::settings::tests::settings;

    #[test]
    fn the_settings_template_lists_exactly_the_known_keys() {
        let text = TEMPLATES[0].text;
        for key in KEYS {
            let name = key.name.trim_start_matches("model.");
            assert!(text.contains(&format!("# {name} = ")), "`{}` is missing", key.name);
        }
        let uncommented: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("# ").or(Some(line)))
            .filter(|line| {
                line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
            })
            .map(|line| format!("{line}\n"))
            .collect();
        let read = settings(&uncommented, ());
        assert_eq!(read.text("model.name"), "anthropic/claude-sonnet-5-5");
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let holds = read.get(key.name).value.to_string();
            let by_default = key.default_value().to_string();
            assert!(
                holds.trim_matches('"').ends_with(by_default.trim_matches('"')),
                "`{}`: {holds}",
                key.name
            );
        }
    }

    #[test]
    fn the_data_directory_is_ignored() {
        assert!(GITIGNORE.text.lines().any(|line| line == IGNORED));
    }
}
