//! The command line of `viv approvals`.

use clap::builder::PossibleValuesParser as Names;
use clap::{ArgGroup, Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<ApprovalsVerb>,
    #[command(flatten)]
    pub(crate) list: ApprovalsList,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsList {
    /// Only calls of this agent, by handle or id
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only calls that are asked in this space, by handle or id
    #[arg(long)]
    pub(crate) space: Option<String>,
    /// Also those that are over
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsVerb {
    /// List calls that wait for people, the newest first, as the command alone does
    #[command(alias = "ls")]
    List(ApprovalsList),
    /// Show a call: what would run, exactly, and why somebody is asked
    Show {
        /// The call, by id
        call: String,
        /// Print only a link with which anybody can answer the call, once: give it only to whoever may
        #[arg(long)]
        link: bool,
    },
    /// Answer a call; the first answer counts. `approve` prints what it approves, and approves nothing else
    Answer(AnswerArgs),
    /// List the rules by which calls need no approval
    Rules {
        /// Only rules of this agent, by handle or id
        #[arg(long)]
        agent: Option<String>,
    },
    /// Delete a rule
    Forget {
        /// The agent, by handle or id
        agent: String,
        /// The tool
        tool: String,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct AnswerArgs {
    /// The call, by id
    pub(crate) call: String,
    /// Whether it may run
    #[arg(group = "what", value_parser = Names::new(["approve", "refuse"]))]
    pub(crate) verdict: Option<String>,
    /// The answer to a question: a text, or an option of a choice
    #[arg(long, group = "what", value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// The answer to a form, as JSON
    #[arg(long, group = "what", value_name = "JSON")]
    pub(crate) form: Option<String>,
    /// What the agent reads about it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Other arguments than the agent's, as JSON; the agent reads them
    #[arg(long, value_name = "JSON", requires = "verdict")]
    pub(crate) arguments: Option<String>,
    /// Calls of this tool by this agent need no approval for this time, such as `2h`, except while
    /// it has read strangers' text
    #[arg(long, value_name = "SPAN", requires = "verdict")]
    pub(crate) remember: Option<String>,
    /// With `--remember`: also while it has read strangers' text
    #[arg(long, requires = "remember")]
    pub(crate) tainted: bool,
    /// Answer only if the call is the one with this hash, as `viv approvals show` prints it [default: the
    /// hash of what `approve` prints]
    #[arg(long, value_name = "HASH")]
    pub(crate) hash: Option<String>,
    /// Approve without a question; without a terminal nothing is asked
    #[arg(long, requires = "verdict")]
    pub(crate) yes: bool,
    /// The person who answers, by handle or id [default: an operator]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) sender: Option<String>,
}
