//! Earlier names of commands, and names under which they are looked for. They are hidden and work, because scripts and habits have
//! them: each is read as the command that has its place.

use std::ffi::OsString;

/// An earlier name, and the words in its place. The longest one that fits counts.
const RENAMED: &[(&[&str], &[&str])] = &[
    (&["event"], &["events", "send"]),
    (&["cancel"], &["events", "cancel"]),
    (&["show", "inbox"], &["events", "list"]),
    (&["show", "run"], &["runs", "show"]),
    (&["show", "context"], &["agents", "context"]),
    (&["show", "agent"], &["agents", "show"]),
    (&["show"], &["agents", "show"]),
    (&["recall"], &["agents", "recall"]),
    (&["alerts"], &["agents", "alerts"]),
    (&["dead", "show"], &["events", "show"]),
    (&["dead", "retry"], &["events", "retry"]),
    (&["dead", "drop"], &["events", "drop"]),
    (&["dead"], &["events", "list", "--state", "dead"]),
    (&["guard", "clear"], &["agents", "clear-guard"]),
    (&["guard"], &["agents", "clear-guard"]),
    (&["export", "agent"], &["agents", "export"]),
    (&["import", "agent"], &["agents", "import"]),
    (&["export"], &["agents", "export"]),
    (&["import"], &["agents", "import"]),
    (&["index", "rebuild"], &["verify", "--rebuild-index"]),
    (&["index"], &["verify", "--rebuild-index"]),
    (&["tail"], &["watch", "--lines"]),
];

/// Options that have a value as the next word.
const WITH_VALUE: [&str; 2] = ["--data-dir", "--config"];
/// Verbs of `viv memories`, which once came after the agent.
const MEMORIES: [&str; 4] = ["list", "set", "remove", "rm"];

/// The line with the present names, and `viv help COMMAND` as `viv COMMAND --help`.
pub(crate) fn renamed(mut line: Vec<OsString>) -> Vec<OsString> {
    if let Some(&at) = words(&line).first().filter(|at| line[**at] == "help") {
        line.remove(at);
        line.push("--help".into());
    }
    let at = words(&line);
    let is = |index: usize, wanted: &str| at.get(index).is_some_and(|at| line[*at] == wanted);
    let fits = |old: &[&str]| old.iter().enumerate().all(|(index, word)| is(index, word));
    let found = RENAMED.iter().filter(|(old, _)| fits(old)).max_by_key(|(old, _)| old.len());
    if let Some((old, new)) = found {
        if old == &["tail"] {
            line.iter_mut().filter(|word| *word == "--lines").for_each(|word| *word = "--history".into());
        }
        for at in at[1..old.len()].iter().rev() {
            line.remove(*at);
        }
        line.splice(at[0]..=at[0], new.iter().map(OsString::from));
    } else if let &[first, agent, verb, ..] = at.as_slice()
        && line[first] == "memories"
        && !MEMORIES.iter().any(|known| line[agent] == *known)
        && MEMORIES.iter().any(|known| line[verb] == *known)
    {
        line.swap(agent, verb);
    }
    line
}

/// Where the words are that are no options.
fn words(line: &[OsString]) -> Vec<usize> {
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let is_value = |at: usize| WITH_VALUE.iter().any(|option| line[at - 1] == *option);
    (1..line.len()).filter(|at| !is_option(&line[*at]) && !is_value(*at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let line = renamed(line.split(' ').map(OsString::from).collect());
        let asks_for_help = line.iter().any(|word| word == "--help");
        assert!(asks_for_help || super::super::command().try_get_matches_from(&line).is_ok(), "{line:?}");
        line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn earlier_names_are_read_as_the_present_ones() {
        for (old, new) in [
            ("viv event ada jira {}", "viv events send ada jira {}"),
            ("viv cancel e --agent ada", "viv events cancel e --agent ada"),
            ("viv events list ada --state dead", "viv events list ada --state dead"),
            ("viv show run ada", "viv runs show ada"),
            ("viv show context --layers ada", "viv agents context --layers ada"),
            ("viv show agent", "viv agents show"),
            ("viv show ada", "viv agents show ada"),
            ("viv recall ada show run", "viv agents recall ada show run"),
            ("viv alerts ada", "viv agents alerts ada"),
            ("viv dead", "viv events list --state dead"),
            ("viv dead ada", "viv events list --state dead ada"),
            ("viv dead show e", "viv events show e"),
            ("viv --data-dir dead dead retry e", "viv --data-dir dead events retry e"),
            ("viv dead --json drop e", "viv events drop --json e"),
            ("viv guard clear ada --yes", "viv agents clear-guard ada --yes"),
            ("viv export agent ada f", "viv agents export ada f"),
            ("viv import agent f --as b", "viv agents import f --as b"),
            ("viv index rebuild", "viv verify --rebuild-index"),
            ("viv tail -n 50 --no-follow", "viv watch --lines -n 50 --no-follow"),
            ("viv tail --lines 50 ada bob", "viv watch --lines --history 50 ada bob"),
            ("viv memories ada set city Rome", "viv memories set ada city Rome"),
            ("viv memories ada rm city", "viv memories rm ada city"),
            ("viv memories ada", "viv memories ada"),
            ("viv memories set ada rm Rome", "viv memories set ada rm Rome"),
            ("viv help dead retry", "viv events retry --help"),
            ("viv tools rm x", "viv tools rm x"),
            ("viv say event", "viv say event"),
        ] {
            assert_eq!(read(old), new, "{old}");
        }
    }

    #[test]
    fn every_earlier_name_leads_to_a_command() {
        for (old, new) in RENAMED {
            let root = super::super::command();
            let mut at = &root;
            for word in new.iter().filter(|word| !word.starts_with('-') && **word != "dead") {
                at = at.find_subcommand(word).unwrap_or_else(|| panic!("{old:?}: no {word}"));
            }
        }
    }
}
