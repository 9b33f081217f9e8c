//! `viv models`: asks every provider with a key and every model server on this machine for its models, and
//! shows windows and prices if known.

use agent::port::{ModelInfo, Price};
use futures_util::future::join_all;
use models::catalog::{self, PROVIDERS, Provider};
use models::client::display_url;
use models::listing::{Listed, Reach, reach};
use models::model_book::ModelConfig;
use serde_json::{Value, json};

use super::setup::{LIST_WAIT, Setup, provider};
use crate::args::{Global, ModelsArgs};
use crate::errors::{Exit, Failure, Result};
use crate::model::{self, Chosen};
use crate::output::{Screen, Style};
use crate::progress::Progress;

/// Models of a provider that are listed if the user did not name the provider.
const SHOWN_MAX: usize = 12;

/// A provider and what it answered.
struct FoundProvider {
    provider: &'static Provider,
    base_url: String,
    reach: Reach,
    models: Vec<ModelRow>,
}

/// A model and what is known about it.
#[derive(Clone, Debug, PartialEq)]
struct ModelRow {
    name: String,
    window: Option<u32>,
    price: Option<Price>,
    local: bool,
    default: bool,
}

/// Asks providers and prints the answers.
pub(super) async fn run(global: &Global, screen: Screen, args: &ModelsArgs) -> Result<Exit> {
    let only = args.provider.as_deref().map(provider).transpose()?;
    if args.all {
        return Ok(known(&screen, only));
    }
    let setup = Setup::load(global)?;
    let waiting = Progress::start(&screen, "asking providers and this machine");
    let chosen = setup.chosen().await;
    let mut asked = Vec::new();
    for provider in PROVIDERS.iter().filter(|provider| only.is_none_or(|only| only.name == provider.name)) {
        let at = setup.any_of(provider)?;
        if only.is_some() || at.is_some() || is_main(provider) {
            asked.push(find(provider, at.unwrap_or_default(), &setup, chosen.as_ref()));
        }
    }
    let found = join_all(asked).await;
    drop(waiting);
    if screen.json {
        screen.json_line(&as_json(&found, chosen.as_ref()));
    } else {
        show(&screen, &found, chosen.as_ref(), only.is_some());
    }
    Ok(Exit::Answered)
}

/// Whether a provider is asked without being named: it has an address, and no earlier provider has the same
/// one.
fn is_main(provider: &Provider) -> bool {
    let first = PROVIDERS.iter().find(|other| other.base_url == provider.base_url);
    provider.base_url.is_some() && first.is_some_and(|first| first.name == provider.name)
}

async fn find(
    provider: &'static Provider,
    at: ModelConfig,
    setup: &Setup,
    chosen: std::result::Result<&Chosen, &Failure>,
) -> FoundProvider {
    let reach = reach(provider, &at, setup.keys(), LIST_WAIT).await;
    let models = match &reach {
        Reach::Reachable(list) => rows(provider, list, chosen.ok()),
        _ => Vec::new(),
    };
    let base_url = at.base_url.or(provider.base_url.map(str::to_owned)).unwrap_or_default();
    FoundProvider { provider, base_url: display_url(&base_url), reach, models }
}

/// The default model first, then the models in the catalog, then the others in the provider's order.
fn rows(provider: &Provider, list: &[Listed], chosen: Option<&Chosen>) -> Vec<ModelRow> {
    let mut rows: Vec<(u8, ModelRow)> = list
        .iter()
        .map(|listed| {
            let name = format!("{}/{}", provider.name, listed.model);
            let default = chosen.is_some_and(|chosen| chosen.info.name == name);
            let info = chosen
                .and_then(|chosen| chosen.models.model(Some(&name)).ok())
                .map(|model| model.info().clone());
            let known = info.as_ref().is_some_and(|info| is_known(provider, info));
            let window = info.as_ref().filter(|_| known).map(|info| info.context_window);
            let price = info.as_ref().and_then(|info| info.price);
            let rank = if default {
                0
            } else if known {
                1
            } else {
                2
            };
            let window = window.or(listed.context_window);
            (rank, ModelRow { name, window, price, local: provider.local, default })
        })
        .collect();
    rows.sort_by_key(|(rank, _)| *rank);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Whether the window is known, not assumed.
fn is_known(provider: &Provider, info: &ModelInfo) -> bool {
    model::is_in_catalog(info) || info.context_window != catalog::facts(provider, "").context_window
}

fn show(
    screen: &Screen,
    found: &[FoundProvider],
    chosen: std::result::Result<&Chosen, &Failure>,
    full: bool,
) {
    match chosen {
        Ok(chosen) => {
            let name = screen.paint(Style::Bold, &screen.clean_line(&chosen.info.name));
            screen.wrapped(&format!("default: {name} ({})", screen.clean_line(&chosen.why)), 2);
        }
        Err(failure) => screen.wrapped(&format!("default: none: {}", screen.clean_line(&failure.message)), 2),
    }
    screen.line("");
    let listed: Vec<&FoundProvider> = found.iter().filter(|found| full || is_here(found)).collect();
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
fn is_here(found: &FoundProvider) -> bool {
    match &found.reach {
        Reach::Reachable(_) | Reach::Refused(_) => true,
        Reach::KeyMissing(_) => false,
        Reach::Unreachable(_) | Reach::Unlisted(_) => !found.provider.local,
    }
}

/// Summarizes, in one line each, providers without a key and servers that do not run.
fn summarize_absent(screen: &Screen, found: &[FoundProvider], full: bool) {
    if full {
        return;
    }
    let gone = found.iter().filter(|found| !is_here(found));
    let (local, hosted): (Vec<&FoundProvider>, Vec<&FoundProvider>) =
        gone.partition(|found| found.provider.local);
    let keys: Vec<String> =
        hosted.iter().map(|found| format!("{} ({})", found.provider.name, found.provider.key_env)).collect();
    if !keys.is_empty() {
        screen.wrapped(&format!("no key: {}", keys.join(", ")), 2);
    }
    let names: Vec<&str> = local.iter().map(|found| found.provider.name).collect();
    if !names.is_empty() {
        screen.wrapped(&format!("not running here: {}", names.join(", ")), 2);
    }
}

fn provider_row(screen: &Screen, found: &FoundProvider) -> Vec<String> {
    let status = match &found.reach {
        Reach::Reachable(list) if list.len() == 1 => "reachable, 1 model".to_owned(),
        Reach::Reachable(list) => format!("reachable, {} models", list.len()),
        other => other.as_str().replace('_', " "),
    };
    vec![found.provider.name.to_owned(), status, screen.clean_line(&found.base_url)]
}

fn model_row(screen: &Screen, row: &ModelRow) -> Vec<String> {
    let unknown = || if row.local { "-" } else { "unknown" }.to_owned();
    let price = |of: fn(&Price) -> u64| row.price.as_ref().map_or_else(unknown, |price| dollars(of(price)));
    let mark = if row.default { "* " } else { "" };
    vec![
        format!("{mark}{}", screen.clean_line(&row.name)),
        row.window.map_or_else(|| "unknown".to_owned(), |window| window.to_string()),
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

/// Lists the catalog without asking a provider.
fn known(screen: &Screen, only: Option<&'static Provider>) -> Exit {
    let providers = PROVIDERS.iter().filter(|provider| match only {
        Some(only) => only.name == provider.name,
        None => is_main(provider),
    });
    let rows: Vec<ModelRow> = providers
        .flat_map(|provider| {
            provider.models().map(|model| {
                let facts = catalog::facts(provider, model);
                let name = format!("{}/{model}", provider.name);
                let window = Some(facts.context_window);
                ModelRow { name, window, price: facts.price, local: provider.local, default: false }
            })
        })
        .collect();
    if screen.json {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        screen.json_line(&json!({"models": rows}));
    } else if rows.is_empty() {
        screen.line("the catalog lists no models of this provider; any name can be used");
    } else {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| model_row(screen, row)).collect();
        screen.table(&["MODEL", "WINDOW", "INPUT", "CACHED", "OUTPUT"], &rows);
        screen.wrapped("prices are in US dollars per million tokens; other names can be used as well", 2);
    }
    Exit::Answered
}

fn row_json(row: &ModelRow) -> Value {
    let price = row.price.map(|price| {
        json!({
            "input": micros(price.input),
            "cached": micros(price.cached),
            "output": micros(price.output),
        })
    });
    json!({"name": row.name, "context_window": row.window, "price": price, "default": row.default})
}

/// Micro-dollars as dollars.
fn micros(price: u64) -> f64 {
    // Prices are far below the largest integer that a double holds exactly.
    u32::try_from(price).map_or(f64::MAX, f64::from) / 1e6
}

fn as_json(found: &[FoundProvider], chosen: std::result::Result<&Chosen, &Failure>) -> Value {
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
                "models": found.models.iter().map(row_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    let default = match chosen {
        Ok(chosen) => {
            json!({"model": chosen.info.name, "why": chosen.why, "demo": chosen.info.demo})
        }
        Err(_) => Value::Null,
    };
    json!({"default": default, "providers": providers})
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
        let row = |local, price| ModelRow { name: "p/m".into(), window: None, price, local, default: true };
        let screen = Screen::plain(None, true);
        assert_eq!(model_row(&screen, &row(false, None))[..3], ["* p/m", "unknown", "unknown"]);
        assert_eq!(model_row(&screen, &row(true, None))[2], "-");
        assert_eq!(row_json(&row(false, None))["price"], Value::Null);
        let price = Some(Price { input: 2_000_000, cached: 200_000, output: 10_000_000 });
        assert_eq!(row_json(&row(false, price))["price"]["cached"], 0.2);
    }

    #[test]
    fn each_address_is_asked_once() {
        let asked: Vec<&str> = PROVIDERS.iter().filter(|p| is_main(p)).map(|p| p.name).collect();
        assert!(asked.contains(&"openai") && asked.contains(&"ollama"));
        assert!(!asked.contains(&"openai-compatible") && !asked.contains(&"openai-chat"));
    }
}
