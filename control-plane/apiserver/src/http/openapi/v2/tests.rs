use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::*;
use crate::registry::strategy;
use crate::resources::custom::Definition;

/// Kubernetes' own document, what its builder makes of schemas of custom resources, and documents that
/// gnostic encoded.
const GOLDEN: &str = include_str!("golden.jsonl");

fn golden(key: &str) -> impl Iterator<Item = Value> {
    let lines = GOLDEN
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(move |line| line.get(key).is_some())
}

fn builtin() -> Catalogue {
    Catalogue::new(strategy::builtin().iter().cloned())
}

fn sources(catalogue: Catalogue) -> Sources {
    Sources {
        catalogue: Arc::new(catalogue),
        foreign: Vec::new(),
    }
}

fn document(catalogue: Catalogue) -> Value {
    serde_json::from_slice(&build(&sources(catalogue))).unwrap()
}

/// A schema without its texts.
fn without_texts(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|key, value| key != "description" || !value.is_string());
            fields.values_mut().for_each(without_texts);
        }
        Value::Array(items) => items.iter_mut().for_each(without_texts),
        _ => {}
    }
}

/// A schema without the values of enumerations, which the document that is compared was written without.
fn without_enums(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    fields.remove("enum");
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(without_enums);
    }
    for key in ["items", "additionalProperties"] {
        fields.get_mut(key).into_iter().for_each(without_enums);
    }
}

#[test]
fn definitions_of_built_in_kinds_are_those_of_kubernetes() {
    let document = document(builtin());
    let ours = document["definitions"].as_object().unwrap();
    let mut wrong = Vec::new();
    let mut same = 0;
    for line in golden("schema") {
        let name = line["name"].as_str().unwrap();
        let (theirs, Some(mut ours)) = (line["schema"].clone(), ours.get(name).cloned()) else {
            continue;
        };
        without_texts(&mut ours);
        without_enums(&mut ours);
        if ours == theirs {
            same += 1;
        } else {
            wrong.push(format!("{name}\n  ours   {ours}\n  theirs {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(same, ours.len(), "some of ours are none of theirs");
}

#[test]
fn every_definition_that_is_referred_to_is_there() {
    let document = document(builtin());
    let text = document.to_string();
    for reference in text.split("\"#/").skip(1) {
        let name = reference.split('"').next().unwrap();
        let name = name.strip_prefix("definitions/").unwrap();
        assert!(document["definitions"].get(name).is_some(), "{name}");
    }
}

#[test]
fn operations_are_named_as_by_kubernetes() {
    let document = document(builtin());
    let theirs: Vec<Value> = golden("operation").collect();
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, ours) in item.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            let is_it = |one: &&Value| one["path"] == *path && one["method"] == *method;
            let theirs = theirs.iter().find(is_it);
            let theirs = theirs.unwrap_or_else(|| panic!("Kubernetes has no {method} {path}"));
            for key in ["operationId", "tags", "x-kubernetes-action"] {
                // What is about no kind has no action.
                let theirs = &theirs["operation"][key];
                let ours = ours.get(key).unwrap_or(&Value::Null);
                let both_none = ours.is_null() && (theirs == "" || theirs.is_null());
                assert!(ours == theirs || both_none, "{method} {path}: {ours}");
            }
            checked += 1;
        }
    }
    assert!(checked > 300, "{checked}");
}

/// A definition with this schema, as the golden file has it.
fn widgets(schema: &Value) -> Definition {
    let mut definition = Definition::widgets();
    definition.group = "shop.example.com".into();
    definition.versions[0].schema = Some(schema.clone());
    definition
}

#[test]
fn schemas_of_custom_resources_are_reduced_as_by_kubernetes() {
    let mut checked = 0;
    for line in golden("custom") {
        let definition = widgets(&line["custom"]);
        let document = document(Catalogue::new(definition.resources(None).unwrap()));
        for (name, theirs) in line["definitions"].as_object().unwrap() {
            let mut ours = document["definitions"][name].clone();
            without_texts(&mut ours);
            // Kubernetes leaves out defaults later, where it puts all definitions together.
            let mut theirs = theirs.clone();
            leave_out(&mut theirs);
            assert_eq!(ours, theirs, "{name} of {}", line["custom"]);
            checked += 1;
        }
    }
    assert!(checked > 6, "{checked}");
}

#[test]
fn protobuf_is_what_gnostic_writes() {
    let mut checked = 0;
    for line in golden("protobuf") {
        let encoded = gnostic::encode(&line["document"]);
        let theirs = BASE64.decode(line["protobuf"].as_str().unwrap()).unwrap();
        let (ours, theirs) = (encoded.escape_ascii(), theirs.escape_ascii());
        assert_eq!(ours.to_string(), theirs.to_string());
        checked += 1;
    }
    assert_eq!(checked, 2);
}

/// The headers of a request.
fn asked(headers: &[(&'static str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &str)| {
        (http::HeaderName::from_static(name), value.parse().unwrap())
    };
    headers.iter().map(header).collect()
}

#[tokio::test]
async fn the_document_comes_in_the_encoding_that_the_client_takes() {
    let (latest, sources) = (Latest::default(), sources(builtin()));
    let answer = async |headers: &[(&'static str, &str)]| {
        let answered = latest.answer(asked(headers), sources.clone()).await;
        answered.unwrap()
    };
    let header = |answer: &Response<Body>, name: &str| {
        let value = answer.headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    let plain = answer(&[]).await;
    assert_eq!(header(&plain, "content-type").as_deref(), Some(JSON));
    assert_eq!(
        header(&plain, "vary").as_deref(),
        Some("Accept-Encoding, Accept")
    );
    let tag = header(&plain, "etag").unwrap();
    for (accept, expected) in [
        ("*/*", Some(JSON)),
        ("text/html, application/json;q=0.5", Some(JSON)),
        (PROTOBUF, Some(PROTOBUF)),
        (PROTOBUF_OF_OLD, Some(PROTOBUF)),
        ("text/html", None),
    ] {
        let answer = answer(&[("accept", accept)]).await;
        assert_eq!(
            answer.status(),
            if expected.is_some() { 200 } else { 406 },
            "{accept}"
        );
        if expected.is_some() {
            assert_eq!(header(&answer, "content-type").as_deref(), expected);
            assert_eq!(header(&answer, "etag").as_deref(), Some(&*tag));
        }
    }
    for (known, code) in [
        (&*tag, 304),
        (&format!("\"x\", W/{tag}"), 304),
        ("\"x\"", 200),
    ] {
        assert_eq!(
            answer(&[("if-none-match", known)]).await.status(),
            code,
            "{known}"
        );
    }
    for (coding, expected) in [
        ("deflate, gzip;q=0.5", Some("gzip")),
        ("gzip;q=0", None),
        ("br", None),
    ] {
        let answer = answer(&[("accept-encoding", coding)]).await;
        assert_eq!(
            header(&answer, "content-encoding").as_deref(),
            expected,
            "{coding}"
        );
    }
}

#[test]
fn what_is_zipped_is_the_document() {
    let document = build(&sources(builtin()));
    let zipped = Zipped::new(&document);
    assert_eq!(zipped.text(), document);
    assert!(zipped.len() * 5 < document.len());
}
