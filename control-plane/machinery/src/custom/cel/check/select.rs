//! The types of fields.

use super::Checker;
use crate::custom::cel::syntax::ast::Expr;
use crate::custom::cel::types::Type;
use crate::custom::cel::value::COMPOSED;

impl Checker<'_> {
    pub(super) fn check_select(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        field: &str,
        test: bool,
    ) -> Type {
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

    pub(super) fn select_field(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        field: &str,
        optional: bool,
    ) -> Type {
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

    fn field_of(&self, name: &str, field: &str) -> Option<Type> {
        if name == COMPOSED {
            return self.environment.composed.get(field).cloned();
        }
        let shape = self.structs.get(name)?;
        Some(shape.field(field)?.kind_of.clone())
    }
}
