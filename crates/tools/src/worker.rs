//! Worker tools: what a model reads of them. Their calls are run by programs outside, which claim them from the runtime;
//! this module must not know how.

use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::Value;

use crate::arguments::Checker;
use crate::declare::{self, Declaration, DeclarationMistake};

/// A tool that programs outside run.
pub(crate) struct WorkerTool {
    spec: ToolSpec,
    checker: Checker,
}

impl WorkerTool {
    /// Builds the tool of a declaration of kind `worker`. The list of mistakes is never empty.
    pub(crate) fn new(declaration: &Declaration) -> Result<Self, Vec<DeclarationMistake>> {
        let mut wrong = declare::check(declaration, &[]);
        let checker = match Checker::new(&declaration.name, &declaration.input) {
            Ok(checker) if wrong.is_empty() => checker,
            Ok(_) => return Err(mistakes(wrong)),
            Err(error) => {
                wrong.push((Some("input".into()), error.to_string()));
                return Err(mistakes(wrong));
            }
        };
        let version = declaration.worker.clone().unwrap_or_default().version;
        let spec = declaration.spec(Some(version));
        Ok(Self { spec, checker })
    }
}

fn mistakes(wrong: Vec<(Option<String>, String)>) -> Vec<DeclarationMistake> {
    wrong.into_iter().map(|(key, why)| DeclarationMistake { file: None, key, why }).collect()
}

impl Tool for WorkerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        self.checker.check(arguments)
    }

    fn call<'a>(&'a self, _: Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async {
            let why = "wanted to run it here, but only a worker that claims a call of an agent runs it";
            Err(ToolError::new(why))
        })
    }
}
