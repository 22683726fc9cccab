//! Dead sandboxes.
