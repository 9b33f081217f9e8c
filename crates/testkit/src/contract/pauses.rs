//! Promises about agents that wait for people: others are served meanwhile, and what nobody can answer any more ends.

use agent::approval::{AnswerRefused, Answerer, Approval, ApprovalState, AskKind, PersonVerdict};
use agent::call::{CallRow, CallState, OutcomeStatus, Runner};
use agent::changes::{Changes, CommitKind, Idle};
use agent::config::AgentConfig;
use agent::id::{CallId, EventId};
use agent::life::{IdleReason, Standing};
use agent::port::{Accepted, PersonAnswered};

use super::Backend;
use super::approvals::{answer, asked, detach, late_results, over, parked, plain, yes};
use super::world::{World, agent, at, message_from, service, space, world};

/// At the time of the event, and without one only when the pause ends.
pub async fn an_agent_that_waits_for_a_person_is_due_as_soon_as_an_event_is(b: Backend) {
    let w = world(b).await;
    let (driver, _) = parked(&w).await;
    assert_eq!((w.due(59_999).await, w.due(60_000).await), (vec![], vec![w.ada]));
    let kept_back =
        async || w.b.store.wake(w.ada, at(2_000), None).await.unwrap().unwrap().life.is_kept_back(at(2_000));
    assert!(kept_back().await, "nothing wants it");
    let event = service("api:key:1");
    let Accepted::Fresh { wake, .. } = w.event(w.ada, event.clone()).await else {
        panic!("wanted it accepted")
    };
    assert_eq!((wake[0].agent, wake[0].at), (w.ada, at(10)));
    assert_eq!(w.due(2_000).await, [w.ada]);
    assert!(!kept_back().await);
    // An event that is gone again: it looks once, and is not due for ever.
    w.b.registry.cancel_event(w.ada, EventId(event.id.0.clone())).await.unwrap();
    assert!(w.due(2_000).await.is_empty() || !kept_back().await, "due, and never served");
    let mut driver = driver.takeover();
    let opening = driver.changes(CommitKind::Open);
    driver.commit(&w, opening).await;
    let mut park = driver.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(60_000)), reason: Some(IdleReason::Person) });
    driver.commit(&w, park).await;
    assert_eq!((w.due(59_999).await, w.due(60_000).await), (vec![], vec![w.ada]));
}

/// The event that came between is not left to wait with it.
pub async fn a_pause_for_a_person_does_not_begin_while_events_wait(b: Backend) {
    let w = world(b).await;
    let (mut driver, _) = asked(&w, plain).await;
    assert!(matches!(w.event(w.ada, service("api:key:1")).await, Accepted::Fresh { .. }));
    let mut park = driver.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(60_000)), reason: Some(IdleReason::Person) });
    park.answered = Some(0);
    let (_, notifications) = driver.commit(&w, park).await;
    assert_eq!((w.due(2_000).await, notifications.wake.len()), (vec![w.ada], 1));
    assert_eq!(w.wake(w.ada).await.life.not_before, None);
}

/// What happens to an agent or to the space where its call waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Closed,
    Left,
    Retired,
    Suspended,
    Nothing,
}

/// In every way in which a call can lose the place where it was asked: nobody answers it any more, nothing runs, and its agent
/// reads why. A suspended agent keeps what waits, and begins nothing.
pub async fn a_call_that_nobody_can_answer_any_more_ends(b: Backend) {
    let mut w = world(b).await;
    for how in [Ends::Closed, Ends::Left, Ends::Retired, Ends::Suspended, Ends::Nothing] {
        for late in [false, true] {
            let name = format!("{how:?}-{late}").to_lowercase();
            let ada = agent(&w.b, &name, AgentConfig::default()).await;
            let family = space(&w.b, &name, &[w.husam, ada.entity()]).await;
            w = World { ada, family, ..w };
            let (mut driver, id) = if late { asked(&w, plain).await } else { parked(&w).await };
            if late {
                detach(&w, &mut driver, &id).await;
            }
            match how {
                Ends::Closed => drop(w.b.registry.set_space_closed(w.family, true).await.unwrap()),
                Ends::Left => drop(w.b.registry.remove_member(w.family, w.ada.entity()).await.unwrap()),
                Ends::Retired => {
                    w.b.registry.set_standing(w.ada, Standing::Retired, at(1_500)).await.unwrap()
                }
                Ends::Suspended => {
                    w.b.registry.set_standing(w.ada, Standing::Suspended, at(1_500)).await.unwrap()
                }
                Ends::Nothing => {}
            }
            check(&w, &id, how, late).await;
        }
    }
}

async fn check(w: &World, id: &CallId, how: Ends, late: bool) {
    let ends = matches!(how, Ends::Closed | Ends::Left);
    if ends || how == Ends::Retired {
        for by in [Answerer::Operator, Answerer::Person(w.husam), Answerer::Link] {
            for verdict in [yes(), PersonVerdict::Refuse] {
                let refused = answer(w, id, by, verdict).await;
                let over = matches!(
                    refused,
                    PersonAnswered::Refused(AnswerRefused::Over(_) | AnswerRefused::Retired)
                );
                assert!(over, "{how:?}, late: {late}, {by:?}: {refused:?}");
            }
        }
    }
    if ends {
        let lapsed = w.b.approvals.lapse(at(2_000), 10).await.unwrap();
        assert_eq!(
            lapsed.iter().map(|lapsed| &lapsed.call).collect::<Vec<_>>(),
            [id],
            "{how:?}, late: {late}"
        );
        let row = w.b.approvals.asked(id.clone()).await.unwrap().unwrap().row;
        assert_eq!(row.outcome.unwrap().status, OutcomeStatus::Canceled);
        assert_eq!((row.state, row.approval.unwrap().state), (CallState::Done, ApprovalState::Canceled));
        assert_eq!(late_results(w).await, usize::from(late), "{how:?}");
        assert!(w.due(3_000).await.contains(&w.ada), "{how:?}, late: {late}");
    } else if how != Ends::Retired {
        assert!(matches!(answer(w, id, Answerer::Person(w.husam), yes()).await, PersonAnswered::Taken(..)));
        let begins = how == Ends::Nothing;
        let found = w.b.calls.detached(None, 10).await.unwrap();
        assert_eq!(found.len(), usize::from(begins && late), "{how:?}, late: {late}");
        assert_eq!(w.due(3_000).await.contains(&w.ada), begins && !late, "{how:?}, late: {late}");
    }
}

/// By whoever may answer it, once, with the message that also becomes an event. An approval of a call is none.
pub async fn a_message_answers_the_question_that_waits_in_its_space(b: Backend) {
    let w = world(b).await;
    let question = |row: CallRow, approval: Box<Approval>| {
        let approval = Approval { question: true, kind: AskKind::Text, ..*approval };
        CallRow { runner: Runner::Person, approval: Some(Box::new(approval)), ..row }
    };
    let (mut driver, id) = asked(&w, plain).await;
    let Accepted::Fresh { answered, .. } = w.post(w.family, "approve").await else {
        panic!("wanted it accepted")
    };
    assert_eq!(answered.messages, [], "a card is answered, not a chat");
    let closing = driver.closing();
    driver.commit(&w, Changes { call_changes: vec![over(&id)], ..closing }).await;
    let (driver, id) = asked(&w, question).await;
    let elsewhere = w.post(w.team, "in the hall").await;
    let by_agent = w.accept(message_from(w.ada.entity(), w.family, "in the hall")).await;
    for other in [elsewhere, by_agent] {
        assert!(
            matches!(&other, Accepted::Fresh { answered, .. } if answered.messages.is_empty()),
            "{other:?}"
        );
    }
    let said = message_from(w.husam, w.family, "in the drawer");
    let Accepted::Fresh { wake, answered, .. } = w.accept(said.clone()).await else {
        panic!("wanted it accepted")
    };
    assert!(wake.iter().any(|wakeup| wakeup.agent == w.ada), "the message is an event, too");
    assert!(answered.messages[0].text.starts_with("[question answered by husam]"), "{answered:?}");
    let outcome = w.news(driver.lease).await.answered[0].1.clone();
    assert!(
        outcome.text.contains("in the drawer") && outcome.text.contains(&said.id.to_string()),
        "{outcome:?}"
    );
    let row = w.b.approvals.asked(id).await.unwrap().unwrap().row;
    assert_eq!(row.approval.unwrap().by.unwrap().message, Some(said.id));
    assert!(matches!(w.accept(said).await, Accepted::Duplicate { .. }));
    let Accepted::Fresh { answered, .. } = w.post(w.family, "or in the hall").await else {
        panic!("wanted it")
    };
    assert_eq!(answered.messages, [], "the first one counts");
}
