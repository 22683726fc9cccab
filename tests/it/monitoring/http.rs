//! A client that sends what a test wants, also what no client sends.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_mins(3);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// Gets a page.
pub fn get(address: &str, path: &str) -> Answer {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

/// Connects, and sends nothing yet.
pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends the text of a request and reads the answer.
pub fn send(address: &str, request: &str) -> Answer {
    let mut stream = connect(address);
    // The server may answer before it has read all of a request that is too large.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    Answer::from(&*String::from_utf8(bytes).unwrap())
}

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Self { status, headers: lines.filter_map(header).collect(), body: body.to_owned() }
    }
}
