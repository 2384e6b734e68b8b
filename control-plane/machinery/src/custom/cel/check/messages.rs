//! The types of the messages that patches are made of.

use super::{Checker, JSON_PATCH, OBJECT};
use crate::custom::cel::issue::Issue;
use crate::custom::cel::syntax::ast::{Expr, MessageField};
use crate::custom::cel::types::Type;

impl Checker<'_> {
    /// A message has any fields; those of a JSON patch have types.
    pub(super) fn check_message(
        &mut self,
        expr: &Expr,
        name: &str,
        fields: &[MessageField],
    ) -> Type {
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
}

fn is_below(rest: &str) -> bool {
    rest.starts_with('.')
}
