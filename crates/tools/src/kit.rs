//! The tools of a server by name, in a stable order: the prebuilt tools first, then the added ones.

use std::sync::Arc;

use agent::port::{Tool, Toolbox};

use crate::typed::typed;
use crate::{
    ending, enter_space, get_my_runs, goals, memories, peek_inbox, read_messages, read_outcome, recall,
    send_message,
};

/// Why a tool cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// The name is taken by a prebuilt tool or by one that was added before.
    #[error("wanted a tool under a name of its own, but `{0}` is taken\nhint: give it another name")]
    NameTaken(String),
    /// Model vendors do not accept this name.
    #[error("wanted a tool's name of 1 to 64 characters from a-z, A-Z, 0-9, `_` and `-`, got `{0}`")]
    BadName(String),
}

/// All tools of a server.
#[derive(Clone)]
pub struct ToolKit {
    prebuilt: Vec<Arc<dyn Tool>>,
    /// For agents with tools outside the prebuilt ones.
    read_outcome: Arc<dyn Tool>,
    added: Vec<Arc<dyn Tool>>,
}

/// A kit of the prebuilt tools.
pub fn prebuilt() -> ToolKit {
    ToolKit {
        added: Vec::new(),
        read_outcome: typed::<read_outcome::ReadOutcome>(),
        prebuilt: vec![
            typed::<enter_space::EnterSpace>(),
            typed::<send_message::SendMessage>(),
            typed::<read_messages::ReadMessages>(),
            typed::<peek_inbox::PeekInbox>(),
            typed::<ending::Skip>(),
            typed::<ending::Done>(),
            typed::<memories::SetMemories>(),
            typed::<memories::DeleteMemories>(),
            typed::<goals::SetGoals>(),
            typed::<goals::DeleteGoals>(),
            typed::<get_my_runs::GetMyRuns>(),
            typed::<recall::Recall>(),
            typed::<recall::ReadCycle>(),
        ],
    }
}

impl ToolKit {
    /// Adds a tool after the others. Only agents that list it in their tools have it.
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Result<Self, BadTool> {
        let name = &tool.spec().name;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(BadTool::BadName(name.chars().take(80).collect()));
        }
        if self.tool(name).is_some() {
            return Err(BadTool::NameTaken(name.clone()));
        }
        self.added.push(tool);
        Ok(self)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.prebuilt.iter().chain([&self.read_outcome]).chain(&self.added)
    }
}

impl Toolbox for ToolKit {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.all().find(|tool| tool.spec().name == name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.all().map(|tool| tool.spec().name.clone()).collect()
    }

    fn is_prebuilt(&self, name: &str) -> bool {
        self.prebuilt.iter().any(|tool| tool.spec().name == name)
    }
}

impl std::fmt::Debug for ToolKit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ToolKit").field(&self.names()).finish()
    }
}
