//! What is said of one issuer of tokens: where it is, which tokens count, and what their claims
//! mean.

mod check;
mod compiled;

use machinery::status::Cause;
use serde::Deserialize;

use crate::basics::config_file::Known;
pub(crate) use compiled::Compiled;

pub(crate) const FIELDS: &[(&str, Known)] = &[
    (
        "issuer",
        Known::Fields(&[
            ("url", Known::Anything),
            ("discoveryURL", Known::Anything),
            ("certificateAuthority", Known::Anything),
            ("audiences", Known::Anything),
            ("audienceMatchPolicy", Known::Anything),
            ("egressSelectorType", Known::Anything),
        ]),
    ),
    (
        "claimValidationRules",
        Known::Fields(&[
            ("claim", Known::Anything),
            ("requiredValue", Known::Anything),
            ("expression", Known::Anything),
            ("message", Known::Anything),
        ]),
    ),
    (
        "claimMappings",
        Known::Fields(&[
            ("username", Known::Fields(OF_MAPPING)),
            ("groups", Known::Fields(OF_MAPPING)),
            (
                "uid",
                Known::Fields(&[("claim", Known::Anything), ("expression", Known::Anything)]),
            ),
            (
                "extra",
                Known::Fields(&[
                    ("key", Known::Anything),
                    ("valueExpression", Known::Anything),
                ]),
            ),
        ]),
    ),
    (
        "userValidationRules",
        Known::Fields(&[
            ("expression", Known::Anything),
            ("message", Known::Anything),
        ]),
    ),
];
const OF_MAPPING: &[(&str, Known)] = &[
    ("claim", Known::Anything),
    ("prefix", Known::Anything),
    ("expression", Known::Anything),
];

/// One issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Jwt {
    /// Who it is.
    pub issuer: Issuer,
    /// What has to be true of claims.
    pub claim_validation_rules: Vec<ClaimRule>,
    /// Whom claims name.
    pub claim_mappings: Mappings,
    /// What has to be true of users.
    pub user_validation_rules: Vec<UserRule>,
}

impl Jwt {
    /// Checks everything. `ours` are the issuers of this server's own tokens.
    pub(crate) fn check(&self, place: &str, ours: &[String], causes: &mut Vec<Cause>) {
        self.issuer.check(&format!("{place}.issuer"), ours, causes);
        let compiled = Compiled::of(self, place, causes);
        self.check_mail(&compiled, &format!("{place}.claimMappings"), causes);
    }

    /// An address that nobody verified must not name a user.
    fn check_mail(&self, compiled: &Compiled, place: &str, causes: &mut Vec<Cause>) {
        let is_named = compiled.username.iter().any(|one| one.selects("email"));
        let extra = compiled.extra.iter().map(|(_, one)| one);
        let rules = compiled.claim_rules.iter().map(|(one, _)| one);
        let mut all = compiled.username.iter().chain(extra).chain(rules);
        if is_named && !all.any(|one| one.selects("email_verified")) {
            let why = "claims.email_verified must be used in claimMappings.username.expression or \
                claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when \
                claims.email is used in claimMappings.username.expression";
            let field = format!("{place}.username.expression");
            let given = self.claim_mappings.username.expression.as_str().into();
            causes.push(Cause::invalid(&field, &given, why));
        }
    }
}

/// An issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Issuer {
    /// As its tokens say it.
    pub url: String,
    /// Where its document is, if not below that.
    #[serde(rename = "discoveryURL")]
    pub discovery_url: String,
    /// Authorities, in PEM; those of this machine if it is empty.
    pub certificate_authority: String,
    /// Whom tokens have to be for: one of these.
    pub audiences: Vec<String>,
    /// Must be `MatchAny` if there are several.
    pub audience_match_policy: String,
    /// Must be empty: there are no proxies here.
    pub egress_selector_type: String,
}

/// A value that a claim has to have, or a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRule {
    /// The name of a claim.
    pub claim: String,
    /// Its value.
    pub required_value: String,
    /// Instead of both, an expression of `claims`.
    pub expression: String,
    /// What is said when it is false.
    pub message: String,
}

/// A condition of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserRule {
    /// An expression of `user`.
    pub expression: String,
    /// What is said when it is false.
    pub message: String,
}

/// What claims mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Mappings {
    /// The name of the user.
    pub username: Mapping,
    /// The groups of the user.
    pub groups: Mapping,
    /// The uid of the user.
    pub uid: Mapping,
    /// Further attributes.
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Mapping {
    /// The name of a claim.
    pub claim: String,
    /// What is put before its value; uids have none.
    pub prefix: Option<String>,
    /// Instead of both, an expression of `claims`.
    pub expression: String,
}

/// A further attribute of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtraMapping {
    /// Such as `example.org/team`.
    pub key: String,
    /// An expression of `claims`.
    pub value_expression: String,
}
