//! Tells the OpenAPI derives what the ids of the crate `agent` look like in JSON, so that no field repeats it.

use utoipa_config::Config;

fn main() {
    let uuids =
        ["AgentId", "CredentialId", "CycleId", "EntityId", "GoalId", "MessageId", "PlanId", "SpaceId"];
    let texts = ["CallId", "EventId", "RootId"];
    let config = uuids.iter().fold(Config::new(), |config, id| config.alias_for(id, "uuid::Uuid"));
    let config = texts.iter().fold(config, |config, id| config.alias_for(id, "String"));
    config.write_to_file();
    println!("cargo::rerun-if-changed=build.rs");
}
