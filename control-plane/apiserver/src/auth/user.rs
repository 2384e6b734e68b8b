//! Names and groups with a meaning to the system, and helpers for users and attributes.

use machinery::name;

use super::{Attributes, User};

/// Group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// User name of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// Prefix of the user names of service accounts.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Prefix of the user names of nodes.
pub(crate) const NODE_PREFIX: &str = "system:node:";
/// Group of the users that are nodes.
pub(crate) const NODES: &str = "system:nodes";
/// Key in `extra` with the node of a service account's pod.
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// Key in `extra` that identifies the credential.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The annotation of an event about a new token, with the value of [`CREDENTIAL_ID`] for it.
pub(crate) const ISSUED_CREDENTIAL_ID: &str = "authentication.kubernetes.io/issued-credential-id";

/// The user name of a service account.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of a service account.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".into(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// Splits the user name of a service account into namespace and name; `None` for other users.
pub fn service_account(user_name: &str) -> Option<(&str, &str)> {
    let (namespace, account) = user_name
        .strip_prefix(SERVICE_ACCOUNT_PREFIX)?
        .split_once(':')?;
    let valid =
        name::dns1123_label(namespace).is_empty() && name::dns1123_subdomain(account).is_empty();
    valid.then_some((namespace, account))
}

/// The name of the node that a user is; `None` for other users. It may be empty.
pub fn node_name(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(NODE_PREFIX)?;
    let is_node = user.groups.iter().any(|group| group == NODES);
    is_node.then_some(name)
}

impl User {
    /// Adds the group of all authenticated users, unless the user is in it or is anonymous.
    pub fn authenticated(mut self) -> User {
        let known = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(known) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }

    /// True for this process itself: only it is a user without a name, because no authenticator
    /// lets one in. Nobody asks it for rights, and neither policies nor webhooks see its writes.
    pub fn is_this_process(&self) -> bool {
        self.name.is_empty()
    }

    /// The user of a request without credentials.
    pub fn anonymous() -> User {
        User {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..User::default()
        }
    }
}

impl Attributes {
    /// True for a request about a resource, false for a plain path.
    pub fn is_resource(&self) -> bool {
        self.of_resource || !self.resource.is_empty()
    }
}
