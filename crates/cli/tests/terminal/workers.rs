//! The libraries for workers, in Rust and Python, beside a real server: their examples, and what an agent reads of a worker
//! that fails. They need `python3`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use client::{ApiKey, Client, Credentials, Worker};
use serde_json::Value;
use testkit::stubs::{Answer, Stub, Vendor};
use tokio::sync::oneshot;

use crate::world::Server;

#[path = "../../../client/examples/worker.rs"]
mod example;

const PAGE: &str = include_str!("../../../../docs/tools.md");
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server with the tool `resize` of the documentation and an agent that calls it.
struct Resizing {
    server: Server,
    stub: Stub,
    key: String,
}

impl Resizing {
    async fn start() -> Self {
        let stub = Stub::start(Vendor::OpenAi).await;
        let url = stub.url();
        let model = ["--model", "openai/stub", "--context-window", "32768", "--base-url", &url];
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(dir, &model, &[("OPENAI_API_KEY", "test")]);
        let (_, declaration) = PAGE.split_once("```toml file=tools/resize.toml\n").unwrap();
        let file = server.dir.path().join("resize.toml");
        std::fs::write(&file, declaration.split_once("```").unwrap().0).unwrap();
        for command in [
            &["tools", "add", file.to_str().unwrap()] as &[&str],
            &["agents", "set", "ada", "tools=[\"resize\",\"send_message\",\"done\"]"],
        ] {
            let ran = server.run(command);
            assert_eq!(ran.code, 0, "{}", ran.shown());
        }
        let added = server.run(&["keys", "add", "worker:resize", "--json"]);
        let key = added.json()["secret"].as_str().unwrap_or_else(|| panic!("{}", added.shown())).to_owned();
        Self { server, stub, key }
    }

    /// Lets the agent call the tool; returns what it reads of the outcome.
    async fn call(&self) -> String {
        let arguments = r#"{"url":"https://images.example/a.png","width":80}"#;
        self.stub.push(Answer::new().call("call_1", "resize", arguments, 9));
        self.stub.push(Answer::new().text("that was all"));
        let asked = self.stub.requests().len();
        let said = self.server.run(&["say", "make it smaller"]);
        assert_eq!(said.code, 0, "{}", said.shown());
        tokio::time::timeout(TIMEOUT, self.stub.asked(asked + 2)).await.expect("it reads the outcome");
        let requests = self.stub.requests();
        let messages = requests.last().unwrap().body["messages"].clone();
        let outcome = messages.as_array().unwrap().iter().rfind(|message| message["role"] == "tool");
        let text = outcome.and_then(|outcome| outcome["content"].as_str());
        text.unwrap_or_else(|| panic!("no outcome in {messages:#}")).to_owned()
    }

    fn client(&self) -> Client {
        let credentials = Credentials { url: self.server.url().to_owned(), key: ApiKey::new(&self.key) };
        Client::new(credentials).unwrap()
    }

    /// Lets the agent call the tool while this worker serves it.
    async fn call_beside(&self, worker: Worker) -> String {
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(worker.run_until(async move {
            let _ = stopped.await;
        }));
        let read = self.call().await;
        stop.send(()).unwrap();
        tokio::time::timeout(TIMEOUT, serving).await.unwrap().unwrap().unwrap();
        read
    }

    fn python(&self, arguments: &[&str]) -> PythonWorker {
        PythonWorker::start(self.server.url(), &self.key, arguments)
    }
}

/// A worker in Python. Dropping it kills it.
struct PythonWorker(Child);

impl PythonWorker {
    fn start(url: &str, key: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.args(arguments).env("PYTHONPATH", PYTHON).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("VIV_URL", url).env("VIV_KEY", key);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self(started.expect("`python3` starts: install it, for instance with `apt-get install python3`"))
    }

    fn output(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().unwrap())
    }
}

impl Drop for PythonWorker {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that serves `resize` with this body of its function.
fn serving(body: &str) -> String {
    format!(
        "import sys\nfrom vivarium import Worker\nworker = Worker()\n\
         @worker.tool('resize')\ndef resize(call):\n    {body}\nworker.run()\n"
    )
}

#[track_caller]
fn assert_resized(read: &str) {
    let output: Value = serde_json::from_str(read).unwrap_or_else(|error| panic!("{error}: {read}"));
    let url = output["url"].as_str().unwrap_or_default();
    assert!(url.starts_with("https://images.example/") && url.ends_with("-80.png"), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reads_what_the_rust_example_returns() {
    let resizing = Resizing::start().await;
    assert_resized(&resizing.call_beside(example::resizer(resizing.client())).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reads_what_the_python_example_returns() {
    let resizing = Resizing::start().await;
    let script = format!("{PYTHON}/examples/resize.py");
    assert!(Path::new(&script).is_file());
    let _worker = resizing.python(&[&script]);
    assert_resized(&resizing.call().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reads_that_a_rust_worker_failed_or_panicked() {
    let resizing = Resizing::start().await;
    let failing = Worker::new(resizing.client()).tool("resize", "1", |_| async { Err("no image".into()) });
    assert_eq!(resizing.call_beside(failing).await, "no image");
    let panicking = Worker::new(resizing.client()).tool("resize", "1", |call| async move {
        assert!(call.arguments.is_null(), "they are never null");
        Ok(Value::Null)
    });
    let read = resizing.call_beside(panicking).await;
    assert_eq!(read, "the worker crashed; unknown whether it happened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reads_what_a_python_worker_raises() {
    let resizing = Resizing::start().await;
    for (body, wanted) in [
        ("raise ValueError('no image')", "ValueError: no image"),
        ("return resize", "it ran, but its output is no JSON: "),
        ("sys.exit('no more')", "SystemExit: no more"),
        // Half of a character, as a text ends with that was cut.
        ("raise ValueError('cut \\ud83d')", "ValueError: cut \u{fffd}"),
        ("return 'cut \\udc00'", "cut \u{fffd}"),
        ("return {'\\ud83d': 'whole \\ud83d\\ude00'}", "{\"\u{fffd}\":\"whole 😀\"}"),
        ("return float('nan')", "it ran, but its output is no JSON: "),
    ] {
        let _worker = resizing.python(&["-c", &serving(body)]);
        let read = resizing.call().await;
        assert!(read.starts_with(wanted), "{body}: {read}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_worker_ends_after_sigterm_when_its_call_is_answered() {
    let resizing = Resizing::start().await;
    // It says when it runs, and goes on when it is told to.
    let body = "print('runs', flush=True); return sys.stdin.readline().strip()";
    let mut worker = resizing.python(&["-c", &serving(body)]);
    let mut output = worker.output();
    let ending = std::thread::spawn(move || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "runs\n");
        let pid = rustix::process::Pid::from_child(&worker.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        worker.0.stdin.take().unwrap().write_all(b"smaller\n").unwrap();
        worker.0.wait().unwrap()
    });
    assert_eq!(resizing.call().await, "smaller");
    let status = tokio::task::spawn_blocking(|| ending.join().unwrap());
    assert!(tokio::time::timeout(TIMEOUT, status).await.unwrap().unwrap().success());
}

/// The next request, whole: its head, and a body that ends with `}`.
fn next_request(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    while !request.ends_with(b"}") {
        let read = stream.read(&mut buffer).unwrap();
        request.extend_from_slice(&buffer[..read]);
    }
    (stream, String::from_utf8(request).unwrap())
}

/// The server has given it the call already; nobody else would run it.
#[test]
fn a_python_worker_that_is_told_to_stop_runs_the_call_that_is_on_its_way() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut worker = PythonWorker::start(&url, "k", &["-c", &serving("return 'small'")]);
    let pid = rustix::process::Pid::from_child(&worker.0);
    let (sender, finished) = mpsc::channel();
    std::thread::spawn(move || {
        let mut signal = Some(rustix::process::Signal::TERM);
        loop {
            let (mut stream, request) = next_request(&listener);
            let body = match request.lines().next().unwrap_or_default() {
                "POST /v1/workers/finish HTTP/1.1" => r#"{"taken":true}"#,
                "POST /v1/workers/claim HTTP/1.1" => {
                    let signal = signal.take().expect("it claims no more");
                    rustix::process::kill_process(pid, signal).unwrap();
                    r#"{"call":"c-1","claim":"k-1","agent":"a-1","tool":"resize","arguments":{},"effect":"unsafe",
                        "times":1,"lease_ms":30000}"#
                }
                other => panic!("{other}"),
            };
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).unwrap();
            if request.contains("/finish") && sender.send(request).is_err() {
                return;
            }
        }
    });
    let request = finished.recv_timeout(TIMEOUT).expect("it answers the call");
    assert!(request.contains(r#""call": "c-1""#) && request.contains(r#""output": "small""#), "{request}");
    assert!(worker.0.wait().unwrap().success());
}

/// A server whose answers are cut off, or say that a tool which was there is gone: its declaration is being replaced.
/// Tells of each claim.
fn unsteady_server() -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, claims) = mpsc::channel();
    std::thread::spawn(move || {
        let none = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        let answers = [
            "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{",
            "HTTP/1.1 409 Conflict\r\ncontent-length: 99\r\n\r\n{",
            "HTTP/1.1 2",
            "",
            none,
            "HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\nconnection: close\r\ncontent-length: 52\r\n\r\n\
             {\"code\":\"not_found\",\"detail\":\"no tool\",\"status\":404}",
        ];
        for answer in answers.into_iter().chain(std::iter::repeat(none)) {
            let (mut stream, _) = next_request(&listener);
            // The worker may be gone.
            if stream.write_all(answer.as_bytes()).is_err() || sender.send(()).is_err() {
                return;
            }
        }
    });
    (url, claims)
}

fn assert_claims(claims: &mpsc::Receiver<()>) {
    for number in 1..=8 {
        assert!(claims.recv_timeout(TIMEOUT).is_ok(), "it claims no more after {} answers", number - 1);
    }
}

#[test]
fn a_python_worker_goes_on_after_answers_that_say_nothing() {
    let (url, claims) = unsteady_server();
    let _worker = PythonWorker::start(&url, "k", &["-c", &serving("return 1")]);
    assert_claims(&claims);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rust_worker_goes_on_after_answers_that_say_nothing() {
    let (url, claims) = unsteady_server();
    let client = Client::new(Credentials { url, key: ApiKey::new("k") }).unwrap();
    let worker = Worker::new(client).tool("resize", "1", |_| async { Ok(Value::Null) });
    let claimed = tokio::task::spawn_blocking(move || assert_claims(&claims));
    tokio::select! {
        ended = worker.run() => panic!("it ended: {ended:?}"),
        claimed = claimed => claimed.unwrap(),
    }
}
