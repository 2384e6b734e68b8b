//! Expressions of admission: conditions, policies and what they share.
//!
//! A [`Compiler`] compiles the expressions of one policy or webhook once. An [`Evaluation`]
//! evaluates them for one write, with a budget for all of them. What a policy has in `variables`
//! is evaluated when an expression first uses it. Rights are decided by the caller: an evaluation
//! that needs a decision stops with the question ([`Stop::Undecided`]), and the caller evaluates
//! again from the beginning once it knows the answer.

mod evaluation;
mod patches;
#[cfg(test)]
mod tests;
mod typed;
pub(super) mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use super::types::Type;
use super::value::COMPOSED;
use super::{Environment, Program, Shape, check};

pub use super::library::authorization::{About, Decision, Question, Target};
pub use evaluation::{Evaluation, Inputs, Stop};
pub use typed::ObjectType;

/// What the expressions of one policy may cost for one write.
pub const BUDGET: u64 = 10_000_000;
/// What match conditions may cost for one write.
pub const CONDITIONS_BUDGET: u64 = 2_500_000;

/// What an expression has to evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A boolean.
    Bool,
    /// A string.
    String,
    /// A string or null.
    StringOrNull,
    /// Anything.
    Any,
    /// An `Object`: a configuration to apply.
    Object,
    /// A list of `JSONPatch`.
    JsonPatch,
}

/// Compiles expressions that build on each other.
#[derive(Debug, Clone)]
pub struct Compiler {
    has_params: bool,
    /// The types of the variables so far; `None` if there is no `variables`.
    composed: Option<Arc<HashMap<String, Type>>>,
    /// The types of objects and parameters; `None` if they may be any.
    object: Option<ObjectType>,
    params: Option<ObjectType>,
}

/// An expression, compiled or refused.
#[derive(Debug)]
pub struct Expression {
    source: String,
    program: Result<Program, Refusal>,
}

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The author is not to blame, in Kubernetes' view.
    pub internal: bool,
    /// In the words of Kubernetes.
    pub why: String,
}

/// The variables of a policy by their names.
pub type Variables = BTreeMap<String, Expression>;

static REQUEST: LazyLock<Arc<Shape>> = LazyLock::new(|| Arc::new(types::request()));
static NAMESPACE: LazyLock<Arc<Shape>> = LazyLock::new(|| Arc::new(types::namespace()));

impl Compiler {
    /// A compiler for expressions that cannot use `variables`.
    pub fn new(has_params: bool) -> Compiler {
        Compiler {
            has_params,
            composed: None,
            object: None,
            params: None,
        }
    }

    /// A compiler for expressions that can.
    pub fn composing(has_params: bool) -> Compiler {
        Compiler {
            composed: Some(Arc::default()),
            ..Compiler::new(has_params)
        }
    }

    /// Compiles a variable; those after it can use it, whether or not it compiles.
    pub fn add(&mut self, name: &str, source: &str) -> Expression {
        let expression = self.compile(source, Wanted::Any, true);
        let found = match &expression.program {
            Ok(program) => types::declared(program.result()),
            Err(_) => Type::Dyn,
        };
        self.declare(name, found);
        expression
    }

    /// Compiles an expression. With `asks`, it may ask for the rights of users.
    pub fn compile(&self, source: &str, wanted: Wanted, asks: bool) -> Expression {
        Expression {
            source: source.to_owned(),
            program: self.program(source, wanted, asks),
        }
    }

    fn declare(&mut self, name: &str, found: Type) {
        let composed = Arc::make_mut(self.composed.get_or_insert_default());
        composed.insert(name.to_owned(), found);
    }

    fn program(&self, source: &str, wanted: Wanted, asks: bool) -> Result<Program, Refusal> {
        let environment = self.environment(wanted, asks);
        let program = environment.compile(source).map_err(|why| Refusal {
            internal: why.starts_with("program instantiation failed"),
            why,
        })?;
        wanted.check(program.result())?;
        Ok(program)
    }

    fn environment(&self, wanted: Wanted, asks: bool) -> Environment {
        let with = |environment: Environment, name: &str, found: Option<&ObjectType>| match found {
            Some(ObjectType(shape)) => environment.with_shape(name, shape, false),
            None => environment.with_any(name),
        };
        let mut environment = Environment::new()
            .with_shape("namespaceObject", &NAMESPACE, false)
            .with_shape("request", &REQUEST, false);
        for name in ["object", "oldObject"] {
            environment = with(environment, name, self.object.as_ref());
        }
        if self.has_params {
            environment = with(environment, "params", self.params.as_ref());
        }
        if asks {
            let of = |name: &str| Type::Struct(format!("kubernetes.authorization.{name}").into());
            environment = environment
                .with_type("authorizer", of("Authorizer"))
                .with_type("authorizer.requestResource", of("ResourceCheck"));
        }
        if let Some(composed) = &self.composed {
            environment = environment.with_type("variables", Type::Struct(COMPOSED.into()));
            environment.composed = Arc::clone(composed);
        }
        environment.makes_patches = matches!(wanted, Wanted::Object | Wanted::JsonPatch);
        environment
    }
}

impl Expression {
    /// As its author wrote it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Why it does not compile; `None` if it does.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.program.as_ref().err()
    }
}

impl Wanted {
    fn check(self, found: &Type) -> Result<(), Refusal> {
        let wanted = match self {
            Wanted::Any => return Ok(()),
            Wanted::Bool => vec![Type::Bool],
            Wanted::String => vec![Type::String],
            Wanted::StringOrNull => vec![Type::String, Type::Null],
            Wanted::Object => vec![Type::Struct(check::OBJECT.into())],
            Wanted::JsonPatch => vec![Type::list(Type::Struct(check::JSON_PATCH.into()))],
        };
        if wanted.contains(found) {
            return Ok(());
        }
        let names: Vec<String> = wanted.iter().map(types::name).collect();
        let found = types::name(found);
        let why = match names.as_slice() {
            [only] => format!("must evaluate to {only} but got {found}"),
            names => {
                let names = names.join(" ");
                format!("must evaluate to one of [{names}] but got {found}")
            }
        };
        Err(Refusal {
            internal: false,
            why,
        })
    }
}
