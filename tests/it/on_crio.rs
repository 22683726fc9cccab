//! CRI-O as the runtime: the contract, and the binary on a node with it. Each test needs the CRI-O that `KUBEGC_CRIO` names.

mod disk;
mod images;
mod pods;

use crate::contract::contract;
use crate::rig::{Rig, Version};

contract!(in_turn contract, Rig::start(Version::Crio));
