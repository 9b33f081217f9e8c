//! Promises about an agent from its activation until it is idle.

use std::sync::Arc;

use agent::changes::{Changes, CommitKind, CommitOutcome, Idle, PlanChange, Tried};
use agent::config::{AgentConfig, WorkspacePart};
use agent::entry::{Compaction, EntryKind, SummaryMethod, UnusableSummaries, View};
use agent::event::{EventState, Trust};
use agent::id::{CycleId, PlanId};
use agent::layer::{Layer, LayerKind, ShownLine, ShownLines, ShownPart};
use agent::life::{IdleReason, IdleUntil, Standing, Window};
use agent::plan::{Plan, Schedule};
use agent::port::{Accepted, InboxFilter};
use agent::run::Usage;
use jiff::Timestamp;
use uuid::Uuid;

use super::Backend;
use super::world::{AHEAD, CycleDriver, at, everything, fresh, service, world, world_with};

/// Events are processed by the decision. The log, the run and the audit rows record everything.
pub async fn a_cycle_opens_decides_and_closes(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.calls = vec![driver.call(0)];
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    let (_, notifications) = driver.commit(&w, closing).await;
    assert_eq!(notifications.wake, []);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.life.epoch, activation.life.commit_n, activation.life.head_seq), (1, 3, 2));
    assert_eq!((activation.life.cycles, activation.life.open.is_none()), (1, true));
    let Window::Loaded(entries) = activation.window else { panic!("wanted the entries") };
    let kinds: Vec<_> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Inbox, EntryKind::Assistant]);
    assert_eq!(entries[0].message.text(), "inbox");
    let run = w.b.reader.run(driver.open.id).await.unwrap();
    assert_eq!(run, Some(driver.record()));
    assert_eq!(w.b.lookup.runs(w.ada, 5).await.unwrap(), [driver.record()]);
    let kinds: Vec<_> =
        w.b.reader.commits(w.ada, 0, 10).await.unwrap().into_iter().map(|row| (row.n, row.kind)).collect();
    assert_eq!(kinds, [(1, CommitKind::Open), (2, CommitKind::Decide), (3, CommitKind::Close)]);
    let inbox = w.b.reader.inbox(w.ada, InboxFilter::default(), everything()).await.unwrap();
    assert_eq!(inbox.items[0].state, EventState::Processed { cycle: driver.open.id, step: 0 });
    assert_eq!(w.due(10_000).await, []);
}

/// The log is unchanged, the event still waits, and only the counts listed in the opening are written.
pub async fn opening_appends_nothing_and_writes_only_the_counts_it_lists(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
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
        let mut successor = CycleDriver::about_to_open(w.ada, &activation);
        let mut open = successor.changes(CommitKind::Open);
        open.tried = vec![Tried { seq: activation.waiting[0].seq, attempts, deaths }];
        successor.commit(&w, open).await;
        let activation = w.wake(w.ada).await;
        assert_eq!((activation.waiting[0].attempts, activation.waiting[0].deaths), (attempts, deaths));
    }
}

/// A failure of the surroundings does not count. The agent backs off until the given time.
pub async fn a_returned_event_counts_an_attempt_only_if_it_is_to_blame(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    for (blame, attempts) in [(true, 1), (false, 1), (true, 2)] {
        let mut driver = w.open(w.ada).await;
        let mut back = driver.changes(CommitKind::Close);
        back.open = None;
        back.blame = blame;
        back.settle = driver.settlements(&EventState::Waiting);
        back.idle = Some(Idle { not_before: Some(at(900)), reason: Some(IdleReason::Backoff) });
        let (_, notifications) = driver.commit(&w, back).await;
        assert_eq!(notifications.wake, [agent::port::Wakeup { agent: w.ada, at: at(900), urgent: false }]);
        assert_eq!(w.due(899).await, []);
        assert_eq!(w.due(900).await, [w.ada]);
        let activation = w.wake(w.ada).await;
        assert_eq!((activation.waiting[0].attempts, activation.life.not_before), (attempts, Some(at(900))));
        let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
        assert_eq!((card.waiting, card.idle_reason), (1, Some(IdleReason::Backoff)));
        assert_eq!(w.b.store.wake(w.ada, at(899), None).await.unwrap().unwrap().waiting, []);
    }
}

/// A clock that is set back between two events does not change their order.
pub async fn once_the_first_waiting_event_is_due_all_are_shown_in_order_of_arrival(b: Backend) {
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

/// After the clock is set back, no wait is longer than intended.
pub async fn times_written_by_a_clock_that_was_ahead_count_from_now(b: Backend) {
    let w = world(b).await;
    let due = async || w.b.store.due(Timestamp::now(), None, 100).await.unwrap().len();
    let mut event = service("a");
    event.at = at(AHEAD);
    w.event(w.ada, event).await;
    assert_eq!(due().await, 1);
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let mut park = driver.changes(CommitKind::Park);
    (park.at, park.idle) = (at(AHEAD), Some(Idle { not_before: Some(at(AHEAD + 60_000)), reason: None }));
    driver.commit(&w, park).await;
    let until = w.b.store.next_due(Timestamp::now()).await.unwrap().first().unwrap();
    assert!(until.duration_since(Timestamp::now()).as_secs() <= 60, "{until}");
    w.b.registry.set_standing(w.ada, Standing::Active, at(AHEAD)).await.unwrap();
    assert_eq!(due().await, 1, "resuming helps");
}

/// The space with the waiting event lists the agent until its wait ends; other spaces do not.
pub async fn idle_agents_are_listed_for_the_spaces_that_wait_for_them(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut back = driver.changes(CommitKind::Close);
    back.open = None;
    back.settle = driver.settlements(&EventState::Waiting);
    back.idle = Some(Idle { not_before: Some(at(900)), reason: Some(IdleReason::Provider) });
    driver.commit(&w, back).await;
    let resting = |space, now| w.b.reader.idle_agents(space, at(now));
    let rest = IdleUntil { reason: IdleReason::Provider, until: at(900) };
    assert_eq!(resting(w.family, 10).await.unwrap(), [(w.ada, rest)]);
    assert_eq!(resting(w.team, 10).await.unwrap(), [], "no event of that space waits");
    assert_eq!(resting(w.family, 900).await.unwrap(), [], "the wait has ended");
}

/// A new config can fix the cause of a failure; a new name alone cannot.
pub async fn a_changed_config_ends_a_backoff(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    for (reason, step) in [(IdleReason::Provider, 3), (IdleReason::Backoff, 4)] {
        let mut driver = w.open(w.ada).await;
        let mut back = driver.changes(CommitKind::Close);
        back.open = None;
        back.settle = driver.settlements(&EventState::Waiting);
        back.idle = Some(Idle { not_before: Some(at(900)), reason: Some(reason) });
        driver.commit(&w, back).await;
        w.b.registry.amend_agent(w.ada, Some("ADA".into()), None, at(20)).await.unwrap();
        assert_eq!(w.due(899).await, []);
        let config = serde_json::json!({"limits": {"max_steps": step}});
        w.b.registry.amend_agent(w.ada, None, Some(config), at(20)).await.unwrap();
        assert_eq!(w.due(20).await, [w.ada]);
    }
}

/// Settling a settled event again writes nothing.
pub async fn an_event_is_processed_at_most_once(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let before = w.dump(w.ada).await;
    let mut again = driver.changes(CommitKind::Decide);
    again.entries = vec![driver.entry(1, EntryKind::Assistant, "again")];
    again.settle = driver.settlements(&EventState::Processed { cycle: driver.open.id, step: 1 });
    assert_eq!(w.commit(driver.lease, again).await, CommitOutcome::Gone(driver.open.taken.clone()));
    assert_eq!(w.dump(w.ada).await, before);
}

/// The event stays in the ledger with its reason.
pub async fn a_dead_event_is_never_due_again(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    let mut driver = w.open(w.ada).await;
    let mut close = driver.changes(CommitKind::Close);
    close.open = None;
    close.settle = driver.settlements(&EventState::Dead { reason: "garbage".into() });
    driver.commit(&w, close).await;
    assert_eq!(w.due(100_000).await, []);
    let dead = w.b.reader.inbox(w.ada, InboxFilter::in_state("dead"), everything()).await.unwrap().items;
    assert_eq!(dead[0].state, EventState::Dead { reason: "garbage".into() });
    assert_eq!(w.b.reader.totals().await.unwrap().dead, 1);
    assert_eq!(w.event(w.ada, service("poison")).await, Accepted::Duplicate { message: None });
}

/// Only the ledger, the number of skips and the cost record it.
pub async fn a_skip_changes_no_log_runs_or_ordinals(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "first").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let before = w.dump(w.ada).await;
    w.post(w.family, "none of her business").await;
    let mut driver = w.open(w.ada).await;
    let mut skip = driver.changes(CommitKind::Close);
    skip.open = None;
    skip.settle = driver
        .settlements(&EventState::Skipped { reason: Some("not mine".into()), cycle: Some(driver.open.id) });
    skip.usage = Usage { input: Some(7), ..Usage::default() };
    skip.cost_micros = Some(3);
    driver.commit(&w, skip).await;
    assert_eq!(w.dump(w.ada).await, before);
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.skips, card.cycles, card.usage.input), (1, 1, Some(17)));
    assert_eq!((card.cost_micros, card.unpriced), (Some(3), 1), "the run before has no price");
    let skipped =
        w.b.reader.inbox(w.ada, InboxFilter::in_state("skipped"), everything()).await.unwrap().items;
    assert_eq!(
        skipped[0].state,
        EventState::Skipped { reason: Some("not mine".into()), cycle: Some(driver.open.id) }
    );
}

/// An open cycle is due because its node may have died. New events do not shorten the wait of a parked one.
pub async fn an_open_cycle_is_due_and_a_parked_one_only_after_its_wait(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    assert_eq!(w.due(1_000).await, [w.ada]);
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    assert_eq!(w.due(1_000).await, [w.ada]);
    let mut park = driver.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(5_000)), reason: Some(IdleReason::Provider) });
    driver.commit(&w, park).await;
    let Accepted::Fresh { wake, .. } = w.post(w.family, "more").await else { panic!("wanted it accepted") };
    assert_eq!(wake[0].at, at(5_000));
    assert_eq!(w.due(4_999).await, []);
    assert_eq!(w.b.store.next_due(at(1_000)).await.unwrap().first(), Some(at(5_000)));
    assert_eq!(w.due(5_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    let mut open = driver.changes(CommitKind::Open);
    driver.lease.epoch = activation.life.epoch + 1;
    open.at = at(5_000);
    driver.commit(&w, open).await;
    assert_eq!(w.wake(w.ada).await.life.not_before, None);
}

/// After it is resumed, it is due at once with all its events.
pub async fn a_suspended_agent_keeps_its_events_and_is_never_due(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "before").await;
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(20)).await.unwrap();
    let Accepted::Fresh { wake, .. } = w.post(w.family, "meanwhile").await else { panic!("wanted it") };
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

/// For any reason to wait, and also if the agent was suspended meanwhile.
pub async fn resuming_an_agent_ends_its_wait(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let waits = [
        (Some(IdleReason::Provider), false, 1_030),
        (Some(IdleReason::Backoff), true, 2_030),
        (None, true, 3_030),
        (None, false, 4_030),
    ];
    for (reason, suspended, due) in waits {
        let mut park = driver.changes(CommitKind::Park);
        park.idle = Some(Idle { not_before: Some(at(due + 870)), reason });
        driver.commit(&w, park).await;
        if suspended {
            w.b.registry.set_standing(w.ada, Standing::Suspended, at(due - 1)).await.unwrap();
        }
        w.b.registry.set_standing(w.ada, Standing::Active, at(due)).await.unwrap();
        assert_eq!((w.due(due - 1).await, w.due(due).await), (vec![], vec![w.ada]), "{reason:?}");
        assert_eq!(w.b.reader.agent(w.ada).await.unwrap().unwrap().idle_reason, None);
        let mut open = driver.changes(CommitKind::Open);
        (driver.lease.epoch, open.at) = (driver.lease.epoch + 1, at(due));
        driver.commit(&w, open).await;
    }
}

/// If something was committed since, it reads the whole window.
pub async fn a_warm_activation_reads_no_window(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let wake = |known| w.b.store.wake(w.ada, at(1_000), known);
    let warm = wake(Some(driver.n)).await.unwrap().unwrap();
    assert!(matches!(warm.window, Window::Unchanged));
    let cold = wake(Some(driver.n - 1)).await.unwrap().unwrap();
    assert!(matches!(cold.window, Window::Loaded(entries) if entries.len() == 2));
    assert!(w.b.store.wake(agent::id::AgentId(fresh()), at(0), None).await.unwrap().is_none());
}

/// An activation reads what the view shows, a reader reads the whole log.
pub async fn a_view_is_stored_separately_and_the_log_stays_complete(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision
        .entries
        .extend([driver.entry(3, EntryKind::Notice, "three"), driver.entry(4, EntryKind::Notice, "four")]);
    driver.commit(&w, decision).await;
    let view = View {
        rev: 1,
        summary: Some("so far".into()),
        ranges: vec![(1, 1)],
        tail: 4,
        reasoning_from: 4,
        layers_from: 1,
        native_from: 3,
        trust: Trust::Agent,
        compaction: Some(Compaction {
            round: 1,
            cycles: (1, 2),
            last: CycleId(Uuid::from_u128(5)),
            method: SummaryMethod::Model,
            model: Some("scripted/one".into()),
            usage: Usage { output: Some(9), ..Usage::default() },
            refused: Some("the output limit cut it".into()),
            unusable: Some(UnusableSummaries { model: "scripted/one".into(), rounds: 2 }),
            tokens_before: 100,
            tokens_after: 40,
            entries: 2,
        }),
    };
    let mut change = driver.changes(CommitKind::View);
    change.view = Some(view.clone());
    driver.commit(&w, change).await;
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.view, view);
    let Window::Loaded(entries) = activation.window else { panic!("wanted the entries") };
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 4]);
    let log = w.b.reader.entries(w.ada, 1, 2).await.unwrap().items;
    assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [2, 3]);
}

/// They are stored with their cycle.
pub async fn layers_are_returned_with_the_open_cycle(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let lines =
        vec![("\"tea\"".to_owned(), ShownLine::of("at 5")), ("\"more\"".to_owned(), ShownLine::LeftOut)];
    let parts = vec![ShownPart { part: WorkspacePart::Memories, lines }];
    let shown = ShownLines { clock: Some(at(3)), parts };
    let layer = Layer { shown, ..Layer::new(LayerKind::Whole, 0, 1, Arc::from("the workspace, as it was")) };
    let mut decision = driver.decision_with(vec![driver.outward(0, true)]);
    decision.layers = vec![layer.clone()];
    driver.commit(&w, decision).await;
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.layers, [layer]);
    assert_eq!(activation.calls, [driver.outward(0, true)]);
    assert_eq!(activation.life.open, Some(driver.open.clone()));
}

/// With `workspace.placement: append` they are sent as long as the view stands, from its whole workspace on.
pub async fn layers_that_stay_are_returned_as_long_as_their_view_stands(b: Backend) {
    let config = serde_json::json!({"workspace": {"placement": "append"}});
    let w = world_with(b, AgentConfig::from_json(&config).unwrap()).await;
    let mut shown = Vec::new();
    for kind in [LayerKind::Whole, LayerKind::Update, LayerKind::Phase] {
        w.post(w.family, "hello").await;
        let mut driver = w.open(w.ada).await;
        let layer = Layer::new(kind, 0, driver.head + 1, Arc::from(format!("{kind:?}")));
        let mut decision = driver.decision();
        decision.layers = vec![layer.clone()];
        driver.commit(&w, decision).await;
        let closing = driver.closing();
        driver.commit(&w, closing).await;
        shown.push(layer);
    }
    w.post(w.family, "hello").await;
    assert_eq!(w.wake(w.ada).await.layers, shown);
    // The decision that stores a view stores what its request showed of it.
    let mut driver = w.open(w.ada).await;
    let view = View { rev: 1, layers_from: 1, tail: shown[2].after, ..View::whole() };
    let anew = Layer::new(LayerKind::Whole, 1, driver.head + 1, Arc::from("anew"));
    let mut decision = driver.decision();
    (decision.view, decision.layers) = (Some(view), vec![anew.clone()]);
    driver.commit(&w, decision).await;
    assert_eq!(w.wake(w.ada).await.layers, std::slice::from_ref(&anew));
    // What an earlier view showed can still be read.
    let sent = |view, last| w.b.reader.shown(w.ada, view, last);
    let before = sent(0, shown[1].after + 1).await.unwrap().unwrap();
    assert_eq!((before.view, before.layers), (View::whole(), shown[..2].to_vec()));
    let seqs = |log: &[agent::entry::Entry]| log.iter().map(|entry| entry.seq).collect::<Vec<_>>();
    assert_eq!(seqs(&before.entries), [1, 2, 3, 4]);
    let after = sent(1, u64::MAX).await.unwrap().unwrap();
    assert_eq!((after.view.tail, after.layers), (shown[2].after, vec![anew]));
    assert_eq!(sent(2, u64::MAX).await.unwrap(), None, "there is no such view");
    // A view without any shows the whole workspace at its next request.
    let mut change = driver.changes(CommitKind::View);
    let (rev, layers_from, tail) = (2, 2, shown[2].after);
    change.view = Some(View { rev, layers_from, ranges: vec![(1, 1)], tail, ..View::whole() });
    driver.commit(&w, change).await;
    assert_eq!(w.wake(w.ada).await.layers, []);
}

/// With `workspace.placement: fresh` only the open cycle's are sent.
pub async fn layers_that_vanish_are_returned_with_their_cycle_alone(b: Backend) {
    let config = serde_json::json!({"workspace": {"placement": "fresh"}});
    let w = world_with(b, AgentConfig::from_json(&config).unwrap()).await;
    for n in 0..2 {
        w.post(w.family, "hello").await;
        let mut driver = w.open(w.ada).await;
        let layer = Layer::new(LayerKind::Whole, 0, driver.head + 1, Arc::from(format!("cycle {n}")));
        let mut decision = driver.decision();
        decision.layers = vec![layer.clone()];
        driver.commit(&w, decision).await;
        assert_eq!(w.wake(w.ada).await.layers, std::slice::from_ref(&layer));
        let sent = w.b.reader.shown(w.ada, 0, u64::MAX).await.unwrap().unwrap();
        assert_eq!(sent.layers, [layer], "what its requests showed");
        let closing = driver.closing();
        driver.commit(&w, closing).await;
        assert_eq!(w.wake(w.ada).await.layers, []);
    }
}

/// Its history stays readable.
pub async fn a_retired_agent_fires_no_plans_and_accepts_nothing(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "remind me once").await;
    let mut driver = w.open(w.ada).await;
    let plan = Plan {
        next_at: Some(at(9_000)),
        ..Plan::new(PlanId(fresh()), "once", "then", Schedule::At { at: at(9_000) })
    };
    let mut decision = driver.decision();
    decision.inward.plans = vec![PlanChange::Set(plan)];
    driver.commit(&w, decision).await;
    let mut closing = driver.closing();
    closing.retire = true;
    driver.commit(&w, closing).await;
    assert_eq!(w.b.store.fire_due(at(10_000), 10).await.unwrap().wake, []);
    assert_eq!(w.wake(w.ada).await.life.standing, Standing::Retired);
    assert!(
        matches!(w.post(w.family, "still there?").await, Accepted::Fresh { wake, .. } if wake.is_empty())
    );
    let denied = w.event(w.ada, service("late")).await;
    assert_eq!(denied, Accepted::Denied(agent::port::Denial::Retired(w.ada)));
    assert!(w.b.registry.set_standing(w.ada, Standing::Active, at(1)).await.is_err());
    assert_eq!(w.b.reader.entries(w.ada, 0, 10).await.unwrap().items.len(), 2);
}

/// Each due agent is on exactly one page, the most overdue first, even if many became due at the same
/// moment.
pub async fn due_agents_are_listed_in_pages_most_overdue_first(b: Backend) {
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

/// It is suspended with the reason, its events keep waiting, and it runs again after it is resumed.
pub async fn a_quarantined_agent_keeps_its_events_until_it_is_resumed(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    w.b.store.quarantine(w.ada, "entry 1: its checksum does not match".into()).await.unwrap();
    w.post(w.team, "and more").await;
    assert_eq!(w.due(1_000).await, [w.bob], "all others still run");
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
