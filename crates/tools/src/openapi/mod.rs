//! Declarations of HTTP tools from an OpenAPI document (3.0 and 3.1, JSON): one for each operation that is asked for.
//!
//! Path, query and header parameters and the fields of a body become the arguments of one tool. What cannot be declared is
//! refused, or named if it may be left out. This module reads no files and fetches nothing, and it must not know how a
//! tool is run.

mod body;
mod operation;
mod parameter;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use agent::config::nearest;
use agent::limits;
use serde_json::Value;

use self::operation::Operation;
use crate::declare::{Declaration, DeclarationMistake};

/// Names of operations that an error lists.
const NEAR_NAMES: usize = 5;
/// Methods of operations; others cannot be declared.
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

/// What to import.
#[derive(Clone, Debug, Default)]
pub struct OpenApiImport<'a> {
    /// Ids of operations.
    pub only: &'a [String],
    /// The server, if it is another one than the document names.
    pub server: Option<&'a str>,
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenApiTools {
    /// The tools, in the order in which their operations are named.
    pub tools: Vec<Declaration>,
    /// What they leave out because it cannot be declared; the key is the id of the operation.
    pub left_out: Vec<DeclarationMistake>,
}

/// Declares the operations of a document. The key of a mistake is the id of its operation; the list of mistakes is never
/// empty.
pub fn import_openapi(
    document: &[u8],
    import: &OpenApiImport<'_>,
) -> Result<OpenApiTools, Vec<DeclarationMistake>> {
    let document = read(document).map_err(|why| vec![mistake(None, why)])?;
    let operations = operations(&document);
    let (mut found, mut mistakes) = (OpenApiTools::default(), Vec::new());
    if import.only.is_empty() || import.only.len() > limits::OPENAPI_OPERATIONS_MAX {
        let max = limits::OPENAPI_OPERATIONS_MAX;
        let why = format!("wanted the ids of 1 to {max} operations, got {}", import.only.len());
        return Err(vec![mistake(None, why)]);
    }
    let mut names = BTreeSet::new();
    for id in import.only {
        let mut left_out = Vec::new();
        let declared = match operations.get(id.as_str()) {
            Some(operation) => operation.declare(&document, import.server, &mut left_out),
            None => Err(vec![unknown(id, &operations)]),
        };
        match declared {
            Ok(declaration) if names.insert(declaration.name.clone()) => {
                found.tools.push(declaration);
                found.left_out.extend(left_out.into_iter().map(|why| mistake(Some(id), why)));
            }
            Ok(declaration) => {
                let why = format!("another operation becomes a tool named `{}` already", declaration.name);
                mistakes.push(mistake(Some(id), why));
            }
            Err(wrong) => mistakes.extend(wrong.into_iter().map(|why| mistake(Some(id), why))),
        }
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
}

fn mistake(id: Option<&String>, why: String) -> DeclarationMistake {
    DeclarationMistake { file: None, key: id.cloned(), why }
}

fn read(document: &[u8]) -> Result<Value, String> {
    let max = limits::OPENAPI_MAX_BYTES;
    if document.len() > max {
        return Err(format!("wanted an OpenAPI document of at most {max} bytes, got {}", document.len()));
    }
    let document = document.strip_prefix("\u{feff}".as_bytes()).unwrap_or(document);
    let value: Value = serde_json::from_slice(document)
        .map_err(|error| format!("wanted an OpenAPI document as JSON, but: {error}"))?;
    let version = value["openapi"].as_str().unwrap_or_default();
    if !version.starts_with("3.") {
        return Err(format!("wanted an OpenAPI document of version 3, got `openapi: {version}`"));
    }
    Ok(value)
}

/// All operations that have an id.
fn operations(document: &Value) -> BTreeMap<&str, Operation<'_>> {
    let mut found = BTreeMap::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        let item = schema::followed(document, item);
        for method in METHODS {
            let operation = &item[method];
            if let Some(id) = operation["operationId"].as_str() {
                found.entry(id).or_insert(Operation { path, method, item, operation });
            }
        }
    }
    found
}

fn unknown(id: &str, operations: &BTreeMap<&str, Operation<'_>>) -> String {
    let ids = || operations.keys().copied();
    let lower = id.to_lowercase();
    let mut near: Vec<&str> = nearest(id, ids()).into_iter().collect();
    let is_like = |known: &&str| {
        let known = known.to_lowercase();
        known.contains(&lower) || !known.is_empty() && lower.contains(&known)
    };
    near.extend(ids().filter(is_like).filter(|known| near.first() != Some(known)).collect::<Vec<_>>());
    near.truncate(NEAR_NAMES);
    let hint = if near.is_empty() {
        format!(
            "it has {}, such as `{}`",
            operations.len(),
            ids().take(NEAR_NAMES).collect::<Vec<_>>().join("`, `")
        )
    } else {
        format!("did you mean `{}`?", near.join("`, `"))
    };
    format!("the document has no operation with this id\nhint: {hint}")
}
