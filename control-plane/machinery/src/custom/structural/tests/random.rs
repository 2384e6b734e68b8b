//! Random schemas and objects: nothing panics, and the passes agree with each other.

use serde_json::{Map, Value, json};

use super::super::{CommonTexts, Schema};

/// How many schemas are made, each with as many objects.
const SCHEMAS: u64 = 400;
const OBJECTS: usize = 8;
/// How deep both nest.
const DEPTH: usize = 4;

const NAMES: [&str; 6] = ["a", "b", "metadata", "kind", "apiVersion", "spec"];

/// Numbers from a seed: the same seed gives the same numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }

    fn one_in(&mut self, end: usize) -> bool {
        self.below(end) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Any JSON.
    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 7 } else { 10 }) {
            0 => Value::Null,
            1 => self.one_in(2).into(),
            2 => (self.below(20) as i64 - 5).into(),
            3 => json!(self.below(20) as f64 / 4.0),
            4 => [json!(u64::MAX), json!(i64::MIN)][self.below(2)].clone(),
            5 => self
                .of(&["", "a", "abc", "1.2.3.4", "\u{e9}", "x y"])
                .into(),
            6 => json!(1e300),
            7 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let fields =
            (0..self.below(5)).map(|_| (self.of(&NAMES).to_owned(), self.value(depth - 1)));
        Value::Object(fields.collect::<Map<String, Value>>())
    }

    /// A schema that is structural unless it is wild.
    fn schema(&mut self, depth: usize, wild: bool) -> Value {
        let kinds = ["string", "integer", "number", "boolean", "array", "object"];
        let kind = self.of(if depth == 0 { &kinds[..4] } else { &kinds });
        let mut schema = json!({"type": kind});
        match kind {
            "array" => schema["items"] = self.schema(depth - 1, wild),
            "object" if self.one_in(3) => {
                schema["additionalProperties"] = self.schema(depth - 1, wild)
            }
            "object" => {
                let names = (0..self.below(4)).map(|_| self.of(&["a", "b", "spec"]).to_owned());
                let names: Vec<String> = names.collect();
                for name in names {
                    schema["properties"][name] = self.schema(depth - 1, wild);
                }
            }
            _ => {}
        }
        for _ in 0..self.below(4) {
            let (keyword, value) = self.check(depth);
            schema[keyword] = value;
        }
        if wild && self.one_in(3) {
            let keyword = self.of(&[
                "type",
                "items",
                "properties",
                "default",
                "allOf",
                "not",
                "$ref",
                "required",
                "x-kubernetes-list-type",
                "x-kubernetes-list-map-keys",
                "x-kubernetes-embedded-resource",
                "additionalProperties",
                "enum",
                "pattern",
                "x-kubernetes-int-or-string",
            ]);
            schema[keyword] = self.value(depth);
        }
        schema
    }

    fn check(&mut self, depth: usize) -> (&'static str, Value) {
        let count = self.below(4);
        match self.below(14) {
            0 => ("minLength", count.into()),
            1 => ("maxItems", count.into()),
            2 => ("maxProperties", count.into()),
            3 => ("minimum", json!(count as f64 - 1.5)),
            4 => ("multipleOf", json!(count as f64 / 2.0)),
            5 => ("enum", json!([self.value(0), self.value(0)])),
            6 => ("pattern", self.of(&["^a", r"\d", "[a-c]+$"]).into()),
            7 => (
                "format",
                self.of(&["ipv4", "int32", "date-time", "float", "odd"])
                    .into(),
            ),
            8 => ("nullable", true.into()),
            9 => ("required", json!([self.of(&NAMES)])),
            10 => ("x-kubernetes-preserve-unknown-fields", true.into()),
            11 => ("default", self.value(1)),
            12 => {
                let junctor = ["anyOf", "oneOf", "allOf"][self.below(3)];
                let (a, b) = (self.check_alone(depth), self.check_alone(depth));
                (junctor, json!([a, b]))
            }
            _ => ("not", self.check_alone(depth)),
        }
    }

    fn check_alone(&mut self, depth: usize) -> Value {
        let (keyword, value) = if depth == 0 {
            ("minLength", 1.into())
        } else {
            self.check(depth - 1)
        };
        let mut schema = json!({});
        if !matches!(keyword, "nullable" | "default") && !keyword.starts_with("x-") {
            schema[keyword] = value;
        }
        schema
    }
}

#[test]
fn the_passes_agree_on_random_objects() {
    let mut accepted = 0;
    let mut found_invalid = 0;
    for seed in 1..=SCHEMAS {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut root = random.schema(DEPTH, false);
        root["type"] = "object".into();
        for keyword in ["additionalProperties", "items", "nullable", "default"] {
            crate::object::map_mut(&mut root).remove(keyword);
        }
        let Ok(schema) = Schema::parse(&root) else {
            continue;
        };
        accepted += 1;
        assert!(schema.openapi(CommonTexts::default())["properties"]["kind"].is_object());
        for _ in 0..OBJECTS {
            let mut object = random.object(DEPTH);
            let unknown = schema.unknown(&object);
            assert_eq!(schema.prune(&mut object), unknown, "{root}");
            assert_eq!(schema.unknown(&object), [""; 0], "{root} {object}");
            schema.default(&mut object);
            assert_eq!(schema.unknown(&object), [""; 0], "{root} {object}");
            let mut again = object.clone();
            schema.default(&mut again);
            assert_eq!(again, object, "{root}");
            let causes = schema.validate(&object, None);
            found_invalid += usize::from(!causes.is_empty());
            let same = schema.validate(&object, Some(&object));
            assert!(same.is_empty(), "{root} {object}: {same:?}");
        }
    }
    assert!(
        accepted > 100 && found_invalid > 100,
        "{accepted} {found_invalid}"
    );
}

#[test]
fn wild_schemas_are_accepted_or_refused() {
    let mut refused = 0;
    for seed in 1..=SCHEMAS {
        let mut random = Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
        let root = if random.one_in(4) {
            random.value(DEPTH)
        } else {
            random.schema(DEPTH, true)
        };
        match Schema::parse(&root) {
            Ok(schema) => {
                let mut value = random.value(DEPTH);
                schema.prune(&mut value);
                schema.default(&mut value);
                let old = random.value(DEPTH);
                let _ = schema.validate(&value, Some(&old));
            }
            Err(causes) => {
                assert!(!causes.is_empty(), "{root}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}
