//! Alerts that are kept: what operators should know of has happened, also if nobody was watching.

use agent::port::{AlertFilter, Page};
use axum::extract::State;

use super::agents::find_agent;
use super::approvals::names_of;
use crate::app_state::SharedState;
use crate::listing::{List, Listed};
use crate::problem::Problem;
use api::{AlertJson, AlertQuery, PageJson};

/// Lists alerts, newest first: the last 200 of each agent, and of the server. Watchers of agents get those that concern a cycle as
/// `alert`, too.
#[utoipa::path(get, path = "/v1/alerts", tag = "server", params(AlertQuery),
    responses((status = 200, description = "A page of alerts.", body = PageJson<AlertJson>)))]
pub(super) async fn list_alerts(
    State(app): SharedState,
    list: List<AlertQuery>,
) -> Result<Listed<AlertJson>, Problem> {
    let query = &list.filters;
    let agent = match &query.agent {
        Some(name) => Some(find_agent(&app, name).await?.id),
        None => None,
    };
    let filter = AlertFilter { agent, alert: query.alert, since: query.since };
    let found = app.ports.reader.alerts(filter, list.page.clone()).await?;
    let names = names_of(&app, found.items.iter().filter_map(|(_, alert)| alert.agent)).await?;
    let named = |(seq, alert): (u64, agent::alert::Alert)| {
        let handle = alert.agent.and_then(|agent| names.get(&agent).cloned());
        AlertJson::of(seq, alert, handle)
    };
    let Page { items, next } = found;
    Ok(list.answer(Page { items, next }, named))
}
