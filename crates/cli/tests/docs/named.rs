//! Commands within sentences are not run: only their names and flags are checked against `--help`.

use std::process::Command;

use crate::root;

const NO_COMMAND: &str = "there is no such command";

/// Everything between two backticks outside fenced blocks, with single spaces.
fn named(text: &str) -> Vec<String> {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let codes = text.split('`').skip(1).step_by(2);
    codes.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// What is wrong with a command such as `viv up --prune`, if anything.
fn flaw(code: &str) -> Option<String> {
    // A variable may precede it.
    let (_, line) =
        code.split_once("viv ").filter(|(before, _)| before.is_empty() || before.ends_with(' '))?;
    let words: Vec<&str> = line.split(' ').collect();
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let flags: Vec<&str> = flags.map(|flag| flag.split(['=', ',']).next().unwrap_or(flag)).collect();
    let plain = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
    let path: Vec<&str> = words.iter().take_while(plain).copied().collect();
    let help = (0..=path.len()).rev().find_map(|max| {
        let help = Command::new(env!("CARGO_BIN_EXE_viv")).args(&path[..max]).arg("--help").output().unwrap();
        (help.status.success() && (max > 0 || path.is_empty())).then_some(help)
    });
    let Some(help) = help else { return Some(format!("`{code}`: {NO_COMMAND}")) };
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let unknown = flags.into_iter().find(|flag| !help.contains(flag))?;
    Some(format!("`{code}`: there is no {unknown}"))
}

#[test]
fn every_command_named_in_a_sentence_exists_with_its_flags() {
    let mut pages = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    pages.extend(crate::docs().into_iter().map(|page| root().join(page)));
    let mut flaws = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for page in pages {
        // The changelog may name commands that no longer exist.
        let history = page.ends_with("CHANGELOG.md");
        for code in named(&std::fs::read_to_string(&page).unwrap()) {
            if seen.insert(code.clone())
                && let Some(flaw) = flaw(&code)
                && !(history && flaw.ends_with(NO_COMMAND))
            {
                flaws.push(format!("{}: {flaw}", page.display()));
            }
        }
    }
    assert!(flaws.is_empty(), "{flaws:#?}");
}

#[test]
fn an_unknown_command_or_flag_is_found() {
    assert_eq!(flaw("viv up --log x"), Some("`viv up --log x`: there is no --log".to_owned()));
    assert_eq!(flaw("viv fly"), Some("`viv fly`: there is no such command".to_owned()));
    for good in ["viv up --prune", "VIV_LOG=info viv up", "viv dead retry EVENT", "viv --help", "vivarium"] {
        assert_eq!(flaw(good), None, "{good}");
    }
}
