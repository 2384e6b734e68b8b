//! The selectors that a review of access asks about: what a list, a watch or a deletion would
//! select. Each is a text or a list of requirements.

use machinery::name;
use machinery::object;
use machinery::selector::{FieldRequirement, FieldSelector, LabelSelector, Operator, Requirement};
use machinery::status::Cause;
use serde_json::Value;

const FIELDS: &str = "fieldSelector";
const LABELS: &str = "labelSelector";

/// What could be read of a selector. Requirements that could not be read are left out: what
/// remains selects more, so that nobody is allowed more for them.
struct Read<T> {
    requirements: Vec<T>,
    complete: bool,
}

/// The errors of both selectors.
pub(super) fn causes(review: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (which, key) in [
        (FIELDS, field_key as fn(&Value, &str) -> Vec<Cause>),
        (LABELS, label_key),
    ] {
        let Some(selector) = given(review, which) else {
            continue;
        };
        let at = format!("spec.resourceAttributes.{which}");
        let requirements = object::items(selector, &["requirements"]);
        let raw = object::text(selector, &["rawSelector"]);
        if !raw.is_empty() && !requirements.is_empty() {
            let why = "may not specified at the same time as requirements";
            causes.push(Cause::invalid(
                &format!("{at}.rawSelector"),
                &raw.into(),
                why,
            ));
        }
        if raw.is_empty() && requirements.is_empty() {
            let why = format!("when {at} is specified, requirements or rawSelector is required");
            causes.push(Cause::required(&format!("{at}.requirements"), &why));
        }
        for (place, one) in requirements.iter().enumerate() {
            let at = format!("{at}.requirements[{place}]");
            let keyed = key(one, &at);
            let valued = values(one, &at);
            // Kubernetes checks the key of a field first, and that of a label last.
            causes.extend(
                match which {
                    FIELDS => [keyed, valued],
                    _ => [valued, keyed],
                }
                .concat(),
            );
        }
    }
    causes
}

/// The selector of fields, as far as it can be read.
pub(super) fn fields(review: &Value) -> FieldSelector {
    FieldSelector {
        requirements: read_fields(review).requirements,
    }
}

/// The selector of labels, as far as it can be read.
pub(super) fn labels(review: &Value) -> LabelSelector {
    LabelSelector {
        requirements: read_labels(review).requirements,
    }
}

/// Which selectors could not be read, or only in part.
pub(super) fn ignored(review: &Value) -> Option<String> {
    let (fields, labels) = (read_fields(review), read_labels(review));
    let states = [
        (FIELDS, fields.complete, fields.requirements.is_empty()),
        (LABELS, labels.complete, labels.requirements.is_empty()),
    ];
    let broken = states.into_iter().filter(|(_, complete, _)| !complete);
    let told: Vec<String> = broken
        .map(|(which, _, none)| {
            let how = if none { "" } else { "partially " };
            format!("spec.resourceAttributes.{which} {how}ignored due to parse error")
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn given<'a>(review: &'a Value, which: &str) -> Option<&'a Value> {
    let found = object::at(review, &["spec", "resourceAttributes", which]);
    found.filter(|selector| selector.is_object())
}

/// Whether an operator needs values and has none, or has values and needs none. Clients may be
/// newer than this server: operators that it does not know have no rules.
fn values(one: &Value, at: &str) -> Vec<Cause> {
    let has = !object::items(one, &["values"]).is_empty();
    let at = format!("{at}.values");
    match (object::text(one, &["operator"]), has) {
        ("In" | "NotIn", false) => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            vec![Cause::required(&at, why)]
        }
        ("Exists" | "DoesNotExist", true) => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            vec![Cause::forbidden(&at, why)]
        }
        _ => Vec::new(),
    }
}

fn field_key(one: &Value, at: &str) -> Vec<Cause> {
    if object::text(one, &["key"]).is_empty() {
        return vec![Cause::required(&format!("{at}.key"), "must be specified")];
    }
    Vec::new()
}

/// The key of a label, and its values.
fn label_key(one: &Value, at: &str) -> Vec<Cause> {
    let key = object::text(one, &["key"]);
    let wrong = |field: String, text: &str, why: Vec<String>| -> Vec<Cause> {
        let why = why.iter();
        why.map(|why| Cause::invalid(&field, &text.into(), why))
            .collect()
    };
    let mut causes = wrong(format!("{at}.key"), key, name::qualified_name(key));
    for (place, value) in texts(one).iter().enumerate() {
        let field = format!("{at}.values[{place}]");
        causes.extend(wrong(field, value, name::label_value(value)));
    }
    causes
}

fn read_fields(review: &Value) -> Read<FieldRequirement> {
    read(
        given(review, FIELDS),
        |raw| FieldSelector::parse(raw).ok().map(|all| all.requirements),
        |one| {
            let [value] = &texts(one)[..] else {
                return None;
            };
            let negated = match object::text(one, &["operator"]) {
                "In" => false,
                "NotIn" => true,
                _ => return None,
            };
            Some(FieldRequirement {
                field: object::text(one, &["key"]).to_owned(),
                negated,
                value: value.clone(),
            })
        },
    )
}

fn read_labels(review: &Value) -> Read<Requirement> {
    read(
        given(review, LABELS),
        |raw| LabelSelector::parse(raw).ok().map(|all| all.requirements),
        |one| {
            let operator = match object::text(one, &["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            Requirement::new(object::text(one, &["key"]), operator, texts(one)).ok()
        },
    )
}

/// Reads a selector: requirements, if there are some, else a text.
fn read<T>(
    selector: Option<&Value>,
    parse: impl Fn(&str) -> Option<Vec<T>>,
    convert: impl Fn(&Value) -> Option<T>,
) -> Read<T> {
    let Some(selector) = selector else {
        return Read {
            requirements: Vec::new(),
            complete: true,
        };
    };
    let given = object::items(selector, &["requirements"]);
    if given.is_empty() {
        let parsed = parse(object::text(selector, &["rawSelector"]));
        return Read {
            complete: parsed.is_some(),
            requirements: parsed.unwrap_or_default(),
        };
    }
    let requirements: Vec<T> = given.iter().filter_map(convert).collect();
    Read {
        complete: requirements.len() == given.len(),
        requirements,
    }
}

fn texts(requirement: &Value) -> Vec<String> {
    let items = object::items(requirement, &["values"]).iter();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn review(selectors: &Value) -> Value {
        json!({"spec": {"resourceAttributes": selectors}})
    }

    fn told(selectors: &Value) -> Vec<String> {
        let causes = causes(&review(selectors));
        let told = |cause: &Cause| {
            let field = cause.field.strip_prefix("spec.resourceAttributes.");
            format!("{}: {}", field.unwrap(), cause.message)
        };
        causes.iter().map(told).collect()
    }

    #[test]
    fn a_selector_is_a_text_or_requirements() {
        assert_eq!(told(&json!({})), [""; 0]);
        let both = json!({"rawSelector": "a=b", "requirements": [
            {"key": "a", "operator": "In", "values": ["b"]}]});
        assert_eq!(
            told(&json!({"fieldSelector": both, "labelSelector": {}})),
            [
                "fieldSelector.rawSelector: Invalid value: \"a=b\": \
                 may not specified at the same time as requirements",
                "labelSelector.requirements: Required value: when \
                 spec.resourceAttributes.labelSelector is specified, requirements or rawSelector \
                 is required",
            ]
        );
    }

    #[test]
    fn requirements_have_a_key_and_the_values_that_their_operator_needs() {
        let requirements = json!([
            {"operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["b c"]},
            {"key": "a", "operator": "Near", "values": ["b"]},
        ]);
        let selector = json!({"requirements": requirements});
        let needed = "Required value: must be specified when `operator` is 'In' or 'NotIn'";
        let none = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        assert_eq!(
            told(&json!({ "fieldSelector": selector })),
            [
                "fieldSelector.requirements[0].key: Required value: must be specified".to_owned(),
                format!("fieldSelector.requirements[0].values: {needed}"),
                format!("fieldSelector.requirements[1].values: {none}"),
            ]
        );
        let labels = told(&json!({ "labelSelector": selector }));
        assert_eq!(
            labels[0],
            format!("labelSelector.requirements[0].values: {needed}")
        );
        let about_key = labels[1].starts_with(
            "labelSelector.requirements[0].key: Invalid value: \"\": name part must be non-empty",
        );
        assert!(about_key, "{labels:?}");
        let at = labels.iter().position(|one| one.ends_with(none)).unwrap();
        assert!(
            labels[at + 1].starts_with(
                "labelSelector.requirements[1].values[0]: Invalid value: \"b c\": a valid label"
            ),
            "{labels:?}"
        );
        assert_eq!(labels.len(), at + 2, "{labels:?}");
    }

    #[test]
    fn what_can_be_read_is_asked_about_and_the_rest_is_told() {
        let read = |selectors: &Value| {
            let review = review(selectors);
            let told = ignored(&review).unwrap_or_default();
            (
                fields(&review).to_string(),
                labels(&review).to_string(),
                told,
            )
        };
        let texts = json!({"fieldSelector": {"rawSelector": "a=b,c!=d"},
            "labelSelector": {"rawSelector": "e in (f,g),!h"}});
        let (fields, labels, told) = read(&texts);
        assert_eq!(
            (&fields[..], &labels[..], &told[..]),
            ("a=b,c!=d", "e in (f,g),!h", "")
        );
        let one = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let requirements = json!({
            "fieldSelector": {"requirements": [
                one("a", "In", &["b"]), one("c", "NotIn", &["d"]), one("e", "Exists", &[]),
                one("f", "In", &["g", "h"])]},
            "labelSelector": {"requirements": [one("a", "Near", &[])]},
        });
        let (fields, labels, told) = read(&requirements);
        assert_eq!((&fields[..], &labels[..]), ("a=b,c!=d", ""));
        assert_eq!(
            told,
            "spec.resourceAttributes.fieldSelector partially ignored due to parse error; \
             spec.resourceAttributes.labelSelector ignored due to parse error"
        );
        let broken = json!({"fieldSelector": {"rawSelector": "a"}});
        let told = read(&broken).2;
        assert_eq!(
            told,
            "spec.resourceAttributes.fieldSelector ignored due to parse error"
        );
    }
}
