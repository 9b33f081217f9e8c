//! Promises about rules that approve calls in advance: for which calls they are, whose they are, and until when they count.

use agent::approval::{Answerer, Approval, ApprovalRule, ByRule, PersonVerdict, Remember};
use agent::call::{CallRow, CallState, Outcome, Runner};
use agent::changes::{CallChange, Changes, CommitKind, CommitOutcome};
use agent::id::{AgentId, CallId, ClaimId, EntityId};
use agent::limits;
use agent::port::{Beginning, Claimed, PageRequest, RuleFilter};
use serde_json::json;

use super::Backend;
use super::approvals::{answer, asked, human, over, parked, plain, taken};
use super::world::{AHEAD, World, at, everything, fresh, world};

/// All rules that this filter finds at [`at`] `ms`.
async fn rules(w: &World, agent: Option<AgentId>, person: Option<EntityId>, ms: i64) -> Vec<ApprovalRule> {
    let filter = RuleFilter { agent, person };
    w.b.approvals.rules(filter, at(ms), everything()).await.unwrap().items
}

/// Ada's rules that are in force.
async fn in_force(w: &World) -> Vec<ApprovalRule> {
    w.wake(w.ada).await.rules
}

fn until(ms: i64) -> PersonVerdict {
    let remember = Some(Remember { until: at(ms), tainted: false });
    PersonVerdict::Approve { arguments: None, remember }
}

/// A call of ada is approved with a rule, and ends.
async fn given(w: &World, by: Answerer, change: impl Fn(CallRow, Box<Approval>) -> CallRow, ms: i64) {
    let (mut driver, id) = asked(w, change).await;
    taken(answer(w, &id, by, until(ms)).await);
    let closing = driver.closing();
    driver.commit(w, Changes { call_changes: vec![over(&id)], ..closing }).await;
}

async fn configure(w: &World, config: serde_json::Value) {
    w.b.registry.amend_agent(w.ada, None, Some(config), at(0)).await.unwrap();
}

/// A rule is given with an approval, replaces the one before, and is forgotten when it is over or deleted.
pub async fn rules_are_kept_with_the_answer_that_gives_them(b: Backend) {
    let w = world(b).await;
    let (_, id) = parked(&w).await;
    let remember = Some(Remember { until: at(9_000), tainted: false });
    taken(
        answer(&w, &id, Answerer::Person(w.husam), PersonVerdict::Approve { arguments: None, remember })
            .await,
    );
    let rules = async |agent: Option<AgentId>, ms| rules(&w, agent, None, ms).await;
    let found = rules(Some(w.ada), 3_000).await;
    assert_eq!((found.len(), found[0].tool.as_str(), found[0].by.as_str()), (1, "fetch", "husam"));
    assert_eq!((rules(None, 3_000).await, rules(Some(w.bob), 3_000).await), (found.clone(), vec![]));
    assert_eq!(rules(None, 9_000).await, []);
    let forget = async |agent| w.b.approvals.forget_rules(agent, "fetch".into(), None).await.unwrap();
    assert_eq!((forget(w.bob).await, forget(w.ada).await), (vec![], found));
    assert_eq!(rules(None, 3_000).await, []);
}

/// An operator's is for all spaces, beside it. Each names the version of the tool that was approved.
pub async fn a_persons_rule_is_for_the_space_that_was_asked_and_is_that_persons_to_delete(b: Backend) {
    let w = world(b).await;
    for by in [Answerer::Person(w.husam), Answerer::Operator] {
        let (mut driver, id) = asked(&w, plain).await;
        taken(answer(&w, &id, by, until(9_000)).await);
        let closing = driver.closing();
        driver.commit(&w, Changes { call_changes: vec![over(&id)], ..closing }).await;
    }
    let rules = rules(&w, Some(w.ada), None, 3_000).await;
    let of = |rule: &ApprovalRule| (rule.space, rule.person, rule.version.clone());
    let expected = [(Some(w.family), Some(w.husam), "1".into()), (None, None, "1".into())];
    assert_eq!(rules.iter().map(of).collect::<Vec<_>>(), expected);
    let stranger = human(&w, "stranger").await;
    let forget = async |person| {
        let gone = w.b.approvals.forget_rules(w.ada, "fetch".into(), person).await.unwrap();
        gone.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(forget(Some(stranger)).await, []);
    assert_eq!(forget(Some(w.husam)).await, expected[..1]);
    assert_eq!(forget(None).await, expected[1..]);
}

/// Neither one that the server runs nor one of a worker, awaited or not.
pub async fn no_call_is_decided_or_begun_by_a_rule_that_does_not_hold_any_more(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = asked(&w, plain).await;
    let remember = Some(Remember { until: at(AHEAD), tainted: false });
    let verdict = PersonVerdict::Approve { arguments: None, remember };
    taken(answer(&w, &id, Answerer::Operator, verdict).await);
    let closing = driver.closing();
    driver.commit(&w, Changes { call_changes: vec![over(&id)], ..closing }).await;
    w.post(w.family, "again").await;
    let mut driver = w.open(w.ada).await;
    let ruled = |n: u32, awaited| CallRow {
        runner: Runner::Worker,
        by_rule: Some(ByRule { tainted: false, space: Some(w.family) }),
        ..driver.outward(n, awaited)
    };
    let (changed, tainted) = (
        CallRow { tool_version: "2".into(), ..ruled(2, true) },
        CallRow { by_rule: Some(ByRule { tainted: true, space: None }), ..ruled(3, true) },
    );
    let refused = async |rows: Vec<CallRow>| match w
        .b
        .store
        .commit(driver.lease, driver.decision_with(rows))
        .await
        .unwrap()
        .0
    {
        CommitOutcome::Refused(refusals) => refusals.into_iter().map(|r| r.call).collect::<Vec<_>>(),
        other => panic!("wanted it refused, got {other:?}"),
    };
    let rows = vec![ruled(0, true), ruled(1, false), changed.clone(), tainted.clone()];
    assert_eq!(refused(rows.clone()).await, [changed.id.clone(), tainted.id.clone()]);
    let (first, second) = (rows[0].id.clone(), rows[1].id.clone());
    let decision = driver.decision_with(rows[..2].to_vec());
    driver.commit(&w, decision).await;
    let change = CallChange {
        id: second.clone(),
        state: CallState::Detached,
        outcome: Some(Outcome::pending(&second)),
    };
    let settle = Changes { call_changes: vec![change], ..driver.changes(CommitKind::Settle) };
    driver.commit(&w, settle).await;
    assert_eq!(w.wake(w.ada).await.calls[0].by_rule, rows[0].by_rule);
    let looked = async |id: &CallId| w.b.calls.may_begin(id.clone(), true).await.unwrap();
    assert_eq!((looked(&first).await, looked(&second).await), (Beginning::Free, Beginning::Free));
    w.b.approvals.forget_rules(w.ada, "fetch".into(), None).await.unwrap();
    for id in [&first, &second] {
        assert_eq!(looked(id).await, Beginning::RuleOver);
        let claimed = w.b.calls.claim(id.clone(), ClaimId(fresh()), true).await.unwrap();
        assert_eq!(claimed, Claimed::RuleOver);
    }
    let closing = driver.closing();
    driver.commit(&w, Changes { call_changes: vec![over(&first)], ..closing }).await;
    w.post(w.family, "once more").await;
    let driver = w.open(w.ada).await;
    let row = CallRow { by_rule: rows[0].by_rule.clone(), ..driver.outward(0, true) };
    let decided = w.b.store.commit(driver.lease, driver.decision_with(vec![row])).await.unwrap().0;
    assert!(matches!(decided, CommitOutcome::Refused(_)), "{decided:?}");
}

/// Neither after the agent's `approvers` name others, nor after that person has left the space; an operator's goes on.
pub async fn a_persons_rule_counts_only_while_that_person_might_approve_the_call(b: Backend) {
    let w = world(b).await;
    configure(&w, json!({"tools": ["fetch"]})).await;
    let giver = async || in_force(&w).await.iter().map(|rule| rule.person).collect::<Vec<_>>();
    given(&w, Answerer::Operator, plain, AHEAD).await;
    configure(&w, json!({"approvers": ["mira"]})).await;
    assert_eq!(giver().await, [None]);
    w.b.approvals.forget_rules(w.ada, "fetch".into(), None).await.unwrap();
    configure(&w, json!({"approvers": []})).await;
    given(&w, Answerer::Person(w.husam), plain, AHEAD).await;
    assert_eq!(giver().await, [Some(w.husam)]);
    configure(&w, json!({"approvers": ["mira"]})).await;
    assert_eq!(giver().await, []);
    configure(&w, json!({"approvers": [" @Husam", "mira"]})).await;
    assert_eq!(giver().await, [Some(w.husam)]);
    configure(&w, json!({"approvers": ["role: Lead"]})).await;
    assert_eq!(giver().await, [], "a member without that role");
    w.b.registry.add_member(w.family, w.husam, "lead".into(), at(0)).await.unwrap();
    assert_eq!(giver().await, [Some(w.husam)]);
    configure(&w, json!({"approvers": ["husam"]})).await;
    w.b.registry.remove_member(w.family, w.husam).await.unwrap();
    assert_eq!(giver().await, [Some(w.husam)], "the config names that person");
    configure(&w, json!({"approvers": []})).await;
    assert_eq!(giver().await, [], "not a member of the space any more");
    w.b.registry.add_member(w.family, w.husam, "member".into(), at(0)).await.unwrap();
    assert_eq!(giver().await, [Some(w.husam)]);
    w.b.registry.remove_member(w.family, w.husam).await.unwrap();
    w.post(w.team, "again").await;
    let driver = w.open(w.ada).await;
    let row = CallRow {
        by_rule: Some(ByRule { tainted: false, space: Some(w.family) }),
        ..driver.outward(0, true)
    };
    let decided = w.b.store.commit(driver.lease, driver.decision_with(vec![row])).await.unwrap().0;
    assert!(matches!(decided, CommitOutcome::Refused(_)), "{decided:?}");
}

/// An operator's is for all calls.
pub async fn a_persons_rule_for_a_call_without_a_space_is_for_such_calls_only(b: Backend) {
    let w = world(b).await;
    configure(&w, json!({"tools": ["fetch"], "approvers": ["husam"]})).await;
    let nowhere = |row, approval: Box<Approval>| plain(row, Box::new(Approval { space: None, ..*approval }));
    let covers = async |space| {
        let call = ByRule { tainted: false, space };
        in_force(&w).await.iter().any(|rule| rule.covers("fetch", "1", &call, at(3_000)))
    };
    given(&w, Answerer::Person(w.husam), nowhere, AHEAD).await;
    assert_eq!((covers(None).await, covers(Some(w.family)).await), (true, false));
    given(&w, Answerer::Operator, nowhere, AHEAD).await;
    assert_eq!((covers(None).await, covers(Some(w.family)).await), (true, true));
}

/// A shorter one of somebody else ends none, and each person deletes the own one.
pub async fn each_person_has_rules_of_their_own(b: Backend) {
    let w = world(b).await;
    let mira = human(&w, "mira").await;
    w.b.registry.add_member(w.family, mira, "member".into(), at(0)).await.unwrap();
    given(&w, Answerer::Person(w.husam), plain, 9_000).await;
    given(&w, Answerer::Person(mira), plain, 5_000).await;
    let ends = async |person, ms| {
        rules(&w, Some(w.ada), person, ms).await.iter().map(|rule| rule.until).collect::<Vec<_>>()
    };
    assert_eq!(ends(None, 3_000).await, [at(9_000), at(5_000)]);
    assert_eq!(
        (ends(Some(w.husam), 3_000).await, ends(Some(mira), 3_000).await),
        (vec![at(9_000)], vec![at(5_000)])
    );
    assert_eq!(ends(None, 6_000).await, [at(9_000)]);
    let gone = w.b.approvals.forget_rules(w.ada, "fetch".into(), Some(w.husam)).await.unwrap();
    assert_eq!(gone.iter().map(|rule| rule.person).collect::<Vec<_>>(), [Some(w.husam)]);
    assert_eq!(ends(None, 3_000).await, [at(5_000)]);
}

/// Also those of one person among many others, and all of one agent are in force.
pub async fn rules_are_listed_in_pages_without_leaving_any_out(b: Backend) {
    let w = world(b).await;
    configure(&w, json!({"tools": ["fetch"]})).await;
    let of_tool = |n: usize| {
        move |row: CallRow, approval: Box<Approval>| plain(CallRow { tool: format!("t{n}"), ..row }, approval)
    };
    let most = limits::APPROVAL_RULES_MAX;
    for n in 0..most {
        let by = if n % 10 == 9 { Answerer::Person(w.husam) } else { Answerer::Operator };
        given(&w, by, of_tool(n), AHEAD).await;
    }
    assert_eq!(in_force(&w).await.len(), most);
    let pages = async |person, limit| {
        let (mut cursor, mut tools) = (None, Vec::new());
        loop {
            let (filter, page) = (RuleFilter { agent: None, person }, PageRequest { cursor, limit });
            let found = w.b.approvals.rules(filter, at(3_000), page).await.unwrap();
            assert!(found.items.len() <= limit as usize);
            tools.extend(found.items.into_iter().map(|rule| rule.tool));
            match found.next {
                Some(next) => cursor = Some(next),
                None => return tools,
            }
        }
    };
    assert_eq!(pages(None, 30).await, (0..most).map(|n| format!("t{n}")).collect::<Vec<_>>());
    let own: Vec<String> = (0..most / 10).map(|n| format!("t{}", 10 * n + 9)).collect();
    assert_eq!(pages(Some(w.husam), 4).await, own);
}
