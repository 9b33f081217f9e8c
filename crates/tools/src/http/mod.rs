//! HTTP tools: a call becomes one request, its answer the outcome. Built from a declaration; must not know where that came
//! from, nor where secrets are kept.

mod answer;
mod plan;

use std::fmt;
use std::sync::Arc;

use agent::call::Outcome;
use agent::changes::Inward;
use agent::limits;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::Value;

pub(crate) use self::answer::{AnswerHead, is_text, refusal, retry_after, unknown};
use crate::arguments::Checker;
use crate::connector::Connector;
use crate::declare::{self, Declaration, DeclarationMistake, HttpDeclaration};
use crate::secret::{Secrets, apart};
use crate::turn::Turns;

/// A tool that sends a request to an HTTP server.
pub struct HttpTool {
    declaration: Declaration,
    http: HttpDeclaration,
    spec: ToolSpec,
    checker: Checker,
    turns: Turns,
    connector: Arc<Connector>,
    secrets: Arc<dyn Secrets>,
}

impl HttpTool {
    /// Builds the tool; nothing is connected yet. The list of mistakes is never empty.
    pub fn new(
        declaration: Declaration,
        connector: Arc<Connector>,
        secrets: Arc<dyn Secrets>,
    ) -> Result<Self, Vec<DeclarationMistake>> {
        let mut wrong = declare::check(&declaration, &[]);
        let checker = Checker::new(&declaration.name, &declaration.input);
        let (Some(http), Ok(checker), true) = (declaration.http.clone(), checker, wrong.is_empty()) else {
            if wrong.is_empty() {
                wrong.push((Some("kind".into()), "wanted a tool of kind `http`".into()));
            }
            let mistakes = wrong.into_iter();
            return Err(mistakes.map(|(key, why)| DeclarationMistake { file: None, key, why }).collect());
        };
        let spec = declaration.spec(None);
        let turns = Turns::new(declaration.concurrency, declaration.rate);
        Ok(Self { declaration, http, spec, checker, turns, connector, secrets })
    }

    /// What it was built from.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    async fn run(&self, arguments: &Value, context: &ToolContext<'_>) -> Result<Outcome, ToolError> {
        let (name, effect) = (&self.declaration.name, self.declaration.effect);
        let _place = self.turns.take(name, context.now).await.map_err(ToolError::new)?;
        let secrets = self.secrets.as_ref();
        let prepared = plan::prepare(&self.declaration, &self.http, arguments, context.call, secrets).await;
        let plan::Prepared { request, mask } = prepared.map_err(ToolError::new)?;
        context.gate.may_begin().await?;
        let answer = match self.connector.send(request).await {
            Ok(answer) => answer,
            Err(error) => return answer::failed(&error, effect, &mask),
        };
        // The server has done what was asked, and nobody here knows it yet.
        failpoint::hit!("tool.running");
        let head = AnswerHead::of(&answer);
        // Of a failure only the beginning is quoted; a secret in it is found even if the quotation cuts it.
        let most = if head.is_success() {
            limits::OUTCOME_STORED_MAX_BYTES
        } else {
            8 * limits::FAILURE_SHOWN_BYTES
        };
        let body = match answer.body.at_most(most).collect().await {
            Ok(body) => body,
            Err(error) => return answer::failed(&error, effect, &mask),
        };
        let bytes = body.bytes.len();
        let (pointer, now) = (self.http.outcome.clone(), context.now);
        let read = move || {
            if head.is_success() {
                answer::succeeded(&head, &body, pointer.as_deref(), &mask)
            } else {
                answer::refused(&head, &body, effect, now, &mask)
            }
        };
        apart(bytes, read).await.unwrap_or_else(|error| Err(answer::unread(&error)))
    }
}

impl Tool for HttpTool {
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
            let outcome = self.run(&arguments, &context).await?;
            Ok(Done { outcome, inward: Inward::default() })
        })
    }
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpTool").field(&self.declaration.name).finish()
    }
}
