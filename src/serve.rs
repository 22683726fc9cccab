//! What a process serves over HTTP: the state of the agent, passes on request, metrics and health.
//!
//! **Socket.** The agent has a unix socket beside its lock. `GET /status` returns a [`NodeStatus`](crate::fleet::NodeStatus). `POST /collect` takes a
//! [`PassRequest`], and returns [`PassEvent`]s, one JSON document per line, as they happen. Only root can connect: the
//! socket has mode 0600.
//!
//! **Address.** The agent and the controller have a TCP address, by default of the loopback interface. It has [`Pages`]
//! only, which change nothing: `/metrics`, `/livez` and `/readyz`. The socket has them too.
//!
//! The server has a thread of its own, so that a busy agent still answers. It decides nothing and removes nothing: the
//! service makes the passes (`daemon`).
//!
//! A `collect` beside the agent is a pass of the agent, because the lock is one per node: the command sends a request
//! to the socket, and the agent makes the pass with its own settings. The command waits for a pass that runs, at most
//! 30 s.

mod address;
mod client;
mod files;
mod health;
mod pages;
mod progress;
mod server;
mod state;

pub use client::{ServeError, node_status, request_pass};
pub use health::Health;
pub use pages::Pages;
pub use pages::ReportPage;
pub use progress::{Progress, Stalled};
pub use server::Server;
pub use state::{Inbox, Live, Order, PassEvent, PassRequest};
