use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::custom::cel::Outcome;

const EXPRESSIONS: &str = include_str!("../../../../testdata/admission.jsonl");
const INPUTS: &str = include_str!("../../../../generate/admission/inputs.json");
const VARIABLES: &str = include_str!("../../../../generate/admission/variables.txt");

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

/// A kind, an expression, and what is wrong with it; empty if nothing is. As Kubernetes says it,
/// except that it adds digits to the names of types.
const TYPED: &str = r#"
Pod | object.spec.containers.all(c, c.image != '') |
Pod | object.spec.replicas > 1 | 1:12: undefined field 'replicas'
Pod | object.spec.containers.all(c, c.imag != '') | 1:32: undefined field 'imag'
Pod | object.spec.containers[0].resources.limits == 1 | 1:36: undefined field 'limits'
Pod | object.spec.containers[0].ports[0].containerPort == 'x' | 1:50: found no matching overload for '_==_' applied to '(int, string)'
Pod | object.metadata.creationTimestamp == 'x' | 1:35: found no matching overload for '_==_' applied to '(timestamp, string)'
Pod | object.metadata.labels.x == 1 | 1:26: found no matching overload for '_==_' applied to '(string, int)'
Pod | object.spec.containers[0].livenessProbe.httpGet.port == 'x' |
Pod | object.metadata.managedFields[0].fieldsV1 == 'x' | 1:43: found no matching overload for '_==_' applied to '(Pod.metadata.managedFields.@idx.fieldsV1, string)'
Pod | params.data.x == 1 | 1:15: found no matching overload for '_==_' applied to '(string, int)'
Pod | params.foo == 1 | 1:7: undefined field 'foo'
Pod | variables.spec.foo == 1 |
Pod | variables.bad == 1 |
Pod | request.foo == 1 | 1:8: undefined field 'foo'
Pod | namespaceObject.metadata.foo == 1 | 1:25: undefined field 'foo'
Pod | authorizer.foo('x') | 1:15: undeclared reference to 'foo' (in container '')
Pod | authorizer.foo | 1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'
Pod | oldObject.foo == 1 | 1:10: undefined field 'foo'
Pod | object == 1 | 1:8: found no matching overload for '_==_' applied to '(Pod, int)'
Pod | object.spec.containers == 1 | 1:24: found no matching overload for '_==_' applied to '(list(Pod.spec.containers.@idx), int)'
Pod | 1 + 1 |
Deployment | object.spec.strategy.rollingUpdate.maxSurge == true |
Deployment | object.spec.template.spec.volumes[0].projected.sources[0].secret.items == 1 | 1:72: found no matching overload for '_==_' applied to '(list(Deployment.spec.template.spec.volumes.@idx.projected.sources.@idx.secret.items.@idx), int)'
Pod | object.apiVersion == 1 | 1:19: found no matching overload for '_==_' applied to '(string, int)'
Pod | object.spec.volumes[0].emptyDir.sizeLimit == 5 | 1:32: undefined field 'sizeLimit'
Pod | object.foo + | 1:13: Syntax error: mismatched input '<EOF>' expecting
"#;

#[test]
fn expressions_are_checked_against_the_kinds_that_they_are_about() {
    let of = |kind: &str| {
        let group = if kind == "Deployment" { "apps" } else { "" };
        let found = crate::schema::kind(group, "v1", kind).unwrap();
        ObjectType::builtin(kind, found.message()).unwrap()
    };
    let params = of("ConfigMap");
    for line in TYPED.trim().lines() {
        let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
        let [kind, source, why] = parts[..] else {
            panic!("{line}");
        };
        let mut compiler = Compiler::typed(&of(kind), Some(Some(&params)));
        compiler.add_typed("spec", "object.spec");
        compiler.add_typed("bad", "object.bad");
        let told = compiler.issues(source).unwrap_or_default();
        let first = told.lines().next().unwrap_or_default();
        let expected = match why {
            "" => String::new(),
            why => format!("ERROR: <input>:{why}"),
        };
        let good = first.starts_with(&expected) && first.is_empty() == why.is_empty();
        assert!(good, "{line}\n{told}");
    }
    // A schema of schemas nests without end.
    let definitions = crate::schema::kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let message = definitions.unwrap().message();
    assert!(ObjectType::builtin("CustomResourceDefinition", message).is_none());
}

#[test]
fn a_custom_resource_has_the_fields_of_its_schema_and_all_of_metadata() {
    let size = json!({"type": "integer"});
    let spec = json!({"type": "object", "properties": {"size": size}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let schema = crate::custom::structural::Schema::parse(&schema).unwrap();
    let compiler = Compiler::typed(&schema.object_type("Widget").unwrap(), None);
    let fits = "object.spec.size > 1 && object.metadata.labels['a'] == 'b' && object.kind == 'x'";
    assert_eq!(compiler.issues(fits), None);
    let told = compiler.issues("object.spec.size > '1'").unwrap();
    let expected = "ERROR: <input>:1:18: found no matching overload for '_>_' applied to '(int, \
                    string)'";
    assert_eq!(told.lines().next(), Some(expected));
    let told = compiler.issues("params.x").unwrap();
    assert!(told.contains("undeclared reference to 'params'"), "{told}");
}

/// The result of an expression with these variables.
fn with_variables(variables: impl Iterator<Item = (String, String)>, source: &str) -> String {
    let mut compiler = Compiler::composing(true);
    let variables: Variables = variables
        .map(|(name, source)| {
            let expression = compiler.add(&name, &source);
            (name, expression)
        })
        .collect();
    let expression = compiler.compile(source, Wanted::Bool, true);
    let input = json!({"operation": "CREATE", "object": {}});
    answer("bool", &expression, &variables, &input).0
}

#[test]
fn variables_that_build_on_each_other_are_bounded() {
    let chain = |first: &str, next: &str, count: usize| {
        let (first, next) = (first.to_owned(), next.to_owned());
        (0..count).map(move |at| {
            let source = match at {
                0 => first.clone(),
                at => next.replace('@', &format!("variables.v{}", at - 1)),
            };
            (format!("v{at}"), source)
        })
    };
    let plain = with_variables(chain("0", "@ + 1", 5000), "variables.v4999 == 4999");
    assert_eq!(plain, "true");
    let begin = "expression 'size(variables.v";
    let deep = with_variables(chain("[0]", "[@]", 110), "size(variables.v109) == 1");
    assert!(
        deep.starts_with(begin) && deep.contains("its value is too large"),
        "{deep:.200}"
    );
    let wide = with_variables(chain("[0]", "[@, @]", 60), "size(variables.v59) == 2");
    assert!(
        wide.starts_with(begin) && wide.contains("its value is too large"),
        "{wide:.200}"
    );
    let long = with_variables(chain("[0]", "[@]", 5000), "variables.v4999 == [0]");
    assert!(long.len() < 5000, "{}", long.len());
    let own = with_variables(
        [("v".to_owned(), "dyn(variables).v".to_owned())].into_iter(),
        "variables.v == 1",
    );
    assert!(own.contains("it uses itself"), "{own}");
}

#[test]
fn a_patch_of_lists_that_are_shared_again_and_again_is_refused() {
    let level = |at: usize| format!("[dyn([a{0}, a{0}])].map(a{at}, ", at - 1);
    let levels: String = (1..=40).map(level).collect();
    let shared = format!("[dyn(1)].map(a0, {levels}a40{}", ")".repeat(41));
    let object = format!("Object{{x: {shared}}}");
    let patch = format!("[JSONPatch{{op: 'add', path: '/x', value: {object}}}]");
    let (decisions, target) = (HashMap::new(), Target::default());
    let inputs = Inputs {
        object: &Value::Null,
        old_object: &Value::Null,
        params: &Value::Null,
        request: &Value::Null,
        namespace: &Value::Null,
        target: &target,
        decisions: &decisions,
    };
    let (compiler, variables) = (Compiler::new(false), Variables::new());
    let compiled = |source: &str, wanted| {
        let expression = compiler.compile(source, wanted, false);
        assert_eq!(expression.refusal(), None, "{source}");
        expression
    };
    let (object, patch) = (
        compiled(&object, Wanted::Object),
        compiled(&patch, Wanted::JsonPatch),
    );
    let mut evaluation = Evaluation::new(inputs, &variables, BUDGET);
    let refused = Ok(Err("its value is too large".to_owned()));
    assert_eq!(evaluation.configuration(&object), refused);
    assert_eq!(evaluation.json_patch(&patch), refused);
}
