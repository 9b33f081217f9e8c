//! What help pages show in addition to options: the commands in groups, and an example for each.

use std::ffi::OsString;

use clap::builder::Styles;
use clap::{Command, CommandFactory, FromArgMatches};

use super::Cli;

/// What `viv` alone prints.
pub(crate) const WELCOME: &str = "\
viv: a runtime for living agents

  viv up        start a server here; without a key it uses the demo model
  viv chat      talk to the agent, in a second terminal
  viv doctor    find out what is wrong

`viv --help` lists everything, `viv COMMAND --help` explains one.";

/// The commands by purpose.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["init", "up", "stop", "logs", "doctor", "models", "config"]),
    ("Talk", &["chat", "say"]),
    ("Observe", &["ps", "runs", "watch", "top"]),
    (
        "Manage",
        &[
            "agents",
            "memories",
            "plans",
            "events",
            "approvals",
            "tools",
            "mcp",
            "hooks",
            "targets",
            "secrets",
            "spaces",
            "entities",
            "keys",
        ],
    ),
    ("Data", &["backup", "restore", "verify"]),
    ("Test", &["scenario"]),
];

/// An example for each command that its usage line alone does not explain, by its path.
const EXAMPLES: &[(&[&str], &str)] = &[
    (&["up"], "viv up --model openai/gpt-5-mini\n  viv up -d --model ollama/qwen3 --listen 127.0.0.1:0"),
    (&["logs"], "viv logs -f"),
    (&["chat"], "viv chat --agent ada"),
    (&["say"], "viv say --wait \"what do you remember?\"\n  git log -3 | viv say --wait -"),
    (&["ps"], "viv ps --json"),
    (&["runs"], "viv runs\n  viv runs ada -n 50"),
    (&["runs", "show"], "viv runs show\n  viv runs show ada --json"),
    (&["events"], "viv events ada --state waiting\n  viv events --state dead"),
    (&["events", "list"], "viv events list ada --state waiting"),
    (&["agents", "context"], "viv agents context ada --layers\n  viv agents context ada --all"),
    (&["doctor"], "viv doctor --model anthropic/claude-sonnet-5-5"),
    (&["agents"], "viv agents --state suspended"),
    (&["agents", "create"], "viv agents create bob -f bob.txt --space home"),
    (&["agents", "clone"], "viv agents clone bob bob-2 --memories"),
    (&["agents", "set"], "viv agents set bob model=openai/gpt-5 limits.max_steps=5"),
    (&["agents", "set-goal"], "viv agents set-goal bob \"keep the build green\" --priority 8"),
    (&["agents", "retire"], "viv agents retire bob --yes"),
    (&["memories"], "viv memories ada"),
    (&["memories", "set"], "viv memories set ada city Rome"),
    (&["approvals"], "viv approvals --agent ada"),
    (
        &["approvals", "answer"],
        "viv approvals answer CALL approve --reason \"in budget\"\n  \
         viv approvals answer CALL --text \"the blue one\"",
    ),
    (&["plans"], "viv plans\n  viv plans ada"),
    (
        &["plans", "add"],
        "viv plans add ada report \"post a summary\" --cron \"30 9 * * 1-5\" --zone Europe/Berlin\n  \
         viv plans add ada tea \"the tea is ready\" --after 4m",
    ),
    (&["plans", "next"], "viv plans next ada report -n 10"),
    (
        &["agents", "recall"],
        "viv agents recall ada boiler plumber\n  viv agents recall ada boiler --from 30d --space home --kind inbox",
    ),
    (&["tools"], "viv tools"),
    (&["tools", "add"], "viv tools add tools/weather.toml"),
    (&["tools", "try"], "viv tools try weather '{\"city\": \"Rome\"}'"),
    (&["tools", "import"], "viv tools import openapi.json --only getUser,listIssues --to tools"),
    (
        &["mcp", "add"],
        "viv mcp add files --labels private -- npx -y @modelcontextprotocol/server-filesystem /srv/docs",
    ),
    (&["mcp", "approve"], "viv mcp approve files"),
    (&["hooks"], "viv hooks"),
    (&["hooks", "add"], "viv hooks add ci --kind github --secret ci_hook --to ops"),
    (&["hooks", "send"], "viv hooks send ci"),
    (&["hooks", "log"], "viv hooks log ci"),
    (&["targets"], "viv targets"),
    (&["targets", "add"], "viv targets add board https://example.com/viv --space home --secret news"),
    (&["targets", "dead"], "viv targets dead board"),
    (&["targets", "retry"], "viv targets retry board"),
    (&["secrets", "set"], "printf %s \"$TOKEN\" | viv secrets set crm_token"),
    (&["agents", "clear-guard"], "viv agents clear-guard ada"),
    (&["agents", "export"], "viv agents export ada ada.jsonl"),
    (&["agents", "import"], "viv agents import ada.jsonl --as ada-2"),
    (&["events", "cancel"], "viv events cancel 0199a1b2-0000-7000-8000-000000000001 --agent ada"),
    (&["events", "show"], "viv events show 0199a1b2-0000-7000-8000-000000000001"),
    (&["events", "retry"], "viv events retry 0199a1b2-0000-7000-8000-000000000001 --agent ada"),
    (&["spaces"], "viv spaces --all"),
    (&["spaces", "open"], "viv spaces open garden --members owner,ada"),
    (&["spaces", "add"], "viv spaces add garden bob --role reviewer"),
    (&["spaces", "read"], "viv spaces read home --limit 5"),
    (&["entities"], "viv entities --kind human"),
    (&["entities", "add"], "viv entities add husam --display-name Husam"),
    (&["keys"], "viv keys"),
    (
        &["keys", "add"],
        "viv keys add person --entity husam --label laptop\n  viv keys add service:github --expires 90d\n  viv keys add worker:resize",
    ),
    (&["keys", "rotate"], "viv keys rotate 0199a1b2-0000-7000-8000-000000000001 --overlap 24h"),
    (&["keys", "admin"], "viv keys admin --reset --data-dir .viv"),
    (&["completions"], "viv completions bash > ~/.local/share/bash-completion/completions/viv"),
    (&["man"], "viv man | man -l -\n  viv man --dir ~/.local/share/man/man1"),
    (&["backup"], "viv backup backups/\n  viv backup before-the-upgrade.db"),
    (&["restore"], "viv restore before-the-upgrade.db --data-dir .viv-restored"),
    (&["verify"], "viv verify\n  viv verify before-the-upgrade.db --json\n  viv verify --rebuild-index"),
    (&["init"], "viv init my-agents"),
    (&["config"], "viv config show --origin"),
    (&["config", "show"], "viv config show --origin --listen 127.0.0.1:0"),
    (&["config", "keys"], "viv config keys --agent"),
    (&["events", "send"], "viv events send ops deploy '{\"ok\": false}'"),
    (&["models"], "viv models --provider anthropic"),
    (&["models", "try"], "viv models try llamacpp --base-url http://127.0.0.1:8080/v1"),
    (&["scenario"], "viv scenario run scenarios"),
    (
        &["scenario", "run"],
        "viv scenario run scenarios\n  viv scenario run scenarios --model ollama/qwen3 --repeat 5 --at-least 80%",
    ),
    (&["scenario", "check"], "viv scenario check scenarios"),
    (&["scenario", "record"], "viv scenario record ada --cycles 3 -o scenarios/ada.yaml"),
];

/// Reads the command line. The help pages are made only for a line that needs them: most starts show none.
pub(crate) fn read(line: &[OsString]) -> Result<Cli, clap::Error> {
    let plain = Cli::command().try_get_matches_from(line);
    let matches = plain.or_else(|_| command().try_get_matches_from(line))?;
    Cli::from_arg_matches(&matches)
}

/// The command line with its help pages.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    // Subcommands of subcommands exist only after the command is built.
    for (path, example) in EXAMPLES {
        command = with_example(command, path, example);
    }
    let template = template(&command);
    command.help_template(template)
}

fn with_example(command: Command, path: &[&str], example: &str) -> Command {
    let Some((name, rest)) = path.split_first() else {
        let has_example = command.get_after_help().is_some();
        return if has_example { command } else { command.after_help(format!("Example:\n  {example}")) };
    };
    if command.find_subcommand(name).is_none() {
        return command;
    }
    command.mut_subcommand(*name, |command| with_example(command, rest, example))
}

/// The page of `viv --help`: the commands in groups.
fn template(command: &Command) -> String {
    let heading = *Styles::styled().get_header();
    let widest = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups.push_str(&format!("{heading}{title}:{heading:#}\n"));
        for command in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            groups.push_str(&format!("  {:widest$}  {about}\n", command.get_name()));
        }
        groups.push('\n');
    }
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{heading}Global options:{heading:#}\n{{options}}{{after-help}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_help_page_lists_every_command_once() {
        let page = command().render_help().to_string();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let entry = format!("\n  {} ", command.get_name());
            assert_eq!(page.matches(&entry).count(), 1, "`{}` in {page}", command.get_name());
        }
        assert!(page.contains("Observe:\n  ps"), "{page}");
    }

    #[test]
    fn the_help_page_of_a_command_has_an_example_that_parses() {
        let mut command = command();
        command.build();
        let runs = command.find_subcommand_mut("runs").unwrap();
        assert!(
            runs.find_subcommand_mut("show")
                .unwrap()
                .render_help()
                .to_string()
                .contains("Example:\n  viv runs show")
        );
        for (path, example) in EXAMPLES {
            for line in example.lines().filter(|line| !line.contains('"')) {
                let line = line.split(['|', '>']).find(|part| part.contains("viv ")).unwrap();
                let words: Vec<&str> = line.split_whitespace().collect();
                assert!(super::command().try_get_matches_from(words).is_ok(), "{path:?}: {line}");
            }
        }
    }
}
