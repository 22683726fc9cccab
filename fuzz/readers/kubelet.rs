//! Answers of the kubelet.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use kubegc::host_path::HostFs;
use kubegc::kubernetes::{Kubelet, KubeletAccess};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{RUNTIME, dir};

/// A kubelet at its read-only port, with the same answer to every request.
struct Fake {
    kubelet: Kubelet,
    answer: Arc<Mutex<Vec<u8>>>,
    _directory: TempDir,
}

static FAKE: LazyLock<Fake> = LazyLock::new(Fake::start);

impl Fake {
    fn start() -> Self {
        let directory = dir();
        let answer = Arc::<Mutex<Vec<u8>>>::default();
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("its address"));
        RUNTIME.spawn(serve(listener, Arc::clone(&answer)));
        let access = KubeletAccess {
            endpoint,
            node: "node-1".to_owned(),
            ca: None,
            token_file: None,
            client: None,
            account: directory.path().to_owned(),
            host: HostFs::new("/"),
            kubelet_root: directory.path().to_owned(),
        };
        let kubelet = Kubelet::new(access).with_limit(Duration::from_secs(5));
        Self { kubelet, answer, _directory: directory }
    }
}

async fn serve(listener: TcpListener, answer: Arc<Mutex<Vec<u8>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let body = answer.lock().expect("the answer").clone();
        tokio::spawn(write_answer(stream, body));
    }
}

/// Answers the one request of a connection: a GET, which fits in one read.
async fn write_answer(mut stream: TcpStream, body: Vec<u8>) {
    let _ = stream.read(&mut [0; 4096]).await;
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: Fri, 02 Jan 2026 12:00:00 GMT\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
}

/// The body of each answer: the pods, and the metrics of the process.
pub fn kubelet(body: &[u8]) {
    let Fake { kubelet, answer, .. } = &*FAKE;
    body.clone_into(&mut answer.lock().expect("the answer"));
    RUNTIME.block_on(async {
        let _ = kubelet.pods().await;
        let _ = kubelet.process().await;
    });
}
