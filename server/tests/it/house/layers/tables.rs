//! The tables: which module may name which.

use super::Layers;

/// The crates of HTTP.
const HTTP: [&str; 4] = ["axum", "http", "http_body", "hyper"];

pub(super) const APISERVER: Layers = Layers {
    sources: "control-plane/apiserver/src",
    modules: &[
        // What any layer may use.
        ("basics", &[]),
        // Which kinds there are, what is stored of them, which rules they keep.
        ("resources", &[]),
        ("storage", &["basics", "resources"]),
        ("validate", &["basics", "resources"]),
        // What programs outside are asked.
        ("webhook", &["basics", "storage"]),
        // What stands in front of the registry.
        ("auth", &["basics", "resources", "storage", "webhook"]),
        // Who waits when there is too much to do.
        ("flow", &["auth", "resources", "storage"]),
        // What is recorded of requests.
        ("audit", &["auth", "basics", "storage", "webhook"]),
        (
            "admission",
            &["audit", "auth", "basics", "resources", "storage", "webhook"],
        ),
        // What becomes of objects, and how requests ask for it.
        (
            "registry",
            &[
                "admission",
                "audit",
                "auth",
                "basics",
                "resources",
                "storage",
                "validate",
            ],
        ),
        // Faults on purpose, and the texts of objects.
        ("http::faults", &[]),
        ("http::media", &["resources"]),
        // A request, and what it gets.
        (
            "http::question",
            &[
                "audit",
                "auth",
                "http::media",
                "registry",
                "resources",
                "storage",
            ],
        ),
        (
            "http::answer",
            &[
                "basics",
                "http::media",
                "http::question",
                "registry",
                "resources",
                "storage",
            ],
        ),
        // What all requests share: documents, other servers, limits.
        (
            "http::openapi",
            &[
                "http::answer",
                "http::media",
                "http::question",
                "registry",
                "resources",
            ],
        ),
        (
            "http::aggregation",
            &[
                "auth",
                "basics",
                "http::openapi",
                "registry",
                "storage",
                "webhook",
            ],
        ),
        (
            "http::discovery",
            &[
                "http::aggregation",
                "http::answer",
                "http::media",
                "registry",
                "resources",
            ],
        ),
        ("http::limits", &["basics", "flow", "http::question"]),
        ("http::metrics", &["auth", "basics", "http::question"]),
        (
            "http::api",
            &[
                "audit",
                "flow",
                "http::aggregation",
                "http::discovery",
                "http::faults",
                "http::limits",
                "http::openapi",
                "registry",
                "storage",
            ],
        ),
        // What a path may lead to.
        (
            "http::health",
            &[
                "basics",
                "http::answer",
                "http::api",
                "http::limits",
                "http::question",
            ],
        ),
        (
            "http::nonresource",
            &[
                "auth",
                "basics",
                "flow",
                "http::answer",
                "http::api",
                "http::discovery",
                "http::health",
                "http::media",
                "http::metrics",
                "http::openapi",
                "http::question",
                "registry",
                "resources",
                "storage",
            ],
        ),
        (
            "http::call",
            &[
                "admission",
                "audit",
                "auth",
                "http::answer",
                "http::api",
                "http::media",
                "http::question",
                "registry",
                "resources",
                "storage",
            ],
        ),
        (
            "http::pass",
            &[
                "auth",
                "http::aggregation",
                "http::answer",
                "http::api",
                "http::question",
            ],
        ),
        // Connections, and what stands in front of every request.
        (
            "http::door",
            &[
                "audit",
                "auth",
                "basics",
                "flow",
                "http::answer",
                "http::api",
                "http::call",
                "http::faults",
                "http::limits",
                "http::media",
                "http::metrics",
                "http::nonresource",
                "http::pass",
                "http::question",
                "registry",
                "storage",
            ],
        ),
        // What follows objects that change the API, and writes what becomes of them.
        (
            "upkeep",
            &[
                "basics",
                "registry",
                "resources",
                "storage",
                "validate",
                "webhook",
            ],
        ),
        // What puts the layers together.
        (
            "setup",
            &[
                "admission",
                "audit",
                "auth",
                "basics",
                "http::faults",
                "http::limits",
                "storage",
            ],
        ),
        (
            "fuzzing",
            &[
                "auth",
                "http::media",
                "http::question",
                "registry",
                "resources",
                "storage",
                "validate",
            ],
        ),
    ],
    // Only HTTP knows how requests and answers are written.
    without: &[
        ("resources", &HTTP),
        ("storage", &HTTP),
        ("validate", &HTTP),
        ("admission", &HTTP),
        ("flow", &HTTP),
        ("registry", &HTTP),
        ("upkeep", &HTTP),
    ],
};

pub(super) const SERVER: Layers = Layers {
    sources: "server/src",
    modules: &[
        // What any layer may use.
        ("basics", &[]),
        ("config", &["basics"]),
        // What is replicated: the requests of the log, who may make them, what they change.
        ("request", &["basics"]),
        ("auth", &["basics", "config", "request"]),
        ("state", &["auth", "basics", "config", "request"]),
        // What operators see, and what connections are made of.
        ("telemetry", &["config", "request", "state"]),
        ("net", &["basics", "config", "telemetry"]),
        // Services and hosts that are found by name.
        ("dns", &["basics", "config", "net", "telemetry"]),
        // The actors, the messages between them, and the data directory that they start from.
        ("member::event", &["basics", "net", "request", "state"]),
        (
            "member::applier",
            &[
                "auth",
                "basics",
                "config",
                "member::event",
                "request",
                "state",
                "telemetry",
            ],
        ),
        (
            "member::data_dir",
            &[
                "basics",
                "config",
                "dns",
                "member::applier",
                "request",
                "state",
                "telemetry",
            ],
        ),
        (
            "member::cluster",
            &[
                "basics",
                "config",
                "dns",
                "member::data_dir",
                "member::event",
                "net",
                "request",
                "state",
                "telemetry",
            ],
        ),
        (
            "member::driver",
            &[
                "auth",
                "basics",
                "config",
                "member::applier",
                "member::cluster",
                "member::data_dir",
                "member::event",
                "request",
                "state",
                "telemetry",
            ],
        ),
        // Threads and queues.
        (
            "runtime",
            &[
                "auth",
                "basics",
                "config",
                "member::applier",
                "member::cluster",
                "member::data_dir",
                "member::driver",
                "member::event",
                "net",
                "request",
                "state",
                "telemetry",
            ],
        ),
        // The requests of clients: services, the calls that lead to them, the JSON gateway, pages,
        // and the listeners in front of all of them.
        (
            "api::grpc",
            &[
                "auth",
                "basics",
                "config",
                "member::event",
                "request",
                "runtime",
                "state",
                "telemetry",
            ],
        ),
        (
            "api::calls",
            &[
                "api::grpc",
                "auth",
                "basics",
                "config",
                "member::event",
                "runtime",
                "telemetry",
            ],
        ),
        ("api::page", &[]),
        ("api::version", &["config", "runtime"]),
        (
            "api::gateway",
            &["api::calls", "api::page", "config", "member::event"],
        ),
        (
            "api::http",
            &[
                "api::calls",
                "api::gateway",
                "api::page",
                "api::version",
                "basics",
                "config",
                "member::event",
                "runtime",
                "telemetry",
            ],
        ),
        (
            "api::serve",
            &[
                "api::calls",
                "api::gateway",
                "api::http",
                "config",
                "member::event",
                "net",
                "runtime",
                "telemetry",
            ],
        ),
        (
            "api::peer",
            &[
                "api::serve",
                "api::version",
                "basics",
                "config",
                "member::cluster",
                "member::event",
                "net",
                "runtime",
                "telemetry",
            ],
        ),
        // Who founds a cluster.
        (
            "discovery",
            &["config", "dns", "member::data_dir", "net", "telemetry"],
        ),
        // A server from start to stop.
        (
            "lifecycle",
            &[
                "api::peer",
                "api::serve",
                "basics",
                "config",
                "discovery",
                "member::cluster",
                "member::data_dir",
                "member::event",
                "net",
                "request",
                "runtime",
                "state",
                "telemetry",
            ],
        ),
        // The gateway, which knows nothing of members.
        (
            "tcp_proxy",
            &["basics", "config", "dns", "lifecycle", "net", "telemetry"],
        ),
        // A process before a cluster, which has no member in it.
        (
            "proxy",
            &[
                "api::calls",
                "api::http",
                "api::page",
                "api::serve",
                "basics",
                "config",
                "dns",
                "lifecycle",
                "member::cluster",
                "member::event",
                "net",
                "telemetry",
            ],
        ),
        (
            "fuzzing",
            &[
                "api::gateway",
                "api::serve",
                "auth",
                "basics",
                "config",
                "member::cluster",
                "net",
                "request",
                "state",
            ],
        ),
    ],
    // Only the edges know how requests and answers travel.
    without: &[
        ("request", &HTTP),
        ("auth", &HTTP),
        ("state", &HTTP),
        ("member::event", &HTTP),
        ("member::applier", &HTTP),
        ("member::data_dir", &HTTP),
        ("member::driver", &HTTP),
        ("runtime", &HTTP),
    ],
};

pub(super) const RAFT: Layers = Layers {
    sources: "raft/src",
    modules: &[
        ("message", &[]),
        ("io", &["message"]),
        ("wire", &["message"]),
        ("bootstrap", &["io", "message", "wire"]),
        ("log", &["io", "message"]),
        ("membership", &["message"]),
        ("state", &["io", "log", "membership", "message"]),
        // The roles, and the member that has one of them.
        ("role", &["io", "log", "membership", "message", "state"]),
        ("raft", &["io", "membership", "message", "role", "state"]),
        ("durable", &["io", "log", "message"]),
        ("fuzzing", &["io", "message", "raft", "wire"]),
    ],
    // Agreement knows nothing of storage; only its log writer does.
    without: &[
        ("io", &["storage"]),
        ("log", &["storage"]),
        ("state", &["storage"]),
        ("role", &["storage"]),
        ("raft", &["storage"]),
    ],
};

pub(super) const STORAGE: Layers = Layers {
    sources: "storage/src",
    modules: &[
        ("sync", &[]),
        ("codec", &[]),
        ("memory", &[]),
        ("vfs", &[]),
        ("error", &["vfs"]),
        ("atomic_file", &["error", "vfs"]),
        ("encryption", &["atomic_file", "codec", "error", "vfs"]),
        ("wal", &["codec", "encryption", "error", "vfs"]),
        (
            "btree",
            &["atomic_file", "codec", "encryption", "error", "sync", "vfs"],
        ),
        (
            "mvcc",
            &["btree", "codec", "encryption", "error", "sync", "vfs"],
        ),
        ("inspect", &["encryption", "error", "mvcc", "vfs", "wal"]),
        ("fuzzing", &["btree", "error", "mvcc", "vfs", "wal"]),
    ],
    without: &[],
};

pub(super) const MACHINERY: Layers = Layers {
    sources: "control-plane/machinery/src",
    modules: &[
        // Values, what is said of them, and the objects made of them.
        ("basics", &[]),
        ("status", &[]),
        ("values", &[]),
        ("schema", &[]),
        ("strict", &["basics", "schema", "values"]),
        ("object", &["schema", "values"]),
        // What objects need of resources.
        ("resources", &["object", "values"]),
        // How they are changed in part, and written in protobuf: what managers own in its order.
        ("edit", &["basics", "object", "schema", "strict", "values"]),
        (
            "protobuf",
            &["basics", "edit", "object", "schema", "values"],
        ),
        // Custom resources.
        (
            "custom",
            &["basics", "edit", "schema", "status", "strict", "values"],
        ),
        // The API as the control loops see it.
        ("api", &["edit", "object", "schema", "status", "values"]),
        (
            "fuzzing",
            &["custom", "edit", "object", "protobuf", "schema", "strict"],
        ),
    ],
    without: &[],
};

pub(super) const CONTROLLERS: Layers = Layers {
    sources: "control-plane/controllers/src",
    modules: &[
        // What objects and kinds there are, and what is known of them.
        ("gone", &[]),
        ("kinds", &[]),
        ("known", &[]),
        ("meta", &["known"]),
        ("scalings", &["known"]),
        ("graph", &["gone"]),
        ("job_pods", &["meta"]),
        ("used_claims", &["known", "meta"]),
        (
            "cache",
            &[
                "gone",
                "graph",
                "job_pods",
                "kinds",
                "known",
                "meta",
                "scalings",
                "used_claims",
            ],
        ),
        // What loops decide, and the loops.
        (
            "decision",
            &["kinds", "known", "meta", "scalings", "used_claims"],
        ),
        ("pods", &["cache", "decision", "known", "meta"]),
        ("revisions", &["cache", "decision", "known", "meta", "pods"]),
        ("services", &["cache", "known", "meta", "pods"]),
        (
            "loops",
            &[
                "cache",
                "decision",
                "graph",
                "job_pods",
                "kinds",
                "known",
                "meta",
                "pods",
                "revisions",
                "scalings",
                "services",
                "used_claims",
            ],
        ),
        ("selection", &["loops"]),
        // What feeds them and carries out what they decide.
        ("recorder", &["decision"]),
        ("sources", &["cache", "known", "loops"]),
        ("manager", &["cache", "decision", "kinds", "known", "loops"]),
        (
            "shell",
            &[
                "cache",
                "decision",
                "kinds",
                "loops",
                "manager",
                "recorder",
                "selection",
                "sources",
            ],
        ),
    ],
    // Only the shell has a client.
    without: &[
        ("loops", &["kube", "tokio"]),
        ("manager", &["kube", "tokio"]),
    ],
};
