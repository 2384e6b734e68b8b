//! Bodies of the fuzz targets; the targets only call them. They panic on a violated property.

use serde_json::Value;

use crate::custom::cel::{CALL_COST_MAX, Environment, Error};
use crate::custom::structural::Schema;
use crate::object::selector::{FieldSelector, LabelSelector};
use crate::{edit::patch, object, protobuf, schema, strict};

/// Reads bytes as a protobuf body, and as a JSON body of a pod: an object that decodes must encode,
/// and decode again.
pub fn body_decode(data: &[u8]) {
    if let Ok(read) = protobuf::decode(data) {
        let written = protobuf::encode(&read).expect("what was read can be written");
        protobuf::decode(&written).expect("what was written can be read");
    }
    let pod = schema::message("core/v1.Pod").expect("pods are known");
    if let Ok(read) = strict::decode(data, pod) {
        let again = strict::prune(&read.object, pod).expect("it has the right types by now");
        assert!(again.problems.is_empty(), "{:?}", again.problems);
    }
}

/// Reads bytes as an object and a patch with a zero byte between them. A patch applies or is
/// refused, and a merge patch applied twice gives the same as applied once.
pub fn patch_apply(data: &[u8]) {
    let Some(at) = data.iter().position(|byte| *byte == 0) else {
        return;
    };
    let parse = |bytes| serde_json::from_slice::<Value>(bytes).ok();
    let (Some(object), Some(by)) = (parse(&data[..at]), parse(&data[at + 1..])) else {
        return;
    };
    let once = patch::merge(&object, &by);
    assert_eq!(patch::merge(&once, &by), once);
    let _ = patch::json(&object, &by);
    let group = object::api_version(&object);
    let kind = schema::body(group, "v1", object::kind(&object));
    let message = kind.or_else(|| schema::message("core/v1.Pod"));
    let _ = patch::strategic(&object, &by, message.expect("pods are known"));
}

/// Reads bytes as a selector: one that parses and is printed must parse to the same again. Go sorts
/// fields by their text and prints `==` as `=`, so the comparison starts from the printed text.
pub fn selector_parse(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(labels) = LabelSelector::parse(text) {
        let again = LabelSelector::parse(&labels.to_string());
        assert_eq!(again.as_ref(), Ok(&labels), "{text:?}");
        assert!(labels.matches(None) || !labels.is_empty());
    }
    if let Ok(fields) = FieldSelector::parse(text) {
        let written = FieldSelector::parse(&fields.to_string());
        let written = written.unwrap_or_else(|error| panic!("{text:?}: {error:?}"));
        assert_eq!(written.to_string().len(), fields.to_string().len());
        let again = FieldSelector::parse(&written.to_string());
        assert_eq!(again, Ok(written), "{text:?}");
    }
}

/// Reads bytes as an expression in CEL: it compiles or is refused, and evaluating it ends within
/// its budget.
pub fn cel(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let objects: Value = serde_json::from_str(include_str!("../generate/rules/objects.json"))
        .expect("the objects of the golden file are JSON");
    let environment = Environment::new().with_any("self").with_any("oldSelf");
    if let Ok(program) = environment.compile(text) {
        let lookup = |_: &str| objects.get(0);
        let (outcome, cost) = program.evaluate(&lookup, CALL_COST_MAX);
        assert!(
            cost <= CALL_COST_MAX || outcome == Err(Error::TooExpensive),
            "{text:?}: {cost}"
        );
    }
    let schema: Value = serde_json::from_str(include_str!("../generate/rules/schema.json"))
        .expect("the schema of the golden file is JSON");
    let mut schema = schema;
    schema["x-kubernetes-validations"] = serde_json::json!([{"rule": text, "message": "m"}]);
    if let Ok(schema) = Schema::parse(&schema) {
        schema.check_rules("");
        schema.validate(&objects[0], Some(&objects[2]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    /// Damages bytes; the same seed gives the same result.
    fn damaged(whole: &[u8], seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        let mut bytes = whole.to_vec();
        for _ in 0..1 + next() % 4 {
            let at = next() % bytes.len();
            match next() % 3 {
                0 => bytes[at] = next() as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, next() as u8),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        bytes
    }

    #[test]
    fn a_scalar_in_the_form_of_a_text_is_refused() {
        let found =
            include_bytes!("../../../fuzz/regressions/body_decode/scalar_in_the_form_of_a_text");
        body_decode(found);
        assert!(protobuf::decode(found).is_err());
    }

    #[test]
    fn damaged_bodies_are_read_or_refused() {
        for line in include_str!("../testdata/objects.jsonl").lines().step_by(3) {
            let line: Value = serde_json::from_str(line).unwrap();
            let wire = line["protobuf"].as_str().unwrap();
            let wire = base64::engine::general_purpose::STANDARD
                .decode(wire)
                .unwrap();
            let text = line["json"].to_string();
            for seed in 0..20 {
                body_decode(&damaged(&wire, seed));
                body_decode(&damaged(text.as_bytes(), seed));
            }
        }
    }

    #[test]
    fn damaged_patches_apply_or_are_refused() {
        for line in include_str!("../testdata/strategic.jsonl").lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let whole = format!("{}\0{}", line["original"], line["patch"]);
            for seed in 0..20 {
                patch_apply(&damaged(whole.as_bytes(), seed));
            }
        }
    }

    #[test]
    fn damaged_selectors_read_the_same_again() {
        for line in include_str!("../testdata/selector.jsonl").lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = format!("{} ", line["text"].as_str().unwrap());
            for seed in 0..200 {
                selector_parse(&damaged(text.as_bytes(), seed));
            }
        }
    }

    #[test]
    fn damaged_expressions_compile_or_are_refused() {
        for line in include_str!("../generate/rules/expressions.txt").lines() {
            for seed in 0..10 {
                cel(&damaged(format!("{line} ").as_bytes(), seed));
            }
        }
    }

    /// Nesting costs stack in every pass; the stack of a test is that of a worker.
    #[test]
    fn deep_expressions_compile_or_are_refused() {
        for depth in [10, 100, 240, 260, 5_000, 40_000] {
            for (open, middle, close) in [
                ("(", "1", ")"),
                ("[", "1", "]"),
                ("{1: ", "1", "}"),
                ("!", "true", ""),
                ("-", "self.n", ""),
                ("", "self", ".a"),
                ("", "self", "[0]"),
                ("", "1", " + 1"),
                ("", "true", " && true"),
                ("true ? 1 : ", "1", ""),
                ("size(", "self", ")"),
                ("[1].map(x, ", "x", ")"),
                ("self.all(x, ", "x == 1", ")"),
                ("optional.of(1).optMap(y, ", "y", ")"),
                ("a{b: ", "1", "}"),
            ] {
                let text = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
                cel(text.as_bytes());
            }
        }
    }

    /// What grows with every step stops at a limit, whatever it costs.
    #[test]
    fn greedy_expressions_are_stopped() {
        let doubled = |levels: usize| {
            let list = "[[1, 1]]".to_owned();
            (0..levels).fold(list, |inner, _| format!("[{inner} + {inner}]"))
        };
        for text in [
            "lists.range(9223372036854775807).size() > 0",
            "lists.range(1000000).map(x, lists.range(1000000)).size() > 0",
            "lists.range(1000).map(x, self.text.replace('', self.text)).join().size() > 0",
            "'%.999999999f'.format([1.0]) == ''",
            "'aaaaaaaaaaaaaaaa'.replace('', 'bbbbbbbbbbbb').replace('', 'cccccccccccc')\
             .replace('', 'dddddddddddddd').replace('', 'eeeeeeeeeeeeeeee').replace('', 'ffffffff')\
             .replace('', 'gggggggggggg').size() > 0",
            &format!("{}.size() > 0", doubled(12)),
        ] {
            cel(text.as_bytes());
        }
    }
}
