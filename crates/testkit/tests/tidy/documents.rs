//! The pages for people: the commands and links on them exist.

use std::collections::BTreeSet;

use crate::report::Report;
use crate::tree;

const README: &str = "README.md";
const README_LINES: usize = 200;

#[test]
fn the_readme_is_not_too_long() {
    let mut report = Report::default();
    let lines = tree::read(README).lines().count();
    if lines > README_LINES {
        report.add(README, format!("{lines} lines, wanted at most {README_LINES}: move the rest into docs/"));
    }
    report.finish();
}

#[test]
fn every_command_that_a_page_names_exists() {
    let mut report = Report::default();
    let targets = make_targets();
    let commands = viv_commands();
    for page in [README, "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        for (index, line) in tree::read(page).lines().enumerate() {
            let place = format!("{page}:{}", index + 1);
            for word in words_after(line, "make ") {
                if !targets.contains(&word) {
                    report.add(&place, format!("`make {word}` is not a target of the Makefile"));
                }
            }
            for word in words_after(line, "viv ") {
                if !commands.contains(&word) {
                    report
                        .add(&place, format!("`viv {word}` is not a command in crates/cli/src/args/mod.rs"));
                }
            }
        }
    }
    report.finish();
}

#[test]
fn the_changelog_has_a_section_for_unreleased_changes() {
    let mut report = Report::default();
    let changelog = tree::read("CHANGELOG.md");
    let changes = section(&changelog, "## [Unreleased]");
    if !changes.iter().any(|(_, line)| line.starts_with("- ")) {
        report.add(
            "CHANGELOG.md",
            "the section `## [Unreleased]` is missing or empty: a change of behaviour adds its line there",
        );
    }
    report.finish();
}

#[test]
fn every_link_on_a_page_leads_to_a_file() {
    let mut report = Report::default();
    for file in tree::text_files().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in file.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = link.split('#').next().unwrap_or_default();
                let elsewhere = target.is_empty() || target.contains("://");
                if !elsewhere && !tree::root().join(folder).join(target).exists() {
                    report.add(
                        format!("{}:{}", file.path, index + 1),
                        format!("the link `{link}` leads nowhere"),
                    );
                }
            }
        }
    }
    report.finish();
}

#[test]
fn no_line_cites_a_page_outside_the_repository() {
    let mut report = Report::default();
    for file in tree::text_files() {
        for (index, line) in file.text.lines().enumerate() {
            let missing = pages(line).find(|page| !tree::root().join(page).is_file());
            // References to numbered sections and notes point outside the repository.
            let numbers = ["\u{a7}", "seed\u{20}0", "Seed\u{20}0"];
            if let Some(cited) = missing.or_else(|| numbers.into_iter().find(|mark| line.contains(mark))) {
                let message = format!("`{cited}` is not part of the repository: give the reason instead");
                report.add(format!("{}:{}", file.path, index + 1), message);
            }
        }
    }
    report.finish();
}

/// Pages that the line names: those in the root, which have names in capitals, and those in `docs/`.
fn pages(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "./-_".contains(c)));
    words.filter(|word| {
        let stem = word.strip_suffix(".md").unwrap_or_default();
        let capitals = !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_uppercase());
        capitals || stem.starts_with("docs/")
    })
}

/// The numbered lines of a section: from its heading to the next heading of the same or a higher level.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> Vec<(usize, &'a str)> {
    let rank = heading.chars().take_while(|c| *c == '#').count();
    let mut lines = page.lines().enumerate().map(|(index, line)| (index + 1, line));
    if !lines.any(|(_, line)| line == heading) {
        return Vec::new();
    }
    let ends = |line: &str| {
        let hashes = line.chars().take_while(|c| *c == '#').count();
        (1..=rank).contains(&hashes) && line[hashes..].starts_with(' ')
    };
    lines.take_while(|(_, line)| !ends(line)).collect()
}

/// All texts in backticks.
pub(crate) fn in_backticks(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The words after `command` where it starts a command, in backticks or at the start of a line.
fn words_after(line: &str, command: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(command) {
        let before = &line[..at];
        let begins =
            before.is_empty() || before.ends_with('`') || before.ends_with("$ ") || before.ends_with("&& ");
        let word: String =
            line[at + command.len()..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        if begins && !word.is_empty() && !word.starts_with('-') {
            found.push(word);
        }
    }
    found
}

fn make_targets() -> BTreeSet<String> {
    let makefile = tree::read("Makefile");
    let names = makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    names.filter(|name| !name.is_empty() && !name.contains([' ', '\t', '#'])).map(str::to_owned).collect()
}

/// The variants of clap's `Command`, as users type them.
fn viv_commands() -> BTreeSet<String> {
    let args = tree::read("crates/cli/src/args/mod.rs");
    let inside = args.lines().skip_while(|line| !line.contains("enum Command {")).skip(1);
    let variants = inside.take_while(|line| *line != "}").map(str::trim);
    let names = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    names
        .map(|line| line.chars().take_while(char::is_ascii_alphanumeric).collect::<String>().to_lowercase())
        .collect()
}
