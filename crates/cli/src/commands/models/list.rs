//! `viv models`: asks every provider with a key and every model server on this machine for its models, and
//! shows windows and prices if known.

use std::path::Path;

use agent::port::Price;
use api::ReadyJson;
use client::Client;
use futures_util::future::join_all;
use models::catalog::PROVIDERS;
use models::listing::{Offer, Reach, Survey, survey};
use serde_json::{Value, json};

use super::setup::{LIST_WAIT, Setup, provider};
use crate::args::{Global, ModelsArgs};
use crate::errors::{Exit, Failure, Result};
use crate::model::Chosen;
use crate::output::{Screen, Style, counted};
use crate::progress::Progress;

/// Models of a provider that are listed if the user did not name the provider.
const SHOWN_MAX: usize = 12;

pub(super) async fn run(global: &Global, screen: Screen, args: &ModelsArgs) -> Result<Exit> {
    let only = args.provider.as_deref().map(provider).transpose()?;
    let setup = Setup::load(global)?;
    let waiting = Progress::start(&screen, "asking providers and this machine");
    let chosen = setup.chosen().await;
    let models = chosen.as_ref().ok().map(|chosen| &*chosen.models);
    let mut asked = Vec::new();
    for provider in PROVIDERS.iter().filter(|provider| only.is_none_or(|only| only.name == provider.name)) {
        let at = setup.any_of(provider)?;
        if only.is_some() || at.is_some() || provider.is_main() {
            asked.push(survey(provider, at.unwrap_or_default(), &setup.secrets.ring, models, LIST_WAIT));
        }
    }
    let found = join_all(asked).await;
    let running = running(setup.data_dir()).await;
    drop(waiting);
    if screen.json {
        screen.json_line(&as_json(&found, chosen.as_ref(), running.as_deref()));
    } else {
        show(&screen, &found, chosen.as_ref(), running.as_deref(), only.is_some());
    }
    Ok(Exit::Answered)
}

/// The model of the server that runs here; it may have been started with settings that are not visible here.
async fn running(data_dir: &Path) -> Option<String> {
    let client = Client::find(data_dir.to_owned()).ok()?;
    let ready: ReadyJson = client.get_as("/v1/ready").await.ok()?;
    Some(ready.model?.name)
}

fn show(
    screen: &Screen,
    found: &[Survey],
    chosen: std::result::Result<&Chosen, &Failure>,
    running: Option<&str>,
    full: bool,
) {
    let other = running.filter(|running| chosen.ok().is_none_or(|chosen| chosen.info.name != **running));
    if let Some(running) = other {
        let name = screen.paint(Style::Bold, &screen.clean_line(running));
        screen.wrapped(&format!("the running server uses {name}; this is what `viv up` would use now"), 2);
    }
    match chosen {
        Ok(chosen) => {
            let name = screen.paint(Style::Bold, &screen.clean_line(&chosen.info.name));
            screen.wrapped(&format!("default: {name} ({})", screen.clean_line(&chosen.why)), 2);
        }
        Err(failure) => screen.wrapped(&format!("default: none: {}", screen.clean_line(&failure.message)), 2),
    }
    screen.line("");
    let listed: Vec<&Survey> = found.iter().filter(|found| full || is_here(found)).collect();
    let rows: Vec<Vec<String>> = listed.iter().map(|found| provider_row(screen, found)).collect();
    if !rows.is_empty() {
        screen.table(&["PROVIDER", "STATUS", "WHERE"], &rows);
    }
    for found in listed.iter().filter(|found| !matches!(found.reach, Reach::Reachable(_))) {
        let why = screen.clean_line(found.reach.why().unwrap_or_default());
        screen.wrapped(&format!("  {}: {why}", found.provider.name), 4);
    }
    summarize_absent(screen, found, full);
    let mut rows = Vec::new();
    let mut more = Vec::new();
    for found in found {
        let max = if full { usize::MAX } else { SHOWN_MAX };
        rows.extend(found.models.iter().take(max).map(|row| model_row(screen, row)));
        if found.models.len() > max {
            more.push(format!("{} of {}", found.models.len() - max, found.provider.name));
        }
    }
    if rows.is_empty() {
        return;
    }
    screen.line("");
    screen.table(&["MODEL", "WINDOW", "INPUT", "CACHED", "OUTPUT"], &rows);
    if !more.is_empty() {
        screen.wrapped(&format!("more: {}; `--provider NAME` lists all of one", more.join(", ")), 2);
    }
    screen.wrapped("* is the default; prices are in US dollars per million tokens", 2);
}

/// Whether the provider has its own row. Providers without a key and servers that do not run on this
/// machine are only summarized.
fn is_here(found: &Survey) -> bool {
    match &found.reach {
        Reach::Reachable(_) | Reach::Refused(_) => true,
        Reach::KeyMissing(_) => false,
        Reach::Unreachable(_) | Reach::Unlisted(_) => !found.provider.local,
    }
}

/// Summarizes, in one line each, providers without a key and servers that do not run.
fn summarize_absent(screen: &Screen, found: &[Survey], full: bool) {
    if full {
        return;
    }
    let gone = found.iter().filter(|found| !is_here(found));
    let (local, hosted): (Vec<&Survey>, Vec<&Survey>) = gone.partition(|found| found.provider.local);
    let keys = hosted.iter().map(|found| format!("{} ({})", found.provider.name, found.provider.key_env));
    let names = local.iter().map(|found| found.provider.name.to_owned());
    for (what, which) in [("no key", keys.collect::<Vec<_>>()), ("not running here", names.collect())] {
        if !which.is_empty() {
            screen.wrapped(&format!("{what}: {}", which.join(", ")), 2);
        }
    }
}

fn provider_row(screen: &Screen, found: &Survey) -> Vec<String> {
    let status = match &found.reach {
        Reach::Reachable(list) => format!("reachable, {}", counted(list.len(), "model")),
        other => other.as_str().replace('_', " "),
    };
    vec![found.provider.name.to_owned(), status, screen.clean_line(&found.base_url)]
}

fn model_row(screen: &Screen, row: &Offer) -> Vec<String> {
    let unknown = || if row.local { "-" } else { "unknown" }.to_owned();
    let price = |of: fn(&Price) -> u64| row.price.as_ref().map_or_else(unknown, |price| dollars(of(price)));
    let mark = if row.default { "* " } else { "" };
    vec![
        format!("{mark}{}", screen.clean_line(&row.name)),
        row.context_window.map_or_else(|| "unknown".to_owned(), |window| window.to_string()),
        price(|price| price.input),
        price(|price| price.cached),
        price(|price| price.output),
    ]
}

/// Micro-dollars in dollars, as short as possible without rounding.
fn dollars(micros: u64) -> String {
    let (full, rest) = (micros / 1_000_000, micros % 1_000_000);
    let rest = format!("{rest:06}");
    match rest.trim_end_matches('0') {
        "" => format!("${full}"),
        cents if cents.len() < 2 => format!("${full}.{cents}0"),
        cents => format!("${full}.{cents}"),
    }
}

fn as_json(found: &[Survey], chosen: std::result::Result<&Chosen, &Failure>, running: Option<&str>) -> Value {
    let providers: Vec<Value> = found
        .iter()
        .map(|found| {
            json!({
                "name": found.provider.name,
                "status": found.reach.as_str(),
                "detail": found.reach.why(),
                "base_url": found.base_url,
                "key_env": found.provider.key_env,
                "local": found.provider.local,
                "models": found.models,
            })
        })
        .collect();
    let of =
        |chosen: &Chosen| json!({"model": chosen.info.name, "why": chosen.why, "demo": chosen.info.demo});
    let default = chosen.ok().map(of);
    json!({"items": providers, "next": null, "default": default, "running": running})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_short_without_rounding() {
        for (price, shown) in
            [(2_000_000, "$2"), (200_000, "$0.20"), (25_000, "$0.025"), (1_250_000, "$1.25"), (0, "$0")]
        {
            assert_eq!(dollars(price), shown);
        }
    }

    #[test]
    fn an_unknown_price_is_never_shown_as_zero() {
        let row =
            |local, price| Offer { name: "p/m".into(), context_window: None, price, local, default: true };
        let screen = Screen::plain(None, true);
        assert_eq!(model_row(&screen, &row(false, None))[..3], ["* p/m", "unknown", "unknown"]);
        assert_eq!(model_row(&screen, &row(true, None))[2], "-");
        assert_eq!(json!(row(false, None))["price"], Value::Null);
        let price = Some(Price { input: 2_000_000, cached: 200_000, output: 10_000_000 });
        assert_eq!(json!(row(false, price))["price"]["cached"], 0.2);
    }
}
