//! A prebuilt tool is its argument type and one async function; everything around them is here,
//! once: schema from the type, checking, the description of the tool.
//!
//! This module must not know any single tool.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use agent::call::{Effect, Outcome};
use agent::changes::Inward;
use agent::limits;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use agent::quote::unbroken;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::Checker;

/// What differs from one prebuilt tool to the next.
pub(crate) trait PrebuiltTool: Send + Sync + 'static {
    /// What it takes; the model sees the schema of this type and the docs of its fields.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// What it is called.
    const NAME: &'static str;
    /// For the model: what it does, what comes back, what not to do.
    const DESCRIPTION: &'static str;
    /// What a schema cannot say; sees the arguments in the order in which they were written.
    fn precheck(
        _arguments: &Value,
        _context: &ToolContext<'_>,
    ) -> impl Future<Output = Result<(), ToolError>> + Send {
        std::future::ready(Ok(()))
    }
    /// Does it.
    fn act(
        args: Self::Args,
        context: ToolContext<'_>,
    ) -> impl Future<Output = Result<Done, ToolError>> + Send;
}

/// The tool around a [`Hand`].
struct Typed<H> {
    spec: ToolSpec,
    checker: Checker,
    hand: PhantomData<fn() -> H>,
}

/// The tool of a hand.
pub(crate) fn typed<H: PrebuiltTool>() -> Arc<dyn Tool> {
    let schema = schema_of::<H::Args>();
    let spec = ToolSpec {
        name: H::NAME.to_owned(),
        description: H::DESCRIPTION.to_owned(),
        schema: Arc::new(shown(&schema)),
        effect: Effect::Inward,
        visible: false,
        timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
        asynchronous: false,
        version: "1".to_owned(),
    };
    let checker = Checker::new(H::NAME, &schema).expect("a schema derived from a type compiles");
    Arc::new(Typed::<H> { spec, checker, hand: PhantomData })
}

impl<H: PrebuiltTool> Tool for Typed<H> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        self.checker.check(arguments)
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async move {
            H::precheck(&arguments, &context).await?;
            let args = serde_json::from_value(arguments).map_err(|e| ToolError {
                model: format!("the arguments of `{}` do not fit its schema", H::NAME),
                operator: Some(e.to_string()),
            })?;
            H::act(args, context).await
        })
    }
}

/// A success: compact JSON for the model, and what is to change.
pub(crate) fn done(reply: &Value, inward: Inward) -> Done {
    Done { outcome: Outcome::ok(written(reply)), inward }
}

/// A value as the model reads it: characters that hide, or turn round what follows, are written as their numbers.
pub(crate) fn written(value: &Value) -> String {
    unbroken(&value.to_string())
}

/// The first lines of a list, as many as fit into `room` bytes: what is cut there is cut whole, so
/// that a reply stays JSON when it is shown.
pub(crate) fn fitting(lines: impl IntoIterator<Item = Value>, mut room: usize) -> Vec<Value> {
    let fits = |line: &Value| {
        let left = room.checked_sub(written(line).len() + 1);
        room = left.unwrap_or(0);
        left.is_some()
    };
    lines.into_iter().take_while(fits).collect()
}

/// Puts a list of names into a reply, and how many of them are not listed where they are too many.
pub(crate) fn put_listed(reply: &mut Value, name: &str, names: &[String]) {
    let listed = fitting(names.iter().map(|name| Value::from(name.as_str())), limits::LISTED_MAX_BYTES);
    if listed.len() < names.len() {
        reply[format!("{name}_more")] = Value::from(names.len() - listed.len());
    }
    reply[name] = Value::Array(listed);
}

/// The schema of a type as vendors like it: inline, without titles, without formats that only
/// this language knows, each description on one line.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(root) = schema.as_object_mut() {
        // The tool's own description stands beside the schema.
        root.shift_remove("title");
        root.shift_remove("description");
        root.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    plain(&mut schema);
    schema
}

/// The schema as a model is shown it: what is optional need not be `null` as well, and of a bound it is told
/// when it is passed. Each of these words would be paid for with every request.
fn shown(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let kept = |(key, value): (&String, &Value)| match (key.as_str(), value) {
                ("additionalProperties", Value::Bool(_)) => None,
                ("minLength" | "minItems" | "maxItems" | "minimum" | "maximum", Value::Number(_)) => None,
                ("type", Value::Array(types)) if types.len() == 2 && types[1] == "null" => {
                    Some((key.clone(), types[0].clone()))
                }
                ("enum", Value::Array(values)) => {
                    let values = values.iter().filter(|value| !value.is_null()).cloned().collect();
                    Some((key.clone(), Value::Array(values)))
                }
                _ => Some((key.clone(), shown(value))),
            };
            Value::Object(map.iter().filter_map(kept).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(shown).collect()),
        _ => schema.clone(),
    }
}

fn plain(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let number = |format: &str| format.starts_with("uint") || format.starts_with("int");
            if map.get("format").and_then(Value::as_str).is_some_and(number) {
                map.shift_remove("format");
            }
            if let Some(Value::String(description)) = map.get_mut("description") {
                *description = description.replace('\n', " ");
            }
            map.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}
