//! Why a request did not do what it was asked to do. Must not know what a program does with it.

use std::fmt;

/// What a caller can do next about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// No server answers, or it is restarting: try again, or start one.
    Unreachable,
    /// The outcome did not come in time. What was accepted is still processed.
    TimedOut,
    /// Nothing has that id or handle.
    NotFound,
    /// The server refuses the request: change it.
    Refused,
    /// The key from the credential file is refused: the server may have been restarted and have written another.
    KeyReplaced,
    /// An environment variable or an address is wrong.
    Usage,
    /// Anything else.
    Failed,
}

/// An error of the client or a refusal by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    /// What to do next.
    pub class: ErrorClass,
    /// Stable, in lower snake case. The server's own code if the server answered, see `docs/errors.md`.
    pub code: String,
    /// What was wanted and what stood in the way.
    pub message: String,
    /// What to do, if there is something to do.
    pub hint: Option<String>,
}

/// The result of a request.
pub type Result<T> = std::result::Result<T, ClientError>;

impl ClientError {
    /// An error without a hint.
    pub fn new(class: ErrorClass, code: &str, message: impl Into<String>) -> Self {
        Self { class, code: code.to_owned(), message: message.into(), hint: None }
    }

    /// A wrong setting or name.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Usage, "usage", message)
    }

    /// Nothing has that name.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::NotFound, "not_found", message)
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether the same request may succeed in a moment: no server answers, or the key belongs to the server that
    /// ran before a restart.
    pub fn is_temporary(&self) -> bool {
        matches!(self.class, ErrorClass::Unreachable | ErrorClass::KeyReplaced)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for ClientError {}
