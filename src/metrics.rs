//! The metrics of the agent and of the controller: names, values, text formats.
//!
//! [`AGENT`], [`CONTROLLER`] and [`PROCESS`] declare each metric once: registration, `docs/metrics.md` and its test use
//! them. Callers pass times and values in; this module has no clock. Labels are words of kubegc, never the name of an image, pod or
//! namespace, so the number of series does not grow with the node. A scrape waits for no pass: values are locked only for
//! as long as one is written or read.

mod agent;
mod calls;
mod contents;
mod controller_metrics;
mod definitions;
mod file;
mod process;
mod registry;
mod text;
mod usage;

pub use agent::AgentMetrics;
pub use calls::{CallTimer, CriCalls};
pub use controller_metrics::{ControllerMetrics, EngineFigures, QueueTimings};
#[doc(hidden)]
pub use definitions::page;
pub use definitions::{AGENT, CONTROLLER, Definition, MetricType, PROCESS};
pub use file::{FileError, write_text_file};
pub use text::Exposition;
