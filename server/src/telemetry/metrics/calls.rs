//! Counters of gRPC calls: one block per method, looked up once per call.

use super::cost::Deed;
use super::text::{Text, Type};
use super::value::{Counter, Histogram, Unit};
use crate::telemetry::prefix::Form;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallType {
    Unary,
    ServerStream,
    BidiStream,
}

impl CallType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            CallType::Unary => "unary",
            CallType::ServerStream => "server_stream",
            CallType::BidiStream => "bidi_stream",
        }
    }
}

/// The services of the client port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Service {
    Auth,
    Cluster,
    Kv,
    Lease,
    Maintenance,
    Watch,
    Health,
    Election,
    Lock,
    Usage,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Auth => "etcdserverpb.Auth",
            Service::Cluster => "etcdserverpb.Cluster",
            Service::Kv => "etcdserverpb.KV",
            Service::Lease => "etcdserverpb.Lease",
            Service::Maintenance => "etcdserverpb.Maintenance",
            Service::Watch => "etcdserverpb.Watch",
            Service::Health => "grpc.health.v1.Health",
            Service::Election => "v3electionpb.Election",
            Service::Lock => "v3lockpb.Lock",
            Service::Usage => "stele.Usage",
        }
    }

    /// etcd does not count calls of its lock and election services, and it has no other services.
    fn counted(self) -> bool {
        self < Service::Election
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub path: &'static str,
    pub service: Service,
    pub call_type: CallType,
}

impl Method {
    pub(crate) fn name(&self) -> &'static str {
        self.path.rsplit_once('/').map_or("", |(_, name)| name)
    }

    /// The kind of work its calls are charged as, and where their requests hold a key.
    fn charged(&self) -> (Deed, Option<Form>) {
        match (self.service, self.name()) {
            (Kv, "Range" | "RangeStream") => (Deed::Range, Some(Form::Key)),
            (Kv, "Put") => (Deed::Put, Some(Form::Key)),
            (Kv, "DeleteRange") => (Deed::DeleteRange, Some(Form::Key)),
            (Kv, "Txn") => (Deed::Txn, Some(Form::Txn)),
            (Watch, _) => (Deed::Watch, None),
            (Lease, _) => (Deed::Lease, None),
            _ => (Deed::Else, None),
        }
    }
}

const fn unary(service: Service, path: &'static str) -> Method {
    Method {
        path,
        service,
        call_type: CallType::Unary,
    }
}

const fn stream(service: Service, path: &'static str, call_type: CallType) -> Method {
    Method {
        path,
        service,
        call_type,
    }
}

use CallType::{BidiStream, ServerStream};
use Service::{Auth, Cluster, Election, Health, Kv, Lease, Lock, Maintenance, Usage, Watch};

/// All methods, sorted by path.
#[rustfmt::skip]
pub(crate) const METHODS: &[Method] = &[
    unary(Auth, "/etcdserverpb.Auth/AuthDisable"),
    unary(Auth, "/etcdserverpb.Auth/AuthEnable"),
    unary(Auth, "/etcdserverpb.Auth/AuthStatus"),
    unary(Auth, "/etcdserverpb.Auth/Authenticate"),
    unary(Auth, "/etcdserverpb.Auth/RoleAdd"),
    unary(Auth, "/etcdserverpb.Auth/RoleDelete"),
    unary(Auth, "/etcdserverpb.Auth/RoleGet"),
    unary(Auth, "/etcdserverpb.Auth/RoleGrantPermission"),
    unary(Auth, "/etcdserverpb.Auth/RoleList"),
    unary(Auth, "/etcdserverpb.Auth/RoleRevokePermission"),
    unary(Auth, "/etcdserverpb.Auth/UserAdd"),
    unary(Auth, "/etcdserverpb.Auth/UserChangePassword"),
    unary(Auth, "/etcdserverpb.Auth/UserDelete"),
    unary(Auth, "/etcdserverpb.Auth/UserGet"),
    unary(Auth, "/etcdserverpb.Auth/UserGrantRole"),
    unary(Auth, "/etcdserverpb.Auth/UserList"),
    unary(Auth, "/etcdserverpb.Auth/UserRevokeRole"),
    unary(Cluster, "/etcdserverpb.Cluster/MemberAdd"),
    unary(Cluster, "/etcdserverpb.Cluster/MemberList"),
    unary(Cluster, "/etcdserverpb.Cluster/MemberPromote"),
    unary(Cluster, "/etcdserverpb.Cluster/MemberRemove"),
    unary(Cluster, "/etcdserverpb.Cluster/MemberUpdate"),
    unary(Kv, "/etcdserverpb.KV/Compact"),
    unary(Kv, "/etcdserverpb.KV/DeleteRange"),
    unary(Kv, "/etcdserverpb.KV/Put"),
    unary(Kv, "/etcdserverpb.KV/Range"),
    stream(Kv, "/etcdserverpb.KV/RangeStream", ServerStream),
    unary(Kv, "/etcdserverpb.KV/Txn"),
    unary(Lease, "/etcdserverpb.Lease/LeaseGrant"),
    stream(Lease, "/etcdserverpb.Lease/LeaseKeepAlive", BidiStream),
    unary(Lease, "/etcdserverpb.Lease/LeaseLeases"),
    unary(Lease, "/etcdserverpb.Lease/LeaseRevoke"),
    unary(Lease, "/etcdserverpb.Lease/LeaseTimeToLive"),
    unary(Maintenance, "/etcdserverpb.Maintenance/Alarm"),
    unary(Maintenance, "/etcdserverpb.Maintenance/Defragment"),
    unary(Maintenance, "/etcdserverpb.Maintenance/Downgrade"),
    unary(Maintenance, "/etcdserverpb.Maintenance/Hash"),
    unary(Maintenance, "/etcdserverpb.Maintenance/HashKV"),
    unary(Maintenance, "/etcdserverpb.Maintenance/MoveLeader"),
    stream(Maintenance, "/etcdserverpb.Maintenance/Snapshot", ServerStream),
    unary(Maintenance, "/etcdserverpb.Maintenance/Status"),
    stream(Watch, "/etcdserverpb.Watch/Watch", BidiStream),
    unary(Health, "/grpc.health.v1.Health/Check"),
    unary(Health, "/grpc.health.v1.Health/List"),
    stream(Health, "/grpc.health.v1.Health/Watch", ServerStream),
    unary(Usage, "/stele.Usage/Prefix"),
    unary(Election, "/v3electionpb.Election/Campaign"),
    unary(Election, "/v3electionpb.Election/Leader"),
    stream(Election, "/v3electionpb.Election/Observe", ServerStream),
    unary(Election, "/v3electionpb.Election/Proclaim"),
    unary(Election, "/v3electionpb.Election/Resign"),
    unary(Lock, "/v3lockpb.Lock/Lock"),
    unary(Lock, "/v3lockpb.Lock/Unlock"),
];

/// Position in [`METHODS`].
pub(crate) fn find(path: &str) -> Option<usize> {
    METHODS
        .binary_search_by(|method| method.path.cmp(path))
        .ok()
}

/// gRPC's status codes by number, as Go spells them.
pub(crate) const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Prometheus' default bounds, which etcd uses for calls.
const HANDLING_BOUNDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The counters of one method.
#[derive(Debug)]
pub(crate) struct Call {
    pub started: Counter,
    pub received: Counter,
    pub sent: Counter,
    handled: [Counter; CODES.len()],
    /// Observed only with `--metrics=extensive`.
    pub handling: Histogram,
    pub(crate) deed: Deed,
    /// `None` if its requests have no key.
    pub(crate) form: Option<Form>,
}

impl Call {
    fn new(method: &Method) -> Call {
        let (deed, form) = method.charged();
        Call {
            started: Counter::default(),
            received: Counter::default(),
            sent: Counter::default(),
            handled: Default::default(),
            handling: Histogram::with_bounds(Unit::Seconds, HANDLING_BOUNDS),
            deed,
            form,
        }
    }

    /// A call ended with this status code. Codes outside gRPC's count as Unknown.
    pub(crate) fn handled(&self, code: usize) {
        self.handled.get(code).unwrap_or(&self.handled[2]).inc();
    }
}

/// One [`Call`] per entry of [`METHODS`].
#[derive(Debug)]
pub(crate) struct Calls(Box<[Call]>);

impl Default for Calls {
    fn default() -> Self {
        Calls(METHODS.iter().map(Call::new).collect())
    }
}

impl Calls {
    /// `index` comes from [`find`].
    pub(crate) fn of(&self, index: usize) -> &Call {
        &self.0[index]
    }

    pub(super) fn write(&self, extensive: bool, text: &mut Text) {
        for (method, call) in METHODS.iter().zip(&self.0) {
            if !method.service.counted() {
                continue;
            }
            let labels = [
                ("grpc_method", method.name()),
                ("grpc_service", method.service.name()),
                ("grpc_type", method.call_type.name()),
            ];
            for (name, counter, help) in [
                ("grpc_server_started_total", &call.started, "Calls begun."),
                (
                    "grpc_server_msg_received_total",
                    &call.received,
                    "Messages of calls received.",
                ),
                (
                    "grpc_server_msg_sent_total",
                    &call.sent,
                    "Messages of calls sent.",
                ),
            ] {
                text.family(name, Type::Counter, help)
                    .sample(&labels, counter.get() as f64);
            }
            let mut handled = text.family(
                "grpc_server_handled_total",
                Type::Counter,
                "Calls ended, by status code.",
            );
            for (code, counter) in CODES.iter().zip(&call.handled) {
                let labels = [("grpc_code", *code), labels[0], labels[1], labels[2]];
                handled.sample(&labels, counter.get() as f64);
            }
            if extensive
                && call
                    .handling
                    .read()
                    .0
                    .last()
                    .is_some_and(|bucket| bucket.1 > 0)
            {
                text.family(
                    "grpc_server_handling_seconds",
                    Type::Histogram,
                    "Time from the first to the last byte of a call.",
                )
                .histogram(&labels, &call.handling);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_by_path() {
        assert!(METHODS.is_sorted_by(|a, b| a.path < b.path));
        for (index, method) in METHODS.iter().enumerate() {
            assert_eq!(find(method.path), Some(index));
            assert!(
                method
                    .path
                    .starts_with(&format!("/{}/", method.service.name()))
            );
        }
        assert_eq!(find("/etcdserverpb.KV/Nope"), None);
    }
}
