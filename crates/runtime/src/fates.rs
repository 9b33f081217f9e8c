//! How far the events of a waking have come, as watchers are told after each commit. It knows what this
//! waking saw: a cycle that is taken up again tells of what it shows from then on, and the ledger of all.

use agent::changes::{Changes, CommitKind, Named};
use agent::delivery;
use agent::event::{Fate, Stage, Waiting};
use agent::id::{AgentId, CycleId, EventId, SpaceId};
use agent::update::Update;

/// An event that was lived in this waking, and not addressed so far.
#[derive(Debug)]
struct Lived {
    seq: u64,
    event: EventId,
    space: Option<SpaceId>,
    step: u32,
}

/// What this waking has told of its events.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    taken: Vec<u64>,
    lived: Vec<Lived>,
}

impl Fates {
    /// What a commit made of the events in sight, and of those that were lived before.
    pub(crate) fn after<'a>(
        &mut self,
        agent: AgentId,
        in_sight: impl Iterator<Item = &'a Waiting>,
        changes: &Changes,
    ) -> Vec<Update> {
        let mut told = Vec::new();
        let mut tell = |event: &EventId, stage, step| {
            let cycle = matches!(stage, Stage::Taken | Stage::Shown | Stage::Addressed | Stage::Read);
            let cycle: Option<CycleId> = cycle.then_some(changes.cycle);
            told.push(Update::EventStage { agent, event: event.clone(), stage, cycle, step });
        };
        for waiting in in_sight {
            let event = &waiting.event;
            match changes
                .settle
                .iter()
                .find(|settled| settled.seq == waiting.seq)
                .map(|settled| &settled.fate)
            {
                Some(Fate::Lived { step, .. }) => {
                    let (seq, step, space) = (waiting.seq, *step, delivery::space_of(event));
                    tell(&event.id, Stage::Shown, Some(step));
                    self.lived.push(Lived { seq, event: event.id.clone(), space, step });
                }
                Some(fate) => tell(&event.id, Stage::of(fate, false, false, false), None),
                None if takes(changes, waiting.seq) && !self.taken.contains(&waiting.seq) => {
                    self.taken.push(waiting.seq);
                    tell(&event.id, Stage::Taken, None);
                }
                None => {}
            }
        }
        for lived in self.lived.extract_if(.., |lived| is_addressed(lived, changes)) {
            tell(&lived.event, Stage::Addressed, Some(lived.step));
        }
        if changes.run.is_some() {
            for lived in self.lived.drain(..) {
                tell(&lived.event, Stage::Read, Some(lived.step));
            }
        }
        told
    }
}

fn takes(changes: &Changes, seq: u64) -> bool {
    changes.kind == CommitKind::Open && changes.open.as_ref().is_some_and(|open| open.taken.contains(&seq))
}

/// Whether the commit speaks where the event came from, or names it as dealt with.
fn is_addressed(lived: &Lived, changes: &Changes) -> bool {
    let spoke = changes.inward.says.iter().any(|said| Some(said.space) == lived.space);
    let named = changes.addressed.iter().any(|named| match named {
        Named::Seq(seq) => *seq == lived.seq,
        Named::Id(id) => *id == lived.event,
    });
    spoke || named
}
