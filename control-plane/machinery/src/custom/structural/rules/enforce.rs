//! Evaluates the rules over an object.

use serde_json::Value;

use super::{Compiled, Own, Rules};
use crate::custom::cel::{CALL_COST_MAX, Error, Outcome, Program, Shape, Variable};
use crate::custom::structural::causes::Causes;
use crate::custom::structural::check::errors::{NO_FIELD, shown};
use crate::custom::structural::check::old::{Compared, Old};
use crate::custom::structural::node::{Additional, Kind, Node};
use crate::custom::structural::path::Path;
use crate::status::Cause;

/// What the rules of one object may cost together.
const OBJECT_COST_MAX: u64 = 10_000_000;
/// The longest message that an expression may make, in bytes.
const MESSAGE_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What the rules find wrong with an object. Rules that do not look at the old value let what did
/// not change through.
pub(in super::super) fn enforce(
    rules: &Rules,
    node: &Node,
    object: &Value,
    old: Option<&Value>,
    causes: &mut Causes,
) {
    let mut enforcer = Enforcer {
        causes,
        budget: OBJECT_COST_MAX,
    };
    let compared = Compared::default();
    let old = old.map(|value| Old {
        value,
        node,
        compared: &compared,
    });
    let ratchet = Ratchet {
        own: old,
        nearest: None,
    };
    // A stop is told by a cause.
    let _ = enforcer.check(rules, node, object, old, ratchet, &Path::root());
}

/// Nothing is checked after the budget is used up, or when no more causes are told.
struct Stop;

struct Enforcer<'c> {
    causes: &'c mut Causes,
    budget: u64,
}

/// The old value that decides whether errors count.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    /// That of the value itself.
    own: Option<Old<'a>>,
    /// That of the nearest value around it that has one, with its new value.
    nearest: Option<(Old<'a>, &'a Value)>,
}

impl<'a> Ratchet<'a> {
    /// The same for a value within: `own` is its old value.
    fn within(self, value: &'a Value, own: Option<Old<'a>>) -> Ratchet<'a> {
        let nearest = self.own.map(|old| (old, value)).or(self.nearest);
        Ratchet { own, nearest }
    }

    /// Whether the value did not change, or else the nearest around it that has an old one.
    fn is_unchanged(self, value: &Value) -> bool {
        match (self.own, self.nearest) {
            (Some(own), _) => own.is(value),
            (None, Some((nearest, new))) => nearest.is(new),
            (None, None) => false,
        }
    }
}

impl Enforcer<'_> {
    fn check<'a>(
        &mut self,
        rules: &Rules,
        node: &Node,
        value: &'a Value,
        old: Option<Old<'a>>,
        ratchet: Ratchet<'a>,
        at: &Path,
    ) -> Result<(), Stop> {
        if value.is_null() {
            return Ok(());
        }
        if let Some(own) = &rules.own {
            let old = old.map(|old| old.value).filter(|old| !old.is_null());
            self.check_own(own, node, value, old, ratchet, at)?;
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let of_field = node.properties.get(name);
                    let inner = old.and_then(|old| old.field(name));
                    // Both sides have the type of the request, so a change does not show in it.
                    let is_type = at.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
                    let ratchet = if is_type {
                        Ratchet {
                            own: None,
                            nearest: None,
                        }
                    } else {
                        ratchet.within(value, inner)
                    };
                    if let (Some(rules), Some(of_field)) = (rules.properties.get(name), of_field) {
                        self.check(rules, of_field, field, inner, ratchet, &at.field(name))?;
                    } else if let (Some(rules), Additional::Each(each)) =
                        (&rules.additional, &node.additional)
                        && of_field.is_none()
                    {
                        self.check(rules, each, field, inner, ratchet, &at.key(name))?;
                    }
                }
            }
            Value::Array(items) => {
                if let (Some(rules), Some(of_items)) = (&rules.items, &node.items) {
                    let old_items = old.and_then(Old::items);
                    for (index, item) in items.iter().enumerate() {
                        let inner = old_items.as_ref().and_then(|items| items.find(item));
                        let ratchet = ratchet.within(value, inner);
                        self.check(rules, of_items, item, inner, ratchet, &at.index(index))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_own(
        &mut self,
        own: &Own,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet,
        at: &Path,
    ) -> Result<(), Stop> {
        let field = || match at.to_string() {
            root if root.is_empty() => NO_FIELD.to_owned(),
            field => field,
        };
        let invalid = |why: &str| {
            let type_shown = Value::from(type_word(node)).to_string();
            Cause::invalid_shown(&field(), &type_shown, why)
        };
        if self.budget == 0 {
            self.causes.push(invalid(OUT_OF_BUDGET));
            return Err(Stop);
        }
        for compiled in &own.rules {
            if self.causes.is_full() {
                return Err(Stop);
            }
            let rule = &compiled.rule;
            let optional = rule.optional_old_self == Some(true);
            let program = match &compiled.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(why)) => {
                    self.causes
                        .push(invalid(&format!("rule compile error: {why}")));
                    continue;
                }
            };
            let uses_old = compiled.uses_old_self();
            if uses_old && old.is_none() && !optional {
                continue;
            }
            let values = Values {
                value,
                old,
                optional,
                shape: &own.shape,
            };
            let (outcome, cost) = values.evaluate(program);
            let Some(left) = self.budget.checked_sub(cost) else {
                self.causes.push(invalid(OUT_OF_BUDGET));
                return Err(Stop);
            };
            self.budget = left;
            match outcome {
                Ok(Outcome::Bool(true)) => continue,
                Ok(_) => {}
                Err(Error::TooExpensive) => {
                    self.causes.push(invalid(&format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation \
                         rules will be run due to call cost exceeds limit for rule: {}",
                        rule.shown()
                    )));
                    return Err(Stop);
                }
                Err(Error::Failed(why)) => {
                    self.causes.push(invalid(&failed(&why, rule.shown())));
                    continue;
                }
            }
            let detail = self.detail(compiled, &values, &invalid)?;
            if uses_old || !ratchet.is_unchanged(value) {
                self.causes
                    .push(broken(compiled, node, value, &field(), &detail));
            }
        }
        Ok(())
    }

    /// Why a rule is broken, in the words of its author.
    fn detail(
        &mut self,
        compiled: &Compiled,
        values: &Values,
        invalid: &dyn Fn(&str) -> Cause,
    ) -> Result<String, Stop> {
        let rule = &compiled.rule;
        let otherwise = || {
            if rule.message.is_empty() {
                format!("failed rule: {}", rule.rule.trim())
            } else {
                rule.message.trim().to_owned()
            }
        };
        let Some(Ok(program)) = &compiled.message else {
            return Ok(otherwise());
        };
        let (outcome, cost) = values.evaluate(program);
        let Some(left) = self.budget.checked_sub(cost) else {
            self.causes.push(invalid(
                "messageExpression evaluation failed due to running out of cost budget, no further \
                 validation rules will be run",
            ));
            return Err(Stop);
        };
        self.budget = left;
        if outcome == Err(Error::TooExpensive) {
            self.causes.push(invalid(&format!(
                "no further validation rules will be run due to call cost exceeds limit for \
                 messageExpression: {:?}",
                rule.message_expression
            )));
            return Err(Stop);
        }
        Ok(match outcome {
            Ok(Outcome::String(text)) => {
                let text = text.trim();
                let fits = !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
                if fits { text.to_owned() } else { otherwise() }
            }
            _ => otherwise(),
        })
    }
}

/// The values of the variables of a rule.
struct Values<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    optional: bool,
    shape: &'a Shape,
}

impl Values<'_> {
    fn evaluate(&self, program: &Program) -> (Result<Outcome, Error>, u64) {
        let lookup = |name: &str| match (name, self.old) {
            ("self", _) => Some(Variable::Json(self.value, self.shape)),
            ("oldSelf", old) if self.optional => {
                Some(Variable::Optional(old.map(|old| (old, self.shape))))
            }
            ("oldSelf", Some(old)) => Some(Variable::Json(old, self.shape)),
            _ => None,
        };
        program.evaluate_with(&lookup, CALL_COST_MAX)
    }
}

/// Why a rule has no result.
fn failed(why: &str, rule: &str) -> String {
    if why.starts_with("no such overload") {
        format!(
            "'{why}': call arguments did not match a supported operator, function or macro \
             signature for rule: {rule}"
        )
    } else {
        format!("{why} evaluating rule: {rule}")
    }
}

fn broken(compiled: &Compiled, node: &Node, value: &Value, field: &str, detail: &str) -> Cause {
    let field = match (field, compiled.rule.place.as_str()) {
        (field, "") => field.to_owned(),
        (NO_FIELD, below) => below.to_owned(),
        (field, below) => format!("{field}.{below}"),
    };
    let is_container = matches!(node.kind, Some(Kind::Object | Kind::Array));
    match compiled.rule.reason.as_deref() {
        Some("FieldValueForbidden") => Cause::forbidden(&field, detail),
        Some("FieldValueRequired") => Cause::required(&field, detail),
        Some("FieldValueDuplicate") if is_container => Cause {
            reason: "FieldValueDuplicate",
            message: "Duplicate value".to_owned(),
            field,
        },
        Some("FieldValueDuplicate") => Cause::duplicate_shown(&field, &shown(value), ""),
        _ if is_container => Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {detail}"),
            field,
        },
        _ => Cause::invalid_shown(&field, &shown(value), detail),
    }
}

/// The type of a schema, as its author wrote it.
fn type_word(node: &Node) -> &'static str {
    match node.kind {
        None | Some(Kind::IntOrString) => "",
        Some(kind) => kind.word(),
    }
}
