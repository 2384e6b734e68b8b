//! Checks the types of an expression.

use std::collections::HashMap;
use std::sync::Arc;

use super::Environment;
use super::functions::{self, Overload};
use super::issue::Issue;
use super::syntax::ast::{Expr, ExprKind, Fold, Literal, MessageField};
use super::types::shape::{Shape, ShapeKind};
use super::types::{Bindings, Type};
use super::value::COMPOSED;

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
                Type::map(key, values.unwrap_or_else(|| self.bindings.fresh()))
            }
            ExprKind::Message { name, fields } => self.check_message(expr, name, fields),
            ExprKind::Fold(fold) => self.check_fold(fold),
        };
        self.checked.types[expr.id] = found;
    }

    fn check_select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Type {
        let qualified = if test { None } else { expr.qualified_name() };
        if let Some(name) = qualified
            && let Some(found) = self.lookup(expr.id, &name)
        {
            if !self.checked.type_names.contains_key(&expr.id) {
                self.checked.names.insert(expr.id, name);
            }
            return found;
        }
        let found = self.select_field(expr, operand, field, false);
        if test {
            Type::Bool
        } else {
            self.bindings.resolve(&found, false)
        }
    }

    fn select_field(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.bindings.resolve(&self.found(operand), false);
        let (target, was_optional) = operand.unwrapped();
        let found = match target {
            Type::Map(_, value) => Type::clone(value),
            Type::Struct(name) => match self.field_of(name, field) {
                Some(found) => found,
                None => {
                    let is_known = **name == *COMPOSED || self.structs.contains_key(name);
                    self.report(
                        expr,
                        if is_known {
                            format!("undefined field '{field}'")
                        } else {
                            format!("unexpected failed resolution of '{name}'")
                        },
                    );
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(
                    expr,
                    format!("type '{other}' does not support field selection"),
                );
                Type::Dyn
            }
        };
        if optional || was_optional {
            Type::optional(found)
        } else {
            found
        }
    }

    /// A message has any fields; those of a JSON patch have types.
    fn check_message(&mut self, expr: &Expr, name: &str, fields: &[MessageField]) -> Type {
        let is_object = name == OBJECT || name.strip_prefix(OBJECT).is_some_and(is_below);
        if !self.environment.makes_patches || !(is_object || name == JSON_PATCH) {
            return self.undeclared(expr, name);
        }
        for field in fields {
            self.check(&field.value);
            let found = self.unwrap_if(field.optional, &field.value);
            let wanted = match field.name.as_str() {
                _ if is_object => Type::Dyn,
                "op" | "path" | "from" => Type::String,
                "value" => Type::Dyn,
                other => {
                    self.report(expr, format!("undefined field '{other}'"));
                    continue;
                }
            };
            if !self.bindings.assign(&wanted, &found) {
                let (wanted, name) = (wanted.to_string(), &field.name);
                let message = format!(
                    "expected type of field '{name}' is '{wanted}' but provided type is '{found}'"
                );
                self.issues.push(Issue::at(field.at, message));
            }
        }
        Type::Struct(name.into())
    }

    fn field_of(&self, name: &str, field: &str) -> Option<Type> {
        if name == COMPOSED {
            return self.environment.composed.get(field).cloned();
        }
        let shape = self.structs.get(name)?;
        Some(shape.field(field)?.kind_of.clone())
    }

    fn check_call(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> Type {
        if function == "_?._"
            && let [operand, field] = arguments
            && let ExprKind::Literal(Literal::String(field)) = &field.kind
        {
            let found = self.select_field(expr, operand, field, true);
            self.checked.overloads[expr.id] = vec!["select_optional_field"];
            return self.bindings.resolve(&found, false);
        }
        arguments.iter().for_each(|argument| self.check(argument));
        if let Some(prefix) = target.and_then(Expr::qualified_name) {
            let name = format!("{prefix}.{function}");
            if let Some(overloads) = functions::overloads(&name, self.environment.makes_patches) {
                self.checked.qualified.insert(expr.id, name.clone());
                return self.resolve(expr, &name, overloads, None, arguments);
            }
        }
        target.into_iter().for_each(|target| self.check(target));
        match functions::overloads(function, self.environment.makes_patches) {
            Some(overloads) => self.resolve(expr, function, overloads, target, arguments),
            None => self.undeclared(expr, function),
        }
    }

    fn resolve(
        &mut self,
        expr: &Expr,
        name: &str,
        overloads: &'static [Overload],
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> Type {
        let all = target.into_iter().chain(arguments);
        let given: Vec<Type> = all.map(|one| self.found(one)).collect();
        if matches!(name, "_&&_" | "_||_") {
            return self.resolve_logic(expr, overloads, arguments, &given);
        }
        let mut result: Option<Type> = None;
        for overload in overloads {
            if overload.member != target.is_some() || overload.arguments.len() != given.len() {
                continue;
            }
            let fresh: Vec<Type> = (0..overload.variables)
                .map(|_| self.bindings.fresh())
                .collect();
            let wanted: Vec<Type> = overload
                .arguments
                .iter()
                .map(|one| instantiate(one, &fresh))
                .collect();
            if !self.bindings.assign_all(&given, &wanted) {
                continue;
            }
            self.checked.overloads[expr.id].push(overload.id);
            let own = instantiate(&overload.result, &fresh);
            let own = self.bindings.resolve(&own, false);
            result = Some(match result {
                None => own,
                Some(before) if before == Type::Dyn || before == own => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        let shown: Vec<String> = given
            .iter()
            .map(|one| self.bindings.resolve(one, true).to_string())
            .collect();
        let shown = match (target, shown.split_first()) {
            (Some(_), Some((target, arguments))) => {
                format!("{target}.({})", arguments.join(", "))
            }
            _ => format!("({})", shown.join(", ")),
        };
        self.report(
            expr,
            format!("found no matching overload for '{name}' applied to '{shown}'"),
        );
        Type::Error
    }

    fn resolve_logic(
        &mut self,
        expr: &Expr,
        overloads: &'static [Overload],
        arguments: &[Expr],
        given: &[Type],
    ) -> Type {
        let mut fits = true;
        for (argument, given) in arguments.iter().zip(given) {
            if !self.bindings.assign(given, &Type::Bool) {
                self.mismatch(argument, &Type::Bool, given);
                fits = false;
            }
        }
        if !fits {
            return Type::Error;
        }
        let ids = overloads.iter().map(|overload| overload.id);
        self.checked.overloads[expr.id] = ids.collect();
        Type::Bool
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

fn is_below(rest: &str) -> bool {
    rest.starts_with('.')
}

/// The type with these instead of an overload's variables.
fn instantiate(one: &Type, fresh: &[Type]) -> Type {
    match one {
        Type::Param(number) => fresh[*number].clone(),
        other => other.replace(&mut |inner| instantiate(inner, fresh)),
    }
}
