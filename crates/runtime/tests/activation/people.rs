//! Calls that wait for a person: nothing runs before the answer, and what was approved runs once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::approval::{AnswerRefused, Answerer, ApprovalState, PersonVerdict, Remember};
use agent::call::{CallRow, CallState};
use agent::changes::{Changes, CommitKind};
use agent::config::AgentConfig;
use agent::id::{AgentId, CallId, EntityId, SpaceId};
use agent::life::{IdleReason, Lease, Standing};
use agent::limits;
use agent::port::{ApprovalFilter, AskedCall, PageRequest, PersonAnswer, Store, Tool, ToolSpec, Toolbox};
use agent::prompt::Prompt;
use agent::run::Ending;
use agent::tool::ToolLabels;
use models::scripted::{Script, Scripted};
use runtime::approvals::AnswerError;
use serde_json::{Value, json};
use testkit::test_tools::with_spec;

use crate::calls::{posted, results};
use crate::fixture::{Fixture, done, inbox, send, step};
use crate::store_wrapper::{Committed, Intercept, Wrapped};

pub(crate) const PAUSE: Duration = Duration::from_millis(limits::PAUSE_MS);

/// Calls a tool, and posts what it reads of it; posts late results, too.
pub(crate) fn caller(tool: &'static str, arguments: Value) -> impl Fn(&Prompt) -> Script + Send + Sync {
    move |prompt| match (inbox(prompt), step(prompt)) {
        (inbox, 0) if inbox.contains("[tool result") => {
            let late: Vec<&str> = inbox.lines().filter(|line| line.contains("[tool result")).collect();
            Script::new().call("send_message", &send("lobby", &late.join("\n")))
        }
        (inbox, 0) if inbox.contains("please") => {
            Script::new().call(tool, &arguments).call("look", &json!({}))
        }
        (inbox, 1) if inbox.contains("please") => {
            Script::new().call("send_message", &send("lobby", &results(prompt)[0]))
        }
        (_, 0) => Script::new().call("send_message", &send("lobby", "heard")),
        _ => done(),
    }
}

pub(crate) fn config(value: Value) -> AgentConfig {
    AgentConfig::from_json(&value).unwrap()
}

/// Ada with that config, husam and the lobby; husam says please.
pub(crate) struct Scene {
    pub(crate) fixture: Fixture,
    pub(crate) ada: AgentId,
    pub(crate) husam: EntityId,
    pub(crate) lobby: SpaceId,
}

impl Scene {
    pub(crate) async fn of(fixture: Fixture, with: Value) -> Self {
        let husam = fixture.world.human("husam").await.unwrap();
        let ada = fixture.world.agent("ada", config(with)).await.unwrap();
        let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        let scene = Self { fixture, ada, husam, lobby };
        scene.say("please").await;
        scene
    }

    pub(crate) async fn asking(tool: &'static str) -> Self {
        Self::of(Fixture::unsafely(caller(tool, json!({"note": "one"}))), json!({"approve": [tool]})).await
    }

    pub(crate) async fn say(&self, text: &str) {
        self.fixture.world.say(self.husam, self.lobby, text).await.unwrap();
        self.quiet().await;
    }

    /// Lets everything happen that needs no person.
    pub(crate) async fn quiet(&self) {
        self.fixture.world.pass(Duration::from_secs(3)).await.unwrap();
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.fixture.world.pass(time).await.unwrap();
        self.quiet().await;
    }

    pub(crate) async fn list(&self, all: bool) -> Vec<AskedCall> {
        let filter = ApprovalFilter { all, ..ApprovalFilter::default() };
        let page = PageRequest { cursor: None, limit: 10 };
        self.fixture.world.ports().approvals.approvals(filter, page).await.unwrap().items
    }

    /// The call that waits.
    pub(crate) async fn wanted(&self) -> CallRow {
        let list = self.list(false).await;
        assert_eq!(list.len(), 1, "{list:?}");
        list.into_iter().next().unwrap().row
    }

    pub(crate) async fn answer_by(
        &self,
        by: Answerer,
        id: &CallId,
        verdict: PersonVerdict,
    ) -> Result<AskedCall, AnswerError> {
        let (ports, reason) = (self.fixture.world.ports(), Some("because".to_owned()));
        let answer = PersonAnswer { id: id.clone(), verdict, reason, by, at: ports.clock.now(), seen: None };
        let node = self.fixture.world.node().expect("the server runs");
        let asked =
            ports.approvals.asked(id.clone()).await?.ok_or_else(|| AnswerError::Unknown(id.clone()))?;
        runtime::approvals::answer(ports, node, &asked, answer).await
    }

    pub(crate) async fn answer(&self, verdict: PersonVerdict) -> Result<AskedCall, AnswerError> {
        let id = self.wanted().await.id;
        let answered = self.answer_by(Answerer::Person(self.husam), &id, verdict).await;
        self.quiet().await;
        answered
    }

    pub(crate) async fn posted(&self) -> Vec<String> {
        posted(&self.fixture, self.lobby).await
    }

    pub(crate) fn runs(&self, tool: &str) -> u64 {
        self.fixture.counters.calls(tool)
    }
}

pub(crate) fn yes() -> PersonVerdict {
    PersonVerdict::Approve { arguments: None, remember: None }
}

#[tokio::test]
async fn nothing_runs_before_a_person_approves_and_then_once() {
    let scene = Scene::asking("fire").await;
    assert_eq!((scene.runs("fire"), scene.runs("look")), (0, 1), "the others of its step go on");
    let card = scene.posted().await.pop().unwrap();
    for part in ["approval wanted", "fire", r#"{"note":"one"}"#, "the agent's config wants it"] {
        assert!(card.contains(part), "{card}");
    }
    assert!(card.contains("\nrequested by: husam\n"), "{card}");
    scene.pass(PAUSE / 2).await;
    let agent = scene.fixture.world.reader().agent(scene.ada).await.unwrap().unwrap();
    assert_eq!((agent.idle_reason, agent.waiting), (Some(IdleReason::Person), 0));
    assert_eq!(scene.runs("fire"), 0);
    scene.answer(yes()).await.unwrap();
    assert_eq!(scene.runs("fire"), 1);
    let texts = scene.posted().await;
    let card = texts.iter().find(|text| text.starts_with("[approval")).unwrap();
    assert!(card.starts_with("[approval granted by husam] fire (version "), "{card}");
    assert!(
        card.ends_with("\nrequested by: husam\narguments: {\"note\":\"one\"}\nreason: because\noutcome: ok"),
        "{card}"
    );
    let agent = scene.fixture.world.reader().agent(scene.ada).await.unwrap().unwrap();
    assert_eq!((agent.waiting, agent.idle_reason), (0, None));
    let runs = scene.fixture.world.runs(scene.ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Completed]);
    scene.pass(PAUSE * 2).await;
    assert_eq!(scene.runs("fire"), 1);
}

#[tokio::test]
async fn a_person_may_change_the_arguments_and_the_agent_reads_who_did() {
    let scene = Scene::asking("fire").await;
    let edited =
        |arguments: &str| PersonVerdict::Approve { arguments: Some(arguments.into()), remember: None };
    let wrong = scene.answer(edited("not JSON")).await;
    assert!(matches!(wrong, Err(AnswerError::Unfit(_))), "{wrong:?}");
    let long = format!(r#"{{"note":"{}"}}"#, "x".repeat(limits::APPROVAL_ARGUMENTS_MAX_BYTES));
    assert!(matches!(scene.answer(edited(&long)).await, Err(AnswerError::Unfit(_))));
    assert_eq!(scene.runs("fire"), 0);
    let before = scene.wanted().await;
    scene.answer(edited(r#"{"note":"two"}"#)).await.unwrap();
    assert_eq!(scene.fixture.counters.keys("fire"), [before.id], "the same call");
    let texts = scene.posted().await;
    let read = texts.last().unwrap();
    assert!(read.contains("husam changed the arguments") && read.contains(r#"{"note":"two"}"#), "{read}");
    let card = texts.iter().find(|text| text.starts_with("[approval granted by husam]")).unwrap();
    let end = "arguments: {\"note\":\"two\"}\nasked for: {\"note\":\"one\"}\nreason: because\noutcome: ok";
    assert!(card.ends_with(end), "{card}");
}

#[tokio::test]
async fn a_refused_call_never_runs_and_the_agent_reads_who_refused_and_why() {
    let scene = Scene::asking("fire").await;
    scene.answer(PersonVerdict::Refuse).await.unwrap();
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("refused by husam"), "{texts:?}");
    assert!(texts.last().unwrap().contains("because"), "{texts:?}");
    let card = texts.iter().find(|text| text.starts_with("[approval refused by husam] fire")).unwrap();
    assert!(card.ends_with("arguments: {\"note\":\"one\"}\nreason: because"), "{card}");
    scene.pass(PAUSE * 2).await;
    assert_eq!((scene.runs("fire"), scene.list(false).await.len()), (0, 0));
}

/// Notes the kind of each commit.
struct Kinds(Arc<Mutex<Vec<CommitKind>>>);

impl Intercept for Kinds {
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        self.0.lock().unwrap().push(changes.kind);
        store.commit(lease, changes)
    }
}

#[tokio::test]
async fn the_commit_that_resumes_an_answered_cycle_also_reports_the_answer() {
    let kinds = Arc::<Mutex<Vec<CommitKind>>>::default();
    let noted = Arc::clone(&kinds);
    let fixture = Fixture::with(Scripted::answering(caller("fire", json!({"note": "one"}))), move |inner| {
        Arc::new(Wrapped { inner, by: Kinds(Arc::clone(&noted)) }) as Arc<_>
    });
    let scene = Scene::of(fixture, json!({"approve": ["fire"]})).await;
    kinds.lock().unwrap().clear();
    scene.answer(PersonVerdict::Refuse).await.unwrap();
    let kinds = kinds.lock().unwrap().clone();
    assert_eq!(kinds[..2], [CommitKind::Open, CommitKind::Decide], "{kinds:?}");
}

#[tokio::test]
async fn without_an_answer_the_cycle_goes_on_people_are_reminded_once_and_in_the_end_it_expires() {
    let scene = Scene::asking("fire").await;
    scene.pass(PAUSE + Duration::from_secs(10)).await;
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("it waits for a person"), "{texts:?}");
    assert_eq!(scene.wanted().await.state, CallState::Detached);
    scene.pass(Duration::from_millis(limits::APPROVAL_REMIND_MS)).await;
    let reminders = async || {
        let texts = scene.posted().await;
        texts.iter().filter(|text| text.starts_with("[reminder]")).count()
    };
    assert_eq!(reminders().await, 1);
    scene.pass(Duration::from_millis(limits::APPROVAL_MS)).await;
    assert_eq!((reminders().await, scene.runs("fire"), scene.list(false).await.len()), (1, 0, 0));
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("nobody approved it within 7d"), "{texts:?}");
    let call = scene.list(true).await.pop().unwrap().row;
    assert_eq!(call.approval.unwrap().state, ApprovalState::Expired);
    let late = scene.answer_by(Answerer::Operator, &call.id, yes()).await;
    assert!(matches!(late, Err(AnswerError::Refused(AnswerRefused::Over(_)))), "{late:?}");
}

#[tokio::test]
async fn an_approval_after_the_pause_runs_the_call_and_its_result_is_an_event() {
    for tool in ["fire", "put"] {
        let scene = Scene::asking(tool).await;
        let before = scene.runs(tool);
        scene.pass(PAUSE + Duration::from_secs(10)).await;
        scene.answer(yes()).await.unwrap();
        scene.pass(Duration::from_secs(10)).await;
        assert_eq!(scene.runs(tool), before + 1);
        let texts = scene.posted().await;
        let result = format!("[tool result \"{tool}\"");
        assert!(texts.last().unwrap().contains(&result), "{texts:?}");
        assert!(texts.last().unwrap().contains("answered"), "{texts:?}");
    }
}

#[tokio::test]
async fn a_late_unsafe_call_that_was_approved_is_never_run_twice() {
    let mut scene = Scene::asking("slow").await;
    scene.pass(PAUSE + Duration::from_secs(10)).await;
    scene.answer(yes()).await.unwrap();
    scene.fixture.gate.begun(1).await;
    scene.fixture.dies();
    scene.fixture.world.start();
    scene.fixture.gate.open();
    scene.pass(Duration::from_secs(30)).await;
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("unknown whether it happened"), "{texts:?}");
    assert_eq!(scene.runs("slow"), 1);
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts_and_the_other_hears_who_was_faster() {
    let scene = Scene::asking("fire").await;
    let id = scene.wanted().await.id;
    let (first, second) = futures_util::future::join(
        scene.answer_by(Answerer::Person(scene.husam), &id, yes()),
        scene.answer_by(Answerer::Operator, &id, yes()),
    )
    .await;
    let lost: Vec<String> =
        [first, second].into_iter().filter_map(Result::err).map(|e| e.to_string()).collect();
    assert!(lost.len() == 1 && lost[0].contains("answered already: granted by"), "{lost:?}");
    scene.quiet().await;
    assert_eq!(scene.runs("fire"), 1);
}

#[tokio::test]
async fn agents_and_strangers_answer_nothing() {
    let scene = Scene::asking("fire").await;
    let stranger = scene.fixture.world.human("stranger").await.unwrap();
    let id = scene.wanted().await.id;
    for who in [scene.ada.entity(), stranger] {
        let refused = scene.answer_by(Answerer::Person(who), &id, yes()).await;
        assert!(matches!(refused, Err(AnswerError::Refused(AnswerRefused::NotYours(_)))), "{refused:?}");
    }
    let unknown = scene.answer_by(Answerer::Operator, &CallId("c0".into()), yes()).await;
    assert!(matches!(unknown, Err(AnswerError::Unknown(_))), "{unknown:?}");
    scene.quiet().await;
    assert_eq!(scene.runs("fire"), 0);
}

#[tokio::test]
async fn a_canceled_cycle_cancels_what_it_wanted() {
    let scene = Scene::asking("fire").await;
    let id = scene.wanted().await.id;
    scene.fixture.world.registry().cancel(scene.ada, None).await.unwrap();
    scene.fixture.world.node().unwrap().recheck(scene.ada);
    scene.quiet().await;
    assert_eq!(scene.fixture.world.runs(scene.ada).await.unwrap()[0].ending, Ending::Canceled);
    let late = scene.answer_by(Answerer::Operator, &id, yes()).await;
    assert!(matches!(late, Err(AnswerError::Refused(AnswerRefused::Over(_)))), "{late:?}");
    assert_eq!((scene.runs("fire"), scene.list(false).await.len()), (0, 0));
}

#[tokio::test]
async fn a_paused_agent_survives_restarts_suspension_and_a_changed_config() {
    let mut scene = Scene::asking("fire").await;
    scene.fixture.dies();
    scene.fixture.world.start();
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(scene.runs("fire"), 0);
    let registry = Arc::clone(scene.fixture.world.registry());
    registry.amend_agent(scene.ada, None, Some(json!({"approve": []})), scene.fixture.now()).await.unwrap();
    scene.fixture.world.node().unwrap().recheck(scene.ada);
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(scene.runs("fire"), 0, "what was wanted is still wanted");
    registry.set_standing(scene.ada, Standing::Suspended, scene.fixture.now()).await.unwrap();
    scene.answer(yes()).await.unwrap();
    assert_eq!(scene.runs("fire"), 0, "a suspended agent does nothing");
    registry.set_standing(scene.ada, Standing::Active, scene.fixture.now()).await.unwrap();
    scene.fixture.world.node().unwrap().resume(scene.ada);
    scene.quiet().await;
    assert_eq!(scene.runs("fire"), 1);
}

#[tokio::test]
async fn a_rule_spares_further_questions_until_its_time() {
    let scene = Scene::asking("fire").await;
    let until = scene.fixture.now() + PAUSE;
    let remember = Some(Remember { until, tainted: false });
    scene.answer(PersonVerdict::Approve { arguments: None, remember }).await.unwrap();
    // Rules are read for agents that may have tools outside.
    let tools = json!({"tools": ["fire", "look", "send_message", "done"]});
    let registry = scene.fixture.world.registry();
    registry.amend_agent(scene.ada, None, Some(tools), scene.fixture.now()).await.unwrap();
    scene.say("please again").await;
    assert_eq!((scene.runs("fire"), scene.list(false).await.len()), (2, 0));
    scene.pass(PAUSE).await;
    scene.say("please, later").await;
    assert_eq!((scene.runs("fire"), scene.list(false).await.len()), (2, 1));
    let past = Some(Remember { until: scene.fixture.now(), tainted: false });
    let refused = scene.answer(PersonVerdict::Approve { arguments: None, remember: past }).await;
    assert!(matches!(refused, Err(AnswerError::Unfit(_))), "{refused:?}");
}

#[tokio::test]
async fn a_deleted_rule_lets_no_call_begin_that_was_decided_before() {
    let author = |prompt: &Prompt| match (inbox(prompt), step(prompt)) {
        (inbox, 0) if inbox.contains("both") => {
            Script::new().call("slow", &json!({})).call("fire", &json!({}))
        }
        (inbox, 1) if inbox.contains("both") => {
            Script::new().call("send_message", &send("lobby", &results(prompt)[1]))
        }
        (_, 0) => Script::new().call("fire", &json!({})),
        _ => done(),
    };
    let scene = Scene::of(
        Fixture::unsafely(author),
        json!({"approve": ["fire"], "tools": ["fire", "slow", "send_message", "done"]}),
    )
    .await;
    let remember = Some(Remember { until: scene.fixture.now() + PAUSE, tainted: false });
    scene.answer(PersonVerdict::Approve { arguments: None, remember }).await.unwrap();
    assert_eq!(scene.runs("fire"), 1);
    scene.fixture.world.say(scene.husam, scene.lobby, "both").await.unwrap();
    scene.fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(scene.runs("slow"), 1, "it runs, and the other one waits behind it");
    let approvals = Arc::clone(&scene.fixture.world.ports().approvals);
    let gone = approvals.forget_rules(scene.ada, "fire".into(), Some(scene.husam)).await.unwrap();
    assert_eq!(gone.len(), 1);
    scene.fixture.gate.open();
    scene.quiet().await;
    assert_eq!((scene.runs("slow"), scene.runs("fire")), (1, 1));
    let told = scene.posted().await.pop().unwrap();
    assert!(told.contains("the rule by which it needed no approval"), "{told}");
}

fn asker(question: Value) -> impl Fn(&Prompt) -> Script + Send + Sync {
    caller("ask_person", question)
}

/// With the tool `ask_person`, which an agent must name.
pub(crate) async fn questioned(question: Value) -> Scene {
    let tools = json!({"tools": ["ask_person", "look", "send_message", "done"]});
    Scene::of(Fixture::new(asker(question)), tools).await
}

#[tokio::test]
async fn a_question_is_answered_by_a_choice_a_form_or_a_text_and_by_nothing_else() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    for (question, wrong, right) in [
        (
            json!({"kind": "choice", "question": "Which?", "options": ["red", "blue"]}),
            json!("green"),
            json!("blue"),
        ),
        (
            json!({"kind": "form", "question": "How many?", "schema": schema}),
            json!({"n": "x"}),
            json!({"n": 3}),
        ),
        (json!({"kind": "text", "question": "Why?"}), json!({"no": "text"}), json!("so")),
        (json!({"kind": "text", "question": "Why?"}), json!("x".repeat(100_000)), json!("so")),
    ] {
        let scene = questioned(question.clone()).await;
        let card = scene.posted().await.pop().unwrap();
        assert!(
            card.contains("[question]") && card.contains(question["question"].as_str().unwrap()),
            "{card}"
        );
        for wrong in [PersonVerdict::Answer(wrong), yes()] {
            let refused = scene.answer(wrong).await;
            let unfit =
                matches!(refused, Err(AnswerError::Unfit(_) | AnswerError::Refused(AnswerRefused::Unfit(_))));
            assert!(unfit, "{refused:?}");
        }
        scene.answer(PersonVerdict::Answer(right.clone())).await.unwrap();
        let texts = scene.posted().await;
        let read: Value = serde_json::from_str(texts.last().unwrap()).unwrap();
        assert_eq!(read, json!({"answer": right, "by": "husam"}));
    }
}

#[tokio::test]
async fn a_deferred_question_is_pending_at_once_and_its_answer_is_an_event() {
    let scene = questioned(json!({"kind": "approval", "question": "May I?", "wait": "defer"})).await;
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("it waits for a person"), "{texts:?}");
    assert_eq!(scene.fixture.world.runs(scene.ada).await.unwrap().len(), 1, "its cycle has ended");
    scene.answer(yes()).await.unwrap();
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("[tool result \"ask_person\""), "{texts:?}");
    assert!(texts.last().unwrap().contains("approved"), "{texts:?}");
}

#[tokio::test]
async fn a_question_to_nobody_is_refused_to_the_agent() {
    let question = json!({"kind": "text", "question": "Why?", "people": ["nobody"]});
    let scene = questioned(question).await;
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("no person"), "{texts:?}");
    assert_eq!(scene.list(true).await.len(), 0);
}

/// `fire` with another specification.
struct Respecified {
    inner: Arc<dyn Toolbox>,
    change: fn(ToolSpec) -> ToolSpec,
}

impl Toolbox for Respecified {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tool = self.inner.tool(name)?;
        if name != "fire" {
            return Some(tool);
        }
        let spec = (self.change)(tool.spec().clone());
        Some(with_spec(tool, spec))
    }

    fn names(&self) -> Vec<String> {
        self.inner.names()
    }

    fn is_prebuilt(&self, name: &str) -> bool {
        self.inner.is_prebuilt(name)
    }
}

#[tokio::test]
async fn a_tool_that_changed_since_is_not_run() {
    let mut scene = Scene::asking("fire").await;
    let change = |spec| ToolSpec { version: "2".into(), ..spec };
    scene.fixture.dies_with(|inner| Arc::new(Respecified { inner, change }));
    scene.fixture.world.start();
    scene.quiet().await;
    let refused = scene.answer(yes()).await;
    assert!(matches!(refused, Err(AnswerError::Refused(AnswerRefused::Changed))), "{refused:?}");
    scene.answer(PersonVerdict::Refuse).await.unwrap();
    assert_eq!((scene.runs("fire"), scene.list(false).await.len()), (0, 0));
}

#[tokio::test]
async fn the_guard_asks_a_person_before_strangers_text_private_data_and_a_way_out_meet() {
    let author = |prompt: &Prompt| match step(prompt) {
        0 => Script::new().call("fire", &json!({"note": "all"})),
        _ => done(),
    };
    let mut fixture = Fixture::new(author);
    let change = |spec| ToolSpec { labels: ToolLabels::all(), ..spec };
    fixture.dies_with(|inner| Arc::new(Respecified { inner, change }));
    fixture.world.start();
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let scene = Scene { fixture, ada, husam, lobby };
    scene.say("please").await;
    assert_eq!((scene.runs("fire"), scene.list(false).await.len()), (1, 0), "no stranger has said anything");
    // What `fire` returned was written by strangers.
    scene.say("please").await;
    assert_eq!(scene.runs("fire"), 1);
    let asked = scene.wanted().await.approval.unwrap();
    assert!(asked.tainted && asked.why.contains("text of strangers"), "{asked:?}");
    scene.answer(yes()).await.unwrap();
    assert_eq!(scene.runs("fire"), 2);
}
