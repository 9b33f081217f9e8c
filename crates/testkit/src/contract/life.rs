//! What a life from activation to rest promises.

use std::sync::Arc;

use agent::changes::{Changes, CommitKind, CommitOutcome, Idle, PlanChange, Tried};
use agent::config::AgentConfig;
use agent::entry::{EntryKind, View};
use agent::event::{Cause, Envelope, EventData, EventState, Trust};
use agent::id::{CycleId, EventId, PlanId, RootId};
use agent::life::{IdleReason, IdleUntil, Layer, Plan, Schedule, Standing, Window};
use agent::port::Accepted;
use agent::run::Usage;
use jiff::Timestamp;

use super::Backend;
use super::world::{AHEAD, Living, World, at, everything, fresh, service, world, world_with};

/// Events are processed in the decision; the log, the run and the audit tell it all.
pub async fn a_cycle_opens_decides_and_closes(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let mut decision = living.decision();
    decision.calls = vec![living.call(0)];
    living.done(&w, decision).await;
    let closing = living.closing();
    let (_, echo) = living.done(&w, closing).await;
    assert_eq!(echo.wake, []);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.life.epoch, activation.life.commit_n, activation.life.head_seq), (1, 3, 2));
    assert_eq!((activation.life.cycles, activation.life.open.is_none()), (1, true));
    let Window::Loaded(entries) = activation.window else { panic!("wanted the entries") };
    let kinds: Vec<_> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Inbox, EntryKind::Assistant]);
    assert_eq!(entries[0].message.text(), "inbox");
    let run = w.b.reader.run(living.open.id).await.unwrap();
    assert_eq!(run, Some(living.record()));
    assert_eq!(w.b.lookup.runs(w.ada, 5).await.unwrap(), [living.record()]);
    let kinds: Vec<_> =
        w.b.reader.commits(w.ada, 0, 10).await.unwrap().into_iter().map(|row| (row.n, row.kind)).collect();
    assert_eq!(kinds, [(1, CommitKind::Open), (2, CommitKind::Decide), (3, CommitKind::Close)]);
    let inbox = w.b.reader.inbox(w.ada, None, everything()).await.unwrap();
    assert_eq!(inbox.items[0].state, EventState::Processed { cycle: living.open.id, step: 0 });
    assert_eq!(w.due(10_000).await, []);
}

/// The log is untouched, the event still waits, and nothing is counted but what the opening says.
pub async fn opening_appends_nothing_and_counts_only_what_it_says(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let before = w.dump(w.ada).await;
    w.open(w.ada).await;
    assert_eq!(w.dump(w.ada).await, before);
    let activation = w.wake(w.ada).await;
    assert_eq!(
        (activation.life.epoch, activation.waiting.len(), activation.life.open.is_some()),
        (1, 1, true)
    );
    assert_eq!((activation.waiting[0].attempts, activation.waiting[0].deaths), (0, 0));
    for (attempts, deaths) in [(0, 1), (1, 1), (1, 2)] {
        let activation = w.wake(w.ada).await;
        let mut heir = Living::about_to_open(w.ada, &activation);
        let mut open = heir.changes(CommitKind::Open);
        open.tried = vec![Tried { seq: activation.waiting[0].seq, attempts, deaths }];
        heir.done(&w, open).await;
        let activation = w.wake(w.ada).await;
        assert_eq!((activation.waiting[0].attempts, activation.waiting[0].deaths), (attempts, deaths));
    }
}

/// Where their content failed, and not for the surroundings' fault; the agent rests until then.
pub async fn events_given_back_have_failed_once_more_only_where_they_are_to_blame(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    for (blame, attempts) in [(true, 1), (false, 1), (true, 2)] {
        let mut living = w.open(w.ada).await;
        let mut back = living.changes(CommitKind::Close);
        back.open = None;
        back.blame = blame;
        back.settle = living.settled(&EventState::Waiting);
        back.idle = Some(Idle { not_before: Some(at(900)), reason: Some(IdleReason::Backoff) });
        let (_, echo) = living.done(&w, back).await;
        assert_eq!(echo.wake, [agent::port::Wakeup { agent: w.ada, at: at(900), urgent: false }]);
        assert_eq!(w.due(899).await, []);
        assert_eq!(w.due(900).await, [w.ada]);
        let activation = w.wake(w.ada).await;
        assert_eq!((activation.waiting[0].attempts, activation.life.not_before), (attempts, Some(at(900))));
        let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
        assert_eq!((card.waiting, card.idle_reason), (1, Some(IdleReason::Backoff)));
        assert_eq!(w.b.store.wake(w.ada, at(899), None).await.unwrap().unwrap().waiting, []);
    }
}

/// A clock that was set back between two words does not turn them round.
pub async fn once_the_first_of_what_waits_is_due_all_of_it_is_in_the_order_in_which_it_came(b: Backend) {
    let w = world(b).await;
    for (id, when) in [("a", 900), ("b", 20), ("c", 700)] {
        let mut event = service(id);
        event.at = at(when);
        w.event(w.ada, event).await;
    }
    let seqs = async |now| {
        let activation = w.b.store.wake(w.ada, at(now), None).await.unwrap().unwrap();
        activation.waiting.iter().map(|waiting| waiting.seq).collect::<Vec<_>>()
    };
    assert_eq!((seqs(19).await, seqs(20).await), (vec![], vec![1, 2, 3]));
}

/// The clock was set back after it was told: every wait is as long as it was meant to be.
pub async fn what_is_told_by_a_clock_that_is_ahead_counts_from_now(b: Backend) {
    let w = world(b).await;
    let due = async || w.b.store.due(Timestamp::now(), None, 100).await.unwrap().len();
    let mut event = service("a");
    event.at = at(AHEAD);
    w.event(w.ada, event).await;
    assert_eq!(due().await, 1);
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let mut park = living.changes(CommitKind::Park);
    (park.at, park.idle) = (at(AHEAD), Some(Idle { not_before: Some(at(AHEAD + 60_000)), reason: None }));
    living.done(&w, park).await;
    let until = w.b.store.next_due(Timestamp::now()).await.unwrap().unwrap();
    assert!(until.duration_since(Timestamp::now()).as_secs() <= 60, "{until}");
    w.b.registry.set_standing(w.ada, Standing::Active, at(AHEAD)).await.unwrap();
    assert_eq!(due().await, 1, "resuming helps");
}

/// Until its rest is over; nobody else is shown it.
pub async fn who_rests_is_found_by_the_spaces_that_wait_for_it(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let mut back = living.changes(CommitKind::Close);
    back.open = None;
    back.settle = living.settled(&EventState::Waiting);
    back.idle = Some(Idle { not_before: Some(at(900)), reason: Some(IdleReason::Provider) });
    living.done(&w, back).await;
    let resting = |space, now| w.b.reader.resting(space, at(now));
    let rest = IdleUntil { reason: IdleReason::Provider, until: at(900) };
    assert_eq!(resting(w.family, 10).await.unwrap(), [(w.ada, rest)]);
    assert_eq!(resting(w.team, 10).await.unwrap(), [], "nothing of there waits");
    assert_eq!(resting(w.family, 900).await.unwrap(), [], "it is over");
}

/// What a provider refused, or what failed, may be mended by it; a new name alone mends nothing.
pub async fn a_changed_config_ends_a_rest(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    for (reason, step) in [(IdleReason::Provider, 3), (IdleReason::Backoff, 4)] {
        let mut living = w.open(w.ada).await;
        let mut back = living.changes(CommitKind::Close);
        back.open = None;
        back.settle = living.settled(&EventState::Waiting);
        back.idle = Some(Idle { not_before: Some(at(900)), reason: Some(reason) });
        living.done(&w, back).await;
        w.b.registry.amend_agent(w.ada, Some("ADA".into()), None, at(20)).await.unwrap();
        assert_eq!(w.due(899).await, []);
        let config = serde_json::json!({"limits": {"max_steps": step}});
        w.b.registry.amend_agent(w.ada, None, Some(config), at(20)).await.unwrap();
        assert_eq!(w.due(20).await, [w.ada]);
    }
}

/// Settling what is settled writes nothing.
pub async fn an_event_is_lived_at_most_once(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let before = w.dump(w.ada).await;
    let mut again = living.changes(CommitKind::Decide);
    again.entries = vec![living.entry(1, EntryKind::Assistant, "again")];
    again.settle = living.settled(&EventState::Processed { cycle: living.open.id, step: 1 });
    assert_eq!(w.commit(living.lease, again).await, CommitOutcome::Gone(living.open.taken.clone()));
    assert_eq!(w.dump(w.ada).await, before);
}

/// It stays in the ledger with its reason.
pub async fn a_dead_event_is_never_due_again(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    let mut living = w.open(w.ada).await;
    let mut close = living.changes(CommitKind::Close);
    close.open = None;
    close.settle = living.settled(&EventState::Dead { reason: "garbage".into() });
    living.done(&w, close).await;
    assert_eq!(w.due(100_000).await, []);
    let dead = w.b.reader.inbox(w.ada, Some("dead".into()), everything()).await.unwrap().items;
    assert_eq!(dead[0].state, EventState::Dead { reason: "garbage".into() });
    assert_eq!(w.b.reader.totals().await.unwrap().dead, 1);
    assert_eq!(w.event(w.ada, service("poison")).await, Accepted::Duplicate { message: None });
}

/// Only the ledger, the counter and the cost know of it.
pub async fn a_skip_leaves_log_runs_and_ordinals_as_they_were(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "first").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    let before = w.dump(w.ada).await;
    w.say(w.family, "none of her business").await;
    let mut living = w.open(w.ada).await;
    let mut skip = living.changes(CommitKind::Close);
    skip.open = None;
    skip.settle = living.settled(&EventState::Skipped { reason: Some("not mine".into()) });
    skip.usage = Usage { input: Some(7), ..Usage::default() };
    skip.cost_micros = Some(3);
    living.done(&w, skip).await;
    assert_eq!(w.dump(w.ada).await, before);
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.skips, card.cycles, card.usage.input), (1, 1, Some(17)));
    assert_eq!((card.cost_micros, card.unpriced), (Some(3), 1), "the run before has no price");
    let skipped = w.b.reader.inbox(w.ada, Some("skipped".into()), everything()).await.unwrap().items;
    assert_eq!(skipped[0].state, EventState::Skipped { reason: Some("not mine".into()) });
}

/// Whoever lives it may have died; a rest of the whole agent is honoured whatever comes.
pub async fn an_open_cycle_is_due_until_it_rests_and_a_held_agent_is_not(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    assert_eq!(w.due(1_000).await, [w.ada]);
    let decision = living.decision();
    living.done(&w, decision).await;
    assert_eq!(w.due(1_000).await, [w.ada]);
    let mut park = living.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(5_000)), reason: Some(IdleReason::Provider) });
    living.done(&w, park).await;
    let Accepted::Fresh { wake, .. } = w.say(w.family, "more").await else { panic!("wanted it accepted") };
    assert_eq!(wake[0].at, at(5_000));
    assert_eq!(w.due(4_999).await, []);
    assert_eq!(w.b.store.next_due(at(1_000)).await.unwrap(), Some(at(5_000)));
    assert_eq!(w.due(5_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    let mut open = living.changes(CommitKind::Open);
    living.lease.epoch = activation.life.epoch + 1;
    open.at = at(5_000);
    living.done(&w, open).await;
    assert_eq!(w.wake(w.ada).await.life.not_before, None);
}

/// Resumed, it is due at once with all that came.
pub async fn a_suspended_agent_keeps_its_events_and_is_never_due(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "before").await;
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(20)).await.unwrap();
    let Accepted::Fresh { wake, .. } = w.say(w.family, "meanwhile").await else { panic!("wanted it") };
    assert_eq!((wake, w.due(100_000).await), (vec![], vec![]));
    let activation = w.wake(w.ada).await;
    let mut open = Changes::new(CommitKind::Open, CycleId(fresh()), 0, 0, at(30));
    open.open = None;
    let lease = agent::life::Lease { agent: w.ada, epoch: activation.life.epoch + 1 };
    assert_eq!(w.commit(lease, open).await, CommitOutcome::Lost);
    w.b.registry.set_standing(w.ada, Standing::Active, at(40)).await.unwrap();
    assert_eq!(w.due(40).await, [w.ada]);
    assert_eq!(w.wake(w.ada).await.waiting.len(), 2);
}

/// Whatever the agent rests for, if for anything, and whether it was suspended besides or not.
pub async fn an_operators_word_ends_a_rest(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let rests = [
        (Some(IdleReason::Provider), false, 1_030),
        (Some(IdleReason::Backoff), true, 2_030),
        (None, true, 3_030),
        (None, false, 4_030),
    ];
    for (reason, suspended, due) in rests {
        let mut park = living.changes(CommitKind::Park);
        park.idle = Some(Idle { not_before: Some(at(due + 870)), reason });
        living.done(&w, park).await;
        if suspended {
            w.b.registry.set_standing(w.ada, Standing::Suspended, at(due - 1)).await.unwrap();
        }
        w.b.registry.set_standing(w.ada, Standing::Active, at(due)).await.unwrap();
        assert_eq!((w.due(due - 1).await, w.due(due).await), (vec![], vec![w.ada]), "{reason:?}");
        assert_eq!(w.b.reader.agent(w.ada).await.unwrap().unwrap().idle_reason, None);
        let mut open = living.changes(CommitKind::Open);
        (living.lease.epoch, open.at) = (living.lease.epoch + 1, at(due));
        living.done(&w, open).await;
    }
}

/// As long as nothing was committed; else all of it.
pub async fn a_warm_waking_reads_no_window(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let wake = |known| w.b.store.wake(w.ada, at(1_000), known);
    let warm = wake(Some(living.n)).await.unwrap().unwrap();
    assert!(matches!(warm.window, Window::Unchanged));
    let cold = wake(Some(living.n - 1)).await.unwrap().unwrap();
    assert!(matches!(cold.window, Window::Loaded(entries) if entries.len() == 2));
    assert!(w.b.store.wake(agent::id::AgentId(fresh()), at(0), None).await.unwrap().is_none());
}

/// A plan of every hour, from the first one on, that Ada sets in a cycle of her own.
async fn planned(w: &World) -> Plan {
    w.say(w.family, "remind me").await;
    let mut living = w.open(w.ada).await;
    let plan = Plan {
        id: PlanId(fresh()),
        name: "health".into(),
        instruction: "check".into(),
        schedule: Schedule::Cron { expression: "0 * * * *".into(), zone: "UTC".into() },
        next_at: Some(at(HOUR)),
    };
    let mut decision = living.decision();
    decision.inward.plans = vec![PlanChange::Set(plan.clone())];
    decision.cause = Cause { root: RootId("asked".into()), hop: 3, trust: Trust::Agent };
    living.done(w, decision).await;
    assert_eq!(w.facts(living.lease).await.plans, std::slice::from_ref(&plan));
    let closing = living.closing();
    living.done(w, closing).await;
    plan
}

const HOUR: i64 = 3_600_000;

/// The slots that each waiting event of a plan lists.
async fn slots(w: &World, now: Timestamp) -> Vec<usize> {
    let waiting = w.b.store.wake(w.ada, now, None).await.unwrap().unwrap().waiting;
    let slots = waiting.into_iter().map(|waiting| match waiting.event.data {
        EventData::Plan { slots, .. } => slots.len(),
        other => panic!("wanted a plan's event, got {other:?}"),
    });
    slots.collect()
}

/// Missed slots are one event, and so are those that are due while it waits; firing again fires nothing.
pub async fn a_due_plan_fires_one_event_once(b: Backend) {
    let w = world(b).await;
    planned(&w).await;
    assert_eq!(w.b.store.next_due(at(0)).await.unwrap(), Some(at(HOUR)));
    assert_eq!(w.b.store.fire_due(at(HOUR - 1), 10).await.unwrap(), []);
    let now = at(3 * HOUR + 60_000);
    let woken = w.b.store.fire_due(now, 10).await.unwrap();
    assert_eq!(woken.iter().map(|waken| waken.agent).collect::<Vec<_>>(), [w.ada]);
    assert_eq!(w.b.store.fire_due(now, 10).await.unwrap(), []);
    assert_eq!(slots(&w, now).await, [3]);
    let waiting = w.b.store.wake(w.ada, now, None).await.unwrap().unwrap().waiting;
    let Envelope { root, hop, trust, .. } = &waiting[0].event.envelope;
    assert_eq!((root.0.as_str(), *hop, *trust), ("asked", 3, Trust::Agent), "of the cycle that set it");
    let pending = w.b.reader.facts(w.ada).await.unwrap().unwrap().plans;
    assert!(pending[0].next_at > Some(now), "{pending:?}");
    let later = at(5 * HOUR);
    assert_eq!(w.b.store.fire_due(later, 10).await.unwrap(), []);
    assert_eq!(slots(&w, later).await, [5]);
}

/// Until then nobody asks for them.
pub async fn plans_of_a_suspended_agent_fire_once_when_it_is_resumed(b: Backend) {
    let w = world(b).await;
    planned(&w).await;
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(20)).await.unwrap();
    for hours in 1..4 {
        assert_eq!(w.b.store.fire_due(at(hours * HOUR), 10).await.unwrap(), []);
        assert_eq!(w.b.store.next_due(at(hours * HOUR)).await.unwrap(), None);
    }
    let now = at(4 * HOUR);
    w.b.registry.set_standing(w.ada, Standing::Active, now).await.unwrap();
    assert_eq!(w.b.store.fire_due(now, 10).await.unwrap().len(), 1);
    assert_eq!(slots(&w, now).await, [4]);
}

/// It fires once there is room, for all slots until then.
pub async fn a_plan_that_finds_the_inbox_full_fires_later(b: Backend) {
    let config = AgentConfig::from_json(&serde_json::json!({"limits": {"inbox_max": 10}})).unwrap();
    let w = world_with(b, config).await;
    planned(&w).await;
    for n in 0..10 {
        w.event(w.ada, service(&format!("bell-{n}"))).await;
    }
    assert_eq!(w.b.store.fire_due(at(HOUR), 10).await.unwrap(), []);
    for n in 0..10 {
        w.b.registry.cancel_event(w.ada, EventId(format!("bell-{n}"))).await.unwrap();
    }
    assert_eq!(w.b.store.fire_due(at(HOUR + 1), 10).await.unwrap(), []);
    assert_eq!(w.b.store.fire_due(at(2 * HOUR), 10).await.unwrap().len(), 1);
    assert_eq!(slots(&w, at(2 * HOUR)).await, [2]);
}

/// The activation reads what the view shows, a reader all of it.
pub async fn a_view_is_a_row_of_its_own_and_the_log_stays_whole(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let mut decision = living.decision();
    decision
        .entries
        .extend([living.entry(3, EntryKind::Notice, "three"), living.entry(4, EntryKind::Notice, "four")]);
    living.done(&w, decision).await;
    let view = View {
        rev: 1,
        summary: Some("so far".into()),
        ranges: vec![(1, 1)],
        tail: 4,
        reasoning_from: 4,
        native_from: 3,
    };
    let mut change = living.changes(CommitKind::View);
    change.view = Some(view.clone());
    living.done(&w, change).await;
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.view, view);
    let Window::Loaded(entries) = activation.window else { panic!("wanted the entries") };
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 4]);
    let log = w.b.reader.entries(w.ada, 1, 2).await.unwrap();
    assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [2, 3]);
}

/// Kept with their cycle.
pub async fn layers_come_back_with_the_open_cycle(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let layer = Layer { after: 1, text: Arc::from("the workspace, as it was") };
    let mut decision = living.asking(vec![living.outward(0, true)]);
    decision.layers = vec![layer.clone()];
    living.done(&w, decision).await;
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.layers, [layer]);
    assert_eq!(activation.calls, [living.outward(0, true)]);
    assert_eq!(activation.life.open, Some(living.open.clone()));
}

/// Retired, it accepts nothing new and its history stays.
pub async fn retiring_ends_plans_and_nothing_opens_again(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "remind me once").await;
    let mut living = w.open(w.ada).await;
    let plan = Plan {
        id: PlanId(fresh()),
        name: "once".into(),
        instruction: "then".into(),
        schedule: Schedule::At { at: at(9_000) },
        next_at: Some(at(9_000)),
    };
    let mut decision = living.decision();
    decision.inward.plans = vec![PlanChange::Set(plan)];
    living.done(&w, decision).await;
    let mut closing = living.closing();
    closing.retire = true;
    living.done(&w, closing).await;
    assert_eq!(w.b.store.fire_due(at(10_000), 10).await.unwrap(), []);
    assert_eq!(w.wake(w.ada).await.life.standing, Standing::Retired);
    assert!(matches!(w.say(w.family, "still there?").await, Accepted::Fresh { wake, .. } if wake.is_empty()));
    let denied = w.event(w.ada, service("late")).await;
    assert_eq!(denied, Accepted::Denied(agent::port::Denial::Retired(w.ada)));
    assert!(w.b.registry.set_standing(w.ada, Standing::Active, at(1)).await.is_err());
    assert_eq!(w.b.reader.entries(w.ada, 0, 10).await.unwrap().len(), 2);
}

/// Each of those who are due is on one page, the most overdue first, also where many are due since the
/// same moment.
pub async fn who_is_due_is_looked_through_in_pages_most_overdue_first(b: Backend) {
    let w = world(b).await;
    let mut expected = Vec::new();
    for n in 0..7 {
        let agent = super::world::agent(&w.b, &format!("agent-{n}"), AgentConfig::default()).await;
        let mut event = service(&format!("bell-{n}"));
        event.at = at(if n == 6 { 5 } else { 10 });
        w.event(agent, event).await;
        expected.push(agent);
    }
    expected.rotate_right(1);
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = w.b.store.due(at(1_000), after, 2).await.unwrap();
        assert!(page.len() <= 2);
        found.extend(page.iter().map(|due| due.agent));
        after = page.last().copied();
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found[0], expected[0]);
    let (mut found, mut expected) = (found, expected);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(w.b.store.due(at(9), None, 10).await.unwrap().len(), 1);
}

/// It is suspended with the reason, its events keep waiting, and it lives again once it is resumed.
pub async fn an_agent_that_is_set_apart_keeps_its_events_until_it_is_resumed(b: Backend) {
    let w = world(b).await;
    w.say(w.team, "hello").await;
    w.b.store.quarantine(w.ada, "entry 1: its checksum does not match".into()).await.unwrap();
    w.say(w.team, "and more").await;
    assert_eq!(w.due(1_000).await, [w.bob], "all others live on");
    let card = |agent| w.b.reader.agent(agent);
    let apart = card(w.ada).await.unwrap().unwrap();
    assert_eq!((apart.standing, apart.waiting), (Standing::Suspended, 2));
    assert!(apart.damage.is_some_and(|why| why.contains("entry 1")));
    w.b.registry.set_standing(w.ada, Standing::Active, at(900)).await.unwrap();
    assert_eq!(w.due(1_000).await.len(), 2);
    assert_eq!(card(w.ada).await.unwrap().unwrap().damage, None);
    w.b.registry.set_standing(w.bob, Standing::Retired, at(900)).await.unwrap();
    w.b.store.quarantine(w.bob, "too late".into()).await.unwrap();
    let retired = card(w.bob).await.unwrap().unwrap();
    assert_eq!((retired.standing, retired.damage), (Standing::Retired, None));
}
