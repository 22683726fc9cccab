//! The address for monitoring: what it serves, and what it refuses.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};

use nix::sys::signal::Signal;

use super::http::{connect, get, send};
use super::{Home, service, service_on, sim};

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_read_only_with_security_headers() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (_service, address) = service(&home).await;
    for path in ["/metrics", "/livez", "/readyz", "/nothing"] {
        let answer = get(&address, path);
        let header = |name: &str| answer.headers.get(name).map_or("", String::as_str);
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("content-security-policy"), "default-src 'none'", "{path}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
        assert!(header("content-type").starts_with("text/plain; "), "{path}");
        let head = send(&address, &format!("HEAD {path} HTTP/1.1\r\nHost: kubegc\r\n\r\n"));
        assert_eq!((head.status == 404, head.body.as_str()), (path == "/nothing", ""), "{path}");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            let refused =
                send(&address, &format!("{method} {path} HTTP/1.1\r\nHost: kubegc\r\nContent-Length: 0\r\n\r\n"));
            assert_eq!(refused.status, if path == "/nothing" { 404 } else { 405 }, "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_on_loopback_addresses_only() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (mut agent, address) = service(&home).await;
    agent.first_passes().await;
    let page = get(&address, "/");
    assert_eq!((page.status, page.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    let rebound = send(&address, "GET / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n");
    assert_eq!(rebound.status, 404, "a web page gave its own name this address");
    let policy = format!("default-src 'none'; style-src 'sha256-{}'", kubegc::page::STYLE_HASH);
    assert_eq!(page.headers["content-security-policy"], policy);
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    assert!(page.body.contains("<h2 id=\"kept\">Kept, and why</h2>"), "{}", page.body);
    let next = page.body.split_once("Removed next").unwrap().1;
    assert!(!next.contains("Under disk pressure"), "a pass plans once, by the rules in force: {next}");
    agent.signal(Signal::SIGTERM);
    agent.ended().await; // it holds the lock until then
    let (_agent, address) = service_on(&home, "0.0.0.0:0").await;
    let others = address.replace("0.0.0.0", &own_address());
    assert_eq!(get(&others, "/livez").status, 200);
    assert_eq!(get(&others, "/").status, 404, "others can connect to this address");
}

/// Returns an address of this machine that others can connect to. Nothing is sent.
fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").unwrap();
    socket.local_addr().unwrap().ip().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_only_paths_are_not_on_the_address() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (_service, address) = service(&home).await;
    assert_eq!(get(&address, "/status").status, 404);
    let body = "{\"scope\":\"all\"}";
    let collect = format!("POST /collect HTTP/1.1\r\nHost: kubegc\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(send(&address, &collect).status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_format_is_the_one_that_the_client_accepts() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (_service, address) = service(&home).await;
    let accept =
        "GET /metrics HTTP/1.1\r\nHost: kubegc\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n";
    let open_metrics = send(&address, accept);
    assert_eq!(open_metrics.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open_metrics.body.ends_with("# EOF\n"));
    let text = get(&address, "/metrics");
    assert_eq!(text.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(!text.body.contains("# EOF"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_large_head_is_refused() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (_service, address) = service(&home).await;
    let request = |headers: String| format!("GET /livez HTTP/1.1\r\nHost: kubegc\r\n{headers}\r\n");
    assert_eq!(send(&address, &request(format!("X: {}\r\n", "x".repeat(20_000)))).status, 431);
    assert_eq!(send(&address, &request(["X: x\r\n"; 100].concat())).status, 431);
    assert_eq!(get(&address, "/livez").status, 200);
}

/// Each has 2 s, and all of them are of one address.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_closed_after_a_limited_delay() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (_service, address) = service(&home).await;
    let silent: Vec<_> = (0..20).map(|_| connect(&address)).collect();
    assert_eq!(get(&address, "/livez").status, 200);
    let mut rest = Vec::new();
    let mut first = &silent[0];
    let _ = first.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_served_when_free() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let mut service = home.start(&["run", "--set", &format!("metrics.address={address}")]);
    service.says("pass done").await;
    let status = home.run(&["status"]);
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    let cause = format!("unavailable: cannot listen on metrics address {address}: Address already in use");
    assert!(shown.lines().any(|line| line.starts_with("Metrics:") && line.contains(&cause)), "{shown}");
    drop(other);
    service.says("serving metrics and health").await;
    assert_eq!(get(&address, "/livez").status, 200);
    let status = home.run(&["status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains(&format!("http://{address}/metrics")));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_address_nothing_listens() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let mut quiet = home.start(&["run"]);
    quiet.says("pass done").await;
    assert_eq!(listening(quiet.pid), 0);
    drop(quiet);
    let home = Home::new(&sim, "");
    let (service, _) = service(&home).await;
    assert_eq!(listening(service.pid), 1);
}

/// Returns the number of TCP sockets of a process that listen.
fn listening(pid: u32) -> usize {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let tables = table("tcp") + &table("tcp6");
    let columns = tables.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Column 3 is the state, 0A = LISTEN, and column 9 is the inode.
    let open: BTreeSet<_> = columns
        .filter(|columns| columns.get(3) == Some(&"0A"))
        .filter_map(|columns| Some(format!("socket:[{}]", columns.get(9)?)))
        .collect();
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = files.filter_map(|file| Some(std::fs::read_link(file.ok()?.path()).ok()?.display().to_string()));
    links.filter(|link| open.contains(link)).count()
}
