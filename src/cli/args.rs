//! What a command line says: the flags of every command, their help, formats and suggestions.

pub(super) mod global;
pub(super) mod help;
pub(super) mod kubectl_args;
pub(super) mod only;
pub(super) mod overrides;
pub(super) mod suggestions;
pub(super) mod times;
pub(super) mod values;
