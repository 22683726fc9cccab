//! Everything that a tenant or an API server may show, against every command: what is needed stays, no request leaves the
//! paths of objects, and the garbage of others goes.
//!
//! A cell is one field of an object with one kind of odd value, that comes in one way to one command.

mod cluster;
mod values;

use self::cluster::{Command, MatrixCluster};
use self::values::{FIELDS, VALUES, hostile};

/// How the object comes to kubegc.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    List,
    WatchEvent,
    Relist,
    Read,
    AnswerToChange,
}

/// What an API server does by itself.
#[derive(Clone, Copy, Debug)]
enum Fault {
    DiscoveryFlaps,
    VersionDropped,
    GroupDown,
    /// An aggregated API shows the object of this name with other owners.
    Mirror(&'static str),
    MirrorLoses(&'static str),
    Restore,
    ListsExpire,
    ReadsFail,
    ReadsOfOthers,
}

const WAYS: [Way; 5] = [Way::List, Way::WatchEvent, Way::Relist, Way::Read, Way::AnswerToChange];
const FAULTS: [Fault; 13] = [
    Fault::DiscoveryFlaps,
    Fault::VersionDropped,
    Fault::GroupDown,
    Fault::Mirror("keeper"),
    Fault::Mirror("kept-widget"),
    Fault::Mirror("kept-secret"),
    Fault::MirrorLoses("keeper"),
    Fault::MirrorLoses("kept-widget"),
    Fault::MirrorLoses("kept-secret"),
    Fault::Restore,
    Fault::ListsExpire,
    Fault::ReadsFail,
    Fault::ReadsOfOthers,
];
const COMMANDS: [Command; 4] = [Command::Run, Command::Collect, Command::Plan, Command::Why];

// === impl Way ===

impl Way {
    /// Only a service watches, and only what changes something has answers to changes.
    fn reaches(self, command: Command) -> bool {
        match self {
            Self::List | Self::Read => true,
            Self::WatchEvent => command == Command::Run,
            Self::Relist | Self::AnswerToChange => matches!(command, Command::Run | Command::Collect),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_value_of_a_tenant_steers_a_command() {
    let mut cells = 0;
    for command in COMMANDS {
        for way in WAYS.into_iter().filter(|way| way.reaches(command)) {
            for (field, value) in FIELDS.into_iter().flat_map(|field| VALUES.map(|value| (field, value))) {
                let cell = format!("{command:?}, {way:?}, {field:?}, {value:?}");
                let cluster = MatrixCluster::new(&cell);
                cluster.shows(way, &hostile(field, value));
                cluster.check(command).await;
                cells += 1;
            }
        }
    }
    println!("{cells} cells of values");
    assert_eq!(cells, 455);
}

#[tokio::test(start_paused = true)]
async fn no_api_server_fault_misleads_a_command() {
    let mut cells = 0;
    for command in COMMANDS {
        for fault in FAULTS {
            let cluster = MatrixCluster::new(&format!("{command:?}, {fault:?}"));
            cluster.has(fault);
            cluster.check(command).await;
            cells += 1;
        }
    }
    println!("{cells} cells of faults");
    assert_eq!(cells, 52);
}
