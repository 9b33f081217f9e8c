//! The command line of `viv plans`.

use agent::limits;
use agent::plan::Missed;
use clap::builder::{PossibleValuesParser as Names, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PlansArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<PlansVerb>,
    /// The agent, by handle or id [default: all]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlansVerb {
    /// List plans, the next one first, as the command alone does
    #[command(alias = "ls")]
    List {
        /// The agent, by handle or id [default: all]
        agent: Option<String>,
    },
    /// Show a plan
    Show {
        /// The agent, by handle or id
        agent: String,
        /// The plan, by id or name
        plan: String,
    },
    /// Set a plan: when the agent is woken, and what it does then
    Add(AddPlanArgs),
    /// Delete a plan
    #[command(alias = "rm")]
    Remove {
        /// The agent, by handle or id
        agent: String,
        /// The plan, by id or name
        plan: String,
    },
    /// Let a plan fire now, beside its schedule, which stays as it is
    Fire {
        /// The agent, by handle or id
        agent: String,
        /// The plan, by id or name
        plan: String,
    },
    /// List when a plan fires next
    Next {
        /// The agent, by handle or id
        agent: String,
        /// The plan, by id or name
        plan: String,
        /// Number of times
        #[arg(long, short = 'n', value_name = "N", default_value_t = 5,
              value_parser = clap::value_parser!(u16).range(1..=limits::PLAN_TIMES_MAX as i64))]
        count: u16,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("when").required(true))]
pub(crate) struct AddPlanArgs {
    /// The agent, by handle or id
    pub(crate) agent: String,
    /// Its name
    pub(crate) name: String,
    /// What the agent does when it fires; `-` reads standard input
    #[arg(value_name = "TEXT")]
    pub(crate) instruction: String,
    /// Once, at this time, such as `2026-03-01T09:00:00Z`, or with `--zone` at this local time
    #[arg(long, value_name = "TIME", group = "when")]
    pub(crate) at: Option<String>,
    /// Once, after this span, such as `30m` or `1d`
    #[arg(long, value_name = "SPAN", group = "when")]
    pub(crate) after: Option<String>,
    /// Again and again, after this span; a day is 24 hours
    #[arg(long, value_name = "SPAN", group = "when")]
    pub(crate) every: Option<String>,
    /// Again and again, by five fields: minute, hour, day, month, weekday; with a day and a weekday, on either
    #[arg(long, value_name = "FIELDS", group = "when")]
    pub(crate) cron: Option<String>,
    /// The time from which `--every` counts [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// The time zone of `--cron`, and of times without an offset [default of `--cron`: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// What becomes of times at which it cannot fire: one event for all, none, or one for each
    #[arg(long, value_name = "RULE", value_parser = Names::new(["once", "skip", "all"]).try_map(|name| name.parse::<Missed>()))]
    pub(crate) missed: Option<Missed>,
    /// How late it may fire; later, the time is dropped
    #[arg(long, value_name = "SPAN")]
    pub(crate) max_lateness: Option<String>,
}
