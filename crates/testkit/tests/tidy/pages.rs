//! The pages for people: the commands, links, pages and tests that they name exist.

use std::collections::BTreeSet;

use crate::none;
use crate::tree;

const README: &str = "README.md";
const README_LINES: usize = 200;
/// The page whose tables name the tests of each scenario, and how many scenarios have a row at least.
const TESTED: &str = "docs/reliability.md";
const SCENARIOS: usize = 35;

#[test]
fn the_readme_is_not_too_long() {
    let lines = tree::read(README).lines().count();
    assert!(
        lines <= README_LINES,
        "{README}: {lines} lines, wanted at most {README_LINES}: move the rest into docs/"
    );
}

#[test]
fn every_command_that_a_page_names_exists() {
    let (makefile, args) = (tree::read("Makefile"), tree::read("crates/cli/src/args/mod.rs"));
    let targets =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned()).collect();
    // The variants of clap's `Command`, as users type them.
    let variants =
        args.lines().skip_while(|line| !line.contains("enum Command {")).take_while(|line| *line != "}");
    let name = |line: &str| line.trim().chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    let commands: BTreeSet<String> = variants.map(name).map(|name| name.to_lowercase()).collect();
    let mut found = Vec::new();
    for page in [README, "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        for (number, line) in (1..).zip(tree::read(page).lines()) {
            for (program, known) in [("make ", &targets), ("viv ", &commands)] {
                let unknown = words_after(line, program).filter(|word| !known.contains(word));
                found.extend(unknown.map(|word| format!("{page}:{number}: there is no `{program}{word}`")));
            }
        }
    }
    none(found);
}

/// The words after `command` where it starts a command, in backticks or at the start of a line.
fn words_after<'a>(line: &'a str, command: &'a str) -> impl Iterator<Item = String> + 'a {
    let begins =
        |before: &str| before.is_empty() || ["`", "$ ", "&& "].iter().any(|mark| before.ends_with(mark));
    let ats = line.match_indices(command).filter(move |(at, _)| begins(&line[..*at]));
    let word =
        |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect::<String>();
    ats.map(move |(at, _)| word(&line[at + command.len()..]))
        .filter(|word| !word.is_empty() && !word.starts_with('-'))
}

#[test]
fn the_changelog_has_a_section_for_unreleased_changes() {
    let changelog = tree::read("CHANGELOG.md");
    let changes = section(&changelog, "## [Unreleased]");
    assert!(
        changes.iter().any(|(_, line)| line.starts_with("- ")),
        "a change of behaviour adds its line there"
    );
}

#[test]
fn every_link_on_a_page_leads_to_a_file() {
    let mut found = Vec::new();
    for file in tree::text_files().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in (1..).zip(file.text.lines()) {
            let links = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            let lost =
                links.filter(|link| !link.contains("://") && !tree::root().join(folder).join(link).exists());
            found.extend(lost.map(|link| format!("{}:{number}: the link `{link}` leads nowhere", file.path)));
        }
    }
    none(found);
}

#[test]
fn no_line_cites_a_page_outside_the_repository() {
    let mut found = Vec::new();
    for file in tree::text_files() {
        for (number, line) in (1..).zip(file.text.lines()) {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "./-_".contains(c)));
            // Pages in the root have names in capitals.
            let page = |word: &&str| {
                let stem = word.strip_suffix(".md").unwrap_or_default();
                !stem.is_empty()
                    && (stem.starts_with("docs/") || stem.bytes().all(|byte| byte.is_ascii_uppercase()))
            };
            if let Some(cited) =
                words.into_iter().filter(page).find(|page| !tree::root().join(page).is_file())
            {
                found.push(format!(
                    "{}:{number}: `{cited}` is not part of the repository: give the reason",
                    file.path
                ));
            }
        }
    }
    none(found);
}

#[test]
fn every_scenario_has_a_row_and_every_test_that_a_row_names_exists() {
    let (page, mut found) = (tree::read(TESTED), Vec::new());
    let mut rows = 0;
    for (number, line) in section(&page, "## Scenarios") {
        let cells: Vec<&str> = line.split('|').collect();
        if cells.get(1).is_some_and(|cell| cell.trim().parse::<u32>().is_ok()) {
            rows += 1;
            let shown = cells.get(4).copied().unwrap_or_default();
            if !["::", "loop", "the same", "nothing yet"].iter().any(|words| shown.contains(words)) {
                found.push(format!(
                    "{TESTED}:{number}: the row names no test: name one, or say `nothing yet`"
                ));
            }
        }
    }
    assert!(rows >= SCENARIOS, "{TESTED}: {rows} scenarios have a row, wanted {SCENARIOS}");
    for (number, line) in
        [section(&page, "## Scenarios"), section(&page, "## Bad files and directories")].concat()
    {
        for (path, name) in in_backticks(line).filter_map(|named| named.split_once("::")) {
            if !tree::root().join(path).is_file() || !tree::read(path).contains(&format!("fn {name}(")) {
                found.push(format!("{TESTED}:{number}: there is no test `{name}` in `{path}`"));
            }
        }
    }
    none(found);
}

/// The numbered lines of a section: from its heading to the next heading of the same or a higher level.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> Vec<(usize, &'a str)> {
    let rank = |line: &str| line.chars().take_while(|c| *c == '#').count();
    let mut lines = (1..).zip(page.lines());
    if !lines.any(|(_, line)| line.starts_with(heading)) {
        return Vec::new();
    }
    lines.take_while(|(_, line)| !(1..=rank(heading)).contains(&rank(line))).collect()
}

/// All texts in backticks.
pub(crate) fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
