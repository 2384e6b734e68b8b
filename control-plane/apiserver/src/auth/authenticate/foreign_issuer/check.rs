//! The rules for what is said of an issuer.

use std::collections::HashSet;

use machinery::status::Cause;

use super::{Issuer, Jwt, Mapping};
use crate::basics::prefixed_path;
use crate::webhook::trust;

const BOTH: &str = "claim and expression can't both be set";
const NEITHER: &str = "claim or expression is required";

impl Jwt {
    /// Checks the rules about claims; `compile` is called for their expressions.
    pub(super) fn check_claim_rules(
        &self,
        place: &str,
        causes: &mut Vec<Cause>,
        mut compile: impl FnMut(&str, &str, &str, &mut Vec<Cause>),
    ) {
        let (mut claims, mut expressions) = (HashSet::new(), HashSet::new());
        for (at, rule) in self.claim_validation_rules.iter().enumerate() {
            let place = format!("{place}.claimValidationRules[{at}]");
            let field = |name: &str| format!("{place}.{name}");
            let text = |text: &str| text.into();
            match (rule.claim.as_str(), rule.expression.as_str()) {
                ("", "") => causes.push(Cause::required(&place, NEITHER)),
                (claim, "") => {
                    if !rule.message.is_empty() {
                        let why = "may not be specified when claim is set";
                        causes.push(Cause::invalid(&field("message"), &text(&rule.message), why));
                    }
                    if !claims.insert(claim) {
                        causes.push(Cause::duplicate(&field("claim"), &claim.into()));
                    }
                }
                ("", expression) => {
                    if !rule.required_value.is_empty() {
                        let why = "may not be specified when expression is set";
                        let given = text(&rule.required_value);
                        causes.push(Cause::invalid(&field("requiredValue"), &given, why));
                    }
                    if expressions.insert(expression) {
                        compile(expression, &rule.message, &field("expression"), causes);
                    } else {
                        causes.push(Cause::duplicate(&field("expression"), &expression.into()));
                    }
                }
                (claim, _) => causes.push(Cause::invalid(&place, &claim.into(), BOTH)),
            }
        }
    }
}

impl Mapping {
    /// Checks the mapping of a name or of groups. True if it has an expression to compile.
    pub(super) fn check(&self, place: &str, is_required: bool, causes: &mut Vec<Cause>) -> bool {
        let prefix = format!("{place}.prefix");
        match (self.claim.as_str(), self.expression.as_str()) {
            ("", "") if is_required => causes.push(Cause::required(place, NEITHER)),
            ("", "") => {}
            (_, "") if self.prefix.is_none() => {
                let why = "prefix is required when claim is set. It can be set to an empty string \
                    to disable prefixing";
                causes.push(Cause::required(&prefix, why));
            }
            (_, "") => {}
            ("", _) => {
                if let Some(given) = &self.prefix {
                    let why = "may not be specified when expression is set";
                    causes.push(Cause::invalid(&prefix, &given.as_str().into(), why));
                }
                return true;
            }
            _ => causes.push(Cause::invalid(place, &"".into(), BOTH)),
        }
        false
    }

    /// Checks the mapping of an uid. True if it has an expression to compile.
    pub(super) fn check_uid(&self, place: &str, causes: &mut Vec<Cause>) -> bool {
        if !self.claim.is_empty() && !self.expression.is_empty() {
            causes.push(Cause::invalid(place, &"".into(), BOTH));
            return false;
        }
        !self.expression.is_empty()
    }
}

/// Checks the key of a further attribute. False if it is one of an earlier one.
pub(super) fn extra_key<'a>(
    key: &'a str,
    field: &str,
    seen: &mut HashSet<&'a str>,
    causes: &mut Vec<Cause>,
) -> bool {
    let wrong = |why: &str| Cause::invalid(field, &key.into(), why);
    causes.extend(prefixed_path::causes(field, key));
    if key.chars().any(char::is_uppercase) {
        causes.push(wrong("must be lowercase"));
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_reserved = ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        let before = domain.strip_suffix(reserved);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    if is_reserved {
        causes.push(wrong(
            "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ));
    }
    if !seen.insert(key) {
        causes.push(Cause::duplicate(field, &key.into()));
        return false;
    }
    true
}

impl Issuer {
    pub(super) fn check(&self, place: &str, ours: &[String], causes: &mut Vec<Cause>) {
        let field = |name: &str| format!("{place}.{name}");
        if self.url.is_empty() {
            causes.push(Cause::required(&field("url"), ""));
        } else {
            check_url(&self.url, ours, &field("url"), causes);
        }
        if !self.discovery_url.is_empty() {
            let at = field("discoveryURL");
            let same = self.url.trim_end_matches('/') == self.discovery_url.trim_end_matches('/');
            if same && !self.url.is_empty() {
                let given = self.discovery_url.as_str().into();
                let why = "discoveryURL must be different from URL";
                causes.push(Cause::invalid(&at, &given, why));
            }
            check_url(&self.discovery_url, &[], &at, causes);
        }
        self.check_audiences(place, causes);
        if !self.certificate_authority.is_empty()
            && let Err(why) = trust::connector_to(Some(self.certificate_authority.as_bytes()), None)
        {
            let at = field("certificateAuthority");
            causes.push(Cause::invalid(&at, &"<omitted>".into(), &why));
        }
        if !self.egress_selector_type.is_empty() {
            let why = match self.egress_selector_type.as_str() {
                "controlplane" | "cluster" => {
                    "egress lookup required with egress selector type: there is none here"
                }
                _ => "egress selector must be either controlplane or cluster",
            };
            let given = self.egress_selector_type.as_str().into();
            causes.push(Cause::invalid(&field("egressSelectorType"), &given, why));
        }
    }

    fn check_audiences(&self, place: &str, causes: &mut Vec<Cause>) {
        let field = format!("{place}.audiences");
        if self.audiences.is_empty() {
            let why = format!("at least one {field} is required");
            causes.push(Cause::required(&field, &why));
            return;
        }
        let mut seen = HashSet::new();
        for (at, audience) in self.audiences.iter().enumerate() {
            let field = format!("{field}[{at}]");
            if audience.is_empty() {
                causes.push(Cause::required(&field, ""));
            }
            if !seen.insert(audience) {
                causes.push(Cause::duplicate(&field, &audience.as_str().into()));
            }
        }
        let why = match (self.audiences.len(), self.audience_match_policy.as_str()) {
            (_, "MatchAny") | (1, "") => return,
            (1, _) => "audienceMatchPolicy must be empty or MatchAny for single audience",
            _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
        };
        let given = self.audience_match_policy.as_str().into();
        let field = format!("{place}.audienceMatchPolicy");
        causes.push(Cause::invalid(&field, &given, why));
    }
}

fn check_url(url: &str, ours: &[String], field: &str, causes: &mut Vec<Cause>) {
    let mut refuse = |why: &str| causes.push(Cause::invalid(field, &url.into(), why));
    if ours.iter().any(|one| one == url) {
        let mut ours = ours.to_vec();
        ours.sort();
        refuse(&format!(
            "URL must not overlap with disallowed issuers: [{}]",
            ours.join(" ")
        ));
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let uri: http::Uri = match rest.parse() {
        Ok(uri) => uri,
        Err(error) => return refuse(&format!("parse {url:?}: {error}")),
    };
    if uri.scheme_str() != Some("https") {
        refuse("URL scheme must be https");
    }
    if uri
        .authority()
        .is_some_and(|one| one.as_str().contains('@'))
    {
        refuse("URL must not contain a username or password");
    }
    if uri.query().is_some_and(|query| !query.is_empty()) {
        refuse("URL must not contain a query");
    }
    if !fragment.is_empty() {
        refuse("URL must not contain a fragment");
    }
}
