use super::super::{Error, to_json};

/// Texts of Kubernetes' apiserver about documents to apply.
#[test]
fn errors_are_worded_as_in_go() {
    for (document, said) in [
        ("a: [", "line 1: did not find expected node content"),
        ("a: {", "line 1: did not find expected node content"),
        ("a: [b", "line 1: did not find expected ',' or ']'"),
        ("a: [b\nc: d", "line 1: did not find expected ',' or ']'"),
        ("a: {b: c", "line 1: did not find expected ',' or '}'"),
        ("a: {b: c\nd: e", "line 1: did not find expected ',' or '}'"),
        ("a: b: c", "mapping values are not allowed in this context"),
        (
            "a: b\n  c: d",
            "line 2: mapping values are not allowed in this context",
        ),
        ("a:\n  b: c\n d: e", "line 2: did not find expected key"),
        ("a: b\n- c", "line 1: did not find expected key"),
        ("a: \"b\" c", "did not find expected key"),
        (": a", "did not find expected key"),
        ("- a\nb: c", "line 1: did not find expected '-' indicator"),
        (
            "a:\n\tb: c",
            "line 2: found character that cannot start any token",
        ),
        ("a: @b", "found character that cannot start any token"),
        ("a: \"b", "found unexpected end of stream"),
        (
            "a: &",
            "did not find expected alphabetic or numeric character",
        ),
        ("%", "could not find expected directive name"),
        ("a: \"\\q\"", "found unknown escape character"),
        ("a: |x\n b", "did not find expected comment or line break"),
        ("a: !<x", "did not find the expected '>'"),
        ("a: ]", "did not find expected node content"),
        ("a: [b,,c]", "did not find expected node content"),
        ("a: \u{1}", "control characters are not allowed"),
    ] {
        match to_json(document.as_bytes(), false) {
            Err(Error::Malformed(why)) => assert_eq!(why, said, "{document:?}"),
            other => panic!("{document:?}: {other:?}"),
        }
    }
}
