//! A server with fixed answers, so that whole screens can be compared: times, tokens and ids are the same
//! in each run.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};

/// A server with fixed answers. Its thread ends with the test's process.
pub(crate) struct Stub {
    address: SocketAddr,
}

impl Stub {
    /// Answers `GET` of these paths (queries are ignored); everything else is not found.
    pub(crate) fn serve(answers: Vec<(&str, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers: Arc<HashMap<String, Value>> =
            Arc::new(answers.into_iter().map(|(path, answer)| (path.to_owned(), answer)).collect());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answers = Arc::clone(&answers);
                std::thread::spawn(move || answer(stream, &answers));
            }
        });
        Self { address }
    }

    /// The environment variables that a command needs to use it.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("VIV_URL", format!("http://{}", self.address)), ("VIV_KEY", "viv_stub".to_owned())]
    }
}

/// Handles one request per connection.
fn answer(mut stream: TcpStream, answers: &HashMap<String, Value>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    loop {
        let mut head = String::new();
        if reader.read_line(&mut head).unwrap() <= 2 {
            break;
        }
        if let Some(value) = head.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.take(length).read_to_end(&mut Vec::new()).unwrap();
    let missing = json!({"code": "not_found", "title": "Nothing has that id or handle."});
    let (status, body) = match answers.get(&path) {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", &missing),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // The client may have closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
