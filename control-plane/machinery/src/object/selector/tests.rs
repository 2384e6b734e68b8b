use super::*;
use serde_json::json;

#[test]
fn selectors_read_match_and_fail_as_in_go() {
    let labels = json!({"a": "b", "c": "5", "x/y": "", "tier": "front"});
    let field = |name: &str| {
        Cow::Borrowed(match name {
            "metadata.name" => "n",
            "status.phase" => "Running",
            "odd" => "a,b=c\\d",
            _ => "",
        })
    };
    for line in include_str!("../../../testdata/selector.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        let of_labels = |selector: LabelSelector| {
            let matches = selector.matches(labels.as_object());
            (selector.to_string(), matches)
        };
        let result = match line["of"].as_str().unwrap() {
            "labels" => LabelSelector::parse(text).map(of_labels),
            "object" => {
                let object = serde_json::from_str(text).unwrap();
                LabelSelector::from_object(&object).map(of_labels)
            }
            _ => FieldSelector::parse(text).map(|one| (one.to_string(), one.matches(field))),
        };
        match result {
            Ok((written, matches)) => {
                assert_eq!(line["error"], "", "{text}");
                assert_eq!(line["string"], written, "{text}");
                assert_eq!(line["matches"], matches, "{text}");
            }
            Err(error) => assert_eq!(line["error"], error.0, "{text}"),
        }
    }
}

#[test]
fn no_labels_satisfy_only_what_asks_for_none() {
    let none = |text| LabelSelector::parse(text).unwrap().matches(None);
    assert!(none("") && none("!a") && none("a!=b") && none("a notin (b)"));
    assert!(!none("a") && !none("a=b") && !none("a>1"));
}
