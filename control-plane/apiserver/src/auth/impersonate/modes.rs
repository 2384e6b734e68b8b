//! The ways to impersonate, and the rights that each takes.
//!
//! Four modes are constrained: besides the verb for whom to act as, such as `impersonate:user-info`,
//! they take one for what to do as that user, such as `impersonate-on:user-info:list` on pods. The
//! fifth is older: its verb `impersonate` alone opens all that the other user may do.

use std::collections::BTreeMap;

use machinery::name;
use machinery::status::Status;

use super::{Rights, extra};
use crate::auth::authorize::rbac::{MASTERS, forbidden};
use crate::auth::user::{
    ANONYMOUS, AUTHENTICATED, NODE_NAME, NODE_PREFIX, NODES, UNAUTHENTICATED, service_account,
    service_account_groups,
};
use crate::auth::{Attributes, User};

const AUTHENTICATION: &str = "authentication.k8s.io";
/// From this number of groups or of values on, the right to all of them is looked for first.
const MANY: usize = 4;
/// All that authorization learns of the extra attributes of an agent that acts as its node.
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";

/// A way to impersonate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A service account acts as the node that its pod runs on.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    ServiceAccount,
    /// Users that are neither.
    UserInfo,
    /// The verb `impersonate`.
    Legacy,
}

impl Mode {
    /// In the order in which they are tried.
    pub(super) const ALL: [Mode; 5] = [
        Mode::AssociatedNode,
        Mode::ArbitraryNode,
        Mode::ServiceAccount,
        Mode::UserInfo,
        Mode::Legacy,
    ];

    /// The verb for a user, a group or another attribute.
    fn verb(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "impersonate:associated-node",
            Mode::ArbitraryNode => "impersonate:arbitrary-node",
            Mode::ServiceAccount => "impersonate:serviceaccount",
            Mode::UserInfo => "impersonate:user-info",
            Mode::Legacy => "impersonate",
        }
    }

    fn is_constrained(self) -> bool {
        self != Mode::Legacy
    }

    /// What the audit log says of it.
    pub(super) fn constraint(self) -> &'static str {
        if self.is_constrained() {
            self.verb()
        } else {
            ""
        }
    }

    /// True if the mode is for such a user.
    pub(super) fn is_for(self, wanted: &User, requester: &User) -> bool {
        let name_alone =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node(&wanted.name);
        match self {
            Mode::AssociatedNode => {
                let own = match requester.extra.get(NODE_NAME).map(Vec::as_slice) {
                    Some([one]) => Some(one.as_str()),
                    _ => None,
                };
                let is_account = service_account(&requester.name).is_some();
                name_alone && is_account && node.is_some() && node == own
            }
            Mode::ArbitraryNode => name_alone && node.is_some(),
            Mode::ServiceAccount => name_alone && service_account(&wanted.name).is_some(),
            Mode::UserInfo => node.is_none() && service_account(&wanted.name).is_none(),
            Mode::Legacy => true,
        }
    }

    /// Returns the user that the request is served as, if its requester has all the rights.
    pub(super) async fn check(
        self,
        rights: &dyn Rights,
        wanted: &User,
        asked: &Attributes,
    ) -> Result<User, Status> {
        let check = Check {
            mode: self,
            rights,
            requester: self.shown(&asked.user),
        };
        if self.is_constrained() {
            let name = self.verb().trim_start_matches("impersonate:");
            let on = Attributes {
                verb: format!("impersonate-on:{name}:{}", asked.verb),
                user: check.requester.clone(),
                ..asked.clone()
            };
            rights.check(&on).await?;
        }
        let mut user = wanted.clone();
        check.name(&mut user).await?;
        if !wanted.uid.is_empty() {
            let uid = check.about(AUTHENTICATION, "uids", &wanted.uid);
            rights.check(&uid).await?;
        }
        check.groups(&wanted.groups).await?;
        check.extra(&wanted.extra).await?;
        let unknown = UNAUTHENTICATED.to_owned();
        let more = if user.name == ANONYMOUS {
            unknown
        } else if user.groups.contains(&unknown) {
            return Ok(user);
        } else {
            AUTHENTICATED.to_owned()
        };
        if !user.groups.contains(&more) {
            user.groups.push(more);
        }
        Ok(user)
    }

    /// The requester as authorization sees it. An agent has the same rights on every node.
    fn shown(self, requester: &User) -> User {
        let mut shown = requester.clone();
        if self == Mode::AssociatedNode {
            let keys = shown.extra.into_keys().collect();
            shown.extra = BTreeMap::from([(NODE_KEYS.to_owned(), keys)]);
        }
        shown
    }
}

/// The checks of one impersonation.
struct Check<'a> {
    mode: Mode,
    rights: &'a dyn Rights,
    requester: User,
}

impl Check<'_> {
    fn about(&self, group: &str, resource: &str, name: &str) -> Attributes {
        Attributes {
            user: self.requester.clone(),
            verb: self.mode.verb().into(),
            of_resource: true,
            api_group: group.into(),
            api_version: "v1".into(),
            resource: resource.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    /// The API group of users and groups.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() {
            AUTHENTICATION
        } else {
            ""
        }
    }

    /// Checks the name, and fills in the groups that come with it.
    async fn name(&self, user: &mut User) -> Result<(), Status> {
        let mut asked = self.about(self.group(), "users", &user.name);
        if self.mode.is_constrained()
            && let Some(node) = node(&user.name)
        {
            asked.resource = "nodes".into();
            asked.name = match self.mode {
                Mode::AssociatedNode => "*".into(),
                _ => node.to_owned(),
            };
            user.groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, account)) = service_account(&user.name) {
            asked.resource = "serviceaccounts".into();
            asked.namespace = namespace.into();
            asked.name = account.into();
            if user.groups.is_empty() {
                user.groups = service_account_groups(namespace);
            }
        }
        self.rights.check(&asked).await
    }

    async fn groups(&self, groups: &[String]) -> Result<(), Status> {
        let about = |group: &str| self.about(self.group(), "groups", group);
        if self.mode.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(forbidden(&about(""), why));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(forbidden(&about(MASTERS), why));
            }
            if groups.len() >= MANY && self.rights.check(&about("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.rights.check(&about(group)).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let about = |key: &str, value: &str| Attributes {
            subresource: key.into(),
            ..self.about(AUTHENTICATION, "userextras", value)
        };
        if self.mode.is_constrained() {
            extra::check(extra).map_err(|why| forbidden(&about("", ""), &why))?;
            let values: usize = extra.values().map(Vec::len).sum();
            let is_large = extra.len() >= MANY || values >= MANY;
            if is_large && self.rights.check(&about("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.rights.check(&about(key, value)).await?;
            }
        }
        Ok(())
    }
}

/// The name of the node in the name of a user.
fn node(user: &str) -> Option<&str> {
    let node = user.strip_prefix(NODE_PREFIX)?;
    name::dns1123_subdomain(node).is_empty().then_some(node)
}
