//! Logs of a saved plan that the lists of a pass do not have, but that exist.
//!
//! The lists have only what may be removed: a log file whose instance the runtime has again, and a path outside of the log roots,
//! are not in them. They are not removed, and it would be wrong to report that they already were.

use std::path::Path;

use crate::host_path::HostFs;
use crate::plan::{Outcome, Refusal, Report};

/// Reports paths that exist as refused.
pub(super) async fn refuse(reports: &mut [Report], host: &HostFs) {
    for report in reports.iter_mut().filter(|report| report.outcome == Outcome::AlreadyRemoved {}) {
        if let Some(path) = report.action.target.path()
            && exists(host, path).await
        {
            report.outcome = Outcome::Refused { refusal: Refusal::StateChanged };
            report.note = Some("it exists, and is not among what may be removed now".to_owned());
        }
    }
}

/// Returns whether a path exists; a link counts by itself. One that cannot be looked at counts as existing.
async fn exists(host: &HostFs, path: &Path) -> bool {
    let here = path.to_owned();
    let found = host.run(path, move |host| {
        let (Some(directory), Some(name)) = (here.parent(), here.file_name()) else { return true };
        host.resolve(directory).is_ok_and(|found| found.into_path().join(name).symlink_metadata().is_ok())
    });
    found.await.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_path_that_exists_was_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("here"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
        let report = |action: &str, path: &Path| -> Report {
            let action = json!({"action": action, "path": path, "reason": "pod_deleted"});
            let report = json!({"action": action, "outcome": "already_removed", "measure": "unknown"});
            serde_json::from_value(report).unwrap()
        };
        let mut reports = [
            report("remove_log_dir", &path("here")),
            report("remove_log_link", &path("link")),
            report("remove_log_dir", &path("gone")),
            report("remove_log_dir", &path("gone/too")),
        ];
        refuse(&mut reports, &HostFs::new("/")).await;
        assert_eq!(
            reports.map(|report| report.outcome.kind()),
            ["refused", "refused", "already_removed", "already_removed"]
        );
    }
}
