//! Every error that a client can see: etcd's status code and etcd's text, because clients match on
//! both. The table follows etcd's `rpctypes`; `Other` carries the few texts that have no entry
//! there.

use std::fmt;

use tonic::{Code, Status};

/// Generates the enum from one list: variant, status code, and text after `etcdserver: `.
macro_rules! errors {
    ($($name:ident => $code:ident, $text:literal;)*) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Error {
            $($name,)*
            /// A file is damaged or cannot be read. A read returns this error and the server keeps
            /// running; the applier has to stop.
            Damaged(String),
            /// A text outside etcd's table, sent unchanged.
            Other(Code, String),
        }

        impl Error {
            pub fn code(&self) -> Code {
                match self {
                    $(Error::$name => Code::$code,)*
                    Error::Damaged(_) => Code::DataLoss,
                    Error::Other(code, _) => *code,
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Error::$name => f.write_str(concat!("etcdserver: ", $text)),)*
                    Error::Damaged(what) => write!(f, "etcdserver: {what}"),
                    Error::Other(_, text) => f.write_str(text),
                }
            }
        }
    };
}

errors! {
    EmptyKey => InvalidArgument, "key is not provided";
    KeyNotFound => InvalidArgument, "key not found";
    ValueProvided => InvalidArgument, "value is provided";
    LeaseProvided => InvalidArgument, "lease is provided";
    TooManyOps => InvalidArgument, "too many operations in txn request";
    DuplicateKey => InvalidArgument, "duplicate key given in txn request";
    InvalidClientApiVersion => InvalidArgument, "invalid client api version";
    InvalidSortOption => InvalidArgument, "invalid sort option";
    RequestTooLarge => InvalidArgument, "request is too large";
    Compacted => OutOfRange, "mvcc: required revision has been compacted";
    FutureRevision => OutOfRange, "mvcc: required revision is a future revision";
    LeaseTtlTooLarge => OutOfRange, "too large lease TTL";
    NoSpace => ResourceExhausted, "mvcc: database space exceeded";
    LeaseNotFound => NotFound, "requested lease not found";
    LeaseExists => FailedPrecondition, "lease already exists";
    MemberNotFound => NotFound, "member not found";
    MemberExists => FailedPrecondition, "member ID already exist";
    PeerUrlExists => FailedPrecondition, "Peer URLs already exists";
    NotLearner => FailedPrecondition, "can only promote a learner member";
    LearnerNotReady => FailedPrecondition, "can only promote a learner member which is in sync with leader";
    TooManyLearners => FailedPrecondition, "too many learner members in cluster";
    BadMemberUrls => InvalidArgument, "given member URLs are invalid";
    NotSupportedForLearner => FailedPrecondition, "rpc not supported for learner";
    Unhealthy => Unavailable, "unhealthy cluster";
    // etcd defines FailedPrecondition, but clients receive Unknown.
    NotEnoughStarted => Unknown, "re-configuration failed due to not enough started members";
    NotLeader => FailedPrecondition, "not leader";
    WrongDowngradeVersion => InvalidArgument, "wrong downgrade target version format";
    BadDowngradeTarget => InvalidArgument, "invalid downgrade target version";
    NoClusterVersion => FailedPrecondition, "cluster version not found during downgrade";
    DowngradeInProgress => FailedPrecondition, "cluster has a downgrade job in progress";
    BadLeaderTransferee => FailedPrecondition, "bad leader transferee";
    NoLeader => Unavailable, "no leader";
    Stopped => Unavailable, "server stopped";
    Timeout => Unavailable, "request timed out";
    TimeoutByLeader => Unavailable, "request timed out, possibly due to previous leader failure";
    TimeoutByConnection => Unavailable, "request timed out, possibly due to connection lost";
    Corrupt => DataLoss, "corrupt cluster";
    // etcd defines ResourceExhausted, but clients receive Unknown.
    TooManyRequests => Unknown, "too many requests";
    UnknownMethod => Unknown, "unknown method";
    RootUserNotFound => FailedPrecondition, "root user does not exist";
    RootRoleNotGranted => FailedPrecondition, "root user does not have root role";
    UserExists => FailedPrecondition, "user name already exists";
    UserEmpty => InvalidArgument, "user name is empty";
    UserNotFound => FailedPrecondition, "user name not found";
    RoleExists => FailedPrecondition, "role name already exists";
    RoleNotFound => FailedPrecondition, "role name not found";
    RoleEmpty => InvalidArgument, "role name is empty";
    AuthFailed => InvalidArgument, "authentication failed, invalid user ID or password";
    PermissionNotGiven => InvalidArgument, "permission not given";
    PermissionDenied => PermissionDenied, "permission denied";
    RoleNotGranted => FailedPrecondition, "role is not granted to the user";
    PermissionNotGranted => FailedPrecondition, "permission is not granted to the role";
    AuthNotEnabled => FailedPrecondition, "authentication is not enabled";
    InvalidAuthToken => Unauthenticated, "invalid auth token";
    InvalidAuthManagement => InvalidArgument, "invalid auth management";
    AuthOldRevision => InvalidArgument, "revision of auth store is old";
}

impl Error {
    /// etcd's error, outside its table, for a password sent for a user without one.
    pub fn no_password_user() -> Error {
        let text = "auth: authentication failed, password was given for no password user";
        Error::Other(Code::Unknown, text.to_owned())
    }

    /// True if the outcome is unknown: the request may still be applied.
    pub fn is_timeout(&self) -> bool {
        matches!(
            self,
            Error::Timeout | Error::TimeoutByLeader | Error::TimeoutByConnection
        )
    }
}

impl std::error::Error for Error {}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        Status::new(error.code(), error.to_string())
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Error {
        Error::Damaged(error.to_string())
    }
}
