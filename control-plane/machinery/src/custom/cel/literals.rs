//! What of an expression is known before it is evaluated: literals that functions refuse,
//! constants and patterns.

use std::collections::HashSet;

use super::check::Checked;
use super::eval::literal_value;
use super::issue::Issue;
use super::library;
use super::syntax::ast::{Expr, ExprKind, Literal};
use super::types::Type;
use crate::values::pattern::Patterns;

/// Functions whose results are constants if their arguments are.
const CONVERSIONS: [&str; 8] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "string",
    "timestamp",
    "uint",
];

/// Literals that their functions refuse, and lists and maps of mixed types.
pub(super) fn check(expr: &Expr, checked: &Checked, patterns: &mut Patterns) -> Vec<Issue> {
    let mut issues = Vec::new();
    expr.walk(&mut |one| check_literal(one, patterns, &mut issues));
    check_types(expr, checked, &mut issues);
    expr.walk(&mut |one| check_format(one, checked, &mut issues));
    issues
}

fn check_literal(expr: &Expr, patterns: &mut Patterns, issues: &mut Vec<Issue>) {
    let ExprKind::Call {
        function,
        arguments,
        ..
    } = &expr.kind
    else {
        return;
    };
    let Some(first) = arguments.first() else {
        return;
    };
    let ExprKind::Literal(literal) = &first.kind else {
        return;
    };
    let accepted = match function.as_str() {
        "duration" | "timestamp" => {
            let converted = library::convert(function, &literal_value(literal));
            converted.is_some_and(|converted| converted.is_ok())
        }
        "matches" => match literal {
            Literal::String(pattern) => patterns.compile(pattern).is_ok(),
            _ => true,
        },
        _ => true,
    };
    if !accepted {
        issues.push(Issue::at(first.at, format!("invalid {function} argument")));
    }
}

/// Checks a text that is filled with values against the types of these values.
fn check_format(expr: &Expr, checked: &Checked, issues: &mut Vec<Issue>) {
    let ExprKind::Call {
        function,
        target: Some(target),
        arguments,
    } = &expr.kind
    else {
        return;
    };
    let (ExprKind::Literal(Literal::String(text)), [list]) = (&target.kind, arguments.as_slice())
    else {
        return;
    };
    let ExprKind::List(items) = &list.kind else {
        return;
    };
    if function != "format" {
        return;
    }
    let types: Vec<&Type> = items
        .iter()
        .map(|(_, item)| &checked.types[item.id])
        .collect();
    if let Err((at, why)) = library::check_template(text, &types) {
        let at = at
            .and_then(|at| items.get(at))
            .map_or(expr.at, |(_, item)| item.at);
        issues.push(Issue::at(at, why));
    }
}

/// Checks that the items of each list and map have one type, except those that are formatted.
fn check_types(expr: &Expr, checked: &Checked, issues: &mut Vec<Issue>) {
    if matches!(&expr.kind, ExprKind::Call { function, .. } if function == "format") {
        return;
    }
    let mut differ = |all: &mut dyn Iterator<Item = (bool, &Expr)>| {
        let mut first: Option<&Type> = None;
        for (optional, item) in all {
            let mut found = &checked.types[item.id];
            if optional {
                found = found.unwrapped().0;
            }
            match first {
                None => first = Some(found),
                Some(first) if first == found => {}
                Some(first) => {
                    let message = format!("expected type '{first}' but found '{found}'");
                    issues.push(Issue::at(item.at, message));
                    break;
                }
            }
        }
    };
    match &expr.kind {
        ExprKind::List(items) => {
            differ(&mut items.iter().map(|(optional, item)| (*optional, item)));
        }
        ExprKind::Map(entries) => {
            differ(&mut entries.iter().map(|entry| (false, &entry.key)));
            differ(&mut entries.iter().map(|entry| (entry.optional, &entry.value)));
        }
        _ => {}
    }
    expr.kind
        .each(&mut |inner| check_types(inner, checked, issues));
}

/// The nodes whose values are known; the error is that of a conversion.
pub(super) fn constants(expr: &Expr, checked: &Checked) -> Result<HashSet<usize>, String> {
    let mut constants = HashSet::new();
    mark(expr, checked, &mut constants)?;
    Ok(constants)
}

fn mark(expr: &Expr, checked: &Checked, constants: &mut HashSet<usize>) -> Result<(), String> {
    let mut failed = None;
    expr.kind.each(&mut |inner| {
        if let Err(why) = mark(inner, checked, constants) {
            failed.get_or_insert(why);
        }
    });
    if let Some(why) = failed {
        return Err(why);
    }
    let is_constant = match &expr.kind {
        ExprKind::Literal(_) => true,
        ExprKind::Ident(_) | ExprKind::Select { .. } => checked.type_names.contains_key(&expr.id),
        ExprKind::List(items) => items
            .iter()
            .all(|(optional, item)| !optional && constants.contains(&item.id)),
        ExprKind::Map(entries) => entries.iter().all(|entry| {
            let both = constants.contains(&entry.key.id) && constants.contains(&entry.value.id);
            both && !entry.optional
        }),
        ExprKind::Call {
            function,
            target: None,
            arguments,
        } => match arguments.as_slice() {
            [argument] if CONVERSIONS.contains(&function.as_str()) => {
                if let ExprKind::Literal(literal) = &argument.kind
                    && let Some(Err(why)) = library::convert(function, &literal_value(literal))
                {
                    return Err(why);
                }
                constants.contains(&argument.id)
            }
            [argument] if matches!(function.as_str(), "dyn" | "type") => {
                constants.contains(&argument.id)
            }
            _ => false,
        },
        _ => false,
    };
    if is_constant {
        constants.insert(expr.id);
    }
    Ok(())
}

/// Compiles the patterns that are literals; the error is that of the first one that cannot be.
pub(super) fn compile(expr: &Expr, patterns: &mut Patterns) -> Result<(), String> {
    let mut failed = None;
    expr.walk(&mut |one| {
        if let ExprKind::Call {
            function,
            target,
            arguments,
        } = &one.kind
            && matches!(function.as_str(), "matches" | "find" | "findAll")
            && let Some(pattern) = arguments.get(usize::from(target.is_none()))
            && let ExprKind::Literal(Literal::String(pattern)) = &pattern.kind
            && failed.is_none()
        {
            failed = patterns.compile(pattern).err();
        }
    });
    failed.map_or(Ok(()), Err)
}
