//! Checks the types of an expression.

mod calls;
mod messages;
mod select;

use std::collections::HashMap;
use std::sync::Arc;

use super::Environment;
use super::functions;
use super::issue::Issue;
use super::syntax::ast::{Expr, ExprKind, Fold, Literal};
use super::types::shape::{Shape, ShapeKind};
use super::types::{Bindings, Type};

/// The types of what patches are made of. Fields of an object have types with its path in their
/// names, such as `Object.spec`.
pub(super) const OBJECT: &str = "Object";
pub(super) const JSON_PATCH: &str = "JSONPatch";

/// What is known of an expression after it is checked, by the numbers of its nodes.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) types: Vec<Type>,
    /// The overloads that may be meant by a call.
    pub(super) overloads: Vec<Vec<&'static str>>,
    /// The type that an identifier stands for.
    pub(super) type_names: HashMap<usize, Type>,
    /// The variables with dots in their names that selections mean.
    pub(super) names: HashMap<usize, String>,
    /// The namespaced functions that calls with a target mean.
    pub(super) qualified: HashMap<usize, String>,
    /// The variables that it uses.
    pub(super) variables: Vec<String>,
}

/// Checks an expression in an environment.
pub(super) fn check(expr: &Expr, environment: &Environment) -> Result<Checked, Vec<Issue>> {
    let mut structs = HashMap::new();
    let shapes = environment.shapes.iter();
    shapes.for_each(|shape| collect(shape, &mut structs));
    let mut count = 0;
    expr.walk(&mut |inner| count = count.max(inner.id + 1));
    let mut checker = Checker {
        environment,
        structs,
        scopes: Vec::new(),
        bindings: Bindings::default(),
        checked: Checked {
            types: vec![Type::Error; count],
            overloads: vec![Vec::new(); count],
            ..Checked::default()
        },
        issues: Vec::new(),
    };
    checker.check(expr);
    let Checker {
        bindings,
        mut checked,
        issues,
        ..
    } = checker;
    for one in &mut checked.types {
        *one = bindings.resolve(one, true);
    }
    if bindings.is_too_large() {
        let message = "the types of its parts are too large".to_owned();
        return Err(vec![Issue { at: None, message }]);
    }
    if issues.is_empty() {
        Ok(checked)
    } else {
        Err(issues)
    }
}

/// The objects within a shape by the names of their types.
fn collect<'a>(shape: &'a Arc<Shape>, structs: &mut HashMap<Arc<str>, &'a Arc<Shape>>) {
    match &shape.kind {
        ShapeKind::Object(fields) => {
            if let Type::Struct(name) = &shape.kind_of {
                structs.insert(Arc::clone(name), shape);
            }
            fields
                .all
                .values()
                .for_each(|field| collect(field, structs));
        }
        ShapeKind::List(inner, _) | ShapeKind::Map(inner) => collect(inner, structs),
        _ => {}
    }
}

struct Checker<'a> {
    environment: &'a Environment,
    structs: HashMap<Arc<str>, &'a Arc<Shape>>,
    /// The variables of loops, the innermost last.
    scopes: Vec<(String, Type)>,
    bindings: Bindings,
    checked: Checked,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn check(&mut self, expr: &Expr) {
        let found = match &expr.kind {
            ExprKind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            ExprKind::Ident(name) => match self.lookup(expr.id, name) {
                Some(found) => found,
                None => self.undeclared(expr, name),
            },
            ExprKind::Select {
                operand,
                field,
                test,
            } => self.check_select(expr, operand, field, *test),
            ExprKind::Call {
                function,
                target,
                arguments,
            } => self.check_call(expr, function, target.as_deref(), arguments),
            ExprKind::List(items) => {
                let mut joined = None;
                for (optional, item) in items {
                    self.check(item);
                    let found = self.unwrap_if(*optional, item);
                    joined = Some(self.join(joined, found));
                }
                Type::list(joined.unwrap_or_else(|| self.bindings.fresh()))
            }
            ExprKind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    self.check(&entry.key);
                    let key = self.found(&entry.key);
                    keys = Some(self.join(keys, key));
                    self.check(&entry.value);
                    let value = self.unwrap_if(entry.optional, &entry.value);
                    values = Some(self.join(values, value));
                }
                let key = keys.unwrap_or_else(|| self.bindings.fresh());
                let value = values.unwrap_or_else(|| self.bindings.fresh());
                self.bindings.limited(Type::map(key, value))
            }
            ExprKind::Message { name, fields } => self.check_message(expr, name, fields),
            ExprKind::Fold(fold) => self.check_fold(fold),
        };
        self.checked.types[expr.id] = found;
    }

    fn check_fold(&mut self, fold: &Fold) -> Type {
        self.check(&fold.range);
        self.check(&fold.init);
        let range = self.bindings.resolve(&self.found(&fold.range), false);
        let accu = self.found(&fold.init);
        let (first, second) = match &range {
            Type::List(item) if fold.var2.is_some() => (Type::Int, Type::clone(item)),
            Type::List(item) => (Type::clone(item), Type::Error),
            Type::Map(key, value) => (Type::clone(key), Type::clone(value)),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.report(&fold.range, message);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.scopes.len();
        self.scopes.push((fold.accu.clone(), accu.clone()));
        let inner = self.scopes.len();
        self.scopes.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.scopes.push((var2.clone(), second));
        }
        self.check(&fold.condition);
        self.expect(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.expect(&fold.step, &accu);
        self.scopes.truncate(inner);
        self.check(&fold.result);
        self.scopes.truncate(outer);
        self.bindings.resolve(&self.found(&fold.result), false)
    }

    /// The type of a variable, or of a type that the name stands for.
    fn lookup(&mut self, id: usize, name: &str) -> Option<Type> {
        let is_it = |(own, _): &&(String, Type)| own == name;
        if let Some((_, found)) = self.scopes.iter().rev().find(is_it) {
            return Some(found.clone());
        }
        if let Some((_, found)) = self.environment.variables.iter().find(is_it) {
            if !self.checked.variables.iter().any(|one| one == name) {
                self.checked.variables.push(name.to_owned());
            }
            return Some(found.clone());
        }
        let named = functions::type_named(name)?;
        self.checked.type_names.insert(id, named.clone());
        Some(Type::Meta(Arc::new(named)))
    }

    /// The type of an item; that within an optional, if the item is one.
    fn unwrap_if(&mut self, optional: bool, item: &Expr) -> Type {
        let found = self.found(item);
        if !optional {
            return found;
        }
        let (inner, was_optional) = found.unwrapped();
        if !was_optional && *inner != Type::Dyn {
            self.mismatch(item, &Type::optional(inner.clone()), inner);
        }
        inner.clone()
    }

    /// The type that both items before and this one have.
    fn join(&mut self, before: Option<Type>, found: Type) -> Type {
        let Some(before) = before else { return found };
        if self.bindings.assign(&before, &found) {
            return Bindings::most_general(&before, &found);
        }
        // Literals of mixed types are refused afterwards, except where they are formatted.
        Type::Dyn
    }

    fn expect(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.found(expr);
        if !self.bindings.assign(wanted, &found) {
            self.mismatch(expr, wanted, &found);
        }
    }

    fn found(&self, expr: &Expr) -> Type {
        self.checked.types[expr.id].clone()
    }

    fn mismatch(&mut self, expr: &Expr, wanted: &Type, found: &Type) {
        self.report(
            expr,
            format!("expected type '{wanted}' but found '{found}'"),
        );
    }

    fn undeclared(&mut self, expr: &Expr, name: &str) -> Type {
        self.report(
            expr,
            format!("undeclared reference to '{name}' (in container '')"),
        );
        Type::Error
    }

    fn report(&mut self, expr: &Expr, message: String) {
        self.issues.push(Issue::at(expr.at, message));
    }
}
