//! What a person lets out of what a stranger's text asked for.

use agent::approval::{Answerer, PersonVerdict};
use agent::limits;
use agent::port::{ApprovalFilter, PageRequest, PersonAnswer};

use super::*;

/// In its cycle, and long after it: what a person lets out leaves once, as it was shown or as that person has changed it.
#[tokio::test]
async fn a_message_that_a_person_lets_out_is_posted_once_and_told() {
    let shown = json!({"space": "town", "text": CANARY}).to_string();
    let changed = format!("{CANARY}, as agreed");
    let edited = json!({"space": "town", "text": changed}).to_string();
    let approve = |arguments| PersonVerdict::Approve { arguments, remember: None };
    for pause in [0, limits::PAUSE_MS] {
        for (verdict, expected) in [
            (approve(None), Some(CANARY)),
            (approve(Some(edited.clone())), Some(&*changed)),
            (PersonVerdict::Refuse, None),
        ] {
            let case = Case::with_history("ask", false, pause).await;
            let world = &case.fixture.world;
            case.keep(Kept::OperatorMemory).await;
            // Nothing else wants the agent: it would not wait then.
            case.bring_event("[[do leak town]]").await;
            let town = world.reader().space("town".into()).await.unwrap().unwrap().id;
            let texts = async || world.posted_texts(town).await.unwrap();
            assert!(texts().await.is_empty() && !case.leaked().await);
            let approvals = &world.ports().approvals;
            let page = PageRequest { limit: 10, cursor: None };
            let asked = approvals.approvals(ApprovalFilter::default(), page).await.unwrap().items;
            let asked = asked.last().unwrap();
            assert_eq!(asked.row.arguments, shown);
            let approval = asked.row.approval.as_ref().unwrap();
            assert_eq!((approval.space, approval.late), (Some(case.home), pause == 0), "it has a card");
            let (id, by, at) = (asked.row.id.clone(), Answerer::Operator, world.clock().now());
            let answer = PersonAnswer { id, verdict, reason: None, by, at, seen: None };
            runtime::approvals::answer(world.ports(), world.node().unwrap(), asked, answer).await.unwrap();
            world.quiet().await.unwrap();
            world.pass(Duration::from_secs(60)).await.unwrap();
            let posted: Vec<_> =
                expected.map(|text| ("Ada".to_owned(), text.to_owned())).into_iter().collect();
            let leaves = expected.is_some();
            assert_eq!((texts().await, case.leaked().await), (posted, leaves), "after {pause} ms");
        }
    }
}
