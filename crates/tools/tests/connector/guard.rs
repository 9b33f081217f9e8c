//! What the connector refuses: every spelling of an address inside, names that lead there, redirects to them, answers that
//! change. A listener at every address of this machine must see no connection.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::Method;
use tools::connector::{AllowList, ConnectError, Connector, Outgoing, OwnAddress};

use crate::loopback::{Loopback, Names, Tripwire, page, write};

/// Hosts that lead inside, as a URL may spell them. `http://{}:port/` is what is asked for.
const LITERALS: &[&str] = &[
    // This machine, in every notation of IPv4.
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "0177.1",
    "0177.0x0.0.1",
    "00000177.1",
    "127.0.0.0x1",
    "127.000.000.001",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "１２７.0.0.1",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "0",
    "0.0.0.0",
    "0x0",
    "00",
    "0.1.2.3",
    // This machine, in IPv6.
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[2606:4700::5efe:127.0.0.1]",
    "[::ffff:0.0.0.0]",
    // Metadata of clouds.
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[fd00:ec2::254]",
    "[64:ff9b::a9fe:a9fe]",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    // Networks inside, and addresses of no machine.
    "10.0.0.1",
    "10.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "3232235521",
    "100.64.0.1",
    "198.18.0.1",
    "203.0.113.1",
    "192.0.2.1",
    "198.51.100.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[100::1]",
    "[64:ff9b:1::1]",
];

/// Whole URLs that hide where they lead. `PORT` is the listener's.
const TRICKS: &[&str] = &[
    "http://example.com@127.0.0.1:PORT/",
    "http://example.com:80@127.0.0.1:PORT/",
    "http://@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT#@example.com/",
    "http://127.0.0.1:PORT?@example.com/",
    "http://127.0.0.1:PORT\\@example.com/",
    "http:\\\\127.0.0.1:PORT\\",
    "http:/127.0.0.1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    " http://127.0.0.1:PORT/",
    "http://127.0.\n0.1:PORT/",
    "ht\ttp://127.0.0.1:PORT/",
    "HTTP://127.0.0.1:PORT/",
    "https://127.0.0.1:PORT/",
    "http://127.0.0.1:PORT/../../x",
    "ftp://127.0.0.1:PORT/",
    "file://127.0.0.1:PORT/etc/passwd",
    "gopher://127.0.0.1:PORT/_x",
    "dict://127.0.0.1:PORT/",
    "ws://127.0.0.1:PORT/",
];

async fn refusal(connector: &Connector, url: &str) -> Option<ConnectError> {
    let request = Outgoing::new(Method::GET, url);
    match request {
        Ok(request) => connector.send(request).await.err(),
        Err(error) => Some(error),
    }
}

#[tokio::test]
async fn no_spelling_of_an_address_inside_is_connected_to() {
    let tripwire = Tripwire::new();
    let connector = Connector::default();
    let literals = LITERALS.iter().map(|host| format!("http://{host}:{}/latest/meta-data", tripwire.port));
    let tricks = TRICKS.iter().map(|url| url.replace("PORT", &tripwire.port.to_string()));
    let urls: Vec<String> = literals.chain(tricks).collect();
    assert!(urls.len() > 90, "{}", urls.len());
    for url in urls {
        let error = refusal(&connector, &url).await;
        assert!(matches!(error, Some(ConnectError::Refused(_))), "{url:?}: {error:?}");
    }
    assert_eq!(tripwire.connections(), 0);
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_even_if_only_one_of_its_addresses_does() {
    let tripwire = Tripwire::new();
    let inside = [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.5",
        "172.20.1.1",
        "192.168.1.1",
        "100.64.3.4",
        "169.254.169.254",
        "224.0.0.251",
        "255.255.255.255",
        "240.1.1.1",
        "198.18.1.1",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "fd00::1",
        "fe80::1",
        "ff02::fb",
        "2001:db8::1",
    ];
    let mut names = Names::default();
    for (index, address) in inside.iter().enumerate() {
        names = names.with(&format!("only{index}.example"), &[address]);
        names = names.with(&format!("first{index}.example"), &[address, "93.184.216.34"]);
        names = names.with(&format!("last{index}.example"), &["93.184.216.34", "2606:4700::1111", address]);
    }
    let names = names.with("localhost", &["127.0.0.1"]);
    let connector = Connector::new(Arc::new(names));
    let mut hosts = vec!["localhost".to_owned(), "localhost.".to_owned(), "LOCALHOST".to_owned()];
    for index in 0..inside.len() {
        hosts.extend(["only", "first", "last"].map(|kind| format!("{kind}{index}.example")));
    }
    for host in hosts {
        for scheme in ["http", "https"] {
            let error = refusal(&connector, &format!("{scheme}://{host}:{}/", tripwire.port)).await;
            assert!(matches!(error, Some(ConnectError::Refused(_))), "{host}: {error:?}");
        }
    }
    assert_eq!(tripwire.connections(), 0);
}

#[tokio::test]
async fn a_refusal_says_what_stands_in_the_way_and_what_to_do() {
    let names = Names::default().with("intranet.example", &["10.1.2.3"]);
    let connector = Connector::new(Arc::new(names));
    let error = refusal(&connector, "http://intranet.example/?key=canary").await.unwrap();
    assert!(!error.may_have_arrived());
    insta::assert_snapshot!(error, @r"
    `intranet.example` at 10.1.2.3 is a private address, not the public internet, so nothing was sent
    hint: if agents may reach it, an operator can list it under `allow` of an HTTP tool or an MCP server
    ");
}

/// Two addresses of this machine with the same port: a server that is allowed, and a listener that is not.
async fn allowed_and_forbidden() -> (Loopback, Tripwire) {
    let server =
        Loopback::serve_at("127.0.0.2:0", |_, stream| write(stream, page("200 OK", "text/plain", "hi")))
            .await;
    let tripwire = Tripwire::at((std::net::Ipv4Addr::LOCALHOST, server.address.port()).into());
    (server, tripwire)
}

fn only(target: &str) -> AllowList {
    AllowList::new(vec![target.parse().expect("an entry")])
}

#[tokio::test]
async fn a_name_that_changes_its_answer_gains_nothing() {
    let (server, tripwire) = allowed_and_forbidden().await;
    let names = Arc::new(
        Names::default().with("rebind.example", &["127.0.0.2"]).with("rebind.example", &["127.0.0.1"]),
    );
    let connector = Connector::new(names.clone());
    let url = format!("http://rebind.example:{}/", server.address.port());
    for turn in 0..6 {
        let request = Outgoing::new(Method::GET, &url).unwrap().allow(only("127.0.0.2/32"));
        let answer = connector.send(request).await;
        // One question for each request: there is no second look-up that could be answered differently.
        assert_eq!(names.asked.load(Ordering::SeqCst), turn + 1);
        if turn % 2 == 0 {
            assert_eq!(answer.unwrap().status, 200);
        } else {
            assert!(matches!(answer, Err(ConnectError::Refused(_))), "{answer:?}");
        }
    }
    assert_eq!((server.requests().len(), tripwire.connections()), (3, 0));
    assert!(server.requests()[0].contains("host: rebind.example:"), "the name is still the one asked for");
}

#[tokio::test]
async fn what_is_allowed_inside_is_reached_at_that_port_only() {
    let (server, tripwire) = allowed_and_forbidden().await;
    let connector = Connector::new(Arc::new(Names::default().with("inside.example", &["127.0.0.2"])));
    let (port, url) = (server.address.port(), format!("http://inside.example:{}/", server.address.port()));
    let get = |allow: &str| connector.send(Outgoing::new(Method::GET, &url).unwrap().allow(only(allow)));
    for allow in [
        "inside.example".into(),
        format!("inside.example:{port}"),
        format!("127.0.0.2:{port}"),
        "127.0.0.2".into(),
    ] {
        assert_eq!(get(&allow).await.unwrap().status, 200, "{allow}");
    }
    for allow in
        ["inside.example:1".into(), format!("127.0.0.1:{port}"), "10.0.0.0/8".into(), "example".into()]
    {
        assert!(matches!(get(&allow).await, Err(ConnectError::Refused(_))), "{allow}");
    }
    assert_eq!(tripwire.connections(), 0);
}

#[tokio::test]
async fn a_redirect_is_checked_like_a_new_request_and_never_leaves_its_host() {
    let (server, tripwire) = allowed_and_forbidden().await;
    let port = server.address.port();
    for target in [
        format!("http://127.0.0.1:{port}/"),
        format!("//127.0.0.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::1]:{port}/"),
        "http://169.254.169.254/latest".into(),
        "https://other.example/x?key=1".into(),
        "file:///etc/passwd".into(),
        "http://".into(),
        format!("http://127.0.0.2:{port}@127.0.0.1:{port}/"),
    ] {
        let head = format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
        let hop = Loopback::serve_at("127.0.0.2:0", move |_, stream| write(stream, head.clone())).await;
        let request = Outgoing::new(Method::GET, &hop.url("/")).unwrap().allow(only("127.0.0.2/32"));
        let error = Connector::default().send(request).await.unwrap_err();
        let refused = matches!(error, ConnectError::Redirected(_) | ConnectError::Refused(_));
        assert!(refused && !error.to_string().contains("key=1"), "{target}: {error}");
        assert_eq!(hop.requests().len(), 1);
    }
    assert_eq!((server.requests().len(), tripwire.connections()), (0, 0));
}

#[tokio::test]
async fn a_redirect_to_a_name_whose_answer_has_changed_is_refused() {
    let (server, tripwire) = allowed_and_forbidden().await;
    drop(server);
    let hop = Loopback::serve_at("127.0.0.2:0", |_, stream| {
        write(stream, "HTTP/1.1 307 Again\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n".into())
    });
    let hop = hop.await;
    let names =
        Names::default().with("rebind.example", &["127.0.0.2"]).with("rebind.example", &["127.0.0.1"]);
    let url = format!("http://rebind.example:{}/", hop.address.port());
    let request = Outgoing::new(Method::GET, &url).unwrap().allow(only("127.0.0.2/32"));
    let error = Connector::new(Arc::new(names)).send(request).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error}");
    assert_eq!((hop.requests().len(), tripwire.connections()), (1, 0));
}

const CHILD: &str = "VIVARIUM_TEST_PROXY";

/// Starts itself with proxies in the environment; the child's request must not go there.
#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    if let Ok(url) = std::env::var(CHILD) {
        let request = Outgoing::new(Method::GET, &url).unwrap().allow(only("127.0.0.2/32"));
        assert_eq!(Connector::default().send(request).await.unwrap().status, 200);
        return;
    }
    let (server, _) = allowed_and_forbidden().await;
    let proxy = Tripwire::new();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "connector::guard::proxies_of_the_environment_are_ignored"]);
    child.env(CHILD, server.url("/")).env_remove("NO_PROXY").env_remove("no_proxy");
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(name, format!("http://127.0.0.1:{}", proxy.port));
    }
    let ended = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!((server.requests().len(), proxy.connections()), (1, 0));
}

/// Starts itself with authorities in the environment that cannot be read.
#[tokio::test]
async fn authorities_that_are_named_and_cannot_be_read_close_every_encrypted_way_out() {
    const NAMED: &str = "VIVARIUM_TEST_AUTHORITIES";
    if std::env::var_os(NAMED).is_some() {
        let request = Outgoing::new(Method::GET, "https://127.0.0.1:9/").unwrap().allow(only("127.0.0.0/8"));
        let error = Connector::default().send(request).await.unwrap_err();
        assert!(!error.may_have_arrived() && error.to_string().contains("no server is trusted"), "{error}");
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = "authorities_that_are_named_and_cannot_be_read_close_every_encrypted_way_out";
    child.args(["--exact", &format!("connector::guard::{name}")]);
    child.env(NAMED, "1").env("SSL_CERT_FILE", "/nowhere/ca.pem");
    let ended = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn the_api_of_the_own_server_is_not_asked_by_any_name_or_spelling_and_whatever_is_allowed() {
    let server = Loopback::serve(|_, stream| write(stream, page("200 OK", "text/plain", "hi"))).await;
    let (listen, port) = (server.address, server.address.port());
    let names = Names::default().with("viv.example", &["127.0.0.1"]).with("rebound.example", &["127.0.0.1"]);
    let connector = Connector::new(Arc::new(names));
    let connector = connector.sparing(OwnAddress::new(&["Viv.Example".to_owned()], listen));
    let get = async |url: &str| {
        let request = Outgoing::new(Method::GET, url).unwrap();
        connector.send(request.allow(only("127.0.0.0/8"))).await
    };
    for place in
        ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "viv.example", "VIV.example.", "rebound.example"]
    {
        for path in [
            "v1/calls/c1/answer/t",
            "a/v1/x",
            "%761/calls",
            "%25761/calls",
            "x/..%2fv1/calls",
            "/v1",
            "a\\v1/b",
            "V1/x",
            "v1/ready/../spaces",
            "v1/ready/",
            "a/v1/ready",
        ] {
            let error = get(&format!("http://{place}:{port}/{path}")).await.unwrap_err();
            let refused = matches!(error, ConnectError::Refused(_))
                && error.to_string().contains("the API of the server");
            assert!(refused, "{place} {path}: {error:?}");
        }
    }
    let elsewhere = get("https://viv.example/v1/calls/c1/answer/t").await.unwrap_err();
    assert!(elsewhere.to_string().contains("the API of the server"), "any port: {elsewhere}");
    assert!(server.requests().is_empty());
    for path in ["about", "v1/ready", "v1/health"] {
        let found = get(&format!("http://viv.example:{port}/{path}")).await.unwrap();
        assert_eq!(found.status, 200, "its other pages and its probes are: {path}");
    }
    let other = Loopback::serve(|_, stream| write(stream, page("200 OK", "text/plain", "hi"))).await;
    let address = other.address;
    assert_eq!(get(&format!("http://{address}/v1/now")).await.unwrap().status, 200, "other servers are");
}
