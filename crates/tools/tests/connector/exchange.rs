//! Exchanges with servers that are slow, endless, broken or polite.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tools::connector::{AllowList, Before, ConnectError, Connector, ExchangePhase, Outgoing, TrafficLimits};

use crate::loopback::{Loopback, Names, page, write};

fn get(url: &str) -> Outgoing {
    to(Method::GET, url)
}

fn to(method: Method, url: &str) -> Outgoing {
    let allow = AllowList::new(vec!["127.0.0.0/8".parse().expect("a net")]);
    Outgoing::new(method, url).expect("a valid URL").allow(allow).limits(quick())
}

/// Limits that a test can wait for.
fn quick() -> TrafficLimits {
    let (short, long) = (Duration::from_millis(60), Duration::from_secs(20));
    TrafficLimits { connect: long, head: short, idle: short, total: long, ..TrafficLimits::default() }
}

fn patient() -> TrafficLimits {
    let long = Duration::from_secs(20);
    TrafficLimits { connect: long, head: long, idle: long, total: long, ..TrafficLimits::default() }
}

async fn error_of(request: Outgoing) -> ConnectError {
    match Connector::default().send(request).await {
        Ok(answer) => answer.body.collect().await.expect_err("the exchange fails"),
        Err(error) => error,
    }
}

/// Keeps writing until the other side hangs up, and reports how much it wrote.
async fn pour(mut stream: TcpStream, bytes: usize) -> usize {
    let piece = vec![b'x'; 64 * 1024];
    let mut written = 0;
    while written < bytes && stream.write_all(&piece).await.is_ok() {
        written += piece.len();
    }
    written
}

#[tokio::test]
async fn an_answer_comes_with_status_headers_and_body() {
    let server = Loopback::ok("application/json", r#"{"a":1}"#).await;
    let request = to(Method::POST, &server.url("/p?q=1#f")).limits(patient());
    let request = request.header("x-key", "k", true).unwrap().body("hello");
    let answer = Connector::default().send(request).await.unwrap();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert!(!format!("{answer:?}").contains("q=1"), "{answer:?}");
    let body = answer.body.collect().await.unwrap();
    assert_eq!((&body.bytes[..], body.is_cut), (&br#"{"a":1}"#[..], false));
    let asked = &server.requests()[0];
    assert!(asked.starts_with("POST /p?q=1 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nx-key: k\r\n") && asked.ends_with("\r\n\r\nhello"), "{asked}");
    assert!(
        asked.contains(concat!("\r\nuser-agent: vivarium/", env!("CARGO_PKG_VERSION"), "\r\n")),
        "{asked}"
    );
    assert!(!asked.contains("accept-encoding"), "{asked}");
}

#[tokio::test]
async fn a_server_that_sends_no_head_is_given_up() {
    let server = Loopback::serve(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    });
    let limits = TrafficLimits { connect: Duration::from_secs(1), ..quick() };
    let error = error_of(get(&server.await.url("/")).limits(limits)).await;
    assert!(matches!(error, ConnectError::TimedOut { phase: ExchangePhase::Head, .. }), "{error}");
    assert!(error.may_have_arrived());
}

#[tokio::test]
async fn a_body_that_stalls_is_given_up() {
    let server = Loopback::serve(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
        std::future::pending::<()>().await;
    });
    let limits = TrafficLimits { head: Duration::from_secs(20), ..quick() };
    let error = error_of(get(&server.await.url("/")).limits(limits)).await;
    assert!(matches!(error, ConnectError::TimedOut { phase: ExchangePhase::Idle, .. }), "{error}");
}

#[tokio::test]
async fn a_body_that_drips_for_ever_is_given_up_when_the_time_is_over() {
    let server = Loopback::serve(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    let limits = TrafficLimits { total: Duration::from_millis(150), body_bytes: usize::MAX, ..patient() };
    let error = error_of(get(&server.await.url("/")).limits(limits)).await;
    assert!(matches!(error, ConnectError::TimedOut { phase: ExchangePhase::Total, .. }), "{error}");
}

#[tokio::test]
async fn a_huge_body_is_read_to_the_limit_and_the_connection_is_closed() {
    let (told, hears) = oneshot::channel();
    let told = Arc::new(std::sync::Mutex::new(Some(told)));
    let server = Loopback::serve(move |_, mut stream| {
        let told = Arc::clone(&told);
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n").await;
            let written = pour(stream, 1 << 30).await;
            let _ = told.lock().unwrap().take().unwrap().send(written);
        }
    });
    let limits = TrafficLimits { body_bytes: 300_000, ..patient() };
    let answer = Connector::default().send(get(&server.await.url("/")).limits(limits)).await.unwrap();
    let body = answer.body.collect().await.unwrap();
    assert_eq!((body.bytes.len(), body.is_cut), (300_000, true));
    let written = hears.await.unwrap();
    assert!(written < 64 << 20, "the server could write {written} bytes");
}

#[tokio::test]
async fn an_endless_head_is_refused() {
    let server = Loopback::serve(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(format!("x-{}: y\r\n", "h".repeat(200)).as_bytes()).await.is_ok() {}
    });
    let error = error_of(get(&server.await.url("/")).limits(patient())).await;
    assert!(matches!(error, ConnectError::Broken(_)), "{error}");
    let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(70_000));
    let error = error_of(get(&Loopback::says(large).await.url("/")).limits(patient())).await;
    assert!(error.to_string().contains("bytes of headers, wanted at most 65536"), "{error}");
}

#[tokio::test]
async fn a_connection_that_breaks_counts_as_perhaps_arrived_and_one_that_never_was_does_not() {
    let cut = Loopback::says("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
    let silent = Loopback::serve(|_, stream| async move { drop(stream) }).await;
    for url in [cut.url("/"), silent.url("/")] {
        let error = error_of(get(&url).limits(patient())).await;
        assert!(matches!(error, ConnectError::Broken(_)) && error.may_have_arrived(), "{error}");
    }
    assert_eq!(silent.requests().len(), 1, "nothing is sent twice");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = error_of(get(&format!("http://{closed}/")).limits(patient())).await;
    assert!(matches!(error, ConnectError::Unreachable(_)) && !error.may_have_arrived(), "{error}");
    let error =
        Connector::new(Arc::new(Names::default())).send(get("http://none.example/")).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable(_)) && !error.may_have_arrived(), "{error}");
}

/// A server that answers every request with this compressed body.
async fn packed(encoding: &str, body: Vec<u8>) -> Loopback {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\n\r\n");
    let answer = [head.into_bytes(), body].concat();
    Loopback::serve(move |_, mut stream| {
        let answer = answer.clone();
        async move {
            // In pieces: no decoder sees it whole.
            for piece in answer.chunks(answer.len() / 3 + 1) {
                let _ = stream.write_all(piece).await;
                let _ = stream.flush().await;
            }
            let _ = stream.shutdown().await;
        }
    })
    .await
}

#[tokio::test]
async fn an_answer_that_was_compressed_without_being_asked_for_is_unpacked() {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    let text = "ä text, and the same text. ".repeat(2_000);
    let gzip = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut zlib, text.as_bytes()).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut raw, text.as_bytes()).unwrap();
    let (first, second) = text.split_at(text.len() / 2);
    for (encoding, body) in [
        ("gzip", gzip(&text)),
        ("X-GZIP", [gzip(first), gzip(second)].concat()),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
        ("identity", text.clone().into_bytes()),
    ] {
        let server = packed(encoding, body).await;
        let answer = Connector::default().send(get(&server.url("/")).limits(patient())).await.unwrap();
        let body = answer.body.collect().await.unwrap();
        assert!(!body.is_cut && body.bytes == text.as_bytes(), "{encoding}: {} bytes", body.bytes.len());
        let answer = Connector::default().send(get(&server.url("/")).limits(patient())).await.unwrap();
        let body = answer.body.at_most(1_000).collect().await.unwrap();
        assert!(
            body.is_cut && body.bytes == text.as_bytes()[..1_000],
            "{encoding}: {} bytes",
            body.bytes.len()
        );
    }
    let answer =
        Connector::default().send(get(&packed("gzip", Vec::new()).await.url("/")).limits(patient())).await;
    assert!(answer.unwrap().body.collect().await.unwrap().bytes.is_empty(), "a body of nothing needs no end");
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_refused_and_a_bomb_is_cut() {
    for (encoding, body) in
        [("gzip", &b"abc"[..]), ("gzip", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]), ("deflate", b"\x78\x9cabc")]
    {
        let error = error_of(get(&packed(encoding, body.to_vec()).await.url("/")).limits(patient())).await;
        assert!(error.to_string().contains("cannot be unpacked") && error.may_have_arrived(), "{error}");
    }
    for encoding in ["br", "gzip, gzip", "zstd"] {
        let error = error_of(get(&packed(encoding, b"abc".to_vec()).await.url("/")).limits(patient())).await;
        assert!(error.to_string().contains(&format!("is compressed ({encoding})")), "{error}");
    }
    // Members that hold nothing.
    let nothing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best()).finish().unwrap();
    let nothing = packed("gzip", nothing.repeat(10_000)).await;
    let limits = TrafficLimits { body_bytes: 1_000, ..patient() };
    let error = error_of(get(&nothing.url("/")).limits(limits)).await;
    assert!(error.to_string().contains("more bytes than it may have unpacked"), "{error}");
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 64 << 20), &mut bomb).unwrap();
    let bomb = packed("gzip", bomb.finish().unwrap()).await;
    let limits = TrafficLimits { body_bytes: 100_000, ..patient() };
    let answer = Connector::default().send(get(&bomb.url("/")).limits(limits)).await.unwrap();
    let body = answer.body.collect().await.unwrap();
    assert_eq!((body.bytes.len(), body.is_cut), (100_000, true));
}

#[tokio::test]
async fn a_redirect_is_followed_on_its_host_without_secrets() {
    let server = Loopback::serve(|request, stream| {
        let again = "HTTP/1.1 302 Found\r\nlocation: /b?x=1\r\ncontent-length: 0\r\n\r\n";
        let answer =
            if request.starts_with("GET /a ") { again.into() } else { page("200 OK", "text/plain", "there") };
        write(stream, answer)
    });
    let server = server.await;
    let request = get(&server.url("/a")).limits(patient()).header("x-key", "canary", true).unwrap();
    let request = request
        .header("authorization", "canary", false)
        .unwrap()
        .header("accept", "text/plain", false)
        .unwrap();
    let answer = Connector::default().send(request).await.unwrap();
    assert_eq!((answer.status, answer.url.path()), (200, "/b"));
    let asked = server.requests();
    assert!(asked[0].contains("x-key: canary") && asked[0].contains("authorization: canary"), "{asked:?}");
    assert!(!asked[1].contains("canary") && asked[1].contains("accept: text/plain"), "{asked:?}");
}

#[tokio::test]
async fn a_redirect_to_itself_does_not_repeat_the_query() {
    for location in ["", "#x"] {
        let head = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let server = Loopback::says(head).await;
        let error = error_of(get(&server.url("/a?key=canary")).limits(patient())).await;
        assert!(error.to_string().contains("/a` redirects to itself"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn redirects_that_never_end_are_given_up() {
    let server = Loopback::says("HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n").await;
    let error = error_of(get(&server.url("/")).limits(patient())).await;
    assert!(error.to_string().contains("only after more than 5 redirects"), "{error}");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_post_is_not_repeated_elsewhere() {
    let server = Loopback::says("HTTP/1.1 307 Again\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n").await;
    let error = error_of(to(Method::POST, &server.url("/")).limits(patient()).body("x")).await;
    assert!(
        error.to_string().contains("the request might happen twice") && error.may_have_arrived(),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_303_says_that_it_happened_and_is_read_with_get() {
    for (status, method) in [
        ("303 See Other", Method::POST),
        ("303 See Other", Method::PUT),
        ("303 See Other", Method::DELETE),
        ("302 Found", Method::POST),
    ] {
        let head = format!("HTTP/1.1 {status}\r\nlocation: /jobs/7?x=1\r\ncontent-length: 0\r\n\r\n");
        let server = Loopback::serve(move |request, stream| {
            let is_first = !request.starts_with("GET ");
            write(stream, if is_first { head.clone() } else { page("200 OK", "text/plain", "done") })
        });
        let server = server.await;
        let request = to(method.clone(), &server.url("/jobs")).limits(patient()).body("x=1");
        let request = ["content-type", "idempotency-key", "x-other"]
            .into_iter()
            .try_fold(request, |request, name| request.header(name, "plain", false))
            .and_then(|request| request.header("x-key", "canary", true))
            .unwrap();
        let answer = Connector::default().send(request).await.unwrap();
        let before = if status.starts_with("303") { Before::Done } else { Before::Sent };
        assert_eq!((answer.status, answer.before), (200, before), "{method} {status}");
        let asked = server.requests();
        assert!(
            asked[1].starts_with("GET /jobs/7?x=1 HTTP/1.1\r\n") && asked[1].contains("x-other: plain"),
            "{asked:?}"
        );
        for gone in ["content-type", "idempotency-key", "canary", "x=1\r", "content-length"] {
            assert!(!asked[1].to_lowercase().contains(gone), "{gone}: {}", asked[1]);
        }
        assert!(asked[1].ends_with("\r\n\r\n") && asked.len() == 2, "{asked:?}");
    }
}

#[tokio::test]
async fn where_a_303_leads_elsewhere_it_happened_all_the_same() {
    for location in ["https://other.example/x", "/again", "", "http://127.0.0.1:1/gone", "ftp://127.0.0.1/"] {
        let head = format!("HTTP/1.1 303 See Other\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let server = Loopback::says(head).await;
        let error = error_of(to(Method::POST, &server.url("/")).limits(patient()).body("x")).await;
        assert!(
            matches!(error, ConnectError::SeeOther(_)) && error.may_have_arrived(),
            "{location}: {error:?}"
        );
        assert_eq!(server.requests().iter().filter(|request| request.starts_with("POST")).count(), 1);
    }
    // After a 302 nobody knows.
    let gone = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/gone\r\ncontent-length: 0\r\n\r\n";
    let error = error_of(to(Method::POST, &Loopback::says(gone).await.url("/")).limits(patient())).await;
    assert!(matches!(error, ConnectError::Redirected(_)) && error.may_have_arrived(), "{error:?}");
    let put = Loopback::says("HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n").await;
    let error = error_of(to(Method::PUT, &put.url("/")).limits(patient())).await;
    assert!(error.to_string().contains("the request might happen twice"), "{error}");
}

#[tokio::test]
async fn dropping_the_exchange_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let connector = Connector::default();
    let sending = connector.send(get(&url).limits(patient()));
    let accepted = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        stream
    };
    let mut stream = tokio::select! {
        answer = sending => panic!("nobody answered: {answer:?}"),
        stream = accepted => stream,
    };
    // The rest of the request, then the end.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn an_encrypted_connection_asks_for_the_name_and_goes_to_the_address() {
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let url = format!("https://named.example:{}/", listener.local_addr().unwrap().port());
    let names = Names::default().with("named.example", &["127.0.0.2"]);
    let connector = Connector::new(Arc::new(names));
    let hello = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = vec![0; 2048];
        let count = stream.read(&mut hello).await.unwrap();
        String::from_utf8_lossy(&hello[..count]).into_owned()
    };
    let (answer, hello) = tokio::join!(connector.send(get(&url).limits(patient())), hello);
    assert!(hello.contains("named.example"), "the first message names the server");
    assert!(matches!(answer, Err(ConnectError::Unreachable(_))), "{answer:?}");
}
