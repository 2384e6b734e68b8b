//! What is wrong with the rules of a definition.

use serde_json::{Value, json};

use super::{Compiled, Rule, Rules};
use crate::custom::cel::REQUEST_MAX;
use crate::custom::structural::causes::Causes;
use crate::custom::structural::node::{Additional, Kind, List, Node};
use crate::custom::structural::path::Path;
use crate::status::Cause;

/// What one rule may cost for all the values that it is evaluated for.
const RULE_COST_MAX: u64 = 10_000_000;
/// What all rules of a definition may cost.
const TOTAL_COST_MAX: u64 = 100_000_000;
/// How many of the most expensive rules are told.
const EXPENSIVE_MAX: usize = 4;

/// Rules that do not compile, or may cost too much.
pub(in super::super) fn check(rules: &Rules, node: &Node, at: &Path) -> Vec<Cause> {
    let mut checker = Checker {
        causes: Causes::default(),
        total: 0,
        expensive: Vec::new(),
    };
    checker.check(rules, node, at, Some(1), None);
    checker.tell_total(at);
    checker.causes.into()
}

struct Checker {
    causes: Causes,
    total: u64,
    /// The rules that take most of the total, the most expensive one first.
    expensive: Vec<(u64, String)>,
}

impl Checker {
    /// `count` is how many values there may be, `None` if nothing bounds it; `apart` the path of
    /// the list whose items have no old ones.
    fn check(
        &mut self,
        rules: &Rules,
        node: &Node,
        at: &Path,
        count: Option<u64>,
        apart: Option<&Path>,
    ) {
        let within = count.and_then(|count| Some(count.saturating_mul(elements(node)?)));
        if let (Some(rules), Additional::Each(each)) = (&rules.additional, &node.additional) {
            self.check(
                rules,
                each,
                &at.field("additionalProperties"),
                within,
                apart,
            );
        }
        let of_properties = at.field("properties");
        for (name, rules) in &rules.properties {
            if let Some(property) = node.properties.get(name) {
                self.check(rules, property, &of_properties.key(name), within, apart);
            }
        }
        if let (Some(rules), Some(items)) = (&rules.items, &node.items) {
            let has_keys = matches!(node.list, List::Map(_));
            let apart = apart.or((!has_keys).then_some(at));
            self.check(rules, items, &at.field("items"), within, apart);
        }
        let Some(own) = &rules.own else { return };
        let count = count.unwrap_or_else(|| {
            let size = own.shape.size_min + 1;
            u64::try_from(REQUEST_MAX / size).unwrap_or(u64::MAX)
        });
        let of_rules = at.field("x-kubernetes-validations");
        for (index, compiled) in own.rules.iter().enumerate() {
            self.check_rule(compiled, &of_rules.index(index), count, apart);
        }
    }

    fn check_rule(&mut self, compiled: &Compiled, at: &Path, count: u64, apart: Option<&Path>) {
        let rule = &compiled.rule;
        let (of_rule, of_message) = (at.field("rule"), at.field("messageExpression"));
        let wrong = |at: &Path, why: &str| Cause::invalid_shown(&at.to_string(), &shown(rule), why);
        match &compiled.program {
            None => {}
            Some(Ok(program)) => {
                let cost = program.cost_max().saturating_mul(count);
                self.spend(&of_rule, cost, "estimated rule cost");
            }
            Some(Err(why)) => self.tell(|| wrong(&of_rule, why)),
        }
        match &compiled.message {
            None => {}
            Some(Ok(program)) => {
                let cost = program.cost_max();
                self.spend(&of_message, cost, "estimated messageExpression cost");
            }
            Some(Err(why)) => self.tell(|| wrong(&of_message, why)),
        }
        if compiled.uses_old_self() {
            if let Some(apart) = apart {
                self.tell(|| {
                    let why = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                         {apart}"
                    );
                    let text = Value::from(rule.rule.as_str());
                    Cause::invalid(&of_rule.to_string(), &text, &why)
                });
            }
        } else if let Some(optional) = rule.optional_old_self {
            let why = "may not be set if oldSelf is not used in rule";
            let field = at.field("optionalOldSelf");
            self.tell(|| Cause::invalid(&field.to_string(), &optional.into(), why));
        }
    }

    fn spend(&mut self, at: &Path, cost: u64, name: &str) {
        if cost > RULE_COST_MAX {
            let why = too_expensive(name, cost, RULE_COST_MAX);
            self.tell(|| Cause::forbidden(&at.to_string(), &why));
        }
        self.total = self.total.saturating_add(cost);
        let place = self.expensive.partition_point(|(other, _)| *other >= cost);
        if cost >= TOTAL_COST_MAX / 100 && place < EXPENSIVE_MAX {
            self.expensive.truncate(EXPENSIVE_MAX - 1);
            self.expensive.insert(place, (cost, at.to_string()));
        }
    }

    /// Adds a cause, which is made only if it is told.
    fn tell(&mut self, cause: impl FnOnce() -> Cause) {
        if !self.causes.is_full() {
            self.causes.push(cause());
        }
    }

    fn tell_total(&mut self, at: &Path) {
        if self.total <= TOTAL_COST_MAX {
            return;
        }
        for (_, field) in &self.expensive {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.causes.push(Cause::forbidden(field, why));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let why = too_expensive(name, self.total, TOTAL_COST_MAX);
        self.causes.push(Cause::forbidden(&at.to_string(), &why));
    }
}

/// How many values there may be within one; `None` if nothing bounds it.
fn elements(node: &Node) -> Option<u64> {
    let checks = node.checks.as_deref();
    let bounded = |max: Option<i64>| Some(u64::try_from(max?.max(0)).unwrap_or(0));
    match (node.kind, &node.additional) {
        (Some(Kind::Array), _) => bounded(checks.and_then(|checks| checks.max_items)),
        (Some(Kind::Object), Additional::Unset) => Some(1),
        (Some(Kind::Object), _) => bounded(checks.and_then(|checks| checks.max_properties)),
        _ => Some(1),
    }
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let excess = cost as f64 / limit as f64;
    let factor = if excess > 100.0 {
        "more than 100x".to_owned()
    } else if excess < 1.5 {
        format!("{excess:.6}x")
    } else {
        format!("{excess:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule as Go shows it: all fields, in the order of their declaration.
fn shown(rule: &Rule) -> String {
    let text = |text: &str| {
        let text = Value::from(text).to_string();
        let text = text.replace('<', "\\u003c").replace('>', "\\u003e");
        text.replace('&', "\\u0026")
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
         \"OptionalOldSelf\":{}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        json!(rule.reason),
        text(&rule.field_path),
        json!(rule.optional_old_self),
    )
}
