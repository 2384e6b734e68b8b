//! Flow schemas and priority levels.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use machinery::name::{dns1123_label, dns1123_subdomain};
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::resources::flow_control::{EXEMPT, LEVEL, SCHEMA, mandatory};
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const PRECEDENCE_MAX: i64 = 10_000;
const QUEUES_MAX: i64 = 10_000_000;
/// A flow's hash has so many bits to choose its hand of queues by.
const HASH_BITS_MAX: i64 = 60;
const ANY: &str = "*";
const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
/// The kinds of subjects, and the field of each.
const SUBJECTS: [(&str, &str); 3] = [
    ("Group", "group"),
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
];

/// The rules of a flow schema.
pub(crate) fn schema(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let name = object::name(object);
    causes.below(&FieldValue::new("", object), "spec", |causes, spec| {
        causes.precedence(name, spec);
        causes.below(spec, "distinguisherMethod", |causes, method| {
            let known = ["ByNamespace", "ByUser"];
            if !known.contains(&method.text("type")) {
                causes.push(Cause::not_supported(
                    &method.path_of("type"),
                    method.value,
                    &known,
                ));
            }
        });
        causes.below(spec, "priorityLevelConfiguration", |causes, level| {
            if level.text("name").is_empty() {
                let why = "must reference a priority level";
                causes.push(Cause::required(&level.path_of("name"), why));
            }
            causes.named_unless_empty(level, "name", dns1123_subdomain);
        });
        causes.each(spec, "rules", Causes::policy_rule);
        if mandatory(SCHEMA, name).is_some_and(|fixed| fixed != spec.value) {
            let why = format!("spec of '{name}' must equal the fixed value");
            causes.push(Cause::invalid("spec", spec.value, &why));
        }
    });
    causes.extend(status(object));
    causes
}

/// The rules of a priority level.
pub(crate) fn level(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let name = object::name(object);
    causes.below(&FieldValue::new("", object), "spec", |causes, spec| {
        causes.level_spec(name, spec);
        let Some(fixed) = mandatory(LEVEL, name) else {
            return;
        };
        let mut given = spec.value.clone();
        let mut except = "";
        if name == EXEMPT {
            // Its owner may give it shares, which others then have less of.
            object::set(&mut given, &["exempt"], fixed["exempt"].clone());
            except = " except the 'spec.exempt' field";
        }
        if given != *fixed {
            let why = format!("spec of '{name}'{except} must equal the fixed value");
            causes.push(Cause::invalid("spec", spec.value, &why));
        }
    });
    causes.extend(status(object));
    causes
}

/// The rules of the status of either kind.
pub(crate) fn status(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let mut seen = BTreeSet::new();
    let status = FieldValue::new("status", object.get("status").unwrap_or(&Value::Null));
    causes.each(&status, "conditions", |causes, condition| {
        let kind = condition.text("type");
        if !seen.insert(kind.to_owned()) {
            causes.push(Cause::duplicate(&condition.path_of("type"), &kind.into()));
        }
        causes.required(condition, "type");
    });
    causes
}

/// The rules of the parts of both kinds.
impl Causes {
    fn precedence(&mut self, name: &str, spec: &FieldValue) {
        let precedence = spec.number("matchingPrecedence");
        if precedence <= 0 {
            self.wrong(spec, "matchingPrecedence", "must be a positive value");
        }
        if precedence > PRECEDENCE_MAX {
            let why = format!("must not be greater than {PRECEDENCE_MAX}");
            self.wrong(spec, "matchingPrecedence", &why);
        }
        if precedence == 1 && name != EXEMPT {
            let why = "only the schema named 'exempt' may have matchingPrecedence 1";
            self.wrong(spec, "matchingPrecedence", why);
        }
    }

    fn policy_rule(&mut self, rule: &FieldValue) {
        if rule.items("subjects").is_empty() {
            let why = "subjects must contain at least one value";
            self.push(Cause::required(&rule.path_of("subjects"), why));
        }
        self.each(rule, "subjects", Causes::subject);
        if rule.items("resourceRules").is_empty() && rule.items("nonResourceRules").is_empty() {
            let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
            self.push(Cause::required(&rule.path, why));
        }
        self.each(rule, "resourceRules", Causes::resource_rule);
        self.each(rule, "nonResourceRules", Causes::path_rule);
    }

    fn subject(&mut self, subject: &FieldValue) {
        let kind = subject.text("kind");
        let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
            let known = SUBJECTS.map(|(kind, _)| kind);
            return self.unknown(subject, "kind", &known);
        };
        match subject.child(own) {
            None => {
                let why = format!("{own} is required when subject kind is '{kind}'");
                self.push(Cause::required(&subject.path_of(own), &why));
            }
            Some(named) if *own == "serviceAccount" => self.account(&named),
            Some(named) => drop(self.required(&named, "name")),
        }
        for (other, field) in SUBJECTS.iter().filter(|(_, field)| field != own) {
            let why = format!("{field} is forbidden when subject kind is not '{other}'");
            self.forbidden(subject, field, &why);
        }
    }

    fn account(&mut self, account: &FieldValue) {
        if self.required(account, "name") && account.text("name") != ANY {
            self.named(account, "name", dns1123_subdomain);
        }
        if account.text("namespace").is_empty() {
            let why = "must specify namespace for service account";
            self.push(Cause::required(&account.path_of("namespace"), why));
        }
        self.named_unless_empty(account, "namespace", dns1123_label);
    }

    fn resource_rule(&mut self, rule: &FieldValue) {
        self.verbs(rule);
        self.any_or_some(
            rule,
            "apiGroups",
            "api groups",
            || "resource rules must supply at least one api group",
        );
        self.any_or_some(
            rule,
            "resources",
            "resources",
            || "resource rules must supply at least one resource",
        );
        if rule.items("namespaces").is_empty() {
            if !rule.flag("clusterScope") {
                let why =
                    "resource rules that are not cluster scoped must supply at least one namespace";
                self.push(Cause::required(&rule.path_of("namespaces"), why));
            }
        } else if self.any_or_some(rule, "namespaces", "namespaces", || "") {
            self.each(rule, "namespaces", |causes, namespace| {
                let text = namespace.value.as_str().unwrap_or_default();
                for why in dns1123_label(text) {
                    let why =
                        format!("each member of this list must be '*' or a DNS-1123 label; {why}");
                    causes.push(Cause::invalid(&namespace.path, namespace.value, &why));
                }
            });
        }
    }

    fn path_rule(&mut self, rule: &FieldValue) {
        self.verbs(rule);
        let (key, what) = ("nonResourceURLs", "non-resource URLs");
        let none = || "nonResourceURLs must contain at least one value";
        if self.any_or_some(rule, key, what, none) {
            self.each(rule, key, |causes, path| {
                let text = path.value.as_str().unwrap_or_default();
                if let Some(why) = wrong_path(text) {
                    causes.push(Cause::invalid(&path.path, path.value, why));
                }
            });
        }
    }

    fn verbs(&mut self, rule: &FieldValue) {
        let none = || "verbs must contain at least one value";
        if !self.any_or_some(rule, "verbs", "verbs", none) {
            return;
        }
        let verbs = rule.items("verbs");
        let is_known = |verb: &Value| VERBS.iter().any(|known| verb == known);
        if !verbs.iter().all(is_known) {
            let value = Value::from(verbs.to_vec());
            self.push(Cause::not_supported(&rule.path_of("verbs"), &value, &VERBS));
        }
    }

    /// A list that must not be empty, and has nothing besides `*` if it has that. Returns whether
    /// its items are to be checked.
    fn any_or_some(
        &mut self,
        rule: &FieldValue,
        key: &str,
        what: &str,
        none: impl FnOnce() -> &'static str,
    ) -> bool {
        let items = rule.items(key);
        if items.is_empty() {
            self.push(Cause::required(&rule.path_of(key), none()));
            return false;
        }
        if !items.iter().any(|item| item == ANY) {
            return true;
        }
        if items.len() > 1 {
            let why = format!("if '*' is present, must not specify other {what}");
            self.wrong(rule, key, &why);
        }
        false
    }

    fn level_spec(&mut self, name: &str, spec: &FieldValue) {
        let kind = spec.text("type");
        if (name == EXEMPT) != (kind == "Exempt") {
            let why = "must be 'Exempt' if and only if `name` is 'exempt'";
            self.wrong_text(spec, "type", why);
        }
        match kind {
            "Exempt" => {
                self.forbidden(spec, "limited", "must be nil if the type is not Limited");
                self.below(spec, "exempt", |causes, exempt| causes.shares(exempt));
            }
            "Limited" => {
                self.forbidden(spec, "exempt", "must be nil if the type is Limited");
                if !spec.has("limited") {
                    let why = "must not be empty when type is Limited";
                    self.push(Cause::required(&spec.path_of("limited"), why));
                }
                self.below(spec, "limited", Causes::limited);
            }
            _ => self.choice(spec, "type", &["Exempt", "Limited"]),
        }
    }

    fn shares(&mut self, at: &FieldValue) {
        if at.number("nominalConcurrencyShares") < 0 {
            self.wrong(
                at,
                "nominalConcurrencyShares",
                "must be a non-negative integer",
            );
        }
        self.within(at, "lendablePercent", 0, 100);
    }

    fn limited(&mut self, limited: &FieldValue) {
        self.shares(limited);
        if limited.number("borrowingLimitPercent") < 0 {
            let why = "if specified, must be a non-negative integer";
            self.wrong(limited, "borrowingLimitPercent", why);
        }
        self.below(
            limited,
            "limitResponse",
            |causes, response| match response.text("type") {
                "Reject" => {
                    let why = "must be nil if limited.limitResponse.type is not Limited";
                    causes.forbidden(response, "queuing", why);
                }
                "Queue" if !response.has("queuing") => {
                    let why = "must not be empty if limited.limitResponse.type is Limited";
                    causes.push(Cause::required(&response.path_of("queuing"), why));
                }
                "Queue" => causes.below(response, "queuing", Causes::queuing),
                _ => causes.choice(response, "type", &["Queue", "Reject"]),
            },
        );
    }

    fn queuing(&mut self, queuing: &FieldValue) {
        let (queues, hand) = (queuing.number("queues"), queuing.number("handSize"));
        if queuing.number("queueLengthLimit") <= 0 {
            self.wrong(queuing, "queueLengthLimit", "must be positive");
        }
        if queues <= 0 {
            self.wrong(queuing, "queues", "must be positive");
        } else if queues > QUEUES_MAX {
            let why = format!("must not be greater than {QUEUES_MAX}");
            self.wrong(queuing, "queues", &why);
        }
        let bits = hash_bits(queues, hand);
        if hand <= 0 {
            self.wrong(queuing, "handSize", "must be positive");
        } else if hand > queues {
            let why = format!("should not be greater than queues ({queues})");
            self.wrong(queuing, "handSize", &why);
        } else if bits > HASH_BITS_MAX {
            let why = format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
            );
            self.wrong(queuing, "handSize", &why);
        }
    }
}

/// Bits of a hash that choose a hand of so many queues.
fn hash_bits(queues: i64, hand: i64) -> i64 {
    ((queues.max(1) as f64).log2() * hand as f64).ceil() as i64
}

fn wrong_path(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    if path.is_empty() {
        Some("must not be empty")
    } else if path == "/" {
        None
    } else if !path.starts_with('/') {
        Some("must start with slash")
    } else if path.contains(' ') {
        Some("must not contain white-space")
    } else if path.contains("//") {
        Some("must not contain double slash")
    } else if stars > 1 || stars == 1 && !path.ends_with("/*") {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}
