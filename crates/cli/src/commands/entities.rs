//! `viv entities`: people and agents by name.

use api::{EntityJson, NewEntity};
use serde_json::Value;

use crate::args::{EntitiesArgs, EntitiesVerb};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, ago};
use client::{Client, typed};

/// Maximum number of entities that are listed.
const ENTITIES_MAX: usize = 100_000;

/// Lists entities, or runs a verb.
pub(crate) async fn run(client: Client, screen: Screen, args: EntitiesArgs) -> Result<Exit> {
    if args.verb.is_some() && args.kind.is_some() {
        return Err(Failure::usage("`--kind` applies only to the list").hint("leave it out"));
    }
    match args.verb {
        None => list(&client, &screen, args.kind.map(|kind| kind.as_str())).await?,
        Some(EntitiesVerb::List { kind }) => list(&client, &screen, kind.map(|kind| kind.as_str())).await?,
        Some(EntitiesVerb::Add { name, display_name, external_id }) => {
            add(&client, &screen, &NewEntity { name, display_name, external_id }).await?;
        }
    }
    Ok(Exit::Answered)
}

async fn list(client: &Client, screen: &Screen, kind: Option<&str>) -> Result<()> {
    let query = kind.map(|kind| format!("?kind={kind}")).unwrap_or_default();
    let rows = client.list(&format!("/v1/entities{query}"), ENTITIES_MAX).await?;
    if screen.json {
        screen.json_list(rows);
        return Ok(());
    }
    let entities: Vec<EntityJson> = typed("/v1/entities", Value::Array(rows))?;
    if entities.is_empty() {
        screen.line("no such entities");
        return Ok(());
    }
    let now = jiff::Timestamp::now();
    let rows: Vec<Vec<String>> = entities
        .iter()
        .map(|entity| {
            vec![
                screen.clean_line(&entity.name),
                screen.clean_line(&entity.display_name),
                entity.kind.as_str().to_owned(),
                entity.external_id.as_deref().map_or_else(|| "-".to_owned(), |id| screen.clean_line(id)),
                ago(entity.created_at, now),
            ]
        })
        .collect();
    screen.table(&["NAME", "TITLE", "KIND", "EXTERNAL ID", "CREATED"], &rows);
    Ok(())
}

async fn add(client: &Client, screen: &Screen, body: &NewEntity) -> Result<()> {
    let answer = client.post("/v1/entities", body, None).await?;
    let created: EntityJson = typed("/v1/entities", answer.clone())?;
    screen.result(&answer, &format!("added `{}` ({})", created.name, created.id));
    screen.note(&screen.clean_line(&format!(
        "next: `viv spaces add SPACE {0}`, and `viv keys add person --entity {0}` for a key",
        created.name
    )));
    Ok(())
}
