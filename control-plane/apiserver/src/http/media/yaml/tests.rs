use serde_json::json;

use super::*;

#[test]
fn what_is_written_reads_the_same_again() {
    let value = json!({
        "apiVersion": "v1", "kind": "List", "empty": {}, "none": [], "null": null,
        "items": [{"a": [1, 2.5, true], "b": {"c": {"d": "x: y"}}}, [["deep"], []], "- no", {}],
        "texts": {"on": "yes", "true": "12", "": "two\nlines\n", "tilde": "~", "hash": "a #b",
            "time": "2001-01-01T00:00:00Z", "quotes": "'\"\\", "ü": "\u{1}\u{2028}", "n": "0x1f"},
    });
    let text = write(&value);
    let again: Value = serde_json::from_slice(&to_json(text.as_bytes(), true).unwrap()).unwrap();
    assert_eq!(again, value, "{text}");
    let head = "apiVersion: v1\nempty: {}\nitems:\n- a:\n  - 1\n  - 2.5\n";
    assert!(text.starts_with(head), "{text}");
}

#[test]
fn texts_are_written_in_the_style_of_gos_writer() {
    for (text, written) in [
        ("plain text, with \"quotes\"", "plain text, with \"quotes\""),
        ("", "\"\""),
        ("on", "\"on\""),
        ("oN", "oN"),
        ("12", "\"12\""),
        ("1.2.3", "1.2.3"),
        ("2001-01-01T00:00:00Z", "\"2001-01-01T00:00:00Z\""),
        ("x: y", "'x: y'"),
        ("it's: y", "'it''s: y'"),
        ("- a", "'- a'"),
        ("-a", "-a"),
        ("a #b", "'a #b'"),
        ("*", "'*'"),
        ("a\tb", "\"a\\tb\""),
        ("two\nlines", "|-\n  two\n  lines"),
        ("two\nlines\n", "|\n  two\n  lines"),
        ("end \nline", "\"end \\nline\""),
    ] {
        let value = json!({ "key": text });
        assert_eq!(write(&value), format!("key: {written}\n"));
    }
    let long = format!("{}: {} end", "a".repeat(40), "b".repeat(40));
    let broken = format!("'{}: {}\n  end'\n", "a".repeat(40), "b".repeat(40));
    assert_eq!(write(&json!({ "key": long })), format!("key: {broken}"));
    assert_eq!(write(&json!([long])), format!("- {broken}"));
}

#[test]
fn only_the_first_document_counts() {
    for behind in ["---\na: 2\n", "---\n[", "...\n---\n- 1\n"] {
        let text = format!("# first\n---\na: 1\n{behind}");
        let json = to_json(text.as_bytes(), true).unwrap();
        assert_eq!(json, br#"{"a":1}"#, "{text}");
    }
    let twice = to_json(b"a: 1\na: 2\n---\nb: 1\n", true);
    assert!(matches!(twice, Err(Error::Twice(_))), "{twice:?}");
}

#[test]
fn aliases_that_multiply_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for at in 1..12 {
        let list = vec![format!("*a{}", at - 1); 10].join(", ");
        text += &format!("a{at}: &a{at} [{list}]\n");
    }
    assert!(matches!(
        to_json(text.as_bytes(), false),
        Err(Error::Malformed(_))
    ));
    let text = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(1 << 20),
        "*a, ".repeat(50)
    );
    let Err(Error::Malformed(why)) = to_json(text.as_bytes(), false) else {
        panic!("50 MiB are converted");
    };
    assert_eq!(why, "document contains excessive aliasing");
    let deep = "[".repeat(100_000);
    assert!(matches!(
        to_json(deep.as_bytes(), false),
        Err(Error::Malformed(_))
    ));
}
