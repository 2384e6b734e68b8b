use super::*;

#[test]
fn every_rule_says_what_go_says() {
    let mut count = 0;
    for line in include_str!("../../../testdata/name.jsonl").lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        let rule = line["rule"].as_str().unwrap();
        let wrong = match rule {
            "dns1123_label" => dns1123_label(text),
            "dns1123_subdomain" => dns1123_subdomain(text),
            "dns1035_label" => dns1035_label(text),
            "qualified_name" => qualified_name(text),
            "label_value" => label_value(text),
            "config_map_key" => config_map_key(text),
            _ => path_segment(text),
        };
        assert_eq!(serde_json::json!(wrong), line["errors"], "{rule} {text:?}");
        count += 1;
    }
    assert!(count > 150);
}

#[test]
fn versions_are_preferred_by_stability_and_number() {
    let mut versions = [
        "foo1",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
        "v10",
        "foo10",
        "v2",
        "v1",
        "v10beta3",
        "v11beta2",
    ];
    versions.sort_by(|a, b| compare_versions(b, a));
    let preferred = [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v10beta3",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
        "foo1",
        "foo10",
    ];
    assert_eq!(versions, preferred);
}
