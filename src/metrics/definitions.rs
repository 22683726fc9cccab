//! Every metric: name, type, labels and meaning, and the tables of `docs/metrics.md` that list them.

#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The name, without the suffix `_total` of a counter.
    pub name: &'static str,
    pub of: MetricType,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The meaning, without a full stop.
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricType {
    /// It only grows, until a restart.
    Counter,
    Gauge,
    /// Counts in buckets.
    Histogram,
}

// === impl Definition ===

impl Definition {
    /// Returns the name in queries.
    pub fn sample(&self) -> String {
        let suffix = if self.of == MetricType::Counter { "_total" } else { "" };
        format!("{}{suffix}", self.name)
    }
}

// === impl MetricType ===

impl MetricType {
    /// Returns the word in the text formats.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Declares metrics: `CONSTANT = Type "name" ["label"] "meaning";`
macro_rules! definitions {
    ($(#[doc = $doc:literal])+ $group:ident: $($constant:ident = $of:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(pub(super) const $constant: Definition =
            Definition { name: $name, of: MetricType::$of, labels: &[$($label),*], help: $help };)+
        $(#[doc = $doc])+
        pub const $group: &[Definition] = &[$($constant),+];
    };
}

definitions! {
    /// Those of the agent and of `kubegc collect --metrics-file`.
    AGENT:
    BUILD = Gauge "kubegc_build_info" ["version"] "Always 1; the label is the version of the program";
    CONFIG = Gauge "kubegc_config_info" ["mode", "profile"] "Always 1; the labels are the mode and the profile in force";
    RELOADED = Gauge "kubegc_config_last_reload_successful" []
        "Whether the last load of the configuration succeeded: 1 or 0. After a failure the previous one is in force";
    RELOADED_AT = Gauge "kubegc_config_last_reload_success_timestamp_seconds" []
        "When the configuration in force was loaded";
    LOCK = Gauge "kubegc_lock_held" [] "Whether this agent holds the lock of the node: 1, or 0 while it waits";
    SUSPENDED = Gauge "kubegc_removals_suspended" ["cause"]
        "Whether scheduled passes remove nothing now: 1 or 0, for a pause, for the mode of a NodeDiskPolicy and for quiet hours";
    PASSES = Counter "kubegc_passes" ["scope", "result"]
        "GC passes. failed: an observation was missing, the runtime did not respond, or images did not give the space that was needed";
    PASS_SECONDS = Histogram "kubegc_pass_duration_seconds" ["scope"] "Duration of passes";
    PASS_SUCCEEDED_AT = Gauge "kubegc_pass_last_success_timestamp_seconds" ["scope"] "When the last successful pass ended";
    PASS_RUNNING = Gauge "kubegc_passes_running" ["scope"] "Passes in progress";
    REMOVED = Counter "kubegc_removed" ["kind", "reason"] "Removed objects, by the reason in the plan";
    FAILED = Counter "kubegc_removals_failed" ["kind", "cause"] "Removals that failed";
    REFUSED = Counter "kubegc_removals_refused" ["kind", "cause"]
        "Removals that the recheck refused, because the object changed after the plan";
    RECLAIMED = Counter "kubegc_reclaimed_bytes" ["kind"] "Free space gained by removals, measured";
    ESTIMATED = Counter "kubegc_estimated_bytes" ["kind"]
        "Sizes of removed images as the runtime reports them, and of removed logs. Shared layers count more than once";
    PULLED_AGAIN = Counter "kubegc_images_pulled_again" ["reason"]
        "Removed images that were pulled again within 14 days, by the reason of the removal; not those that were restored";
    PULLED_AGAIN_BYTES = Counter "kubegc_images_pulled_again_bytes" ["reason"]
        "Bytes on the disk of images that were pulled again within 14 days of their removal, as estimated at the removal; the network had about half of them";
    KEPT = Gauge "kubegc_kept_objects" ["kind", "reason", "by"]
        "Objects that the last plan keeps. by: guard, or rule for what the kubelet keeps too";
    PLANNED = Gauge "kubegc_planned_objects" ["kind", "reason"] "Objects that the last plan removes";
    RECLAIMABLE = Gauge "kubegc_reclaimable_bytes" ["kind"]
        "What a collection could reclaim: of images what all removable ones hold, needed or not; else what the last plan removes";
    SHORTFALL = Gauge "kubegc_shortfall_bytes" []
        "Bytes still missing to the low threshold after the removal of every removable image; 0 below the high threshold";
    FS_CAPACITY = Gauge "kubegc_filesystem_capacity_bytes" ["filesystem"] "Capacity of the file system";
    FS_USED = Gauge "kubegc_filesystem_used_bytes" ["filesystem"]
        "Bytes of the file system that are not available to unprivileged users";
    FS_INODES = Gauge "kubegc_filesystem_inodes" ["filesystem"] "Inodes of the file system";
    FS_INODES_USED = Gauge "kubegc_filesystem_inodes_used" ["filesystem"] "Inodes of the file system in use";
    IMAGE_DISK = Gauge "kubegc_image_disk_bytes" ["category"]
        "What fills the image file system, each byte once, as of the last account (every 15 minutes at most)";
    IMAGE_DISK_INODES = Gauge "kubegc_image_disk_inodes" ["category"] "What fills the image file system in inodes, where they are known, as of the last account";
    NAMESPACE = Gauge "kubegc_namespace_bytes" ["pod_namespace", "what"]
        "What the pods of a namespace take on the disks of the node, for the 20 largest namespaces. The rest, and pods whose namespace is not known, have no name";
    LOGS_OVER = Gauge "kubegc_logs_over_limit" ["limit_of"]
        "Pods and namespaces, and 1 for the node, whose log files have more bytes than logs.limits permits after the last plan";
    LEFTOVERS = Gauge "kubegc_leftovers" ["kind"] "What no program needs any more, as of the last account";
    LEFTOVERS_BYTES = Gauge "kubegc_leftovers_bytes" ["kind"] "Bytes of leftovers on the disks, by kind, as of the last account";
    FS_THRESHOLD = Gauge "kubegc_filesystem_threshold_ratio" ["filesystem", "threshold"]
        "Usage at which image removal starts (high) and stops (low) and disk pressure begins (pressure), from 0 to 1";
    FS_INODES_THRESHOLD = Gauge "kubegc_filesystem_inodes_threshold_ratio" ["filesystem", "threshold"]
        "Share of used inodes at which disk pressure begins (pressure), from 0 to 1";
    FS_GROWTH = Gauge "kubegc_filesystem_growth_bytes_per_second" ["filesystem"]
        "What was written in the last six hours, without what kubegc reclaimed";
    FS_TIME_LEFT = Gauge "kubegc_filesystem_time_left_seconds" ["filesystem", "limit"]
        "Time until image removal (high_threshold) or evictions by the kubelet (eviction; eviction_after_collection: if all removable images go before) begin at that growth; absent if not within a week";
    LIST_BYTES = Gauge "kubegc_cri_list_bytes" ["list"] "Encoded size of a list of the runtime";
    LIST_LIMIT = Gauge "kubegc_cri_list_limit_bytes" [] "Largest list that the kubelet can receive in one message";
    CRI_ERRORS = Counter "kubegc_cri_call_errors" ["method", "cause"] "Calls to the runtime without a successful answer";
    CRI_SECONDS = Histogram "kubegc_cri_call_duration_seconds" ["method"]
        "Duration of calls to the runtime, failed ones included";
    POD_SOURCE_COMPLETE = Gauge "kubegc_pod_source_complete" ["source"]
        "Whether the list of the pod source has all pods of the node: 1 or 0. Without it no pod counts as deleted";
    POD_SOURCE_AT = Gauge "kubegc_pod_source_last_list_timestamp_seconds" ["source"] "When the pod source was last listed";
    STORE_BYTES = Gauge "kubegc_store_size_bytes" [] "Size of the store";
    STORE_OK = Gauge "kubegc_store_writable" []
        "Whether the store can be read and written: 1, or 0 while the memory of the agent is in the process only";
}

definitions! {
    /// Those of `kubegc controller run`. Some have the names of kube-controller-manager, for existing alerts.
    CONTROLLER:
    CONTROLLER_BUILD = Gauge "kubegc_build_info" ["version"] "Always 1; the label is the version of the program";
    CONTROLLER_RELOADED = Gauge "kubegc_config_last_reload_successful" []
        "Whether the last load of the configuration succeeded: 1 or 0. A reload changes only the log level";
    CONTROLLER_RELOADED_AT = Gauge "kubegc_config_last_reload_success_timestamp_seconds" []
        "When the configuration was last loaded";
    LEADER = Gauge "kubegc_controller_leader" [] "Whether this process collects: 1, or 0 while another process holds the Lease";
    DISCOVERY_ERRORS = Counter "garbagecollector_controller_resources_sync_error" []
        "Failed discoveries of the resources of the API server. kube-controller-manager uses the same name";
    QUEUE_DEPTH = Gauge "workqueue_depth" ["name"] "Keys that are ready to be processed";
    QUEUE_ADDS = Counter "workqueue_adds" ["name"] "Keys that became ready";
    QUEUE_RETRIES = Counter "workqueue_retries" ["name"] "Keys that failed and are retried";
    QUEUE_SECONDS = Histogram "workqueue_queue_duration_seconds" ["name"] "Time for which a key was ready before it was processed";
    WORK_SECONDS = Histogram "workqueue_work_duration_seconds" ["name"] "Duration of the processing of a key";
    API_REQUESTS = Counter "rest_client_requests" ["code", "method"]
        "Requests to the API server, by HTTP status; <error> = no answer. It has no label for the host";
    API_SECONDS = Histogram "rest_client_request_duration_seconds" ["verb"]
        "Time until the API server began to answer. It has no label for the host";
    QUEUE_PROCESSING = Gauge "kubegc_controller_processing" [] "Keys that are processed now";
    QUEUE_DELAYED = Gauge "kubegc_controller_delayed" [] "Keys that wait after a failure";
    OBJECTS = Gauge "kubegc_controller_objects" [] "Objects in the ownership graph";
    UNLISTED = Gauge "kubegc_controller_unlisted_resources" [] "Monitored resources without a complete list so far";
    PARKED = Gauge "kubegc_controller_parked_objects" []
        "Objects that wait for a change of the served or listed resources";
    FAILING = Gauge "kubegc_controller_failing_objects" [] "Objects whose check or change fails now";
    LONGEST_FAILURE = Gauge "kubegc_controller_longest_failure_seconds" []
        "Longest time for which an object has been failing; 0 = none";
    LONGEST_WAIT = Gauge "kubegc_controller_longest_foreground_wait_seconds" []
        "Age of the oldest foreground deletion that waits for its dependents; 0 = none";
    PAUSED = Gauge "kubegc_controller_paused_resources" [] "Resources whose deletions the brake has paused";
    CHANGES = Counter "kubegc_controller_changes" ["action", "result"] "Changes of objects by their owner references";
    UNRESOLVED = Counter "kubegc_controller_invalid_references" ["cause"]
        "Owner references that cannot be resolved, each time they are checked";
    PODS_DELETED = Counter "pod_gc_collector_force_delete_pods" ["reason"]
        "Deleted pods. kube-controller-manager uses the same name. It has no label for the namespace";
    PODS_FAILED = Counter "pod_gc_collector_force_delete_pod_errors" ["reason"]
        "Failed deletions of pods. kube-controller-manager uses the same name. It has no label for the namespace";
    PODS_PASS_AT = Gauge "kubegc_controller_pod_pass_last_success_timestamp_seconds" []
        "End of the last pass over the pods that read every pod and node";
}

definitions! {
    /// Those of both services. The names are those of other programs.
    PROCESS:
    PROCESS_CPU = Counter "process_cpu_seconds" [] "CPU time of the process, user and system";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" [] "Resident memory of the process";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" [] "Virtual memory of the process";
    PROCESS_FDS = Gauge "process_open_fds" [] "Open file descriptors of the process";
    PROCESS_MAX_FDS = Gauge "process_max_fds" [] "Limit on open file descriptors; absent = no limit";
    PROCESS_START = Gauge "process_start_time_seconds" [] "When the process started";
}

/// Returns the tables, between the headings of the page.
pub fn page() -> String {
    let [agent, controller, process] = [AGENT, CONTROLLER, PROCESS].map(table);
    format!("## Agent\n\n{agent}\n## Controller\n\n{controller}\n## Process\n\nOf both services:\n\n{process}")
}

fn table(definitions: &[Definition]) -> String {
    let rows: String = definitions.iter().map(row).collect();
    format!("| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}")
}

fn row(definition: &Definition) -> String {
    let labels: Vec<_> = definition.labels.iter().map(|label| format!("`{label}`")).collect();
    let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
    format!("| `{}` | {} | {labels} | {} |\n", definition.sample(), definition.of.as_str(), definition.help)
}
