//! Parses the kubelet's answers.

use jiff::Timestamp;
use kube::core::ObjectList;

use crate::kubernetes::objects::node_pods::NodeApiPod;
use crate::model::Pod;

/// The pods of a kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletPods {
    /// When the kubelet sent the list, by its own clock.
    pub answered_at: Timestamp,
    pub pods: Vec<KubeletPod>,
}

/// A pod of a kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletPod {
    pub pod: Pod,
    /// The kubelet has the pod from the API server, not from a manifest.
    pub is_of_api: bool,
    /// When the kubelet first saw the pod, by its own clock. The kubelet loses this time when it restarts.
    pub first_seen_at: Option<Timestamp>,
}

/// The process of a kubelet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KubeletProcess {
    /// When the process started, by its own clock.
    pub started_at: Timestamp,
    /// The kubelet has cleaned up after pods since its start. It does so only after all its pod sources have delivered.
    /// Kubelets before 1.27 never report it.
    pub has_cleaned_up: bool,
}

/// Parses `/pods`.
pub(super) fn pods(answered_at: Timestamp, text: &[u8]) -> Result<KubeletPods, String> {
    let list: ObjectList<NodeApiPod> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if list.types.kind != "PodList" {
        return Err(format!("it is a {:?} and not a list of pods", list.types.kind));
    }
    let pods = list.items.into_iter().map(pod).collect::<Result<_, _>>()?;
    Ok(KubeletPods { answered_at, pods })
}

fn pod(from: NodeApiPod) -> Result<KubeletPod, String> {
    let (is_of_api, first_seen_at) = (from.config_source() == Some("api"), from.config_seen());
    Ok(KubeletPod { pod: from.into_pod()?, is_of_api, first_seen_at })
}

/// Parses `/metrics`, of which two metrics are used.
pub(super) fn process(text: &[u8]) -> Result<KubeletProcess, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let started = text.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
    let started = started.ok_or("it has no process_start_time_seconds")?;
    let started_at = seconds(started).ok_or_else(|| format!("{started:?} is not a time"))?;
    Ok(KubeletProcess {
        started_at,
        has_cleaned_up: text.lines().any(|line| line.starts_with("kubelet_desired_pods{")),
    })
}

/// Returns the time that is so many seconds after 1970-01-01.
fn seconds(text: &str) -> Option<Timestamp> {
    let since = jiff::SignedDuration::try_from_secs_f64(text.trim().parse().ok()?).ok()?;
    Timestamp::from_duration(since).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_pod_shows_source_and_first_seen_time() {
        let text = br#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
            {"metadata":{"uid":"a","namespace":"n","name":"of-api","annotations":{"kubernetes.io/config.source":"api",
                "kubernetes.io/config.seen":"2026-01-02T03:04:05.678901234+02:00"}}},
            {"metadata":{"uid":"s","namespace":"kube-system","name":"static-n1","annotations":{
                "kubernetes.io/config.source":"file","kubernetes.io/config.hash":"s"}},"status":{"phase":"Running"}},
            {"metadata":{"uid":"m","namespace":"kube-system","name":"mirror-n1","annotations":{
                "kubernetes.io/config.source":"api","kubernetes.io/config.hash":"h","kubernetes.io/config.mirror":"h"}}}]}"#;
        let answer = pods(at("2026-01-02T00:00:00Z"), text).unwrap().pods;
        let read: Vec<_> = answer.iter().map(|pod| (pod.pod.uid.as_str(), pod.is_of_api, pod.first_seen_at)).collect();
        let received = Some(at("2026-01-02T01:04:05.678901234Z"));
        assert_eq!(read, [("a", true, received), ("s", false, None), ("h", true, None)]);
    }

    #[test]
    fn an_invalid_pod_list_is_not_an_empty_list() {
        for text in
            ["", "{}", "[]", r#"{"kind":"Status"}"#, r#"{"kind":"PodList","apiVersion":"v1","items":[{}]}"#, "<html>"]
        {
            assert!(pods(Timestamp::UNIX_EPOCH, text.as_bytes()).is_err(), "{text}");
        }
        let empty = br#"{"kind":"PodList","apiVersion":"v1","items":null}"#;
        assert_eq!(pods(Timestamp::UNIX_EPOCH, empty).unwrap().pods, []);
    }

    #[test]
    fn kubelet_metrics_show_start_time_and_completed_cleanup() {
        let old = "# HELP process_start_time_seconds x\nprocess_start_time_seconds 1.76370482342e+09\n";
        let started_at = at("2025-11-21T06:00:23.42Z");
        let read = process(old.as_bytes()).unwrap();
        assert_eq!((read.started_at.as_millisecond(), read.has_cleaned_up), (started_at.as_millisecond(), false));
        let new = format!("# HELP kubelet_desired_pods x\nkubelet_desired_pods{{static=\"\"}} 3\n{old}");
        assert!(process(new.as_bytes()).unwrap().has_cleaned_up);
        assert!(!process(format!("# HELP kubelet_desired_pods x\n{old}").as_bytes()).unwrap().has_cleaned_up);
        for text in ["", "process_start_time_seconds soon\n", "process_start_time_seconds NaN\n"] {
            assert!(process(text.as_bytes()).is_err(), "{text}");
        }
    }
}
