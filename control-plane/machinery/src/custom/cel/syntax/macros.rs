//! Macros: calls that stand for loops and tests.

use super::ast::{Expr, ExprKind, Fold, Literal};
use super::nodes::Nodes;
use crate::custom::cel::issue::Issue;

/// The variable of what loops accumulate. No source can name it.
pub(crate) const ACCU: &str = "@result";
/// What an author might take for that variable.
const OLD_ACCU: &str = "__result__";
const OVERWRITES: &str = "iteration variable overwrites accumulator variable";
/// The variable of a loop without rounds.
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";

type Made = Result<Expr, Issue>;

/// A call of a function, or what a macro makes of it.
pub(crate) fn global(nodes: &mut Nodes, at: usize, name: &str, arguments: Vec<Expr>) -> Made {
    if name != "has" || arguments.len() != 1 {
        return nodes.call(at, name, arguments);
    }
    let [argument] = take(arguments, at)?;
    match argument.kind {
        ExprKind::Select { operand, field, .. } => {
            let kind = ExprKind::Select {
                operand,
                field,
                test: true,
            };
            nodes.node(at, kind)
        }
        _ => Err(Issue::at(argument.at, "invalid argument to has() macro")),
    }
}

/// A call of a member function, or what a macro makes of it.
pub(crate) fn member(
    nodes: &mut Nodes,
    at: usize,
    name: &str,
    target: Expr,
    arguments: Vec<Expr>,
) -> Made {
    let mut make = Maker { nodes, at };
    match (name, arguments.len()) {
        ("all" | "exists" | "exists_one", 2) => {
            let [var, test] = take(arguments, at)?;
            let vars = (simple(&var, "argument must be a simple name")?, None);
            make.quantifier(name, target, vars, test)
        }
        ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            let [var, var2, test] = take(arguments, at)?;
            make.quantifier(name, target, pair(&var, &var2)?, test)
        }
        ("map", 2) => {
            let [var, item] = take(arguments, at)?;
            let var = simple(&var, "argument is not an identifier")?;
            make.list(target, (var, None), None, item)
        }
        ("map", 3) => {
            let [var, filter, item] = take(arguments, at)?;
            let var = simple(&var, "argument is not an identifier")?;
            make.list(target, (var, None), Some(filter), item)
        }
        ("filter", 2) => {
            let [item, filter] = take(arguments, at)?;
            let var = simple(&item, "argument is not an identifier")?;
            make.list(target, (var, None), Some(filter), item)
        }
        ("transformList", 3) => {
            let [var, var2, item] = take(arguments, at)?;
            make.list(target, pair(&var, &var2)?, None, item)
        }
        ("transformList", 4) => {
            let [var, var2, filter, item] = take(arguments, at)?;
            make.list(target, pair(&var, &var2)?, Some(filter), item)
        }
        ("transformMap" | "transformMapEntry", 3) => {
            let [var, var2, item] = take(arguments, at)?;
            make.map(name, target, pair(&var, &var2)?, None, item)
        }
        ("transformMap" | "transformMapEntry", 4) => {
            let [var, var2, filter, item] = take(arguments, at)?;
            make.map(name, target, pair(&var, &var2)?, Some(filter), item)
        }
        ("optMap" | "optFlatMap", 2) => {
            let [var, item] = take(arguments, at)?;
            make.optional(name, target, &var, item)
        }
        ("sortBy", 2) => {
            let [var, key] = take(arguments, at)?;
            make.sort_by(target, &var, key)
        }
        _ => {
            let kind = ExprKind::Call {
                function: name.to_owned(),
                target: Some(Box::new(target)),
                arguments,
            };
            make.nodes.node(at, kind)
        }
    }
}

type Vars = (String, Option<String>);

struct Maker<'a> {
    nodes: &'a mut Nodes,
    at: usize,
}

impl Maker<'_> {
    fn quantifier(&mut self, name: &str, target: Expr, vars: Vars, test: Expr) -> Made {
        let accu = self.accu()?;
        let (init, condition, step, result) = match name {
            "all" => (
                self.literal(Literal::Bool(true))?,
                self.call("@not_strictly_false", |make| Ok(vec![make.accu()?]))?,
                self.call("_&&_", |_| Ok(vec![accu, test]))?,
                self.accu()?,
            ),
            "exists" => {
                let not = self.call("!_", |make| Ok(vec![make.accu()?]))?;
                (
                    self.literal(Literal::Bool(false))?,
                    self.call("@not_strictly_false", |_| Ok(vec![not]))?,
                    self.call("_||_", |_| Ok(vec![accu, test]))?,
                    self.accu()?,
                )
            }
            _ => {
                let one = self.literal(Literal::Int(1))?;
                let more = self.call("_+_", |_| Ok(vec![accu, one]))?;
                (
                    self.literal(Literal::Int(0))?,
                    self.literal(Literal::Bool(true))?,
                    self.call("_?_:_", |make| Ok(vec![test, more, make.accu()?]))?,
                    self.call("_==_", |make| {
                        Ok(vec![make.accu()?, make.literal(Literal::Int(1))?])
                    })?,
                )
            }
        };
        self.fold(Fold {
            range: target,
            var: vars.0,
            var2: vars.1,
            accu: ACCU.to_owned(),
            init,
            condition,
            step,
            result,
        })
    }

    fn list(&mut self, target: Expr, vars: Vars, filter: Option<Expr>, item: Expr) -> Made {
        let init = self.nodes.node(self.at, ExprKind::List(Vec::new()))?;
        let item = ExprKind::List(vec![(false, item)]);
        let item = self.nodes.node(self.at, item)?;
        let step = self.call("_+_", |make| Ok(vec![make.accu()?, item]))?;
        self.collect(target, vars, filter, init, step)
    }

    fn map(
        &mut self,
        name: &str,
        target: Expr,
        vars: Vars,
        filter: Option<Expr>,
        item: Expr,
    ) -> Made {
        let init = self.nodes.node(self.at, ExprKind::Map(Vec::new()))?;
        let key = vars.0.clone();
        let step = self.call("cel.@mapInsert", |make| {
            let mut arguments = vec![make.accu()?];
            if name == "transformMap" {
                arguments.push(make.ident(&key)?);
            }
            arguments.push(item);
            Ok(arguments)
        })?;
        self.collect(target, vars, filter, init, step)
    }

    /// A loop over all items that a filter lets through.
    fn collect(
        &mut self,
        range: Expr,
        vars: Vars,
        filter: Option<Expr>,
        init: Expr,
        step: Expr,
    ) -> Made {
        let condition = self.literal(Literal::Bool(true))?;
        let step = match filter {
            Some(filter) => self.call("_?_:_", |make| Ok(vec![filter, step, make.accu()?]))?,
            None => step,
        };
        let result = self.accu()?;
        self.fold(Fold {
            range,
            var: vars.0,
            var2: vars.1,
            accu: ACCU.to_owned(),
            init,
            condition,
            step,
            result,
        })
    }

    fn optional(&mut self, name: &str, target: Expr, var: &Expr, item: Expr) -> Made {
        let ExprKind::Ident(var_name) = &var.kind else {
            let message = format!("{name}() variable name must be a simple identifier");
            return Err(Issue::at(var.at, message));
        };
        let copy = self.nodes.copy(&target)?;
        let has_value = self.member_call("hasValue", target, Vec::new())?;
        let value = self.member_call("value", copy, Vec::new())?;
        let bound = self.bind(var_name, value, item)?;
        let some = if name == "optMap" {
            self.call("optional.of", |_| Ok(vec![bound]))?
        } else {
            bound
        };
        let none = self.call("optional.none", |_| Ok(Vec::new()))?;
        self.call("_?_:_", |_| Ok(vec![has_value, some, none]))
    }

    fn sort_by(&mut self, target: Expr, var: &Expr, key: Expr) -> Made {
        if matches!(
            target.kind,
            ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Message { .. }
        ) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call \
                           or select expression";
            return Err(Issue::at(target.at, message));
        }
        let var = simple(var, "argument is not an identifier")?;
        let input = self.ident(SORTED)?;
        let keys = self.list(input, (var, None), None, key)?;
        let input = self.ident(SORTED)?;
        let sorted = self.member_call("@sortByAssociatedKeys", input, vec![keys])?;
        self.bind(SORTED, target, sorted)
    }

    /// Gives a value a name within an expression.
    fn bind(&mut self, name: &str, value: Expr, within: Expr) -> Made {
        let range = self.nodes.node(self.at, ExprKind::List(Vec::new()))?;
        let condition = self.literal(Literal::Bool(false))?;
        let step = self.ident(name)?;
        self.fold(Fold {
            range,
            var: UNUSED.to_owned(),
            var2: None,
            accu: name.to_owned(),
            init: value,
            condition,
            step,
            result: within,
        })
    }

    fn fold(&mut self, fold: Fold) -> Made {
        self.nodes.node(self.at, ExprKind::Fold(Box::new(fold)))
    }

    fn call(
        &mut self,
        function: &str,
        arguments: impl FnOnce(&mut Self) -> Result<Vec<Expr>, Issue>,
    ) -> Made {
        let arguments = arguments(self)?;
        self.nodes.call(self.at, function, arguments)
    }

    fn member_call(&mut self, function: &str, target: Expr, arguments: Vec<Expr>) -> Made {
        let kind = ExprKind::Call {
            function: function.to_owned(),
            target: Some(Box::new(target)),
            arguments,
        };
        self.nodes.node(self.at, kind)
    }

    fn accu(&mut self) -> Made {
        self.ident(ACCU)
    }

    fn ident(&mut self, name: &str) -> Made {
        self.nodes.node(self.at, ExprKind::Ident(name.to_owned()))
    }

    fn literal(&mut self, literal: Literal) -> Made {
        self.nodes.node(self.at, ExprKind::Literal(literal))
    }
}

fn take<const N: usize>(arguments: Vec<Expr>, at: usize) -> Result<[Expr; N], Issue> {
    let count = arguments.len();
    let wrong = |_| Issue::at(at, format!("wrong number of arguments: {count}"));
    arguments.try_into().map_err(wrong)
}

fn simple(var: &Expr, otherwise: &str) -> Result<String, Issue> {
    match &var.kind {
        ExprKind::Ident(name) if name == OLD_ACCU => Err(Issue::at(var.at, OVERWRITES)),
        ExprKind::Ident(name) => Ok(name.clone()),
        _ => Err(Issue::at(var.at, otherwise)),
    }
}

fn pair(var: &Expr, var2: &Expr) -> Result<Vars, Issue> {
    let otherwise = "argument must be a simple name";
    let (first, second) = (simple(var, otherwise)?, simple(var2, otherwise)?);
    if first == second {
        let message = format!("duplicate variable name: {first}");
        return Err(Issue::at(var2.at, message));
    }
    Ok((first, Some(second)))
}
