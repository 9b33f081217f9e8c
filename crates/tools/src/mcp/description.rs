//! What a server says about its tools, within bounds, and its hash, by which a change is noticed. What a server says about
//! the effect of a tool is not read: nobody vouches for it.

use agent::limits;
use agent::tool::SERVER_END;
use rmcp::model;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::declare::{check_schema, hash_of};

/// Name of the tool that reads resources, behind the name of the server.
pub(super) const READ_RESOURCE: &str = "read_resource";

/// Longest name of a tool that all vendors accept.
const WIRE_NAME_BYTES: usize = 64;
/// What stands for the end of a longer one.
const NAME_HASH_CHARS: usize = 8;

/// What a model is told about one tool of a server. An operator approves it; a call by a changed one is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct McpDescription {
    /// The name that the server gives it.
    pub name: String,
    /// For the model, as the server wrote it.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
    /// Lower-case hex of SHA-256 over the other three; the order of keys does not matter.
    pub hash: String,
    /// Whether it is no tool of the server, but reads the server's resources.
    #[serde(default)]
    pub reads_resources: bool,
}

/// The tools of a server, as it describes them now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpListing {
    /// Those that can be used.
    pub tools: Vec<McpDescription>,
    /// Names of those that cannot, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A resource that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResource {
    /// By what it is read.
    pub uri: String,
    /// Its name for people.
    pub name: String,
    /// The media type that the server promises.
    pub kind: Option<String>,
}

impl McpDescription {
    fn new(name: String, description: String, schema: Value, reads_resources: bool) -> Self {
        let hash = hash_of(&json!({"name": name, "description": description, "input": schema}));
        Self { name, description, schema, hash, reads_resources }
    }

    /// The tool that reads the resources of this server.
    pub(super) fn of_resources(server: &str) -> Self {
        let description = format!("Reads a resource of `{server}` by its URI and returns its text.");
        let schema = json!({
            "type": "object",
            "properties": {"uri": {"type": "string", "description": "The URI, as the server names it."}},
            "required": ["uri"],
            "additionalProperties": false,
        });
        Self::new(READ_RESOURCE.to_owned(), description, schema, true)
    }
}

impl McpListing {
    /// Adds a tool of the server, or the reason why it cannot be used.
    pub(super) fn add(&mut self, tool: model::Tool) {
        let name = tool.name.into_owned();
        let description = tool.description.unwrap_or_default().trim().to_owned();
        let mut schema = Value::Object(tool.input_schema.as_ref().clone());
        if let Value::Object(schema) = &mut schema {
            // Some servers leave out what the protocol prescribes anyway.
            schema.entry("type").or_insert_with(|| "object".into());
        }
        let max = limits::TOOL_DESCRIPTION_MAX_BYTES;
        let wrong = if name.is_empty() || name.len() > limits::CALLED_NAME_MAX_BYTES {
            Some(format!("wanted a name of 1 to {} bytes", limits::CALLED_NAME_MAX_BYTES))
        } else if self.tools.iter().any(|other| other.name == name) {
            Some("the server names two tools so".to_owned())
        } else if description.len() > max {
            Some(format!("wanted a description of at most {max} bytes, got {}", description.len()))
        } else {
            check_schema(&name, &schema).err()
        };
        match wrong {
            None => self.tools.push(McpDescription::new(name, description, schema, false)),
            Some(why) => self.left_out.push((name.chars().take(80).collect(), why)),
        }
    }
}

/// The name by which models call a tool: `SERVER__TOOL` in the characters that vendors accept. Of a longer one the end is a
/// hash, so that names which differ only there differ still.
pub(super) fn wire_name(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = format!("{server}{SERVER_END}{tool}").chars().map(plain).collect();
    if name.len() <= WIRE_NAME_BYTES {
        return name;
    }
    let hash = hash_of(&tool);
    format!("{}_{}", &name[..WIRE_NAME_BYTES - 1 - NAME_HASH_CHARS], &hash[..NAME_HASH_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(tool: Value) -> McpListing {
        let mut listing = McpListing::default();
        listing.add(serde_json::from_value(tool).unwrap());
        listing
    }

    #[test]
    fn a_hash_changes_with_what_a_model_reads_and_with_nothing_else() {
        let hash = |tool| listed(tool).tools[0].hash.clone();
        let plain = hash(json!({"name": "a", "description": "b", "inputSchema": {"type": "object", "x": 1}}));
        let same = json!({
            "name": "a", "description": "b", "inputSchema": {"x": 1, "type": "object"},
            "annotations": {"readOnlyHint": true}, "title": "A",
        });
        assert_eq!(hash(same), plain);
        assert_ne!(
            hash(json!({"name": "a", "description": "c", "inputSchema": {"type": "object", "x": 1}})),
            plain
        );
        assert_ne!(
            hash(json!({"name": "a", "description": "b", "inputSchema": {"type": "object", "x": 2}})),
            plain
        );
    }

    #[test]
    fn tools_that_cannot_be_used_are_left_out_with_the_reason() {
        let wrong = |tool, wanted: &str| {
            let listing = listed(tool);
            assert!(listing.tools.is_empty());
            assert!(listing.left_out[0].1.contains(wanted), "{listing:?}");
        };
        wrong(json!({"name": "", "inputSchema": {}}), "wanted a name");
        wrong(
            json!({"name": "a", "description": "x".repeat(9_000), "inputSchema": {}}),
            "at most 8192 bytes",
        );
        wrong(json!({"name": "a", "inputSchema": {"type": "string"}}), "type = \"object\"");
        wrong(
            json!({"name": "a", "inputSchema": {"description": "x".repeat(70_000)}}),
            "at most 65536 bytes",
        );
        wrong(json!({"name": "a", "inputSchema": {"required": 5}}), "no valid JSON Schema");
        let twice: model::Tool = serde_json::from_value(json!({"name": "a", "inputSchema": {}})).unwrap();
        let mut listing = McpListing::default();
        listing.add(twice.clone());
        listing.add(twice);
        assert_eq!((listing.tools.len(), listing.left_out.len()), (1, 1));
    }

    #[test]
    fn names_become_what_vendors_accept() {
        assert_eq!(wire_name("files", "read.file/ä b"), "files__read_file___b");
        let long = |end: &str| wire_name("s", &format!("{}{end}", "x".repeat(100)));
        assert_eq!((long("a").len(), long("a") == long("b"), long("a") == long("a")), (64, false, true));
        assert_eq!(wire_name("s", &"x".repeat(61)), format!("s__{}", "x".repeat(61)));
    }
}
