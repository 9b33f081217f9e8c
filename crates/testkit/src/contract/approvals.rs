//! Promises about calls that wait for people: who may answer, that one answer counts, and what becomes of the call.

use agent::approval::{
    AnswerRefused, Answerer, Approval, ApprovalState, AskKind, Patience, PersonVerdict, hash_of,
};
use agent::call::{CallRow, CallState, Outcome, OutcomeStatus, Runner};
use agent::changes::{CallChange, Changes, CommitKind, Idle};
use agent::event::EventKind;
use agent::id::{CallId, EntityId};
use agent::life::{IdleReason, Standing};
use agent::port::{ApprovalFilter, Lapsed, NewHuman, PersonAnswer, PersonAnswered, Wakeup};
use agent::space::{MessageKind, NewMessage, tool_data, tool_text};
use serde_json::json;

use super::Backend;
use super::world::{CycleDriver, World, at, everything, fresh, world};

const HOUR: i64 = 3_600_000;

/// An approval that is wanted from [`at`] 1 000 on: the cycle waits for a minute, people for an hour.
fn wanted(row: &CallRow, w: &World) -> Box<Approval> {
    let patience = Patience { pause_ms: 60_000, expires_ms: HOUR.unsigned_abs() };
    let hash = hash_of(&row.tool, &row.tool_version, &row.arguments);
    let asked = Approval::wanted(AskKind::Approval, "it costs money".into(), hash, patience, at(1_000));
    Box::new(Approval { space: Some(w.family), ..asked })
}

/// A cycle with an outward call that waits for a person, and the card of that.
pub(super) async fn asked(
    w: &World,
    change: impl Fn(CallRow, Box<Approval>) -> CallRow,
) -> (CycleDriver, CallId) {
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let row = driver.outward(0, true);
    let approval = wanted(&row, w);
    let row = change(row, approval);
    let card = NewMessage {
        id: agent::id::MessageId::of_card(&row.id),
        cycle: Some(driver.open.id),
        call: Some(row.id.clone()),
        data: Some(tool_data(&row)),
        ..NewMessage::of_person(
            agent::id::MessageId(fresh()),
            w.family,
            w.ada.entity(),
            tool_text(&row),
            at(1_000),
        )
    };
    let id = row.id.clone();
    let mut decision = driver.decision_with(vec![row]);
    decision.shows = vec![card];
    driver.commit(w, decision).await;
    (driver, id)
}

pub(super) fn plain(row: CallRow, approval: Box<Approval>) -> CallRow {
    CallRow { approval: Some(approval), ..row }
}

pub(super) async fn parked(w: &World) -> (CycleDriver, CallId) {
    let (mut driver, id) = asked(w, plain).await;
    let mut park = driver.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(60_000)), reason: Some(IdleReason::Person) });
    driver.commit(w, park).await;
    (driver, id)
}

/// Its agent retires with the end of the cycle.
async fn detached_at_its_end(w: &World, driver: &mut CycleDriver, id: &CallId) {
    let change = CallChange {
        id: id.clone(),
        state: CallState::Detached,
        outcome: Some(Outcome::unanswered(id, "husam")),
    };
    let settle = Changes { call_changes: vec![change], ..driver.changes(CommitKind::Settle) };
    driver.commit(w, settle).await;
    let closing = Changes { retire: true, ..driver.closing() };
    driver.commit(w, closing).await;
}

pub(super) async fn detach(w: &World, driver: &mut CycleDriver, id: &CallId) {
    let change = CallChange {
        id: id.clone(),
        state: CallState::Detached,
        outcome: Some(Outcome::unanswered(id, "husam")),
    };
    let settle = Changes { call_changes: vec![change], ..driver.changes(CommitKind::Settle) };
    driver.commit(w, settle).await;
    let closing = driver.closing();
    driver.commit(w, closing).await;
}

pub(super) fn yes() -> PersonVerdict {
    PersonVerdict::Approve { arguments: None, remember: None }
}

fn says(id: &CallId, by: Answerer, verdict: PersonVerdict) -> PersonAnswer {
    PersonAnswer { id: id.clone(), verdict, reason: None, by, at: at(2_000), seen: None }
}

pub(super) async fn answer(w: &World, id: &CallId, by: Answerer, verdict: PersonVerdict) -> PersonAnswered {
    w.b.approvals.answer(says(id, by, verdict)).await.unwrap()
}

fn refusal(answered: PersonAnswered) -> AnswerRefused {
    match answered {
        PersonAnswered::Refused(why) => why,
        other => panic!("wanted it refused, got {other:?}"),
    }
}

pub(super) fn taken(answered: PersonAnswered) -> (CallRow, Vec<Wakeup>) {
    match answered {
        PersonAnswered::Taken(asked, notifications) => (asked.row, notifications.wake),
        other => panic!("wanted it taken, got {other:?}"),
    }
}

async fn row(w: &World, id: &CallId) -> CallRow {
    w.b.approvals.asked(id.clone()).await.unwrap().expect("the call was asked for").row
}

async fn state(w: &World, id: &CallId) -> ApprovalState {
    row(w, id).await.approval.unwrap().state
}

/// Ids of the calls in a list.
async fn listed(w: &World, filter: ApprovalFilter) -> Vec<CallId> {
    let page = w.b.approvals.approvals(filter, everything()).await.unwrap();
    page.items.into_iter().map(|asked| asked.row.id).collect()
}

async fn detached(w: &World) -> Vec<CallRow> {
    w.b.calls.detached(None, 10).await.unwrap().into_iter().map(|found| found.row).collect()
}

pub(super) async fn late_results(w: &World) -> usize {
    let waiting = w.b.store.wake(w.ada, at(2 * HOUR), None).await.unwrap().unwrap().waiting;
    waiting.iter().filter(|waiting| waiting.event.kind == EventKind::ToolResult).count()
}

pub(super) async fn human(w: &World, name: &str) -> EntityId {
    let id = EntityId(fresh());
    w.b.registry.create_human(NewHuman::new(id, name, at(0))).await.unwrap();
    id
}

/// Of two at once, too. The second one hears who was faster, and its answer changes nothing.
pub async fn one_answer_to_a_call_counts(b: Backend) {
    let w = world(b).await;
    let (_, id) = parked(&w).await;
    let husam = Answerer::Person(w.husam);
    let (first, second) = futures_util::future::join(
        w.b.approvals.answer(says(&id, husam, yes())),
        w.b.approvals.answer(says(&id, Answerer::Operator, PersonVerdict::Refuse)),
    )
    .await;
    let (first, second) = (first.unwrap(), second.unwrap());
    let granted = matches!(first, PersonAnswered::Taken(..));
    let (loser, winner) = if granted { (second, "husam") } else { (first, "an operator") };
    let AnswerRefused::Already { by, .. } = refusal(loser) else { panic!("wanted to hear who was faster") };
    assert_eq!(by, winner);
    let wanted = if granted { ApprovalState::Granted } else { ApprovalState::Refused };
    assert_eq!(state(&w, &id).await, wanted);
    let unknown = CallId("c-nothing".into());
    assert_eq!(answer(&w, &unknown, husam, yes()).await, PersonAnswered::Unknown);
}

/// Operators and the people of the space answer, or only those who are named, or those whom the agent's config names, wherever
/// they are, and whoever has the link; agents and strangers never.
pub async fn only_those_who_may_answer_a_call_do(b: Backend) {
    let w = world(b).await;
    let stranger = human(&w, "stranger").await;
    let named = human(&w, "named").await;
    let (mut driver, id) = asked(&w, plain).await;
    for who in [w.ada.entity(), w.bob.entity(), stranger] {
        let refused = refusal(answer(&w, &id, Answerer::Person(who), yes()).await);
        assert!(matches!(refused, AnswerRefused::NotYours(_)), "{who}: {refused}");
    }
    assert_eq!(state(&w, &id).await, ApprovalState::Wanted);
    taken(answer(&w, &id, Answerer::Person(w.husam), yes()).await);
    let closing = driver.closing();
    driver.commit(&w, Changes { call_changes: vec![over(&id)], ..closing }).await;
    w.b.registry.add_member(w.family, named, "member".into(), at(0)).await.unwrap();
    let only =
        |row, approval: Box<Approval>| plain(row, Box::new(Approval { people: vec![named], ..*approval }));
    let (mut driver, id) = asked(&w, only).await;
    let refused = refusal(answer(&w, &id, Answerer::Person(w.husam), yes()).await);
    assert!(matches!(refused, AnswerRefused::NotYours(_)), "{refused}");
    taken(answer(&w, &id, Answerer::Person(named), yes()).await);
    let closing = driver.closing();
    driver.commit(&w, Changes { call_changes: vec![over(&id)], ..closing }).await;
    let (_, id) = asked(&w, only).await;
    let by_link = taken(answer(&w, &id, Answerer::Link, yes()).await).0.approval.and_then(|asked| asked.by);
    assert_eq!(by_link.map(|by| by.name).as_deref(), Some("somebody with the link"));
}

/// They are those of the agent's config at that time, in whatever space; who was named when it was asked, and is not any more,
/// does not.
pub async fn who_approves_a_call_is_decided_by_the_config_when_the_answer_comes(b: Backend) {
    let w = world(b).await;
    let stranger = human(&w, "stranger").await;
    let configure = async |approvers: &[&str]| {
        let config = json!({"approvers": approvers});
        w.b.registry.amend_agent(w.ada, None, Some(config), at(0)).await.unwrap();
    };
    let shown = |row, approval: Box<Approval>| {
        plain(row, Box::new(Approval { approvers: vec!["husam".into()], ..*approval }))
    };
    let (mut driver, id) = asked(&w, shown).await;
    let found = async |member| {
        listed(&w, ApprovalFilter { member: Some(member), ..ApprovalFilter::default() }).await.len()
    };
    assert_eq!((found(w.husam).await, found(stranger).await), (1, 0));
    configure(&["@Stranger ", "ada"]).await;
    assert_eq!(found(stranger).await, 1);
    for who in [w.husam, w.ada.entity()] {
        let refused = refusal(answer(&w, &id, Answerer::Person(who), yes()).await);
        assert!(refused.to_string().contains("config names now"), "{who}: {refused}");
    }
    configure(&[]).await;
    let refused = refusal(answer(&w, &id, Answerer::Person(stranger), yes()).await);
    assert!(matches!(refused, AnswerRefused::NotYours(_)), "{refused}");
    configure(&["role:lead"]).await;
    for who in [w.husam, stranger] {
        let refused = refusal(answer(&w, &id, Answerer::Person(who), yes()).await);
        assert!(matches!(refused, AnswerRefused::NotYours(_)), "{who}: {refused}");
    }
    w.b.registry.add_member(w.family, stranger, "Lead".into(), at(0)).await.unwrap();
    taken(answer(&w, &id, Answerer::Person(stranger), yes()).await);
    w.b.registry.remove_member(w.family, stranger).await.unwrap();
    let closing = driver.closing();
    driver.commit(&w, Changes { call_changes: vec![over(&id)], ..closing }).await;
    let question = |row, approval: Box<Approval>| {
        plain(row, Box::new(Approval { question: true, kind: AskKind::Approval, ..*approval }))
    };
    let (_, id) = asked(&w, question).await;
    assert_eq!(found(stranger).await, 0, "a question has people of its own");
    taken(answer(&w, &id, Answerer::Person(w.husam), yes()).await);
}

pub(super) fn over(id: &CallId) -> CallChange {
    CallChange { id: id.clone(), state: CallState::Done, outcome: Some(Outcome::ok("ran")) }
}

/// A parked cycle continues at once, and finds the call as it was approved.
pub async fn an_approval_makes_its_agent_due_and_is_seen_in_a_glance(b: Backend) {
    let w = world(b).await;
    let (driver, id) = parked(&w).await;
    assert_eq!(w.due(30_000).await, [], "it waits for a person");
    let before = w.news(driver.lease).await.glance.answered;
    let edited = PersonVerdict::Approve { arguments: Some(r#"{"n":2}"#.into()), remember: None };
    let (row, wake) = taken(answer(&w, &id, Answerer::Person(w.husam), edited).await);
    assert_eq!(wake, [Wakeup { agent: w.ada, at: at(2_000), urgent: false }]);
    assert_eq!((row.state, row.arguments.as_str(), &row.outcome), (CallState::Planned, r#"{"n":2}"#, &None));
    let news = w.news(driver.lease).await;
    assert!(news.glance.answered > before);
    assert_eq!((news.granted.as_slice(), news.answered.as_slice()), (&[row.clone()][..], &[][..]));
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.calls, std::slice::from_ref(&row));
    let approval = row.approval.unwrap();
    assert_eq!(approval.hash, hash_of("fetch", "1", r#"{"n":2}"#), "the approval is of what will run");
    assert_eq!(approval.asked_arguments.as_deref(), Some("{}"));
}

/// A cycle parks until somebody answers, and somebody just has.
pub async fn a_pause_that_comes_after_its_answer_ends_at_once(b: Backend) {
    let w = world(b).await;
    for verdict in [yes(), PersonVerdict::Refuse] {
        let (mut driver, id) = asked(&w, plain).await;
        let seen = w.news(driver.lease).await.glance.answered;
        taken(answer(&w, &id, Answerer::Operator, verdict).await);
        let mut park = driver.changes(CommitKind::Park);
        park.idle = Some(Idle { not_before: Some(at(60_000)), reason: Some(IdleReason::Person) });
        park.answered = Some(seen);
        let (_, notifications) = driver.commit(&w, park).await;
        assert_eq!((w.due(30_000).await, notifications.wake.len()), (vec![w.ada], 1));
        let closing = driver.closing();
        driver.commit(&w, closing).await;
    }
}

/// The outcome is in the row at once; the card shows it.
pub async fn a_refusal_is_the_outcome_of_its_call_and_the_card_says_so(b: Backend) {
    let w = world(b).await;
    let (driver, id) = parked(&w).await;
    let card = async || {
        let filter = agent::port::MessageFilter::default();
        let page = w.b.reader.messages(w.family, filter, 200).await.unwrap();
        page.items.into_iter().find(|message| message.kind == MessageKind::Tool).unwrap()
    };
    assert!(card().await.text.contains("approval wanted") && card().await.text.contains("it costs money"));
    let (row, wake) = taken(answer(&w, &id, Answerer::Operator, PersonVerdict::Refuse).await);
    assert_eq!((row.state, wake.len()), (CallState::Done, 1));
    let news = w.news(driver.lease).await;
    assert_eq!(news.answered[0].1.status, OutcomeStatus::Canceled);
    assert!(news.answered[0].1.text.contains("refused by an operator"), "{news:?}");
    assert!(card().await.text.contains("refused by an operator"), "{:?}", card().await);
    assert_eq!(listed(&w, ApprovalFilter::default()).await, []);
}

/// Nobody runs a call that waits for a person. Once it is approved it is found, and is run once.
pub async fn a_late_call_is_found_only_after_its_approval(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = asked(&w, plain).await;
    detach(&w, &mut driver, &id).await;
    assert_eq!((detached(&w).await, listed(&w, ApprovalFilter::default()).await), (vec![], vec![id.clone()]));
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(1_500)).await.unwrap();
    let (row, wake) = taken(answer(&w, &id, Answerer::Operator, yes()).await);
    assert_eq!((row.state, wake), (CallState::Detached, vec![]));
    assert_eq!(detached(&w).await, [], "a suspended agent begins nothing");
    w.b.registry.set_standing(w.ada, Standing::Active, at(2_500)).await.unwrap();
    let found = detached(&w).await;
    assert_eq!((&found[0].id, found[0].approval.as_ref().unwrap().late), (&id, true));
    assert_eq!(w.b.calls.take_up(id).await.unwrap(), Some(1), "it is the first run");
}

/// What waits for a person and is not awaited any more gets its answer as an event.
pub async fn a_late_refusal_and_an_expiry_are_events(b: Backend) {
    let w = world(b).await;
    for expires in [false, true] {
        let (mut driver, id) = asked(&w, plain).await;
        detach(&w, &mut driver, &id).await;
        let before = late_results(&w).await;
        if expires {
            w.b.approvals.lapse(at(HOUR / 2 + 1_000), 10).await.unwrap();
            w.b.approvals.lapse(at(HOUR + 1_000), 10).await.unwrap();
        } else {
            taken(answer(&w, &id, Answerer::Operator, PersonVerdict::Refuse).await);
        }
        assert_eq!(late_results(&w).await, before + 1);
    }
}

/// The reminder is one message in the space. After its time nobody can answer any more.
pub async fn people_are_reminded_once_and_what_nobody_answers_ends(b: Backend) {
    let w = world(b).await;
    let (_, id) = parked(&w).await;
    let lapse = async |ms| {
        let lapsed = w.b.approvals.lapse(at(ms), 10).await.unwrap();
        lapsed.into_iter().map(|Lapsed { call, expired, .. }| (call, expired)).collect::<Vec<_>>()
    };
    assert_eq!(w.b.approvals.next_lapse().await.unwrap(), Some(at(1_000 + HOUR / 2)));
    assert_eq!(lapse(HOUR / 2).await, []);
    assert_eq!(lapse(HOUR / 2 + 1_000).await, [(id.clone(), false)]);
    assert_eq!(lapse(HOUR / 2 + 2_000).await, []);
    let page = w.b.reader.messages(w.family, agent::port::MessageFilter::default(), 200).await.unwrap();
    let reminders = page.items.iter().filter(|message| message.text.contains("still waits for an answer"));
    assert_eq!(reminders.count(), 1);
    assert_eq!(w.due(50_000).await, [], "a reminder wakes no agent");
    assert_eq!(lapse(HOUR + 1_000).await, [(id.clone(), true)]);
    assert_eq!(row(&w, &id).await.outcome.unwrap().status, OutcomeStatus::Canceled);
    assert_eq!(w.due(50_000 + HOUR).await, [w.ada], "its cycle goes on");
    assert!(matches!(refusal(answer(&w, &id, Answerer::Operator, yes()).await), AnswerRefused::Over(_)));
    assert_eq!(w.b.approvals.next_lapse().await.unwrap(), None);
}

/// A call that ends otherwise waits for nobody, whoever ended it.
pub async fn what_is_canceled_waits_for_nobody(b: Backend) {
    let w = world(b).await;
    let (mut driver, by_cycle) = asked(&w, plain).await;
    let closing = driver.closing();
    driver.commit(&w, Changes { call_changes: vec![over(&by_cycle)], ..closing }).await;
    let (mut driver, by_operator) = asked(&w, plain).await;
    let canceled = w.b.registry.cancel_call(w.ada, by_operator.clone()).await.unwrap();
    assert!(canceled.call.outcome.unwrap().text.contains("nothing of it was done"));
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let (mut driver, by_retirement) = asked(&w, plain).await;
    detach(&w, &mut driver, &by_retirement).await;
    w.b.registry.set_standing(w.ada, Standing::Retired, at(1_500)).await.unwrap();
    let other = World { ada: w.bob, family: w.team, ..w };
    let w = &other;
    let (mut driver, by_its_end) = asked(w, plain).await;
    detached_at_its_end(w, &mut driver, &by_its_end).await;
    for id in [by_cycle, by_operator, by_retirement, by_its_end] {
        assert_eq!(state(w, &id).await, ApprovalState::Canceled);
        let refused = refusal(answer(w, &id, Answerer::Operator, yes()).await);
        assert!(matches!(refused, AnswerRefused::Over(_) | AnswerRefused::Retired), "{refused}");
    }
    assert_eq!((listed(w, ApprovalFilter::default()).await, detached(w).await), (vec![], vec![]));
    assert_eq!(w.b.approvals.next_lapse().await.unwrap(), None);
}

/// An answer to a question is its outcome.
pub async fn an_answer_to_a_question_is_its_outcome(b: Backend) {
    let w = world(b).await;
    let question = |row: CallRow, approval: Box<Approval>| {
        let approval = Approval { question: true, kind: AskKind::Text, ..*approval };
        CallRow { runner: Runner::Person, approval: Some(Box::new(approval)), ..row }
    };
    let (driver, id) = asked(&w, question).await;
    let told = PersonVerdict::Answer(json!("in the drawer"));
    let (row, _) = taken(answer(&w, &id, Answerer::Person(w.husam), told).await);
    assert_eq!(row.approval.unwrap().state, ApprovalState::Answered);
    let outcome = &w.news(driver.lease).await.answered[0].1;
    assert_eq!(
        (outcome.status, outcome.text.as_str()),
        (OutcomeStatus::Ok, r#"{"answer":"in the drawer","by":"husam"}"#)
    );
}

/// By agent, by space and by member, the newest first, in pages.
pub async fn what_waits_for_people_is_listed(b: Backend) {
    let w = world(b).await;
    let (mut driver, first) = asked(&w, plain).await;
    detach(&w, &mut driver, &first).await;
    let (_, second) = asked(&w, plain).await;
    let all = ApprovalFilter::default();
    assert_eq!(listed(&w, all).await, [second.clone(), first.clone()]);
    assert_eq!(listed(&w, ApprovalFilter { agent: Some(w.bob), ..all }).await, []);
    assert_eq!(listed(&w, ApprovalFilter { space: Some(w.team), ..all }).await, []);
    assert_eq!(
        listed(&w, ApprovalFilter { space: Some(w.family), agent: Some(w.ada), ..all }).await.len(),
        2
    );
    assert_eq!(listed(&w, ApprovalFilter { member: Some(w.husam), ..all }).await.len(), 2);
    let stranger = human(&w, "stranger").await;
    assert_eq!(listed(&w, ApprovalFilter { member: Some(stranger), ..all }).await, []);
    taken(answer(&w, &first, Answerer::Operator, PersonVerdict::Refuse).await);
    assert_eq!(listed(&w, all).await, std::slice::from_ref(&second));
    let page = agent::port::PageRequest { cursor: None, limit: 1 };
    let every = ApprovalFilter { all: true, ..all };
    let page = w.b.approvals.approvals(every, page).await.unwrap();
    assert_eq!((&page.items[0].row.id, page.next.is_some()), (&second, true));
    let next = agent::port::PageRequest { cursor: page.next, limit: 1 };
    let page = w.b.approvals.approvals(every, next).await.unwrap();
    assert_eq!((&page.items[0].row.id, page.next), (&first, None));
}

/// After a crash the call still waits, the agent too, and the answer counts as before.
pub async fn what_waits_for_a_person_survives_a_crash(b: Backend) {
    let w = world(b).await;
    let (_, id) = parked(&w).await;
    let w = World { b: w.b.crashed(), ..w };
    assert_eq!(
        (listed(&w, ApprovalFilter::default()).await, w.due(30_000).await),
        (vec![id.clone()], vec![])
    );
    let (row, wake) = taken(answer(&w, &id, Answerer::Person(w.husam), yes()).await);
    assert_eq!((row.approval.unwrap().state, wake.len()), (ApprovalState::Granted, 1));
    let w = World { b: w.b.crashed(), ..w };
    assert_eq!(state(&w, &id).await, ApprovalState::Granted);
    let AnswerRefused::Already { by, .. } = refusal(answer(&w, &id, Answerer::Operator, yes()).await) else {
        panic!("wanted to hear who was faster")
    };
    assert_eq!(by, "husam");
}
