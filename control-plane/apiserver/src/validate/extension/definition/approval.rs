//! Approval of definitions in the groups of Kubernetes itself: an annotation names the decision.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
/// ASCII that Go allows in the host of a URL besides letters and digits.
const OF_HOSTS: &[u8] = b"-_.~!$&'()*+,;=:[]<>\"";

/// What the annotation of a definition says.
#[derive(Debug)]
pub(crate) struct Approval<'a> {
    pub(crate) state: State,
    annotation: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The annotation is the URL of the decision.
    Approved,
    /// The annotation says that there is no approval.
    Bypassed,
    Missing,
    /// The annotation is something else.
    Invalid,
}

impl Approval<'_> {
    /// The approval of a definition; `None` if its group needs none.
    pub(crate) fn of(definition: &Value) -> Option<Approval<'_>> {
        let group = object::text(definition, &["spec", "group"]);
        let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
            let below = group.strip_suffix(domain);
            below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
        });
        let annotation = object::annotation(definition, ANNOTATION).unwrap_or_default();
        let state = match annotation {
            "" => State::Missing,
            text if text.starts_with("unapproved") => State::Bypassed,
            text if has_host(text) => State::Approved,
            _ => State::Invalid,
        };
        protected.then_some(Approval { state, annotation })
    }

    /// The state in the words of Kubernetes.
    pub(crate) fn told(&self) -> String {
        let annotation = self.annotation;
        match self.state {
            State::Approved => format!("approved in {annotation}"),
            State::Bypassed => format!("not approved: {annotation:?}"),
            State::Missing => {
                format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}")
            }
            State::Invalid => format!(
                "protected groups must have approval annotation {ANNOTATION:?} with either a URL \
                 or a reason starting with \"unapproved\", {SEE}"
            ),
        }
    }

    /// What is wrong with the annotation, if anything is.
    pub(super) fn cause(&self) -> Option<Cause> {
        let field = format!("metadata.annotations[{ANNOTATION}]");
        match self.state {
            State::Approved | State::Bypassed => None,
            State::Missing => Some(Cause::required(&field, &self.told())),
            State::Invalid => {
                let value = self.annotation.into();
                Some(Cause::invalid(&field, &value, &self.told()))
            }
        }
    }
}

/// True if the text is an absolute URL with a host, as Go reads URLs of requests.
fn has_host(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let (place, _) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.find('/').map_or((place, ""), |at| place.split_at(at));
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut letters = scheme.bytes();
    let is_scheme = letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|one| one.is_ascii_alphanumeric() || b"+-.".contains(&one));
    let is_host = !host.is_empty()
        && host
            .bytes()
            .all(|one| !one.is_ascii() || one.is_ascii_alphanumeric() || OF_HOSTS.contains(&one));
    is_scheme && is_host && !text.contains(|one: char| one.is_ascii_control()) && is_escaped(path)
}

/// True if two hexadecimal digits follow every percent sign.
fn is_escaped(path: &str) -> bool {
    path.split('%').skip(1).all(|after| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(group: &str, annotation: &str) -> Option<State> {
        let definition = json!({"spec": {"group": group},
            "metadata": {"annotations": {ANNOTATION: annotation}}});
        Approval::of(&definition).map(|approval| approval.state)
    }

    #[test]
    fn only_groups_of_kubernetes_need_approval() {
        for group in ["k8s.io", "x.k8s.io", "kubernetes.io", "a.b.kubernetes.io"] {
            assert_eq!(state(group, ""), Some(State::Missing), "{group}");
        }
        for group in ["", "ak8s.io", "k8s.io.example.com", "mykubernetes.io"] {
            assert_eq!(state(group, ""), None, "{group}");
        }
    }

    #[test]
    fn a_url_with_a_host_approves() {
        for (text, expected) in [
            (
                "https://github.com/kubernetes/kubernetes/pull/1",
                State::Approved,
            ),
            ("https://user@example.com:80?x", State::Approved),
            ("a+b://h/%2F", State::Approved),
            ("unapproved, experimental-only", State::Bypassed),
            ("unapproved://example.com", State::Bypassed),
            ("https://", State::Invalid),
            ("https:///path", State::Invalid),
            ("https://?query", State::Invalid),
            ("https://a b/", State::Invalid),
            ("https://a/\n", State::Invalid),
            ("https://a/%2", State::Invalid),
            ("1http://a", State::Invalid),
            ("mailto:somebody@example.com", State::Invalid),
            ("example.com", State::Invalid),
        ] {
            assert_eq!(state("x.k8s.io", text), Some(expected), "{text:?}");
        }
    }
}
