//! The declaration of every setting: description, key, type, field and flags.
//!
//! `config default`, `config show`, the JSON Schema, the flags with their help, and `docs/configuration.md` are made
//! from it. The defaults are those of [`Settings::default`](super::Settings). The first paragraph of a description is
//! its summary, for the help of a flag.

use super::key::Key;
use super::values::*;

/// The descriptions of tables, by name.
pub(super) const TABLES: &[(&str, &str)] = &[
    (
        "pressure",
        "One of the settings `free_*` is enough for disk pressure. They apply to the disk of the images and to the disks\n\
         of the pod logs and of the kubelet. Under disk pressure kubegc removes unused images, least recently used first,\n\
         until the free space is a tenth above the limit; images on another disk are kept. If the disk still has\n\
         pressure, kubegc removes all dead containers and sandboxes of terminated pods without their logs, and the images\n\
         that these used. It removes the logs of terminated pods last. The guards still apply. The kubelet removes every\n\
         unused image before it evicts pods: set these values above its thresholds.",
    ),
    ("logs", "kubegc deletes no log outside these two directories."),
    (
        "guards",
        "A guard keeps an object that the kubelet's own rules would remove. The kubelet's own records show what it still\n\
         needs; kubegc cannot read them. The profiles \"kubelet\" and \"upstream\" turn all guards off, including those\n\
         without a setting. docs/safety-guards.md and docs/cluster-gc.md list them.",
    ),
    (
        "pod_gc",
        "These settings are for `kubegc controller`, which deletes orphaned, unscheduled and surplus terminated pods.",
    ),
    (
        "controller",
        "These settings are for `kubegc controller`, which collects at cluster level. The agent on a node ignores them.",
    ),
];

/// Declares the settings: `"key": TYPE = field.of.the.settings, flags [..], short '..';` below the description.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:literal: $type:ident = $($field:ident).+
        $(, flags [$($flag:literal),+])? $(, short $short:literal)?;)+) => {
        /// All keys, in the order of `config show`.
        pub static KEYS: &[Key] = &[$(Key {
            name: $name,
            doc: concat!($($doc, "\n"),+),
            flags: &[$($($flag),+)?],
            short: &[$($short)?],
            allowed: &$type.allowed,
            set: |settings, value| { settings.$($field).+ = ($type.read)(value)?; Ok(()) },
            get: |settings| ($type.print)(&settings.$($field).+),
        }),+];
    };
}

settings! {
    /// Set of guards: "safe" (all), or "kubelet" or "upstream" (none).
    ///
    /// "kubelet" and "upstream" mean the same: all guards are off, and only the rules of Kubernetes itself apply. Guards
    /// set in a file apply on top of the file's profile. `--profile` on the command line discards the guards of files.
    "profile": PROFILE = policy.profile, flags ["profile"];

    /// Whether passes remove objects: "collect", or "observe" to only log what they would remove.
    ///
    /// An observing agent has the same schedule, memory and history of passes, so that ages count from its first start.
    /// `kubegc collect` removes nothing either, unless `--mode collect` is given.
    "mode": MODE = mode, flags ["mode"];

    /// Hours in which the scheduled passes of the service remove nothing, each with days, a time zone or both.
    ///
    /// Without days they are of each day, and without a zone in UTC. A pass that must free space for images, and one under
    /// disk pressure, does not heed them. A command does not either.
    ///
    /// Example: `quiet = ["Mo-Fr 08:00-18:00 Europe/Berlin", "Sa 22:00-06:00"]`
    "quiet": QUIET = quiet;

    /// What the agent does in the cluster, a list of: "policies" (follow the NodeDiskPolicies), "disks" (write its NodeDisk).
    ///
    /// A policy pauses the nodes that it selects, lets them only observe, or lists images to remove.
    /// `kubegc fleet` shows the NodeDisks. docs/fleet.md has the rules and the permissions.
    "fleet": FLEET = fleet;

    /// Rules, in order: the first whose condition holds for an object decides. docs/rules.md has the facts.
    ///
    /// A rule is a table [[rule]] with these keys:
    ///
    /// - `name`: its name, as the plan shows it
    /// - `for`: "image", "container" and "sandbox" for dead ones, "log" for the logs of deleted pods, or "checkpoint" for
    ///   checkpoints of containers
    /// - `when`: a condition in CEL, such as `image.repository.startsWith('registry.example.com/base/')`
    /// - `then`: "keep"; "remove" for unused images, dead containers and checkpoints, as far as the guards allow; or limits
    ///   in place of those in the settings, such as `{ max_per_pod_container = 0, min_age = "10m" }`
    /// - `until`: optional, the day (UTC) on which the rule ends, such as 2027-06-30
    /// - `note`: optional, a text that the plan shows with the rule
    ///
    /// The rules of a file replace those of the files before it.
    "rule": RULES = policy.rules;

    /// The node's name. Empty = $NODE_NAME, then the host name.
    "node": TEXT = node, flags ["node-name"];

    /// Mount point of the host's root, if the agent runs in a container.
    "host_root": DIRECTORY = host_root, flags ["host-root"];

    /// Root directory of the kubelet. A pod with a directory in it is not deleted.
    "kubelet_root": DIRECTORY = kubelet_root;

    /// Minimum age of dead containers. Younger ones are kept and not counted.
    "containers.min_age": DURATION = policy.containers.min_age, flags ["minimum-container-ttl-duration"];

    /// Dead instances to keep of each container of a pod. Negative = no limit.
    "containers.max_per_pod_container": LIMIT = policy.containers.max_per_pod_container,
        flags ["maximum-dead-containers-per-container"];

    /// Dead containers to keep on the node. Negative = no limit.
    "containers.max_containers": LIMIT = policy.containers.max_containers, flags ["maximum-dead-containers"];

    /// Start of the age of a container, for min_age: "created", as in the kubelet, or "finished".
    "containers.age_from": AGE_FROM = policy.containers.age_from;

    /// Remove all dead containers and sandboxes of terminated pods, as the kubelet does under disk pressure. The log files
    /// of a container are removed with it.
    "containers.evict_terminated_pods": SWITCH = policy.containers.evict_terminated_pods;

    /// Time that the service waits after a pass over containers, sandboxes and logs.
    "containers.interval": INTERVAL = intervals.containers;

    /// Disk usage in percent at which image removal starts. 100 = never for space.
    "images.high_threshold_percent": PERCENT = policy.images.high_threshold_percent,
        flags ["image-gc-high-threshold"];

    /// Disk usage in percent at which image removal stops. At most the high threshold.
    "images.low_threshold_percent": PERCENT = policy.images.low_threshold_percent, flags ["image-gc-low-threshold"];

    /// Minimum age of images since they were first observed. Younger ones are kept.
    "images.min_age": DURATION = policy.images.min_age, flags ["minimum-image-ttl-duration"];

    /// Maximum time an image may be unused, at any disk usage. Must be longer than min_age. 0 = off.
    "images.max_age": DURATION = policy.images.max_age, flags ["image-maximum-gc-age"];

    /// Patterns of images to keep, with * for any text. Compared with tags, digests and ids.
    ///
    /// A name without a registry is one of docker.io, as in a pod. A name without a tag or digest keeps all of them.
    ///
    /// Example: `keep = ["registry.k8s.io/pause:*", "docker.io/library/base:*"]`
    "images.keep": PATTERNS = policy.images.keep;

    /// More targets for the removal of images: where it begins, and where it ends.
    ///
    /// - `free 10GiB..20GiB`: begins below 10 GiB of free space, ends at 20 GiB
    /// - `inodes 90%..80%`: begins at 90 % of used inodes, ends at 80 %
    /// - `total 200GiB..150GiB`: begins if all images together have more than 200 GiB, ends at 150 GiB
    ///
    /// If several have begun, all of them must end. Order and guards are the same as for the thresholds.
    "images.targets": IMAGE_TARGETS = policy.images.targets;

    /// Limits and waits for passes over images. An empty list = no limit.
    ///
    /// - `images 20`: a pass removes at most 20 images
    /// - `bytes 50GiB`: a pass removes images of at most 50 GiB together, or a single larger one
    /// - `pause 5s`: the pause between two removals, at most 1 min. Four times as long on a busy disk (see below)
    /// - `start 10m`: after a start of the service the first pass waits up to 10 min, a different time on each node
    ///
    /// A disk is busy while all tasks wait for I/O in a tenth of the time (`/proc/pressure/io`), and after a removal
    /// that took more than twice as long as the quickest of the pass.
    ///
    /// Below 5 % of free space or inodes on the disk, and under disk pressure, none of these apply.
    "images.pace": PACE = policy.images.pace;

    /// The order in which unused images are removed: "least-recently-used", or an expression in CEL that gives a number.
    ///
    /// kubegc removes the image with the highest number first, and an image for which the expression fails last. The plan
    /// shows the number. docs/rules.md has the facts of an image.
    ///
    /// Example: `order = "double(image.size_bytes) * double(image.unused.getHours())"`
    "images.order": IMAGE_ORDER = policy.images.order;

    /// Time for which a removed image can be restored with `kubegc undo`. 0 = off.
    ///
    /// A lease of containerd keeps the content of an image that is removed by age, by a rule, from a list, or because all
    /// unused images are. The kubelet and crictl no longer see the image, and its space is not free.
    ///
    /// Where space is needed, no lease is taken, and the oldest are deleted before another image is removed. CRI-O has no
    /// leases: there an image is removed for good.
    "images.undo": DURATION = policy.images.undo;

    /// Remove every unused image, at any disk usage.
    "images.all_unused": SWITCH = policy.images.all_unused;

    /// Time that the service waits after a pass over images.
    "images.interval": INTERVAL = intervals.images;

    /// Free bytes below which unused images and objects of terminated pods are removed. 0 = off.
    "pressure.free_bytes": BYTES = policy.pressure.free_bytes;

    /// Free space in percent below which unused images and objects of terminated pods are removed. 0 = off.
    "pressure.free_percent": PERCENT = policy.pressure.free_percent;

    /// Free inodes in percent below which unused images and objects of terminated pods are removed. 0 = off.
    "pressure.free_inodes_percent": PERCENT = policy.pressure.free_inodes_percent;

    /// Directory of the kubelet's pod log directories.
    "logs.pods_root": LOG_ROOT = policy.logs.pods_root;

    /// Directory of the kubelet's links to container logs.
    "logs.containers_root": LOG_ROOT = policy.logs.containers_root;

    /// Remove older logs of instances that the runtime no longer has while their pod exists. 0 = never.
    ///
    /// Such logs then count as dead containers for `containers.max_per_pod_container` and for rules. The kubelet keeps
    /// them until their pod is deleted, some of them on purpose: from version 1.36 on it removes all containers of a pod
    /// that restarts as a whole, and leaves their logs to be read.
    "logs.leftover_max_age": DURATION = policy.logs.leftover_max_age;

    /// Limits on the bytes of log files. Over one, kubegc removes rotated files, oldest first. An empty list = no limit.
    ///
    /// - `pod 200MiB`: for each pod
    /// - `namespace 2GiB`: for all pods of a namespace together on this node, the largest pod first
    /// - `node 10GiB`: for all pods of this node together, the largest pod first
    ///
    /// kubegc removes no file that an instance of a container writes, and none that is the only file of its instance.
    /// docs/logs.md has the rules.
    "logs.limits": LOG_LIMITS = policy.logs.limits;

    /// What stays of the logs of deleted pods, in kubegc/archive beside logs.pods_root. An empty list = there is no archive.
    ///
    /// - `keep 24h`: how long a file stays after its pod lost it
    /// - `pod 64MiB`, `namespace 512MiB`, `node 5GiB`: the most bytes; the oldest file goes first
    ///
    /// New log files get a second name there, which costs no space while their pod exists. `kubegc logs` shows them. Rules
    /// can set `keep_for` and `budget` for some pods. docs/logs.md has the rules.
    "logs.archive": ARCHIVE = policy.logs.archive;

    /// What kubegc removes of what is left over: "termination_log", "pod_directory", "unreferenced", or none.
    ///
    /// A termination log is that of a container that the runtime no longer has; the newest stay. A directory of
    /// a pod goes with its volumes, if the pod is proven deleted, if nothing is mounted beneath the directory, and if its
    /// volumes are plain directories. Unreferenced is what nothing in containerd's store refers to: kubegc asks containerd to
    /// collect it. `kubegc plan` shows all of them and the kubelet's records of pulled images, which kubegc never removes.
    /// docs/disk.md has the rules.
    "leftovers.remove": LEFTOVERS = policy.leftovers;

    /// Directory in which the CNI plugin host-local reserves addresses: its `dataDir`.
    ///
    /// kubegc shows the addresses of sandboxes that are gone, and removes none.
    "leftovers.networks_root": DIRECTORY = networks_root;

    /// Keep younger containers that are created and not started: they may be about to start. 0 = off.
    "guards.created_grace": DURATION = policy.guards.created_grace;

    /// Keep containers and sandboxes without pod labels.
    "guards.keep_foreign": SWITCH = policy.guards.keep_foreign;

    /// Keep younger dead sandboxes: a sandbox in creation looks dead. 0 = off.
    "guards.sandbox_grace": DURATION = policy.guards.sandbox_grace;

    /// How long a pod must be missing everywhere before it counts as deleted. 0 = missing in the list is enough.
    "guards.gone_after": DURATION = policy.guards.gone_after;

    /// Keep images named in specs of pods of this node, and images being pulled.
    "guards.keep_pod_images": SWITCH = policy.guards.keep_pod_images;

    /// Keep images that a CronJob, a suspended Job, a StatefulSet or one of the two newest revisions of a Deployment names.
    ///
    /// Their pods may start on this node without a pull. A pass that would remove an image reads the workloads from the API
    /// server, which needs more permissions (packaging/components/workloads). Does not apply under disk pressure.
    "guards.keep_workload_images": SWITCH = policy.guards.keep_workload_images;

    /// Time after a start of the runtime in which nothing counts as unused or deleted. 0 = off.
    "guards.settle": DURATION = policy.guards.settle;

    /// Time in which nothing counts as unused or deleted after a list of the runtime lost more than half of its entries.
    /// 0 = off.
    ///
    /// kubegc compares a list with its highest trusted length in this time. The shorter list must also hold for at least
    /// three passes.
    "guards.fall_hold": DURATION = policy.guards.fall_hold;

    /// Deletions of objects with never-seen owners after which `controller run` pauses their resource. 0 = off.
    ///
    /// A restore from a backup or a replication writes such objects, because the uids of their owners have changed.
    /// Deletions within ten minutes count. Where a twentieth of the resource is more, that is the limit.
    "guards.brake_count": COUNT = controller.guards.brake_count;

    /// Pod sources: "auto", "none", or any of kube-api,kubelet,runtime.
    ///
    /// Write several as a list, or with commas between them. A pod counts as deleted only if all of them agree.
    ///
    /// - `auto`: the sources that kubegc finds
    /// - `none`: no source, so no pod counts as deleted
    /// - `kube-api`: a watch of the API server, with a kubeconfig, the in-cluster service account, or the kubelet's
    ///   kubeconfig
    /// - `kubelet`: the kubelet's `/pods`
    /// - `runtime`: for hosts without a kubelet; a pod with no running container and no ready sandbox is deleted
    "pods.source": POD_SOURCES = pods.sources, flags ["pod-source"];

    /// Kubeconfig for the API server. Empty = $KUBECONFIG, the in-cluster service account, else the kubelet's
    /// kubeconfig.
    ///
    /// Several files, in a list or separated by colons, are merged. Missing files are skipped.
    /// `kubegc controller` uses `~/.kube/config` before the service account.
    "pods.kubeconfig": KUBECONFIGS = pods.kubeconfigs, flags ["kubeconfig"];

    /// Let services run the exec plugin that a kubeconfig names for its credentials, such as a kubeconfig of EKS.
    ///
    /// Commands run it only for a kubeconfig that pods.kubeconfig or $KUBECONFIG names, never for that of the kubelet.
    "pods.exec_plugins": SWITCH = pods.exec_plugins;

    /// Address of the kubelet. "http://127.0.0.1:10255" is its read-only port.
    ///
    /// The read-only port is usually disabled.
    "pods.kubelet_endpoint": HTTP = pods.kubelet.endpoint;

    /// File with the authorities of the kubelet's certificate, or the certificate itself. Empty = search.
    ///
    /// The search looks for the kubelet's own certificate below kubelet_root, and for the in-cluster authority.
    "pods.kubelet_ca": OPTIONAL_FILE = pods.kubelet.ca;

    /// File with the token for the kubelet. Empty = the token of the in-cluster service account, if it exists.
    "pods.kubelet_token_file": OPTIONAL_FILE = pods.kubelet.token_file;

    /// Client certificate for the kubelet, instead of a token.
    "pods.kubelet_client_certificate": OPTIONAL_FILE = pods.kubelet.client_certificate;

    /// Key of the client certificate. It may be in the same file.
    "pods.kubelet_client_key": OPTIONAL_FILE = pods.kubelet.client_key;

    /// Socket of the runtime. Empty = crictl's, the kubelet's, or a well-known one if only one runtime exists.
    ///
    /// Example: `"unix:///run/containerd/containerd.sock"`. crictl's is in /etc/crictl.yaml, the kubelet's in the file
    /// of `--kubelet-config`.
    "runtime.endpoint": SOCKET = runtime.endpoint,
        flags ["runtime-endpoint", "container-runtime-endpoint"], short 'r';

    /// Socket of the image service. Empty = the socket of the runtime.
    "runtime.image_endpoint": SOCKET = runtime.image_endpoint,
        flags ["image-endpoint", "image-service-endpoint"], short 'i';

    /// Timeout of one removal. The removal itself is never cancelled.
    "runtime.removal_timeout": INTERVAL = runtime.options.removal_timeout;

    /// The store: last use and history.
    "state.path": FILE = state.path, flags ["state"];

    /// Lock file, which permits one agent per node. The socket of the agent is in the same directory.
    ///
    /// /run is in memory, so a full disk does not prevent a start. In a container, mount the host's directory at the
    /// same path. If /run/kubegc is not writable, set another file on a local file system, the same for all agents of
    /// the node.
    "state.lock": FILE = state.lock, flags ["lock"];

    /// Maximum age of history.
    "state.history_max_age": DURATION = state.history_max_age;

    /// Write events on the Node for passes that failed or removed images, if kube-api is a pod source.
    ///
    /// This needs permission to create events.
    "events.enabled": SWITCH = writes_events;

    /// Address of `/metrics`, `/livez` and `/readyz` of the service. Empty = none.
    ///
    /// If the port is in use, the service still collects, logs a warning, and retries the address every 10 s.
    /// docs/metrics.md lists the metrics. On a loopback address `/` is an HTML page.
    "metrics.address": ADDRESS = metrics.address;

    /// File for the metrics of `kubegc collect`, for node_exporter's textfile collector. Empty = none.
    ///
    /// Its name must end in `.prom`, in the directory of the collector. Counters continue from the values in the file.
    "metrics.file": OPTIONAL_FILE = metrics.file, flags ["metrics-file"];

    /// How the service logs: "text" or "json".
    ///
    /// In the journal of systemd, text has a priority, and a field for each value, such as KUBEGC_POD and KUBEGC_KIND.
    "log.format": LOG_FORMAT = log_format;

    /// How much the services log: messages of this level and above.
    ///
    /// A reload changes it. `-v`, `--log-level` and `RUST_LOG` override it.
    "log.level": LOG_LEVEL = log_level;

    /// Address of `/metrics`, `/livez` and `/readyz` of `controller run`. Empty = none.
    "controller.address": ADDRESS = controller_address;

    /// Calls to the API server per second. 0 = no limit.
    ///
    /// `controller collect` has no limit unless this is set: the API server says when it has too many requests.
    "controller.calls_per_second": COUNT = controller.calls.per_second, flags ["kube-api-qps"];

    /// File for the history of what `controller collect` and `run` delete, for `controller history`. Empty = none.
    ///
    /// It has a change in each line, as JSON. From 16 MiB on it becomes `FILE.1`, and replaces the one before.
    "controller.history": OPTIONAL_FILE = controller_history, flags ["controller-history"];

    /// Resources whose objects may end by the annotations `janitor/ttl` and `janitor/expires` of kube-janitor.
    ///
    /// As `["deployments.apps", "namespaces"]`. A user who may change such an object decides when it ends. Rules with
    /// `for = "object"` come first.
    "controller.janitor_annotations": RESOURCES = controller.rules.annotated;

    /// Delete the content of namespaces in deletion, then end the deletion (`controller collect` and `run`).
    ///
    /// For API servers without kube-controller-manager, which does this itself. While one has its Lease, nothing is done.
    "controller.namespaces": SWITCH = controller.namespaces;

    /// Namespace of the Lease, with `--leader-elect`.
    "controller.lease_namespace": NAME = controller.lease.namespace, flags ["leader-elect-resource-namespace"];

    /// Terminated pods to keep in the cluster. 0 = no limit.
    "pod_gc.terminated_pod_threshold": COUNT = pod_gc.terminated_pod_threshold,
        flags ["terminated-pod-gc-threshold"];

    /// Terminated pods to keep in each namespace. 0 = no limit.
    "pod_gc.per_namespace": COUNT = pod_gc.per_namespace;

    /// Pods in the phase Failed to keep in the cluster. 0 = no limit.
    "pod_gc.failed_pod_threshold": COUNT = pod_gc.failed_pod_threshold;

    /// Maximum age of a terminated pod since it finished. 0 = no limit.
    "pod_gc.max_age": DURATION = pod_gc.max_age;

    /// How long a node must be missing before its pods can be deleted.
    "pod_gc.node_quarantine": DURATION = pod_gc.node_quarantine;
}
