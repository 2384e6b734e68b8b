//! Expressions about who sends a request and what it asks for: of the claims of a token, of a user,
//! and of a request that an authorizer decides.

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use super::admission::types::{list, map, name, object, record, text};
use super::eval::{Failure, eval};
use super::syntax::ast::{ExprKind, Literal};
use super::types::Type;
use super::types::shape::Shape;
use super::value::{json, read};
use super::{CALL_COST_MAX, Environment, Lookup, Program};

/// The function of `a.?b`.
const OPTIONAL_SELECT: &str = "_?._";

/// The variable of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// `claims`: those of a token.
    Claims,
    /// `user`: name, uid, groups and further attributes.
    User,
    /// `request`: the spec of a SubjectAccessReview.
    Request,
}

/// An expression that is ready to be evaluated.
#[derive(Debug)]
pub struct Expression {
    source: String,
    variable: Variable,
    program: Program,
}

static CLAIMS: LazyLock<Arc<Shape>> = LazyLock::new(|| map(Arc::new(Shape::any())));
static USER: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    record(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", list(text())),
            ("extra", map(list(text()))),
        ],
    )
});
static REQUEST: LazyLock<Arc<Shape>> = LazyLock::new(|| Arc::new(request()));

impl Expression {
    /// Compiles an expression. With `is_condition`, its result has to be a boolean. The error is
    /// for its author, in Kubernetes' words.
    pub fn compile(
        variable: Variable,
        source: &str,
        is_condition: bool,
    ) -> Result<Expression, String> {
        let environment = Environment::new().with_shape(variable.name(), variable.shape(), false);
        let program = environment.compile(source)?;
        let found = program.result();
        if is_condition && *found != Type::Bool {
            return Err(match variable {
                Variable::Request => format!("must evaluate to bool but got {}", name(found)),
                _ => "must evaluate to bool".to_owned(),
            });
        }
        Ok(Expression {
            source: source.to_owned(),
            variable,
            program,
        })
    }

    /// As its author wrote it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The result with this value of its variable.
    pub fn evaluate(&self, value: &Json) -> Result<Json, String> {
        let shape: &Shape = self.variable.shape();
        let lookup = |name: &str| (name == self.variable.name()).then(|| read::value(value, shape));
        let (result, _) = eval(&self.program, &Lookup(&lookup), CALL_COST_MAX);
        let result = result.map_err(|failure| match failure {
            Failure::Error(why) => why,
            Failure::TooExpensive => "operation cancelled: actual cost limit exceeded".to_owned(),
            Failure::Needs(need) => format!("unknown: {need:?}"),
        })?;
        json::of(&result)
    }

    /// True if the expression names this field of its variable.
    pub fn selects(&self, field: &str) -> bool {
        let mut found = false;
        self.program.expr.walk(&mut |expr| {
            let is_variable = |kind: &ExprKind| {
                matches!(kind, ExprKind::Ident(name) if name == self.variable.name())
            };
            found |= match &expr.kind {
                ExprKind::Select {
                    operand,
                    field: name,
                    ..
                } => name == field && is_variable(&operand.kind),
                ExprKind::Call {
                    function,
                    arguments,
                    ..
                } if function == OPTIONAL_SELECT => match arguments.as_slice() {
                    [operand, name] => {
                        let literal = Literal::String(field.to_owned());
                        is_variable(&operand.kind) && name.kind.is_literal(&literal)
                    }
                    _ => false,
                },
                _ => false,
            };
        });
        found
    }
}

impl Variable {
    fn name(self) -> &'static str {
        match self {
            Variable::Claims => "claims",
            Variable::User => "user",
            Variable::Request => "request",
        }
    }

    fn shape(self) -> &'static Arc<Shape> {
        match self {
            Variable::Claims => &CLAIMS,
            Variable::User => &USER,
            Variable::Request => &REQUEST,
        }
    }
}

fn request() -> Shape {
    let requirement = record(
        "kubernetes.SelectorRequirement",
        [
            ("key", text()),
            ("operator", text()),
            ("values", list(text())),
        ],
    );
    let selector = |name: &str| {
        let requirements = list(Arc::clone(&requirement));
        record(
            name,
            [("rawSelector", text()), ("requirements", requirements)],
        )
    };
    let resource = record(
        "kubernetes.ResourceAttributes",
        [
            ("namespace", text()),
            ("verb", text()),
            ("group", text()),
            ("version", text()),
            ("resource", text()),
            ("subresource", text()),
            ("name", text()),
            (
                "fieldSelector",
                selector("kubernetes.FieldSelectorAttributes"),
            ),
            (
                "labelSelector",
                selector("kubernetes.LabelSelectorAttributes"),
            ),
        ],
    );
    let path = record(
        "kubernetes.NonResourceAttributes",
        [("path", text()), ("verb", text())],
    );
    object(
        "kubernetes.SubjectAccessReviewSpec",
        [
            ("resourceAttributes", resource),
            ("nonResourceAttributes", path),
            ("user", text()),
            ("groups", list(text())),
            ("extra", map(list(text()))),
            ("uid", text()),
        ],
    )
}
