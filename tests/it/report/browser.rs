//! A headless browser and its `DevTools` protocol, over pipes. `scripts/browser.sh` fetches it.
//!
//! The protocol is JSON and a zero byte. So the tests need neither a crate nor a second program for it, and the page
//! runs no script of a test.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

/// The longest wait for the next message.
const PATIENCE: Duration = Duration::from_mins(3);

/// A browser with one page, which runs no scripts. It ends with the test.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// The session of the page.
    session: Value,
    calls: u64,
    /// What happened to the page since it was opened.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

// === impl Browser ===

impl Browser {
    /// Starts it with an empty page.
    pub fn start() -> Self {
        let script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/browser.sh")).output().unwrap();
        assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(String::from_utf8(script.stdout).unwrap().trim_end());
        command.arg(format!("--user-data-dir={}", profile.path().display())).stderr(Stdio::null());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut all = output.split(0).map_while(Result::ok);
            all.try_for_each(|message| sender.send(serde_json::from_slice(&message).unwrap()))
        });
        let (session, events) = (Value::Null, Vec::new());
        let mut browser = Self { child, input, messages, session, calls: 0, events, _profile: profile };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let page = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        self.session = self.call("Target.attachToTarget", &target)["sessionId"].clone();
        for domain in ["Page", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    }

    /// Sets the width of the page in pixels and the preferred colors, `light` or `dark`.
    pub fn view(&mut self, width: u64, scheme: &str) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let colors = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &colors);
    }

    /// Opens a page and waits until everything in it is loaded.
    pub fn open(&mut self, url: &str) {
        self.events.clear();
        let opened = self.call("Page.navigate", &json!({ "url": url }));
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let message = self.receive();
            self.events.push(message);
        }
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": params });
        if !self.session.is_null() {
            call["sessionId"] = self.session.clone();
        }
        self.input.write_all(format!("{call}\0").as_bytes()).unwrap();
        loop {
            let mut message = self.receive();
            if message["id"] == self.calls {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// Returns the whole page as a PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        BASE64_STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }

    fn receive(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no message of the browser: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have exited
        let _ = self.child.wait();
    }
}
