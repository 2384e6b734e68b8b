//! Policies against what Kubernetes makes of them.

use super::*;

fn policy(rules: &str) -> Result<Policy, String> {
    Policy::parse(&format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}"
    ))
}

/// The attributes of `verb group/plural/subresource namespace/name`, or of `verb path`.
fn asked(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    let mut attributes = Attributes {
        verb: words[0].into(),
        ..Attributes::default()
    };
    attributes.user.name = "jane".into();
    attributes.user.groups = vec!["devs".into(), "all".into()];
    if words[1].starts_with('/') {
        attributes.path = words[1].into();
        return attributes;
    }
    let parts: Vec<&str> = words[1].split('/').collect();
    attributes.api_group = parts[0].replace("core", "");
    attributes.resource = parts[1].into();
    attributes.subresource = parts.get(2).copied().unwrap_or_default().into();
    let (namespace, name) = words[2].split_once('/').unwrap();
    attributes.namespace = namespace.into();
    attributes.name = name.into();
    attributes
}

/// One rule, requests that it matches, and requests that it does not.
const RULES: &str = "
{} | get core/pods default/a; get /healthz; create apps/deployments/scale n/d |
{users: [jane]} | get core/pods default/a; get /healthz |
{users: [bob]} | | get core/pods default/a
{userGroups: [all]} | get /x |
{userGroups: [none]} | | get /x
{verbs: [get]} | get /x; get core/pods default/a | list core/pods default/
{namespaces: [default]} | get core/pods default/a | get core/pods other/a; get /x
{namespaces: ['']} | get core/nodes /n | get core/pods default/a; get /x
{resources: [{group: ''}]} | get core/pods/log default/a | get apps/deployments n/d; get /x
{resources: [{group: '*', resources: ['*']}]} | get apps/deployments/scale n/d; get core/pods a/b | get /x
{resources: [{resources: [pods]}]} | get core/pods default/a | get core/pods/log default/a; get apps/pods n/d
{resources: [{resources: [pods/log]}]} | get core/pods/log default/a | get core/pods default/a
{resources: [{resources: ['pods/*']}]} | get core/pods/log default/a; get core/pods default/a | get core/nodes/log /n
{resources: [{group: '*', resources: ['*/scale']}]} | get apps/deployments/scale n/d | get apps/deployments n/d
{resources: [{resources: [pods], resourceNames: [a]}]} | get core/pods default/a | get core/pods default/b; list core/pods default/
{nonResourceURLs: ['/healthz*']} | get /healthz; get /healthz/etcd | get /livez; get core/pods default/a
{nonResourceURLs: ['/api']} | get /api | get /apis; get /api/v1
{nonResourceURLs: ['*']} | get /anything | get core/pods default/a
";

#[test]
fn rules_match_the_requests_that_kubernetes_matches() {
    for line in RULES.lines().filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let fields = columns[0].trim_start_matches('{').trim_end_matches('}');
        let comma = if fields.is_empty() { "" } else { ", " };
        let policy = policy(&format!("rules:\n- {{level: Metadata{comma}{fields}}}\n")).unwrap();
        for (column, level) in [(columns[1], Level::Metadata), (columns[2], Level::None)] {
            for request in column
                .split(';')
                .map(str::trim)
                .filter(|one| !one.is_empty())
            {
                let verdict = policy.decide(&asked(request), true);
                assert_eq!(verdict.level, level, "{line}: {request}");
            }
        }
    }
}

#[test]
fn the_first_rule_decides_and_the_policy_adds_stages() {
    let policy = policy(
        "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
         - {level: Request, verbs: [get], omitStages: [Panic], omitManagedFields: false}\n\
         - {level: RequestResponse, verbs: [get, list]}\n",
    )
    .unwrap();
    let get = policy.decide(&asked("get /x"), true);
    assert_eq!(
        (get.level, get.omit_managed_fields),
        (Level::Request, false)
    );
    assert!(get.omits(Stage::RequestReceived) && get.omits(Stage::Panic));
    assert!(!get.omits(Stage::ResponseComplete));
    let list = policy.decide(&asked("list /x"), true);
    assert_eq!(list.level, Level::RequestResponse);
    assert!(list.omit_managed_fields && !list.omits(Stage::Panic));
    let other = policy.decide(&asked("post /x"), true);
    assert_eq!(other.level, Level::None);
}

#[test]
fn a_requester_who_is_not_known_matches_no_users_and_no_groups() {
    let rules = "rules:\n- {level: Request, users: ['']}\n- {level: Request, userGroups: [all]}\n\
                 - {level: Metadata}\n";
    let policy = policy(rules).unwrap();
    let mut nobody = asked("get /x");
    nobody.user = crate::auth::User::default();
    assert_eq!(policy.decide(&nobody, false).level, Level::Metadata);
}

/// A policy after its head, and its error.
const WRONG: [(&str, &str); 10] = [
    ("rules: []", "loaded illegal policy with 0 rules"),
    ("rules: [{}]", "rules[0].level: Required value"),
    (
        "rules: [{level: metadata}]",
        r#"rules[0].level: Unsupported value: "metadata": supported values: "None", "Metadata", "Request", "RequestResponse""#,
    ),
    (
        "omitStages: [Begin]\nrules: [{level: None}]",
        r#"omitStages[0]: Invalid value: "Begin": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"#,
    ),
    (
        "rules: [{level: None, nonResourceURLs: [a*b]}]",
        r#"[rules[0].nonResourceURLs[0]: Invalid value: "a*b": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[0]: Invalid value: "a*b": non-resource URL wildcards '*' must be the final character of the rule]"#,
    ),
    (
        "rules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]",
        r#"rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs"#,
    ),
    (
        "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
        r#"rules[0].resources.resourceNames: Invalid value: ["a"]: using resourceNames requires at least one resource"#,
    ),
    (
        "rules: [{level: None, resources: [{group: rbac.authorization.k8s.io/v1}]}]",
        r#"rules[0].resources.group: Invalid value: "rbac.authorization.k8s.io/v1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
    ),
    (
        "rules: [{level: None, resources: [{group: '*', resources: ['*']}]}, {level: X}]",
        r#"rules[1].level: Unsupported value: "X": supported values: "None", "Metadata", "Request", "RequestResponse""#,
    ),
    (
        "rules: [{level: None, nonResourceURLs: ['*', '/a*', '']}]",
        r#"rules[0].nonResourceURLs[2]: Invalid value: "": non-resource URL rules must begin with a '/' character"#,
    ),
];

#[test]
fn wrong_policies_are_refused_in_kubernetes_words() {
    for (text, why) in WRONG {
        assert_eq!(policy(text).unwrap_err(), why, "{text}");
    }
    for text in [
        "",
        "kind: Policy",
        "{",
        "apiVersion: audit.k8s.io/v2\nkind: Policy",
    ] {
        let why = Policy::parse(text).unwrap_err();
        assert!(why.starts_with("failed decoding: "), "{text}: {why}");
    }
    let lenient = "rules: [{level: None, colour: blue}]\nshape: round";
    assert_eq!(policy(lenient).unwrap().rules.len(), 1);
}
