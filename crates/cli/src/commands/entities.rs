//! `viv entities`: people and agents by name.

use api::{EntityJson, NewEntity};
use jiff::Timestamp;

use crate::args::{EntitiesArgs, EntitiesVerb, KindArgs};
use crate::errors::{Exit, Result};
use crate::input;
use crate::output::{Screen, ago};
use client::{Client, segment, typed};

const ENTITIES_MAX: usize = 100_000;

pub(crate) async fn run(client: Client, screen: Screen, args: EntitiesArgs) -> Result<Exit> {
    input::no_list_options("`--kind` applies", args.verb.is_some() && args.list.kind.is_some())?;
    match args.verb.unwrap_or(EntitiesVerb::List(args.list)) {
        EntitiesVerb::List(KindArgs { kind }) => {
            let query = kind.map(|kind| format!("?kind={}", kind.as_str())).unwrap_or_default();
            let rows = client.list(&format!("/v1/entities{query}"), ENTITIES_MAX).await?;
            let (head, now) = (["NAME", "TITLE", "KIND", "EXTERNAL ID", "CREATED"], Timestamp::now());
            screen.rows(rows, "no such entities", &head, |entity: &EntityJson| {
                let EntityJson { handle, display_name, kind, .. } = entity;
                let external = entity.external_id.clone().unwrap_or_else(|| "-".to_owned());
                let created = ago(entity.created_at, now);
                vec![handle.clone(), display_name.clone(), kind.as_str().to_owned(), external, created]
            })?;
        }
        EntitiesVerb::Show { entity } => {
            let answer = client.get(&format!("/v1/entities/{}", segment(&entity))).await?;
            let entity: EntityJson = typed("/v1/entities", answer.clone())?;
            screen.object(
                &answer,
                vec![
                    ("handle", entity.handle),
                    ("display name", entity.display_name),
                    ("kind", entity.kind.as_str().to_owned()),
                    ("id", entity.id.to_string()),
                    ("external id", entity.external_id.unwrap_or_else(|| "-".to_owned())),
                    ("created", entity.created_at.to_string()),
                ],
            );
        }
        EntitiesVerb::Add { name, display_name, external_id } => {
            let body = NewEntity { handle: name, display_name, external_id };
            let answer = client.post("/v1/entities", &body, None).await?;
            let EntityJson { handle: name, id, .. } = typed("/v1/entities", answer.clone())?;
            screen.result(&answer, &format!("added `{name}` ({id})"));
            screen.note(&format!(
                "next: `viv spaces add SPACE {name}`, and `viv keys add person --entity {name}` for a key"
            ));
        }
    }
    Ok(Exit::Answered)
}
