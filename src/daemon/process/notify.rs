//! Notifies the service manager of the state of the service: ready, reloading, stopping, and a status line.
//!
//! The protocol is that of `sd_notify(3)`: lines in a datagram to the socket in `NOTIFY_SOCKET`. Without that variable
//! nothing is sent. Sends do not block: a service manager that does not read must not delay the service. (The crate `sd-notify` 0.5
//! blocks, and has no abstract names.)

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::time::{ClockId, clock_gettime};

/// The connection to the service manager.
#[derive(Debug, Default)]
pub struct Notifier(Option<UnixDatagram>);

// === impl Notifier ===

impl Notifier {
    /// Creates a notifier that sends nothing.
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Connects to a socket in the form of `NOTIFY_SOCKET`: a path, or an abstract name with a leading `@`. A failed
    /// connection is logged once.
    pub fn to(socket: Option<&OsStr>) -> Self {
        let Some(socket) = socket else { return Self::disabled() };
        match connect(socket) {
            Ok(socket) => Self(Some(socket)),
            Err(error) => {
                tracing::warn!(socket = %socket.display(), %error, "cannot notify the service manager");
                Self::disabled()
            }
        }
    }

    /// Reports that the service has started or has reloaded its settings.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// Reports that the service starts to reload its settings. [`Self::ready`] follows after the reload. systemd 253
    /// and later needs the time to match the notification with its reload request.
    pub fn reloading(&self) {
        let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return };
        let microseconds = now.tv_sec() * 1_000_000 + now.tv_nsec() / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// Reports that the service finishes the actions in progress and then exits.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing the actions in progress");
    }

    /// Answers the watchdog: the service works.
    pub fn watchdog(&self) {
        self.send("WATCHDOG=1");
    }

    /// Sends one line of status text.
    pub fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", line(text)));
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.0 else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::debug!(%error, "the service manager does not accept notifications");
        }
    }
}

fn connect(socket: &OsStr) -> io::Result<UnixDatagram> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let datagrams = UnixDatagram::unbound()?;
    datagrams.set_nonblocking(true)?;
    datagrams.connect_addr(&address)?;
    Ok(datagrams)
}

/// Returns a status text as one line: the text after a line break would be another variable.
fn line(text: &str) -> String {
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 1024];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn every_word_is_a_datagram_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::to(Some(path.as_os_str()));
        notifier.ready("watching");
        notifier.status("one\nREADY=0");
        notifier.stopping();
        assert_eq!(received(&manager), "READY=1\nSTATUS=watching");
        assert_eq!(received(&manager), "STATUS=one READY=0");
        assert_eq!(received(&manager), "STOPPING=1\nSTATUS=finishing the actions in progress");
        notifier.watchdog();
        assert_eq!(received(&manager), "WATCHDOG=1");
        notifier.reloading();
        let reloading = received(&manager);
        let moment = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(moment.parse::<u64>().unwrap() > 0, "{reloading}");
    }

    #[test]
    fn a_name_behind_an_at_sign_is_abstract() {
        let name = format!("kubegc-notify-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Notifier::to(Some(OsStr::new(&format!("@{name}")))).status("here");
        assert_eq!(received(&manager), "STATUS=here");
    }

    #[test]
    fn a_manager_that_reads_nothing_holds_no_one_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::to(Some(path.as_os_str()));
        (0..10_000).for_each(|_| notifier.status("still here"));
    }

    #[test]
    fn without_a_manager_nothing_is_said() {
        let missing = OsStr::new("/nonexistent/notify");
        for notifier in [Notifier::disabled(), Notifier::to(None), Notifier::to(Some(missing))] {
            notifier.ready("without a receiver");
        }
    }
}
