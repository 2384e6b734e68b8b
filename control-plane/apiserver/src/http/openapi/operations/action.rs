//! What can be done with a collection or an object, and how operations name it.

use Action::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch, WatchList};

/// What is done with a collection or an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    List,
    Create,
    DeleteCollection,
    Get,
    Update,
    Patch,
    Delete,
    WatchList,
    Watch,
}

impl Action {
    /// The verb in discovery.
    pub(super) fn verb(self) -> &'static str {
        match self {
            List => "list",
            Create => "create",
            DeleteCollection => "deletecollection",
            Get => "get",
            Update => "update",
            Patch => "patch",
            Delete => "delete",
            WatchList | Watch => "watch",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            List | Get | WatchList | Watch => "get",
            Create => "post",
            Update => "put",
            Patch => "patch",
            Delete | DeleteCollection => "delete",
        }
    }

    /// `x-kubernetes-action`.
    pub(super) fn name(self) -> &'static str {
        match self {
            List => "list",
            DeleteCollection => "deletecollection",
            WatchList => "watchlist",
            Watch => "watch",
            other => other.method(),
        }
    }

    /// How the operation's name begins.
    pub(super) fn begins(self) -> &'static str {
        match self {
            List => "list",
            Create => "create",
            DeleteCollection | Delete => "delete",
            Get => "read",
            Update => "replace",
            Patch => "patch",
            WatchList | Watch => "watch",
        }
    }

    pub(super) fn codes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Create => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            Update | Patch => &[("200", "OK"), ("201", "Created")],
            Delete => &[("200", "OK"), ("202", "Accepted")],
            _ => &[("200", "OK")],
        }
    }
}
