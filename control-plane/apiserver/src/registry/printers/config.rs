//! Configuration, events, access and what keeps the cluster itself.

use machinery::object;
use serde_json::Value;

use crate::storage::cells::Cell;

use super::{Layout, NONE, UNKNOWN, UNSET, age, flag_or, number, since, text_or};

pub(crate) const SECRET: Layout = Layout {
    columns: &["Type", "Data", "Age"],
    cells: |object| {
        vec![
            text_or(object, &["type"], ""),
            entries(object, &["data"]),
            age(object),
        ]
    },
};

pub(crate) const CONFIG_MAP: Layout = Layout {
    columns: &["Data", "Age"],
    cells: |object| {
        let count = |key| {
            object
                .get(key)
                .and_then(Value::as_object)
                .map_or(0, |map| map.len())
        };
        vec![(count("data") + count("binaryData")).into(), age(object)]
    },
};

pub(crate) const EVENT: Layout = Layout {
    columns: &[
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "Subobject*",
        "Source*",
        "Message",
        "First Seen*",
        // A number, but Go declares it as a string.
        "Count*",
        "Name*",
    ],
    cells: event,
};

pub(crate) const RESOURCE_QUOTA: Layout = Layout {
    columns: &["Request", "Limit", "Age"],
    cells: quota,
};

pub(crate) const LEASE: Layout = Layout {
    columns: &["Holder", "Age"],
    cells: |object| {
        vec![
            text_or(object, &["spec", "holderIdentity"], ""),
            age(object),
        ]
    },
};

pub(crate) const ROLE_BINDING: Layout = Layout {
    columns: &["Role", "Age", "Users*", "Groups*", "ServiceAccounts*"],
    cells: binding,
};

pub(crate) const CERTIFICATE_SIGNING_REQUEST: Layout = Layout {
    columns: &[
        "Age",
        "SignerName",
        "Requestor",
        "RequestedDuration",
        "Condition",
    ],
    cells: signing_request,
};

pub(crate) const PRIORITY_CLASS: Layout = Layout {
    columns: &["Value#", "Global-Default?", "Age", "PreemptionPolicy"],
    cells: |object| {
        vec![
            number(object, &["value"]),
            flag_or(object, &["globalDefault"], false).into(),
            age(object),
            text_or(object, &["preemptionPolicy"], ""),
        ]
    },
};

pub(crate) const RUNTIME_CLASS: Layout = Layout {
    columns: &["Handler", "Age"],
    cells: |object| vec![text_or(object, &["handler"], ""), age(object)],
};

pub(crate) const WEBHOOK_CONFIGURATION: Layout = Layout {
    columns: &["Webhooks#", "Age"],
    cells: |object| {
        vec![
            object::items(object, &["webhooks"]).len().into(),
            age(object),
        ]
    },
};

pub(crate) const VALIDATING_POLICY: Layout = Layout {
    columns: &["Validations#", "ParamKind", "Age"],
    cells: |object| policy(object, "validations"),
};

pub(crate) const MUTATING_POLICY: Layout = Layout {
    columns: &["Mutations#", "ParamKind", "Age"],
    cells: |object| policy(object, "mutations"),
};

pub(crate) const POLICY_BINDING: Layout = Layout {
    columns: &["PolicyName", "ParamRef", "Age"],
    cells: |object| {
        let text = |key: &str| object::text(object, &["spec", "paramRef", key]);
        let given = |path: &[&str]| object::at(object, path).is_some_and(Value::is_object);
        let reference = match (text("namespace"), text("name")) {
            ("", "") if given(&["spec", "paramRef", "selector"]) => {
                selector(&object["spec"]["paramRef"]["selector"])
            }
            (_, "") => UNSET.to_owned(),
            ("", name) => format!("*/{name}"),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        vec![
            text_or(object, &["spec", "policyName"], ""),
            reference.into(),
            age(object),
        ]
    },
};

pub(crate) const FLOW_SCHEMA: Layout = Layout {
    columns: &[
        "PriorityLevel",
        "MatchingPrecedence",
        "DistinguisherMethod",
        "Age",
        "MissingPL",
    ],
    cells: |object| {
        let conditions = object::items(object, &["status", "conditions"]);
        let dangling = conditions.iter().find(|one| one["type"] == "Dangling");
        vec![
            text_or(object, &["spec", "priorityLevelConfiguration", "name"], ""),
            number(object, &["spec", "matchingPrecedence"]),
            text_or(object, &["spec", "distinguisherMethod", "type"], NONE),
            age(object),
            dangling.map_or_else(|| "?".into(), |one| text_or(one, &["status"], "")),
        ]
    },
};

pub(crate) const PRIORITY_LEVEL: Layout = Layout {
    columns: &[
        "Type",
        "NominalConcurrencyShares",
        "Queues",
        "HandSize",
        "QueueLengthLimit",
        "Age",
    ],
    cells: |object| {
        let of_limited = |path: &[&str]| {
            let path = [&["spec", "limited"], path].concat();
            match object::integer(object, &path) {
                Some(number) => number.into(),
                None => NONE.into(),
            }
        };
        let queuing = |key| of_limited(&["limitResponse", "queuing", key]);
        vec![
            text_or(object, &["spec", "type"], ""),
            of_limited(&["nominalConcurrencyShares"]),
            queuing("queues"),
            queuing("handSize"),
            queuing("queueLengthLimit"),
            age(object),
        ]
    },
};

pub(crate) const API_SERVICE: Layout = Layout {
    columns: &["Service", "Available", "Age"],
    cells: |object| {
        let mut conditions = object::items(object, &["status", "conditions"]).iter();
        let available = conditions.find(|one| one["type"] == "Available");
        let available = available.map_or("Unknown".to_owned(), |one| {
            let (status, reason) = (object::text(one, &["status"]), &one["reason"]);
            match reason.as_str().unwrap_or_default() {
                reason if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
                _ => status.to_owned(),
            }
        });
        let service = match object::text(object, &["spec", "service", "name"]) {
            "" => "Local".to_owned(),
            name => {
                format!(
                    "{}/{name}",
                    object::text(object, &["spec", "service", "namespace"])
                )
            }
        };
        vec![service.into(), available.into(), age(object)]
    },
};

fn policy(object: &Value, rules: &str) -> Vec<Cell> {
    let text = |key: &str| object::text(object, &["spec", "paramKind", key]);
    let kind = match object::at(object, &["spec", "paramKind"]) {
        Some(Value::Object(_)) => format!("{}/{}", text("apiVersion"), text("kind")),
        _ => UNSET.to_owned(),
    };
    let count = object::items(object, &["spec", rules]).len();
    vec![count.into(), kind.into(), age(object)]
}

/// A label selector as Go shows it.
fn selector(selector: &Value) -> String {
    let labels = object::at(selector, &["matchLabels"]).and_then(Value::as_object);
    let labels = labels.into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{key}: {value},")
    });
    let requirements = object::items(selector, &["matchExpressions"]).iter();
    let requirements = requirements.map(|one| {
        let text = |key: &str| object::text(one, &[key]);
        let values: Vec<&str> = object::items(one, &["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text("key"),
            text("operator"),
            values.join(" ")
        )
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        requirements.collect::<String>()
    )
}

fn entries(object: &Value, path: &[&str]) -> Cell {
    let map = object::at(object, path).and_then(Value::as_object);
    map.map_or(0, |map| map.len()).into()
}

fn event(object: &Value) -> Vec<Cell> {
    let first_of = |paths: &[&[&str]]| {
        let mut texts = paths.iter().map(|path| object::text(object, path));
        texts
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let about = |key: &str| first_of(&[&["involvedObject", key], &["regarding", key]]);
    // An event of the newer version has but the time when it happened.
    let last: &[&[&str]] = &[
        &["series", "lastObservedTime"],
        &["lastTimestamp"],
        &["deprecatedLastTimestamp"],
        &["firstTimestamp"],
        &["deprecatedFirstTimestamp"],
        &["eventTime"],
    ];
    let first = &last[3..];
    let seen = |text: String| {
        if text.is_empty() {
            UNKNOWN.into()
        } else {
            since(&text)
        }
    };
    let count = [&["series", "count"][..], &["count"], &["deprecatedCount"]]
        .iter()
        .find_map(|path| object::integer(object, path).filter(|count| *count > 0))
        .unwrap_or(1);
    let source = first_of(&[
        &["source", "component"],
        &["deprecatedSource", "component"],
        &["reportingComponent"],
        &["reportingController"],
    ]);
    let host = first_of(&[
        &["source", "host"],
        &["deprecatedSource", "host"],
        &["reportingInstance"],
    ]);
    let source = if host.is_empty() {
        source
    } else {
        format!("{source}, {host}")
    };
    let message = first_of(&[&["message"], &["note"]]);
    let mut target = about("kind").to_lowercase();
    let name = about("name");
    if !name.is_empty() {
        target = format!("{target}/{name}");
    }
    vec![
        seen(first_of(last)),
        text_or(object, &["type"], ""),
        text_or(object, &["reason"], ""),
        target.into(),
        about("fieldPath").into(),
        source.into(),
        message.trim().into(),
        seen(first_of(first)),
        count.into(),
        object::name(object).into(),
    ]
}

fn quota(object: &Value) -> Vec<Cell> {
    let hard = object::at(object, &["status", "hard"]).and_then(Value::as_object);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, most) in hard.into_iter().flatten() {
        let used = object::text(object, &["status", "used", name]);
        let used = if used.is_empty() { "0" } else { used };
        let line = format!("{name}: {used}/{}", most.as_str().unwrap_or_default());
        if name.starts_with("limits.") {
            limits.push(line)
        } else {
            requests.push(line)
        }
    }
    vec![
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(object),
    ]
}

fn binding(object: &Value) -> Vec<Cell> {
    let role = |key: &str| object::text(object, &["roleRef", key]);
    let named = |kind: &str| -> Cell {
        let all = object::items(object, &["subjects"]).iter();
        let names: Vec<String> = all
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| match object::text(subject, &["namespace"]) {
                "" => object::text(subject, &["name"]).to_owned(),
                namespace => format!("{namespace}/{}", object::text(subject, &["name"])),
            })
            .collect();
        names.join(", ").into()
    };
    vec![
        format!("{}/{}", role("kind"), role("name")).into(),
        age(object),
        named("User"),
        named("Group"),
        named("ServiceAccount"),
    ]
}

fn signing_request(object: &Value) -> Vec<Cell> {
    let has = |kind: &str| {
        let mut conditions = object::items(object, &["status", "conditions"]).iter();
        conditions.any(|one| one["type"] == kind)
    };
    let decided = ["Denied", "Approved"].into_iter().find(|kind| has(kind));
    let mut words = vec![decided.unwrap_or("Pending")];
    if has("Failed") {
        words.push("Failed");
    }
    if !object::text(object, &["status", "certificate"]).is_empty() {
        words.push("Issued");
    }
    let seconds = object::integer(object, &["spec", "expirationSeconds"]);
    let duration = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let duration = duration
        .map(std::time::Duration::from_secs)
        .map(machinery::time::human);
    vec![
        age(object),
        text_or(object, &["spec", "signerName"], NONE),
        text_or(object, &["spec", "username"], ""),
        duration.unwrap_or_else(|| NONE.into()).into(),
        words.join(",").into(),
    ]
}

#[test]
fn an_event_began_when_it_says_so() {
    use machinery::time::Timestamp;
    use serde_json::json;

    let now = Timestamp::parse("2024-01-01T01:00:00Z").unwrap();
    let shown = |one: Value| {
        let cells = event(&one);
        [cells[0].at(now), cells[7].at(now)]
    };
    let times = json!({
        "firstTimestamp": "2024-01-01T00:59:50Z", "eventTime": "2024-01-01T00:59:40.000000Z",
    });
    assert_eq!(shown(times), ["10s", "10s"]);
    let newer = json!({"eventTime": "2024-01-01T00:59:40.000000Z"});
    assert_eq!(shown(newer), ["20s", "20s"]);
}
