//! Expressions in objects that decide about requests.

use std::collections::BTreeSet;

use machinery::cel::admission::{Compiler, Expression, Wanted};
use machinery::name;
use machinery::status::Cause;

use super::field::FieldValue;
use crate::validate::{Causes, named};

/// The most match conditions of one webhook or policy.
const CONDITIONS_MAX: usize = 64;

/// Checks the match conditions of a webhook or a policy.
pub(crate) fn conditions(causes: &mut Causes, at: &FieldValue, compiler: &Compiler) {
    let key = "matchConditions";
    let count = at.items(key).len();
    if count > CONDITIONS_MAX {
        let cause = Cause::too_many(&at.path_of(key), count, CONDITIONS_MAX);
        causes.push(cause);
    }
    let mut names = BTreeSet::new();
    causes.each(at, key, |causes, one| {
        let source = one.text("expression").trim();
        if source.is_empty() {
            causes.push(Cause::required(&one.path_of("expression"), ""));
        } else {
            let compiled = compiler.compile(source, Wanted::Bool, true);
            refusal(causes, &one.path_of("expression"), &compiled);
        }
        if !causes.required(one, "name") {
            return;
        }
        let text = one.text("name");
        let field = one.path_of("name");
        causes.extend(named(&field, text, name::qualified_name(text)));
        if !names.insert(text) {
            causes.push(Cause::duplicate(&field, &text.into()));
        }
    });
}

/// The error of an expression that does not compile.
pub(crate) fn refusal(causes: &mut Causes, field: &str, expression: &Expression) {
    let Some(refusal) = expression.refusal() else {
        return;
    };
    causes.push(if refusal.internal {
        Cause {
            reason: "InternalError",
            message: format!("Internal error: {}", refusal.why),
            field: field.to_owned(),
        }
    } else {
        Cause::invalid(field, &expression.source().into(), &refusal.why)
    });
}
