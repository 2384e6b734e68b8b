use serde_json::json;

use super::*;

#[test]
fn paths_lead_to_the_first_value() {
    let object = json!({
        "metadata": {"annotations": {"example.com/a": "noted"}},
        "spec": {"size": 3, "share": 0.5, "empty": []},
        "status": {"list": [{"n": 1}, {"n": 2, "m": 3}], "conditions": [
            {"type": "Ready", "status": "True", "turn": 1, "is": true},
            {"type": "Done", "status": "False", "turn": 2},
        ]},
    });
    for (path, value) in [
        (".status.list[0].n", Some(json!(1))),
        (".status.list[-1].n", Some(json!(2))),
        ("$.status.list[*].m", Some(json!(3))),
        (".status.list[2].n", None),
        (".status.none.n", None),
        (".status.none[0]", None),
        (".status.conditions[-1:].type", Some(json!("Done"))),
        (".status.conditions[1:].type", Some(json!("Done"))),
        (".status.conditions[:1].type", Some(json!("Ready"))),
        (".status.conditions[0:2:2].type", Some(json!("Ready"))),
        (".status.conditions[-3:].type", None),
        (".status.conditions[1,0].type", Some(json!("Done"))),
        (".spec.empty[-1:].type", None),
        (".spec.empty[*].type", None),
        (".spec.size[0]", None),
        (".spec.*", Some(json!([]))),
        ("..m", Some(json!(3))),
        (".status..m", Some(json!(3))),
        (
            ".metadata.annotations.example\\.com/a",
            Some(json!("noted")),
        ),
        (
            ".metadata.annotations['example\\.com/a']",
            Some(json!("noted")),
        ),
        (".metadata.annotations['example.com/a']", None),
        (
            ".status.conditions[?(@.type==\"Done\")].status",
            Some(json!("False")),
        ),
        (
            ".status.conditions[?(@.type == 'Done')].status",
            Some(json!("False")),
        ),
        (
            ".status.conditions[?(@.type!=\"Ready\")].type",
            Some(json!("Done")),
        ),
        (".status.conditions[?(@.type=='Gone')].status", None),
        (".status.conditions[?(@.turn>1)].type", Some(json!("Done"))),
        (
            ".status.conditions[?(@.turn<=1)].type",
            Some(json!("Ready")),
        ),
        (
            ".status.conditions[?(@.is==true)].type",
            Some(json!("Ready")),
        ),
        (".status.conditions[?(@.is)].type", Some(json!("Ready"))),
        (".status.conditions[?(@.turn=='1')].type", None),
        (".status.conditions[?(@.type==Done)].type", None),
        (".status.list[?(@.m)].n", Some(json!(2))),
        (".a b", None),
    ] {
        let parsed = JsonPath::parse(path).unwrap();
        let first = parsed.first(&object, &mut { LOOKS_MAX });
        assert_eq!(first, value.as_ref(), "{path}");
    }
}

#[test]
fn what_is_no_path_is_refused() {
    for path in [
        ".a[",
        ".a[\"b\"]",
        ".a[b]",
        ".a[1:2:3:4]",
        ".a,b",
        ".a....b",
        ".a[?(@.b=='c']",
        ".a[?(@.b==)]",
    ] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}

#[test]
fn a_path_that_branches_again_and_again_ends() {
    let mut deep = json!(1);
    for _ in 0..50 {
        deep = json!([deep, 2]);
    }
    let path = format!(".a{}", "...*".repeat(20));
    let object = json!({"a": deep});
    let parsed = JsonPath::parse(&path).unwrap();
    assert_eq!(parsed.first(&object, &mut { LOOKS_MAX }), None);
}

#[test]
fn a_path_that_looks_at_the_same_values_again_and_again_ends() {
    let object = json!({"a": vec![1; 100_000], "b": vec![json!({"c": 1}); 10_000]});
    let again = |key: &str, times: usize| vec![key; times].join(",");
    let lists = again("'a'", 100);
    let nothing = again("'d'", 1000);
    for path in [
        format!("[{lists}][*]"),
        format!("[{lists}].*"),
        format!("[{lists}]..c"),
        format!("[{lists}][?(@)]"),
        format!(".b[*][{nothing},'c']"),
        format!(".b[?(@[{nothing},'c'])].c"),
    ] {
        let parsed = JsonPath::parse(&path).unwrap();
        assert_eq!(
            parsed.first(&object, &mut { LOOKS_MAX }),
            None,
            "{}",
            &path[..20]
        );
    }
    for path in [".b[*].c", ".b[*]['d','c']", ".b[?(@.c==1)].c"] {
        let parsed = JsonPath::parse(path).unwrap();
        assert_eq!(
            parsed.first(&object, &mut { LOOKS_MAX }),
            Some(&json!(1)),
            "{path}"
        );
    }
}
