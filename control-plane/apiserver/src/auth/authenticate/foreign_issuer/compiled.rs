//! The expressions of an issuer, compiled.

use std::collections::HashSet;

use machinery::cel::access::{Expression, Variable};
use machinery::status::Cause;

use super::{Jwt, check};

/// What is left out has no expression.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    pub(crate) username: Option<Expression>,
    pub(crate) groups: Option<Expression>,
    pub(crate) uid: Option<Expression>,
    /// With their keys.
    pub(crate) extra: Vec<(String, Expression)>,
    /// With what is said when one is false.
    pub(crate) claim_rules: Vec<(Expression, String)>,
    pub(crate) user_rules: Vec<(Expression, String)>,
}

impl Compiled {
    /// Compiles all expressions; checks what comes with them.
    pub(crate) fn of(jwt: &Jwt, place: &str, causes: &mut Vec<Cause>) -> Compiled {
        let mut compiled = Compiled::default();
        let rules = &mut compiled.claim_rules;
        jwt.check_claim_rules(place, causes, |source, message, field, causes| {
            let expression = condition(Variable::Claims, source, field, causes);
            rules.extend(expression.map(|one| (one, message.to_owned())));
        });
        compiled.add_mappings(jwt, &format!("{place}.claimMappings"), causes);
        compiled.add_user_rules(jwt, &format!("{place}.userValidationRules"), causes);
        compiled
    }

    fn add_mappings(&mut self, jwt: &Jwt, place: &str, causes: &mut Vec<Cause>) {
        let mappings = &jwt.claim_mappings;
        for (name, mapping, compiled) in [
            ("username", &mappings.username, &mut self.username),
            ("groups", &mappings.groups, &mut self.groups),
        ] {
            let place = format!("{place}.{name}");
            if mapping.check(&place, name == "username", causes) {
                let field = format!("{place}.expression");
                *compiled = value(&mapping.expression, &field, causes);
            }
        }
        let at = format!("{place}.uid");
        if mappings.uid.check_uid(&at, causes) {
            let field = format!("{at}.expression");
            self.uid = value(&mappings.uid.expression, &field, causes);
        }
        let mut seen = HashSet::new();
        for (at, extra) in mappings.extra.iter().enumerate() {
            let place = format!("{place}.extra[{at}]");
            if !check::extra_key(&extra.key, &format!("{place}.key"), &mut seen, causes) {
                continue;
            }
            let field = format!("{place}.valueExpression");
            if extra.value_expression.is_empty() {
                causes.push(Cause::required(&field, ""));
            } else {
                let expression = value(&extra.value_expression, &field, causes);
                let key = &extra.key;
                self.extra.extend(expression.map(|one| (key.clone(), one)));
            }
        }
    }

    fn add_user_rules(&mut self, jwt: &Jwt, place: &str, causes: &mut Vec<Cause>) {
        let mut seen = HashSet::new();
        for (at, rule) in jwt.user_validation_rules.iter().enumerate() {
            let field = format!("{place}[{at}].expression");
            let source = rule.expression.as_str();
            if source.is_empty() {
                causes.push(Cause::required(&field, ""));
            } else if !seen.insert(source) {
                causes.push(Cause::duplicate(&field, &source.into()));
            } else {
                let expression = condition(Variable::User, source, &field, causes);
                let message = &rule.message;
                self.user_rules
                    .extend(expression.map(|one| (one, message.clone())));
            }
        }
    }
}

fn value(source: &str, field: &str, causes: &mut Vec<Cause>) -> Option<Expression> {
    compile(Variable::Claims, source, false, field, causes)
}

fn condition(
    variable: Variable,
    source: &str,
    field: &str,
    causes: &mut Vec<Cause>,
) -> Option<Expression> {
    compile(variable, source, true, field, causes)
}

fn compile(
    variable: Variable,
    source: &str,
    is_condition: bool,
    field: &str,
    causes: &mut Vec<Cause>,
) -> Option<Expression> {
    match Expression::compile(variable, source, is_condition) {
        Ok(expression) => Some(expression),
        Err(why) => {
            causes.push(Cause::invalid(field, &source.into(), &why));
            None
        }
    }
}
