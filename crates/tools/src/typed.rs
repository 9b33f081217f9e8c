//! Builds a prebuilt tool from its argument type and one async function: derives the schema, checks the
//! arguments, and shapes the reply.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::{Effect, Outcome};
use agent::changes::Inward;
use agent::event::Trust;
use agent::limits;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use agent::quote::one_line;
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::Checker;

/// The parts of a prebuilt tool that are its own.
pub(crate) trait PrebuiltTool: Send + Sync + 'static {
    /// Its arguments. The model sees the schema of this type and the docs of its fields.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// Its name.
    const NAME: &'static str;
    /// Its description for the model: what it does, what it returns, what not to do.
    const DESCRIPTION: &'static str;
    /// What it does with what the agent knows: `private` if it returns what the agent was told, has written or remembers, which
    /// is not for everyone whoever wrote it.
    const LABELS: &'static [ToolLabel];
    /// Runs the tool.
    fn run(
        args: Self::Args,
        context: ToolContext<'_>,
    ) -> impl Future<Output = Result<Done, ToolError>> + Send;
}

/// A [`PrebuiltTool`] with its schema.
struct Typed<T> {
    spec: ToolSpec,
    schema: Value,
    /// Compiled at the first call: most servers wait for days before one.
    checker: OnceLock<Checker>,
    tool: PhantomData<fn() -> T>,
}

/// Builds the tool.
pub(crate) fn typed<T: PrebuiltTool>() -> Arc<dyn Tool> {
    let schema = schema_of::<T::Args>();
    let spec = ToolSpec {
        name: T::NAME.to_owned(),
        description: T::DESCRIPTION.to_owned(),
        schema: Arc::new(model_schema(&schema)),
        effect: Effect::Inward,
        visible: false,
        timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
        asynchronous: false,
        version: "1".to_owned(),
        labels: T::LABELS.iter().copied().collect(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    };
    Arc::new(Typed::<T> { spec, schema, checker: OnceLock::new(), tool: PhantomData })
}

impl<T: PrebuiltTool> Tool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        let compiled = || Checker::new(T::NAME, &self.schema).expect("a schema derived from a type compiles");
        self.checker.get_or_init(compiled).check(arguments)
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async move {
            let args = serde_json::from_value(arguments).map_err(|e| ToolError {
                model: format!("the arguments of `{}` do not fit its schema", T::NAME),
                operator: Some(e.to_string()),
            })?;
            T::run(args, context).await
        })
    }
}

/// A success: compact JSON for the model, and the changes.
pub(crate) fn done(reply: &Value, inward: Inward) -> Done {
    Done { outcome: Outcome::ok(to_text(reply)), inward }
}

/// A success that quotes texts of others, the lowest trust of which is known.
pub(crate) fn quoting(reply: &Value, trust: Option<Trust>, inward: Inward) -> Done {
    let done = done(reply, inward);
    Done { outcome: Outcome { trust, ..done.outcome }, ..done }
}

/// A value as the model reads it: invisible and direction-changing characters are written as escapes.
pub(crate) fn to_text(value: &Value) -> String {
    one_line(&value.to_string())
}

/// The first lines of a list that fit into `room` bytes. Lines are left out whole, so that the reply stays
/// valid JSON when it is shown.
pub(crate) fn take_fitting(lines: impl IntoIterator<Item = Value>, mut room: usize) -> Vec<Value> {
    let fits = |line: &Value| {
        let left = room.checked_sub(to_text(line).len() + 1);
        room = left.unwrap_or(0);
        left.is_some()
    };
    lines.into_iter().take_while(fits).collect()
}

/// Puts a list of names into a reply, and the number of names that were left out if there are too many.
pub(crate) fn put_listed(reply: &mut Value, name: &str, names: &[String]) {
    let listed = take_fitting(names.iter().map(|name| Value::from(name.as_str())), limits::LISTED_MAX_BYTES);
    if listed.len() < names.len() {
        reply[format!("{name}_more")] = Value::from(names.len() - listed.len());
    }
    reply[name] = Value::Array(listed);
}

/// The schema of a type in a form that vendors accept: inline, without titles, without Rust-specific
/// formats, each description on one line.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(root) = schema.as_object_mut() {
        // The tool's description is sent separately from the schema.
        root.shift_remove("title");
        root.shift_remove("description");
        root.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    simplify(&mut schema);
    schema
}

/// The schema that a model sees, shortened to save tokens in every request: optional fields do not also
/// allow `null`, and limits are left out, since an error names a limit that is exceeded.
fn model_schema(schema: &Value) -> Value {
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
                _ => Some((key.clone(), model_schema(value))),
            };
            Value::Object(map.iter().filter_map(kept).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(model_schema).collect()),
        _ => schema.clone(),
    }
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let number = |format: &str| format.starts_with("uint") || format.starts_with("int");
            if map.get("format").and_then(Value::as_str).is_some_and(number) {
                map.shift_remove("format");
            }
            if let Some(Value::String(description)) = map.get_mut("description") {
                *description = description.replace('\n', " ");
            }
            map.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}
