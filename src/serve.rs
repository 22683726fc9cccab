//! What the agent serves over HTTP, on a unix socket beside its lock: its state, and passes on request.
//!
//! `GET /status` returns an [`AgentState`]. `POST /collect` takes a [`PassRequest`], and returns [`PassEvent`]s, one JSON
//! document per line, as they happen. Only root can connect: the socket has mode 0600.
//!
//! The server has a thread of its own, so that a busy agent still answers. It decides nothing and removes nothing: the
//! service makes the passes (`daemon`).

mod client;
mod progress;
mod server;
mod state;

pub use client::{ServeError, agent_state, request_pass};
pub use progress::{Progress, Stalled};
pub use server::Server;
pub use state::{AgentState, Inbox, Live, Order, PassDone, PassEvent, PassRequest, PassState, RunningPass};
