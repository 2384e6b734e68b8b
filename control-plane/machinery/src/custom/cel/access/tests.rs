use serde_json::json;

use super::*;

fn result(variable: Variable, source: &str, value: &Json) -> Result<Json, String> {
    Expression::compile(variable, source, false)?.evaluate(value)
}

#[test]
fn claims_may_be_anything() {
    let claims = json!({"sub": "jane", "roles": "a,b", "nested": {"list": ["x", "y"]},
        "email_verified": true});
    let of = |source| result(Variable::Claims, source, &claims);
    assert_eq!(of("'my:' + claims.sub"), Ok(json!("my:jane")));
    assert_eq!(of("claims.roles.split(',')"), Ok(json!(["a", "b"])));
    assert_eq!(
        of("claims.nested.list.map(one, 'p-' + one)"),
        Ok(json!(["p-x", "p-y"]))
    );
    assert_eq!(of("claims.?groups.orValue([])"), Ok(json!([])));
    assert_eq!(of("claims.?email_verified.orValue(true)"), Ok(json!(true)));
    assert_eq!(of("claims.none"), Err("no such key: none".to_owned()));
    let why = of("user.username").unwrap_err();
    assert!(why.starts_with("compilation failed: "), "{why}");
    let condition = |source| Expression::compile(Variable::Claims, source, true);
    assert!(condition("claims.sub == 'jane'").is_ok());
    let why = condition("'x'").unwrap_err();
    assert_eq!(why, "must evaluate to bool");
}

#[test]
fn users_and_requests_have_known_fields() {
    let user = json!({"username": "jane", "groups": ["a"], "extra": {"k": ["v"]}});
    let of = |source| result(Variable::User, source, &user);
    assert_eq!(of("user.username.startsWith('j')"), Ok(json!(true)));
    assert_eq!(of("user.extra['k'][0]"), Ok(json!("v")));
    assert!(of("user.name").unwrap_err().contains("undefined field"));
    let request = json!({"user": "jane", "resourceAttributes": {"verb": "list",
        "fieldSelector": {"requirements": [
            {"key": "spec.nodeName", "operator": "In", "values": ["n"]}]}}});
    let of = |source| result(Variable::Request, source, &request);
    let source = "has(request.resourceAttributes) && !has(request.nonResourceAttributes) && \
        request.resourceAttributes.fieldSelector.requirements.exists(one, one.values == ['n'])";
    assert_eq!(of(source), Ok(json!(true)));
    let why = Expression::compile(Variable::Request, "request.user", true).unwrap_err();
    assert_eq!(why, "must evaluate to bool but got string");
}

#[test]
fn an_expression_knows_the_fields_that_it_names() {
    let selects = |source: &str, field: &str| {
        let expression = Expression::compile(Variable::Claims, source, false);
        expression.unwrap().selects(field)
    };
    assert!(selects("claims.email", "email"));
    assert!(selects("[1].all(one, has(claims.email))", "email"));
    assert!(selects(
        "claims.?email_verified.orValue(true)",
        "email_verified"
    ));
    assert!(!selects("claims['email']", "email"));
    assert!(!selects("claims.other.email", "email"));
}
