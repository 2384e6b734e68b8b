//! Names and groups that mean something to the system, and what is asked in short.

use machinery::name;

use super::{Attributes, User};

/// Everybody who showed who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of whoever shows nothing.
pub const ANONYMOUS: &str = "system:anonymous";
/// What names of service accounts begin with.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The key of what tells one credential of a user from another.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

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

/// Namespace and name of the service account that a user is, if it is one.
pub fn service_account(user_name: &str) -> Option<(&str, &str)> {
    let (namespace, account) = user_name
        .strip_prefix(SERVICE_ACCOUNT_PREFIX)?
        .split_once(':')?;
    let valid =
        name::dns1123_label(namespace).is_empty() && name::dns1123_subdomain(account).is_empty();
    valid.then_some((namespace, account))
}

impl User {
    /// Adds the group of all who are known, unless it is there or the user is anonymous.
    pub fn authenticated(mut self) -> User {
        let known = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(known) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }

    /// Whoever shows nothing.
    pub fn anonymous() -> User {
        User {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..User::default()
        }
    }
}

impl Attributes {
    /// Whether it is about a resource, not just a path.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}
