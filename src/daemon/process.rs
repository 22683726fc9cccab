//! What a service does as a process: signals, the service manager, the watchdog, open files, changed files.

pub mod file_limit;
pub mod file_watch;
pub mod notify;
pub mod signals;
pub mod watchdog;
