//! Admission policies: which writes they are about, what they see, and what they do.

mod mutating;

use serde_json::{Value, json};

use crate::admission::webhooks::server::{allow, patch};
use crate::admission::webhooks::world::{Answer, GROUP, World, label, map, rule};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A world with a policy `p` and its binding `b`.
async fn governed(spec: Value, binding: Value) -> World {
    let world = World::start().await;
    govern(&world, spec, binding).await;
    world
}

async fn govern(world: &World, spec: Value, binding: Value) {
    world.given(&policies(), &policy("p", spec)).await;
    bind(world, "b", binding).await;
}

async fn bind(world: &World, name: &str, more: Value) {
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    merge(&mut spec, more);
    let binding = json!({"kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": spec});
    world.given(&bindings(), &binding).await;
}

/// A policy about writes of maps, if its spec does not say otherwise.
fn policy(name: &str, more: Value) -> Value {
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule("*", "configmaps")]}});
    merge(&mut spec, more);
    json!({"kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
}

fn validation(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}

fn merge(into: &mut Value, more: Value) {
    let Value::Object(more) = more else {
        panic!("{more} is no object");
    };
    into.as_object_mut().unwrap().extend(more);
}

fn policies() -> String {
    format!("{GROUP}/validatingadmissionpolicies")
}

fn bindings() -> String {
    format!("{GROUP}/validatingadmissionpolicybindings")
}

/// A map with these data.
fn holding(name: &str, data: Value) -> Value {
    let mut object = map(name);
    object["data"] = data;
    object
}

/// What the policy `p` says with its binding `b`; empty if it allows the write.
fn why(answer: &Answer) -> &str {
    if answer.code < 300 {
        return "";
    }
    let begin = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    let (_, why) = answer
        .message()
        .split_once(begin)
        .unwrap_or_else(|| panic!("{}", answer.message()));
    why
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_refuses_as_in_kubernetes_from_the_next_request_on() {
    let world = World::start().await;
    let spec = validation("object.data.k == 'v'");
    world.given(&policies(), &policy("p", spec)).await;
    let wrong = holding("a", json!({"k": "w"}));
    let dry = format!("{MAPS}?dryRun=All");
    assert_eq!(
        world.post(&dry, &wrong).await.code,
        201,
        "there is no binding"
    );
    bind(&world, "b", json!({})).await;
    let answer = world.post(&dry, &wrong).await;
    let message = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' \
                   denied request: failed expression: object.data.k == 'v'";
    let cause = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed \
                 expression: object.data.k == 'v'";
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Invalid", "code": 422,
        "details": {"name": "a", "kind": "configmaps", "causes": [{"message": cause}]}});
    assert_eq!(answer.body, expected);
    world.given(MAPS, &holding("a", json!({"k": "v"}))).await;
    let one = format!("{}/p", policies());
    let mut changed = world.ask("GET", &one, &Value::Null).await.body;
    changed["spec"]["validations"][0]["expression"] = "object.data.k == 'w'".into();
    assert_eq!(world.ask("PUT", &one, &changed).await.code, 200);
    assert_eq!(
        world
            .post(&dry, &holding("x", json!({"k": "v"})))
            .await
            .code,
        422
    );
    let one = format!("{}/b", bindings());
    assert_eq!(world.ask("DELETE", &one, &Value::Null).await.code, 200);
    assert_eq!(
        world
            .post(&dry, &holding("x", json!({"k": "v"})))
            .await
            .code,
        201
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_the_message_and_the_reason_of_the_validation() {
    let long = format!("'{}'", "x".repeat(5 * 1024 + 1));
    for (more, code, reason, message) in [
        (
            json!({}),
            422,
            "Invalid",
            "failed expression: object.data.k == 'v'",
        ),
        (json!({"message": " no k "}), 422, "Invalid", "no k"),
        (
            json!({"message": "m", "messageExpression": "'not ' + object.data.k"}),
            422,
            "Invalid",
            "not w",
        ),
        (
            json!({"message": "m", "messageExpression": "'  '"}),
            422,
            "Invalid",
            "m",
        ),
        (
            json!({"message": "m", "messageExpression": "'a\\nb'"}),
            422,
            "Invalid",
            "m",
        ),
        (
            json!({"message": "m", "messageExpression": long}),
            422,
            "Invalid",
            "m",
        ),
        (
            json!({"message": "m", "messageExpression": "string(object.data.none)"}),
            422,
            "Invalid",
            "m",
        ),
        (
            json!({"message": "m", "reason": "Forbidden"}),
            403,
            "Forbidden",
            "m",
        ),
        (
            json!({"message": "m", "reason": "RequestEntityTooLarge"}),
            413,
            "RequestEntityTooLarge",
            "m",
        ),
    ] {
        let mut one = json!({"expression": "object.data.k == 'v'"});
        merge(&mut one, more);
        let world = governed(json!({"validations": [one]}), json!({})).await;
        let answer = world.post(MAPS, &holding("a", json!({"k": "w"}))).await;
        let given = (
            answer.code,
            answer.body["reason"].as_str().unwrap(),
            why(&answer),
        );
        assert_eq!(given, (code, reason, message));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_says_what_follows_from_a_failure() {
    let spec = json!({"validations": [
        {"expression": "object.data.k == 'v'", "message": "not v"},
        {"expression": "size(object.data) < 2", "message": "too many"},
        {"expression": "true"},
    ]});
    let wrong = holding("a", json!({"k": "w", "l": "x"}));
    let world = governed(spec, json!({"validationActions": ["Warn", "Audit"]})).await;
    let answer = world.post(MAPS, &wrong).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    let warned = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': ";
    let expected = [format!("{warned}not v\""), format!("{warned}too many\"")];
    assert_eq!(answer.warnings(), expected);
    bind(&world, "c", json!({"validationActions": ["Audit"]})).await;
    assert_eq!(world.post(MAPS, &holding("b", json!({}))).await.code, 201);
    bind(&world, "d", json!({})).await;
    let answer = world.post(MAPS, &wrong).await;
    let refused = "ValidatingAdmissionPolicy 'p' with binding 'd' denied request: not v";
    assert!(answer.message().ends_with(refused), "{}", answer.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_policy_decides_about_what_cannot_be_evaluated() {
    let round = "[0,1,2,3,4,5,6,7,8,9].all(x, ";
    let costly = format!("{}true{}", round.repeat(6), ")".repeat(6));
    let condition = json!({"matchConditions": [{"name": "c", "expression": "object.none == 1"}],
        "validations": [{"expression": "true"}]});
    let message = format!("{costly} ? 'a' : 'b'");
    let costly_message = json!({"expression": "true", "messageExpression": message});
    let costly_messages = json!({"validations": vec![costly_message; 12]});
    let annotation =
        json!({"auditAnnotations": [{"key": "k", "valueExpression": "string(object.none)"}]});
    let many: Vec<Value> = vec![json!({"expression": costly}); 12];
    let budget = "validation failed due to running out of cost budget, no further validation \
                  rules will be run";
    for (spec, expected) in [
        (
            validation("object.none == 1"),
            "expression 'object.none == 1' resulted in error: no such key: none".to_owned(),
        ),
        (
            validation(&costly),
            format!(
                "expression '{costly}' resulted in error: operation cancelled: actual cost limit \
                 exceeded"
            ),
        ),
        (json!({"validations": many}), budget.to_owned()),
        (
            condition,
            "expression 'object.none == 1' resulted in error: no such key: none".to_owned(),
        ),
        (
            annotation,
            "expression 'string(object.none)' resulted in error: no such key: none".to_owned(),
        ),
        (
            costly_messages,
            format!("failed messageExpression: {budget}"),
        ),
    ] {
        let mut ignores = spec.clone();
        merge(&mut ignores, json!({"failurePolicy": "Ignore"}));
        let world = governed(spec.clone(), json!({})).await;
        assert_eq!(why(&world.post(MAPS, &map("a")).await), expected, "{spec}");
        let world = governed(ignores, json!({})).await;
        assert_eq!(world.post(MAPS, &map("a")).await.code, 201, "{spec}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_see_the_write_and_its_namespace() {
    let checks = [
        "request.operation != 'CREATE' || oldObject == null && object.metadata.name == 'a'",
        "request.operation != 'UPDATE' || oldObject.data.k == 'v' && object.data.k == 'w'",
        "request.operation != 'DELETE' || object == null && oldObject.data.k == 'w'",
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
        "namespaceObject.status.phase == 'Active'",
        "request.namespace == 'default' && request.resource.resource == 'configmaps'",
        "request.userInfo.username == 'system:admin' && 'system:masters' in request.userInfo.groups",
        "variables.name == 'a' && variables.twice == 'aa'",
        "authorizer.requestResource.check('delete').allowed()",
    ];
    let validations = checks.map(|expression| json!({"expression": expression}));
    let variables = json!([
        {"name": "name", "expression": "request.name"},
        {"name": "twice", "expression": "variables.name + variables.name"},
        {"name": "unused", "expression": "object.none.at.all"},
    ]);
    let spec = json!({"variables": variables, "validations": validations});
    let world = governed(spec, json!({})).await;
    let one = format!("{MAPS}/a");
    let made = world.post(MAPS, &holding("a", json!({"k": "v"}))).await;
    assert_eq!(why(&made), "");
    let change = json!({"data": {"k": "w"}});
    assert_eq!(why(&world.ask("PATCH", &one, &change).await), "");
    assert_eq!(why(&world.ask("DELETE", &one, &Value::Null).await), "");
    assert_eq!(world.ask("GET", &one, &Value::Null).await.code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_about_what_its_constraints_and_its_binding_select() {
    let world = World::start().await;
    let space = json!({"kind": "Namespace", "metadata": {"name": "prod",
        "labels": {"env": "prod"}}});
    world.given("/api/v1/namespaces", &space).await;
    let mut named = rule("CREATE", "configmaps");
    named["resourceNames"] = json!(["a", "b"]);
    let mut excluded = rule("*", "configmaps");
    excluded["resourceNames"] = json!(["b"]);
    let constraints = json!({"resourceRules": [named], "excludeResourceRules": [excluded]});
    let spec = json!({"matchConstraints": constraints, "validations": [{"expression": "false"}],
        "matchConditions": [{"name": "c", "expression": "!has(object.data)"}]});
    let selector = json!({"matchLabels": {"env": "prod"}});
    let binding = json!({"matchResources": {"namespaceSelector": selector}});
    govern(&world, spec, binding).await;
    let in_prod = "/api/v1/namespaces/prod/configmaps?dryRun=All";
    let in_default = format!("{MAPS}?dryRun=All");
    for (path, object, code) in [
        (in_prod, map("a"), 422),
        (in_prod, map("b"), 201),
        (in_prod, map("c"), 201),
        (in_prod, holding("a", json!({"k": "v"})), 201),
        (&in_default, map("a"), 201),
    ] {
        let answer = world.post(path, &object).await;
        assert_eq!(answer.code, code, "{path} {object}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_the_same_objects_is_matched() {
    let mut scalers = rule("*", "horizontalpodautoscalers");
    scalers["apiVersions"] = json!(["v2"]);
    let seen = "[string(object.apiVersion), request.kind.version, request.requestKind.version, \
                string(size(object.spec.metrics))].join(' ')";
    let spec = json!({"matchConstraints": {"resourceRules": [scalers]},
        "validations": [{"expression": "false", "messageExpression": seen}]});
    let world = governed(spec, json!({})).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let scaler = json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 5}});
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    assert_eq!(
        why(&world.post(path, &scaler).await),
        "autoscaling/v2 v2 v1 1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_found_by_name_and_by_selector() {
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let limit = "params == null || size(object.data) <= int(params.data.max)";
    let spec = json!({"paramKind": kind, "validations": [
        {"expression": limit, "messageExpression": "'at most ' + params.data.max"}],
        "matchConditions": [{"name": "c", "expression": "has(object.data) && !('max' in object.data)"}]});
    let world = World::start().await;
    world.given(&policies(), &policy("p", spec)).await;
    for (name, max, tier) in [("one", "1", "gold"), ("two", "2", "gold")] {
        let mut object = holding(name, json!({ "max": max }));
        object["metadata"]["labels"] = json!({ "tier": tier });
        world.given(MAPS, &object).await;
    }
    let pair = holding("x", json!({"a": "1", "b": "2"}));
    let dry = format!("{MAPS}?dryRun=All");
    let missing = "failed to configure binding: no params found for policy binding with `Deny` \
                   parameterNotFoundAction";
    let gold = json!({"matchLabels": {"tier": "gold"}});
    let none = json!({"matchLabels": {"tier": "none"}});
    for (reference, expected) in [
        (
            json!({"name": "one", "parameterNotFoundAction": "Deny"}),
            "at most 1",
        ),
        (
            json!({"name": "two", "parameterNotFoundAction": "Deny"}),
            "",
        ),
        (
            json!({"name": "none", "parameterNotFoundAction": "Deny"}),
            missing,
        ),
        (
            json!({"name": "none", "parameterNotFoundAction": "Allow"}),
            "",
        ),
        (
            json!({"name": "one", "namespace": "kube-system", "parameterNotFoundAction": "Deny"}),
            missing,
        ),
        (
            json!({"selector": gold, "parameterNotFoundAction": "Deny"}),
            "at most 1",
        ),
        (
            json!({"selector": none, "parameterNotFoundAction": "Deny"}),
            missing,
        ),
    ] {
        bind(&world, "b", json!({ "paramRef": reference })).await;
        assert_eq!(why(&world.post(&dry, &pair).await), expected, "{reference}");
        let one = format!("{}/b", bindings());
        world.ask("DELETE", &one, &Value::Null).await;
    }
    // A change of the parameters counts at once.
    let reference = json!({"name": "one", "parameterNotFoundAction": "Deny"});
    bind(&world, "b", json!({ "paramRef": reference })).await;
    for max in 1..5 {
        let change = json!({"data": {"max": max.to_string()}});
        world.ask("PATCH", &format!("{MAPS}/one"), &change).await;
        let expected = if max == 1 { "at most 1" } else { "" };
        assert_eq!(why(&world.post(&dry, &pair).await), expected, "{max}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_of_parameters_that_is_not_served_is_an_error_of_the_policy() {
    let kind = json!({"apiVersion": "example.com/v1", "kind": "Limit"});
    let mut spec = validation("params.max > 1");
    merge(&mut spec, json!({ "paramKind": kind }));
    let reference = json!({"name": "x", "parameterNotFoundAction": "Allow"});
    let world = governed(spec, json!({ "paramRef": reference })).await;
    let answer = world.post(MAPS, &map("a")).await;
    let expected = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: \
                    failed to configure policy: failed to find resource referenced by paramKind: \
                    'example.com/v1, Kind=Limit'";
    assert_eq!((answer.code, answer.message()), (422, expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_come_before_webhooks_that_validate_and_after_those_that_change() {
    let world = governed(validation("!has(object.metadata.labels)"), json!({})).await;
    world.hook.on("/m", |_| patch(&label("m")));
    world.hook.on("/v", allow);
    world.configure("Validating", "v", "/v", json!({})).await;
    world.given(MAPS, &map("a")).await;
    assert_eq!(world.hook.paths(), ["/v"]);
    world.configure("Mutating", "m", "/m", json!({})).await;
    let answer = world.post(MAPS, &map("b")).await;
    assert_eq!(
        why(&answer),
        "failed expression: !has(object.metadata.labels)"
    );
    assert_eq!(world.hook.paths(), ["/m"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_against_everything_can_be_removed() {
    let all = json!({"matchConstraints": {"resourceRules": [rule("*", "*/*")]},
        "validations": [{"expression": "false"}]});
    let world = governed(all, json!({})).await;
    assert_eq!(world.post(MAPS, &map("a")).await.code, 422);
    let webhooks = format!("{GROUP}/validatingwebhookconfigurations");
    let configuration =
        json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}});
    assert_eq!(world.post(&webhooks, &configuration).await.code, 422);
    let review = json!({"kind": "SelfSubjectReview"});
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    // Nobody answers reviews here, but no policy refuses them before.
    assert_eq!(world.post(reviews, &review).await.code, 404);
    let one = format!("{}/p", policies());
    assert_eq!(world.ask("DELETE", &one, &Value::Null).await.code, 200);
    assert_eq!(world.post(MAPS, &map("a")).await.code, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_those_of_the_user_who_asks() {
    let world = World::with_roles().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
    ]);
    let role = json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules});
    world.given(&format!("{rbac}/clusterroles"), &role).await;
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
        "name": "r"});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"});
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "r"},
        "roleRef": reference, "subjects": [subject]});
    world
        .given(&format!("{rbac}/clusterrolebindings"), &binding)
        .await;
    let spec = json!({"validations": [
        {"expression": "authorizer.requestResource.check('create').allowed()"},
        {"expression": "authorizer.requestResource.check('create').reason() == '' || \
            authorizer.requestResource.check('create').reason().contains('ClusterRoleBinding')"},
        {"expression": "!authorizer.serviceAccount('default', 'x').path('/x').check('get').allowed()"},
        {"expression": "authorizer.group('').resource('secrets').check('get').allowed()",
            "message": "no secrets"},
    ]});
    govern(&world, spec, json!({})).await;
    assert_eq!(world.post(MAPS, &map("a")).await.code, 201);
    let answer = world.ask_as("jane", "POST", MAPS, &map("b")).await;
    assert_eq!(why(&answer), "no secrets");
    // What a policy reads, its author may read.
    let kind = json!({"apiVersion": "v1", "kind": "Secret"});
    let mut spec = validation("params == null");
    merge(&mut spec, json!({ "paramKind": kind }));
    let path = policies();
    let answer = world
        .ask_as("jane", "POST", &path, &policy("q", spec))
        .await;
    let expected = "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"q\" is invalid: \
                    spec.paramKind: Forbidden: user jane must have \"get\" permission on all \
                    objects of the referenced paramKind (kind=Secret, apiVersion=v1)";
    assert_eq!((answer.code, answer.message()), (422, expected));
    let answer = world
        .ask_as("jane", "POST", &path, &policy("q", validation("true")))
        .await;
    assert_eq!(answer.code, 201, "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_has_defaults_and_rules() {
    let world = World::start().await;
    world
        .given(&policies(), &policy("p", validation("true")))
        .await;
    let made = world
        .ask("GET", &format!("{}/p", policies()), &Value::Null)
        .await
        .body;
    let spec = &made["spec"];
    assert_eq!(spec["failurePolicy"], "Fail");
    assert_eq!(spec["matchConstraints"]["matchPolicy"], "Equivalent");
    assert_eq!(spec["matchConstraints"]["resourceRules"][0]["scope"], "*");
    assert_eq!(made["metadata"]["generation"], 1);
    let wrong = policy("q", validation("object.x +"));
    let answer = world.post(&policies(), &wrong).await;
    assert_eq!(answer.code, 422);
    let field = &answer.body["details"]["causes"][0]["field"];
    assert_eq!(field, "spec.validations[0].expression");
}
