//! The types of calls: which overloads of a function fit its arguments.

use super::Checker;
use crate::custom::cel::functions::{self, Overload};
use crate::custom::cel::syntax::ast::{Expr, ExprKind, Literal};
use crate::custom::cel::types::Type;

impl Checker<'_> {
    pub(super) fn check_call(
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
}

/// The type with these instead of an overload's variables.
fn instantiate(one: &Type, fresh: &[Type]) -> Type {
    match one {
        Type::Param(number) => fresh[*number].clone(),
        other => other.replace(&mut |inner| instantiate(inner, fresh)),
    }
}
