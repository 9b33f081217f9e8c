//! `viv doctor` on MCP servers: whether each starts and answers, what of it is approved, and whether it is walled in.

use std::sync::Arc;

use agent::tool::SERVER_END;
use api::{McpOfferJson, McpServerJson, PageJson};
use client::{Client, segment, typed};

use crate::assemble;
use crate::commands::doctor::{Check, Verdict};
use crate::errors::Failure;
use crate::settings::Settings;
use crate::tool_secrets::ToolSecrets;

/// What was found out about one server.
struct Found {
    name: String,
    /// Its tools and how many of them are approved and unchanged; or why it cannot be asked.
    tools: Result<(usize, usize), String>,
    is_walled: bool,
}

/// Asks each server: through the one that runs on the data directory, else from here.
pub(super) async fn check(settings: &Settings, running: bool) -> Option<Check> {
    let found = match running {
        true => by_server(settings).await,
        false => from_here(settings).await,
    };
    match found {
        Ok(found) => judged(&found),
        Err(failure) => Some(Check::of("mcp", failure)),
    }
}

async fn by_server(settings: &Settings) -> Result<Vec<Found>, Failure> {
    let client = Client::find(settings.data_dir().to_owned())?;
    let servers = client.get_as::<PageJson<McpServerJson>>("/v1/mcp").await?;
    let asking = servers.items.into_iter().map(|McpServerJson { name, .. }| async {
        let answer = client.post_empty(&format!("/v1/mcp/{}/ask", segment(&name))).await;
        let answer = answer.and_then(|answer| typed::<McpOfferJson>("offer", answer));
        let is_walled = answer.as_ref().map_or(true, |offer| offer.walled);
        let tools = answer.map_err(|error| error.message).map(|offer| {
            (offer.tools.len(), offer.tools.iter().filter(|tool| tool.state == "approved").count())
        });
        Found { name, tools, is_walled }
    });
    Ok(futures_util::future::join_all(asking).await)
}

async fn from_here(settings: &Settings) -> Result<Vec<Found>, Failure> {
    let host = assemble::mcp_host(settings);
    let (connector, secrets) =
        (Arc::new(assemble::connector(settings)?), Arc::new(ToolSecrets::of(settings)));
    let kept = storage::sqlite::tools(settings.data_dir()).unwrap_or_default();
    let (connector, secrets, host, kept) = (&connector, &secrets, &host, &kept);
    let asking = settings.mcp.iter().map(|(name, config)| async move {
        let server = assemble::mcp_server(name, config.clone(), connector, secrets, host)?;
        let begins = format!("{name}{SERVER_END}");
        let approved = kept.iter().filter(|tool| tool.name.starts_with(&begins)).count();
        let tools = server.list().await.map(|listing| (listing.tools.len(), approved));
        let tools = tools.map_err(|error| error.operator.unwrap_or(error.model));
        Ok(Found { name: name.clone(), tools, is_walled: server.is_walled().await })
    });
    futures_util::future::join_all(asking).await.into_iter().collect()
}

fn judged(found: &[Found]) -> Option<Check> {
    let line = |one: &Found| match &one.tools {
        Err(why) => format!("`{}` cannot be asked: {}", one.name, why.trim()),
        Ok((tools, approved)) => format!("`{}` answers, {approved} of {tools} tools approved", one.name),
    };
    let detail = found.iter().map(line).collect::<Vec<_>>().join("; ");
    let dead = found.iter().any(|one| one.tools.is_err());
    let unapproved = found.iter().find(|one| matches!(one.tools, Ok((tools, approved)) if approved < tools));
    let open = found.iter().any(|one| !one.is_walled);
    let (verdict, hint) = match (dead, unapproved, open) {
        (true, _, _) => {
            (Verdict::Fail, "`viv mcp try NAME` starts it again and says what went wrong".to_owned())
        }
        (false, Some(one), _) => {
            (Verdict::Warn, format!("agents have only what `viv mcp approve {}` approves", one.name))
        }
        (false, None, true) => {
            let hint =
                "they can read the data directory: install bubblewrap (`bwrap`), and let it make namespaces";
            (Verdict::Warn, hint.to_owned())
        }
        (false, None, false) => (Verdict::Ok, String::new()),
    };
    let check = Check::new("mcp", verdict, detail);
    let check = if hint.is_empty() { check } else { check.hint(hint) };
    (!found.is_empty()).then_some(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_all_servers_is_what_is_said() {
        let found = |tools: Result<(usize, usize), &str>, is_walled| Found {
            name: "files".to_owned(),
            tools: tools.map_err(str::to_owned),
            is_walled,
        };
        assert!(judged(&[]).is_none());
        let says = |found: &[Found]| {
            let check = judged(found).unwrap();
            (check.verdict, check.detail, check.hint.unwrap_or_default())
        };
        let (verdict, detail, hint) = says(&[found(Ok((2, 2)), true)]);
        assert_eq!(
            (verdict, detail.as_str(), hint.as_str()),
            (Verdict::Ok, "`files` answers, 2 of 2 tools approved", "")
        );
        assert!(says(&[found(Ok((2, 2)), false)]).2.contains("bubblewrap"));
        assert!(says(&[found(Ok((2, 1)), false)]).2.contains("viv mcp approve files"));
        let (verdict, detail, _) =
            says(&[found(Ok((2, 1)), true), found(Err("it ended with status 1\n"), true)]);
        assert_eq!(verdict, Verdict::Fail);
        assert!(detail.ends_with("cannot be asked: it ended with status 1"), "{detail}");
    }
}
