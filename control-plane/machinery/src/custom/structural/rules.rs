//! Rules in CEL (`x-kubernetes-validations`): compiled with the schema, checked with each object.

mod definition;
mod enforce;
mod shapes;

use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(test)]
use serde_json::Value;

pub(super) use definition::check;
pub(super) use enforce::enforce;

use super::node::{Additional, Node, Rule};
use crate::custom::cel::{Environment, Program, Shape};

/// The shape of whole objects with this schema.
pub(super) fn shape(root: &Node, name: &str) -> Shape {
    shapes::of(root, name, true)
}

/// The rules of a schema and of those within it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    own: Option<Own>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
    properties: BTreeMap<String, Rules>,
}

/// The rules of one schema, with the shape of its values.
#[derive(Debug)]
struct Own {
    shape: Arc<Shape>,
    rules: Vec<Compiled>,
}

/// A rule that is ready to be evaluated.
#[derive(Debug)]
struct Compiled {
    rule: Rule,
    /// The error is for the author; `None` for an empty rule.
    program: Option<Result<Program, String>>,
    message: Option<Result<Program, String>>,
}

impl Rules {
    /// Compiles the rules of a schema, and of all within it; `None` if there are none. `is_root`
    /// says whether the values are whole objects, and `left` how many bytes patterns may take.
    pub(super) fn compile(node: &Node, is_root: bool, left: &mut usize) -> Option<Rules> {
        if !node.has_rules() {
            return None;
        }
        let additional = match &node.additional {
            Additional::Each(each) => Rules::compile(each, each.embedded, left),
            _ => None,
        };
        let properties = node.properties.iter();
        Some(Rules {
            own: (!node.rules.is_empty()).then(|| Own::compile(node, is_root, left)),
            items: node
                .items
                .as_ref()
                .and_then(|items| Rules::compile(items, items.embedded, left))
                .map(Box::new),
            additional: additional.map(Box::new),
            properties: properties
                .filter_map(|(name, property)| {
                    let rules = Rules::compile(property, property.embedded, left)?;
                    Some((name.clone(), rules))
                })
                .collect(),
        })
    }
}

impl Own {
    fn compile(node: &Node, is_root: bool, left: &mut usize) -> Own {
        let shape = Arc::new(shapes::of(node, "selfType", is_root));
        let rules = node.rules.iter();
        Own {
            rules: rules
                .map(|rule| Compiled::compile(rule, &shape, left))
                .collect(),
            shape,
        }
    }
}

impl Compiled {
    fn compile(rule: &Rule, shape: &Arc<Shape>, left: &mut usize) -> Compiled {
        let optional = rule.optional_old_self == Some(true);
        let environment = Environment::new()
            .with_shape("self", shape, false)
            .with_shape("oldSelf", shape, optional);
        let mut compiled = |source: &str| {
            if shape.is_hidden() {
                return Err("failed to convert to declType for CEL validation rules".to_owned());
            }
            environment.compile_within(source, left)
        };
        let program = (!rule.rule.trim().is_empty()).then(|| {
            let program = compiled(&rule.rule)?;
            if program.is_bool() {
                Ok(program)
            } else {
                Err("cel expression must evaluate to a bool".to_owned())
            }
        });
        // A rule that does not compile has no message either.
        let has_message = !rule.message_expression.is_empty() && matches!(program, Some(Ok(_)));
        let message = has_message.then(|| {
            let program = compiled(&rule.message_expression)
                .map_err(|why| format!("messageExpression {why}"))?;
            if program.is_string() {
                Ok(program)
            } else {
                Err("messageExpression must evaluate to a string".to_owned())
            }
        });
        Compiled {
            program,
            message,
            rule: rule.clone(),
        }
    }

    fn uses_old_self(&self) -> bool {
        matches!(&self.program, Some(Ok(program)) if program.uses("oldSelf"))
    }
}

/// What becomes of an expression over each object, as the golden file has it.
#[cfg(test)]
pub(super) fn answers(schema: &Value, rule: &str, objects: &[Value]) -> Value {
    use serde_json::json;

    use crate::custom::cel::{CALL_COST_MAX, Error, Outcome, Variable};
    use crate::values::pattern::Patterns;

    let node = Node::read(schema, &mut Patterns::within(16 << 20));
    let shape = Arc::new(shapes::of(&node, "selfType", true));
    let rule = Rule {
        rule: rule.to_owned(),
        ..Rule::default()
    };
    let mut left = 16 << 20;
    let compiled = Compiled::compile(&rule, &shape, &mut left);
    let program = match compiled.program {
        Some(Ok(program)) => program,
        Some(Err(why)) => return json!({"error": why, "costMax": 0}),
        None => return Value::Null,
    };
    let results = objects.iter().map(|object| {
        let lookup = |name: &str| {
            let object = if name == "self" { object } else { &objects[0] };
            Some(Variable::Json(object, &shape))
        };
        let (outcome, cost) = program.evaluate_with(&lookup, CALL_COST_MAX);
        let verdict = match outcome {
            Ok(Outcome::Bool(value)) => value.to_string(),
            Ok(other) => format!("{other:?}"),
            Err(Error::Failed(why)) => why,
            Err(Error::TooExpensive) => {
                "operation cancelled: actual cost limit exceeded".to_owned()
            }
        };
        json!({"verdict": verdict, "cost": cost})
    });
    let results: Vec<Value> = results.collect();
    json!({"costMax": program.cost_max(), "results": results})
}
