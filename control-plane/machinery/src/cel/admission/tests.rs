use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::cel::Outcome;

const EXPRESSIONS: &str = include_str!("../../../testdata/admission.jsonl");
const INPUTS: &str = include_str!("../../../generate/admission/inputs.json");
const VARIABLES: &str = include_str!("../../../generate/admission/variables.txt");

/// The variables of the golden file.
fn variables(compiler: &mut Compiler) -> Variables {
    let lines = VARIABLES.lines().filter_map(|line| line.split_once(" := "));
    lines
        .map(|(name, source)| (name.to_owned(), compiler.add(name, source)))
        .collect()
}

fn request(operation: &Value) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    json!({"uid": "", "kind": kind, "resource": resource, "requestKind": kind,
        "requestResource": resource, "name": "a", "namespace": "default",
        "operation": operation, "dryRun": false, "options": null, "object": null,
        "oldObject": null,
        "userInfo": {"username": "me", "groups": ["g1", "g2"], "extra": {"k": ["v"]}}})
}

/// Allows the verb get, and fails for the verb fail.
fn decide(question: &Question) -> Decision {
    match question.verb.as_str() {
        "get" => Decision {
            allowed: true,
            reason: "get".into(),
            error: None,
        },
        "fail" => Decision {
            error: Some("it failed".into()),
            ..Decision::default()
        },
        _ => Decision {
            reason: "no get".into(),
            ..Decision::default()
        },
    }
}

fn answer(
    wanted: &str,
    expression: &Expression,
    variables: &Variables,
    input: &Value,
) -> (String, i64) {
    let mut decisions = HashMap::new();
    let target = Target {
        resource: "configmaps".into(),
        namespace: "default".into(),
        name: "a".into(),
        ..Target::default()
    };
    let request = request(&input["operation"]);
    loop {
        let inputs = Inputs {
            object: &input["object"],
            old_object: &input["oldObject"],
            params: &input["params"],
            request: &request,
            namespace: &input["namespace"],
            target: &target,
            decisions: &decisions,
        };
        let mut evaluation = Evaluation::new(inputs, variables, BUDGET);
        let shown = |json: Value| json.to_string();
        let result = match wanted {
            "object" => evaluation
                .configuration(expression)
                .map(|one| one.map(shown)),
            "patch" => evaluation.json_patch(expression).map(|one| one.map(shown)),
            _ => evaluation.evaluate(expression).map(|one| {
                one.map(|outcome| match outcome {
                    Outcome::Bool(value) => value.to_string(),
                    Outcome::String(text) => text,
                    Outcome::Null => "null".to_owned(),
                    Outcome::Other(_) => "something".to_owned(),
                })
            }),
        };
        let left = i64::try_from(evaluation.budget()).unwrap();
        match result {
            Err(Stop::Undecided(question)) => {
                let decision = decide(&question);
                assert!(decisions.insert(question, decision).is_none());
            }
            Err(stop) => return (stop.to_string(), -1),
            Ok(result) => return (result.unwrap_or_else(|why| why), left),
        }
    }
}

#[test]
fn expressions_are_answered_as_by_kubernetes() {
    let inputs: Vec<Value> = serde_json::from_str(INPUTS).unwrap();
    let mut wrong = Vec::new();
    for line in EXPRESSIONS.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (kind, source) = (
            line["wanted"].as_str().unwrap(),
            line["expression"].as_str().unwrap(),
        );
        let wanted = match kind {
            "bool" => Wanted::Bool,
            "string" => Wanted::String,
            "strings" => Wanted::StringOrNull,
            "object" => Wanted::Object,
            "patch" => Wanted::JsonPatch,
            _ => Wanted::Any,
        };
        let mut compiler = Compiler::composing(true);
        let variables = variables(&mut compiler);
        let expression = compiler.compile(source, wanted, true);
        let mut given = json!({"wanted": kind, "expression": source});
        if let Some(refusal) = expression.refusal() {
            given["error"] = refusal.why.as_str().into();
        } else {
            let results = inputs.iter().map(|input| {
                let (verdict, left) = answer(kind, &expression, &variables, input);
                json!({"verdict": verdict, "left": left})
            });
            given["results"] = results.collect();
        }
        if given != line {
            wrong.push(format!("{source}\n  ours:   {given}\n  theirs: {line}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
