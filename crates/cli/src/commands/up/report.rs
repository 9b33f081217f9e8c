//! Prints what happened to the agents of files, and logs what happens to the search index and what hooks lack.

use std::time::Duration;

use agent::limits;
use project::reconcile::{AgentNews, ChangedKey, ReconcileReport};
use runtime::Ports;
use scenario::report::around_difference;
use storage::sqlite::{Checked, Sqlite};

use crate::output::{Screen, Style, columns, shortened};

const DIFF_LINES: usize = 8;
/// Columns of a value in a difference if the terminal's width is unknown.
const COLUMNS: usize = 100;

pub(super) fn print(report: &ReconcileReport, screen: &Screen) {
    print_changes(report, screen);
    report.warnings.iter().for_each(|one| screen.warning(&one.to_string()));
    if !report.unchanged.is_empty() {
        let names = screen.clean_line(&report.unchanged.join(", "));
        screen.line(&format!("{}  {names}", screen.paint(Style::Dim, "unchanged")));
    }
}

/// Logs when the search index is built anew, when it fails, and when it works again.
pub(super) fn watch_index(store: &Sqlite) {
    let (indexed, mut failing) = (store.clone(), store.index_failing());
    tokio::spawn(async move {
        let why = indexed.index_rebuilding().await;
        tracing::warn!(
            "the search index is built anew: {why}; until it is complete, older texts may be missing"
        );
    });
    tokio::spawn(async move {
        let mut failed = false;
        loop {
            match failing.borrow_and_update().as_deref() {
                Some(why) => {
                    tracing::warn!("searches do not find what is new: the search index fails: {why}")
                }
                None if failed => tracing::info!("the search index works again"),
                None => {}
            }
            failed = true;
            if failing.changed().await.is_err() {
                return;
            }
        }
    });
}

/// Checks the store's file beside the work, and logs what is damaged in it.
pub(super) fn check_store(store: &Sqlite) {
    let store = store.clone();
    tokio::spawn(async move {
        let within = Duration::from_millis(limits::STORE_CHECK_MS);
        match store.check(within).await {
            Ok(Checked::Sound) => {}
            Ok(Checked::Damaged(what)) => tracing::error!(
                "the store's file is damaged: {what}; the server goes on with what can be read. `viv verify` lists what is wrong, \
                 `viv agents export` saves an agent that can be read, `viv restore` restores a backup"
            ),
            Ok(Checked::Unfinished) => tracing::info!(
                "the check of the store's file was not finished within {} s; `viv verify` checks all of it",
                within.as_secs()
            ),
            Err(error) => tracing::warn!("the store's file cannot be checked: {error}"),
        }
    });
}

/// Logs the secrets of hooks that cannot be used.
pub(super) async fn unready_hooks(ports: Ports) {
    for hook in ports.hook_book.hooks().await.unwrap_or_default() {
        for (secret, why) in ports.hooks.missing_secrets(&hook.declaration).await {
            let name = &hook.name;
            tracing::error!(
                "the secret `{secret}` of the hook `{name}` cannot be used: {why}; see `viv hooks show {name}`"
            );
        }
    }
}

pub(super) fn print_changes(report: &ReconcileReport, screen: &Screen) {
    let news = report.news();
    let widest = news.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in &news {
        headline(screen, one, widest);
        one.changes.iter().for_each(|change| difference(screen, change));
        for detail in &one.details {
            screen.wrapped(&format!("    {}", screen.clean_line(detail)), 6);
        }
    }
}

fn headline(screen: &Screen, one: &AgentNews<'_>, widest: usize) {
    let (verb, name) = (one.verb, one.name);
    let style = match verb {
        "created" => Style::Green,
        "retired" => Style::Red,
        _ => Style::Yellow,
    };
    let head = format!("{}  {}", screen.paint(style, &format!("{verb:9}")), screen.paint(Style::Bold, name));
    let rest = screen.clean_line(&one.what);
    let begun = 9 + 2 + widest + 2;
    let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(begun));
    if columns(&rest) <= room {
        screen.line(&format!("{head}{}  {rest}", " ".repeat(widest - name.len())));
    } else {
        screen.line(&head);
        screen.wrapped(&format!("    {rest}"), 4);
    }
}

fn difference(screen: &Screen, change: &ChangedKey) {
    let ChangedKey { key, old, new } = change;
    let max = screen.width.unwrap_or(COLUMNS).saturating_sub(8).max(16);
    if let Some(lines) = change.lines() {
        screen.line("    instructions:");
        for (i, (added, text)) in lines.iter().take(DIFF_LINES).enumerate() {
            let (style, lead) = if *added { (Style::Green, "+ ") } else { (Style::Red, "- ") };
            let other = if *added { i.checked_sub(1) } else { Some(i + 1) };
            let other = other.and_then(|i| lines.get(i)).filter(|(side, _)| side != added);
            let ([text, _], _) = around_difference([text, other.map_or("", |(_, text)| *text)], max);
            let line = shortened(&format!("{lead}{}", screen.clean_line(&text)), max);
            screen.line(&format!("      {}", screen.paint(style, &line)));
        }
        if lines.len() > DIFF_LINES {
            screen.line(&format!("      and {} more lines", lines.len() - DIFF_LINES));
        }
        return;
    }
    let line = screen.clean_line(&format!("{key}: {old} -> {new}"));
    screen.line(&format!("    {}", shortened(&line, max)));
}
