//! A test fixture: the person `you`, the agent `muhammad` and the space `home` behind the real API. Every JSON
//! response is checked against the OpenAPI document.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use agent::changes::{Changes, CommitKind};
use agent::config::AgentConfig;
use agent::id::{AgentId, CredentialId, CycleId, EntityId, MessageId, SpaceId};
use agent::life::{Lease, OpenCycle};
use agent::port::{
    Accept, Accepted, Clock, Credential, Founding, Ids, Model, ModelError, ModelInfo, NewAgent,
    NewCredential, NewHuman, NewSpace, ReasoningReplay, Registry, Scope,
};
use agent::space::{NewMessage, PostedMessage};
use agent::update::{Topic, Update};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, Response};
use models::scripted::{Script, authored};
use runtime::Ports;
use runtime::answer_links::AnswerLinks;
use runtime::node::{Node, Signal};
use scenario::clock::{SimClock, SimIds};
use serde_json::{Value, json};
use server::{Options, keys, router};
use storage::sqlite::Sqlite;
use testkit::test_tools::{Counters, EmptyToolbox, TestToolbox, by_workers, look};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const ADMIN: &str = "viv_admin";

pub(crate) struct World {
    pub(crate) ports: Ports,
    pub(crate) router: Router,
    pub(crate) clock: SimClock,
    pub(crate) shutdown: CancellationToken,
    pub(crate) you: EntityId,
    pub(crate) agent: AgentId,
    pub(crate) home: SpaceId,
    /// What the tools did.
    pub(crate) counters: Counters,
    signals: Mutex<mpsc::Receiver<Signal>>,
    document: &'static Value,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) json: Value,
    /// The body, if it is no JSON.
    pub(crate) text: String,
}

impl Answer {
    /// The problem's code; empty if the response is not a problem.
    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// The problem's detail and hint.
    pub(crate) fn problem_text(&self) -> String {
        let text = |key: &str| self.json[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("detail"), text("hint"))
    }
}

/// Another key each time.
fn next_key() -> [u8; 32] {
    static COUNT: AtomicU8 = AtomicU8::new(0);
    [COUNT.fetch_add(1, Ordering::Relaxed); 32]
}

/// Has the model `demo`; `narrow` accepts two tools; the model `bug` panics.
fn model(name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
    let info = match name.unwrap_or("demo") {
        "demo" => ModelInfo {
            name: "demo".to_owned(),
            provider: "demo".to_owned(),
            context_window: 8_192,
            max_output: 1_024,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: true,
            demo: true,
            ..ModelInfo::default()
        },
        "narrow" => ModelInfo { name: "narrow".to_owned(), max_tools: Some(2), ..ModelInfo::default() },
        "bug" => panic!("a bug in a model"),
        other => return Err(ModelError::NoModel(format!("`{other}` is not known"))),
    };
    Ok(authored(info, |_| Script::new()))
}

impl World {
    pub(crate) async fn new() -> Self {
        let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
        let store = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
        Self::with(clock, store, Some(links())).await
    }

    /// A server that has no public address.
    pub(crate) async fn without_links() -> Self {
        let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
        let store = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
        Self::with(clock, store, None).await
    }

    /// On a store on disk, whose commands take time: requests really run at the same time.
    pub(crate) async fn on_disk(dir: &std::path::Path) -> Self {
        let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
        let store = Sqlite::open(dir, Arc::new(clock.clone())).unwrap();
        Self::with(clock, store, None).await
    }

    async fn with(clock: SimClock, store: Sqlite, links: Option<AnswerLinks>) -> Self {
        let ids = SimIds::new(7, clock.clone());
        let founding = founding(&ids, &clock);
        let (you, agent, home) =
            (founding.human.id, founding.agent.as_ref().unwrap().id, founding.space.as_ref().unwrap().id);
        assert!(store.found(founding).await.unwrap());
        let (sender, signals) = mpsc::channel(64);
        let counters = Counters::new();
        let toolbox = TestToolbox::with_all(Arc::new(EmptyToolbox), &counters)
            .with(by_workers("resize", look(&counters)));
        let ports = Ports::new(
            Arc::new(store),
            Arc::new(model),
            Arc::new(toolbox),
            Arc::new(clock.clone()),
            Arc::new(ids),
        );
        let secrets = Arc::new(crate::hooks::secrets());
        let courier = tools::courier::SignedCourier::new(Arc::default(), secrets.clone());
        let hooks = Arc::new(tools::hook::ServerHooks::new(secrets, Arc::new(clock.clone())));
        let ports = Ports { hooks, courier: Arc::new(courier), links: links.map(Arc::new), ..ports };
        let node = Node::new(sender, Arc::clone(&ports.live));
        let shutdown = CancellationToken::new();
        let options = Options {
            hosts: vec!["viv.example".to_owned()],
            shutdown: shutdown.clone(),
            ..Options::new(next_key)
        };
        let router = router(ports.clone(), node, options);
        let mut world = Self {
            ports,
            router,
            clock,
            shutdown,
            you,
            agent,
            home,
            counters,
            signals: Mutex::new(signals),
            document: &Value::Null,
        };
        // The same in all worlds, and building it takes long.
        static DOCUMENT: OnceLock<Value> = OnceLock::new();
        if DOCUMENT.get().is_none() {
            let _ = DOCUMENT.set(world.get("/openapi.json").await.json);
        }
        world.document = DOCUMENT.get().unwrap();
        world
    }

    pub(crate) fn document(&self) -> &Value {
        self.document
    }

    /// The schema of the frames of a stream in the document.
    pub(crate) fn frames(&self, path: &str) -> jsonschema::Validator {
        let path = template(self.document, path).unwrap();
        let response = &self.document["paths"][path]["get"]["responses"]["200"];
        let mut root = response["content"]["text/event-stream"]["schema"].clone();
        root["components"] = self.document["components"].clone();
        jsonschema::validator_for(&root).unwrap()
    }

    /// Creates a key for `you`.
    pub(crate) async fn your_key(&self) -> String {
        self.key(json!({"scope": "person", "entity": "you"})).await.1
    }

    /// Creates a key; returns its id and its secret.
    pub(crate) async fn key(&self, new: Value) -> (String, String) {
        let answer = self.post("/v1/keys", new).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let text = |name: &str| answer.json[name].as_str().unwrap().to_owned();
        (text("id"), text("secret"))
    }

    /// Creates another admin key.
    pub(crate) async fn another_admin_key(&self) -> String {
        let key = "viv_another".to_owned();
        let new = credential(&*self.ports.ids, &key, Scope::Admin, &*self.ports.clock);
        self.ports.registry.add_credential(new, None).await.unwrap();
        key
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, ADMIN, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, ADMIN, Some(body)).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, key: &str, body: Option<Value>) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:7878")
            .header("authorization", format!("Bearer {key}"));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    /// Sends a request unchanged, and checks the response against the document.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let text = if json.is_null() { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() };
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, json, text };
        self.check(&method, &path, &answer);
        answer
    }

    /// Sends a request and does not wait for the body of the response.
    pub(crate) async fn open(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Posts a message as `you` through the store only: no update is published.
    pub(crate) async fn post_unpublished(&self, text: &str) -> agent::space::Message {
        let id = MessageId(self.ports.ids.uuid());
        let new = NewMessage::of_person(id, self.home, self.you, text, self.clock.now());
        match self.ports.store.accept(Accept::Message(new), None).await.unwrap() {
            Accepted::Fresh { message: Some(message), .. } => message,
            other => panic!("{other:?}"),
        }
    }

    /// The update of a message by [`World::post_unpublished`].
    pub(crate) fn message_update(&self, message: agent::space::Message) -> Update {
        let sender_kind = agent::entity::EntityKind::Human;
        Update::Message { message: PostedMessage::new(message, "You", sender_kind) }
    }

    /// Publishes an update to the streams of `home`.
    pub(crate) fn publish(&self, update: Update) {
        self.ports.live.bus().publish(&[Topic::Space(self.home)], Arc::new(update));
    }

    /// The signals since the last call.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        let mut signals = self.signals.lock().unwrap();
        std::iter::from_fn(|| signals.try_recv().ok()).collect()
    }

    fn check(&self, method: &Method, path: &str, answer: &Answer) {
        if self.document.is_null() || answer.json.is_null() || path == "/openapi.json" {
            return;
        }
        let template = template(self.document, path);
        let operation = template.map(|path| &self.document["paths"][path][method.as_str().to_lowercase()]);
        let media = if answer.status >= 400 { "application/problem+json" } else { "application/json" };
        assert_eq!(answer.headers["content-type"], media, "{answer:?}");
        let schema = match operation.filter(|operation| operation.is_object()) {
            Some(operation) => {
                let response = &operation["responses"][answer.status.to_string()];
                assert!(!response.is_null(), "{method} {path}: {answer:?} is not in the document");
                let located = answer.headers.contains_key("location");
                assert_eq!(
                    located,
                    !response["headers"]["location"].is_null(),
                    "{method} {path}: {answer:?}"
                );
                response["content"][media]["schema"].clone()
            }
            None => {
                assert!(answer.status >= 400, "{method} {path}: {answer:?} is not in the document");
                json!({"$ref": "#/components/schemas/ProblemBody"})
            }
        };
        let validator = validator(schema, &self.document["components"]);
        let errors: Vec<String> = validator
            .iter_errors(&answer.json)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{method} {path} is not as documented: {errors:#?}\n{}", answer.json);
        let misnamed = crate::names::misnamed(&answer.json);
        assert!(misnamed.is_empty(), "{method} {path}: {misnamed:#?}\n{}", answer.json);
        let command = answer.status >= 400 && answer.json.to_string().contains("`viv ");
        assert!(!command, "{method} {path}: clients over HTTP have no commands: {}", answer.json);
    }
}

/// The validator of a schema of the document, which is the same in all worlds; building one takes long.
fn validator(schema: Value, components: &Value) -> Arc<jsonschema::Validator> {
    static KNOWN: std::sync::LazyLock<Mutex<HashMap<String, Arc<jsonschema::Validator>>>> =
        std::sync::LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap();
    let validator = known.entry(schema.to_string()).or_insert_with(|| {
        let mut root = schema;
        root["components"] = components.clone();
        Arc::new(jsonschema::validator_for(&root).unwrap())
    });
    Arc::clone(validator)
}

/// The links of the server.
pub(crate) fn links() -> AnswerLinks {
    AnswerLinks::new("https://viv.example".to_owned(), &[9; 32])
}

/// The documented path template that matches `path`.
fn template<'a>(document: &'a Value, path: &str) -> Option<&'a String> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &&String| {
        let wanted: Vec<&str> = template.split('/').collect();
        wanted.len() == parts.len()
            && wanted.iter().zip(&parts).all(|(w, p)| w == p || (w.starts_with('{') && !p.is_empty()))
    };
    document["paths"].as_object().unwrap().keys().find(fits)
}

pub(crate) fn credential(ids: &dyn Ids, key: &str, scope: Scope, clock: &dyn Clock) -> NewCredential {
    NewCredential {
        credential: Credential::new(CredentialId(ids.uuid()), scope, "test"),
        secret_hash: keys::hash(key),
        at: clock.now(),
        replace_label: false,
    }
}

fn founding(ids: &SimIds, clock: &SimClock) -> Founding {
    let at = clock.now();
    let human = NewHuman::new(EntityId(ids.uuid()), "you", at);
    let human = NewHuman { display_name: "You".to_owned(), ..human };
    let agent = NewAgent::new(AgentId(ids.uuid()), "muhammad", AgentConfig::default(), at);
    let agent = NewAgent { display_name: "Muhammad".to_owned(), ..agent };
    let space = NewSpace::new(SpaceId(ids.uuid()), "home", vec![human.id, agent.id.entity()], at);
    let space = NewSpace { display_name: "Home".to_owned(), ..space };
    Founding {
        human,
        agent: Some(agent),
        space: Some(space),
        admin: credential(ids, ADMIN, Scope::Admin, clock),
    }
}

/// Opens a cycle that has taken these events.
pub(crate) async fn open_cycle(world: &World, cycle: CycleId, taken: &[u64]) {
    open_cycle_for(world, cycle, taken, Vec::new()).await;
}

/// Opens a cycle that has taken these events of these requesters.
pub(crate) async fn open_cycle_for(
    world: &World,
    cycle: CycleId,
    taken: &[u64],
    requesters: Vec<agent::life::Requester>,
) {
    let open = OpenCycle::new(cycle, 1, world.ports.clock.now());
    commit_open(world, OpenCycle { taken: taken.to_vec(), requesters, ..open }, 1, 0).await;
}

/// Opens the cycle after one that was opened and closed.
pub(crate) async fn open_next_cycle(world: &World, cycle: CycleId) {
    commit_open(world, OpenCycle::new(cycle, 1, world.ports.clock.now()), 2, 2).await;
}

async fn commit_open(world: &World, open: OpenCycle, epoch: u64, expect: u64) {
    let mut changes = Changes::new(CommitKind::Open, open.id, 0, expect, world.ports.clock.now());
    changes.open = Some(open);
    world.ports.store.commit(Lease { agent: world.agent, epoch }, changes).await.unwrap();
}
