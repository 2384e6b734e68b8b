//! What evaluating an expression may cost at most, before there is a value.
//!
//! Kubernetes refuses to store rules that may cost too much, so the estimates are its own: the
//! sizes of values follow from the schema, and each function costs what it reads.

mod known;

use std::collections::HashMap;

use super::argument::Argument;
use super::calls;
use super::range::{LIST_COST, MAP_COST, MESSAGE_COST, Range, TEXT_FACTOR};
use crate::custom::cel::check::Checked;
use crate::custom::cel::syntax::ast::{Expr, ExprKind, Fold};
use crate::custom::cel::types::Type;
use crate::custom::cel::types::shape::Shape;

/// The sizes of the keys and the values of a list or map.
#[derive(Debug, Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// The cost of an expression whose variables all have this shape.
pub(crate) fn estimate(expr: &Expr, checked: &Checked, root: Option<&Shape>) -> Range {
    let mut coster = Coster {
        checked,
        root,
        paths: HashMap::new(),
        locals: Vec::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(expr)
}

struct Coster<'a> {
    checked: &'a Checked,
    root: Option<&'a Shape>,
    paths: HashMap<usize, Vec<String>>,
    locals: Vec<Local>,
    sizes: HashMap<usize, Range>,
    entries: HashMap<usize, Entries>,
}

impl<'a> Coster<'a> {
    fn cost(&mut self, expr: &'a Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::default(),
            ExprKind::Message { fields, .. } => {
                let made = Range::of(MESSAGE_COST);
                fields
                    .iter()
                    .fold(made, |sum, one| sum.plus(self.cost(&one.value)))
            }
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(expr.id, path);
                Range::of(1)
            }
            ExprKind::Select {
                operand,
                field,
                test,
            } => self.cost_select(expr, operand, field, *test),
            ExprKind::Call {
                function,
                target,
                arguments,
            } => self.cost_call(expr, function, target.as_deref(), arguments),
            ExprKind::List(items) => {
                let mut sum = Range::of(LIST_COST);
                let mut size = None;
                for (_, item) in items {
                    sum = sum.plus(self.cost(item));
                    size = joined(size, self.size_or_unknown(item));
                }
                let entries = Entries {
                    is_list: true,
                    key: Range::of(1),
                    value: size.unwrap_or_default(),
                };
                self.entries.insert(expr.id, entries);
                sum
            }
            ExprKind::Map(entries) => {
                let mut sum = Range::of(MAP_COST);
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key));
                    sum = sum.plus(self.cost(&entry.value));
                    keys = joined(keys, self.size_or_unknown(&entry.key));
                    values = joined(values, self.size_or_unknown(&entry.value));
                }
                let entries = Entries {
                    is_list: false,
                    key: keys.unwrap_or_default(),
                    value: values.unwrap_or_default(),
                };
                self.entries.insert(expr.id, entries);
                sum
            }
            ExprKind::Fold(fold) if Expr::is_binding(fold) => self.cost_binding(expr, fold),
            ExprKind::Fold(fold) => self.cost_fold(expr, fold),
        }
    }

    fn cost_select(&mut self, expr: &Expr, operand: &'a Expr, field: &str, test: bool) -> Range {
        // A type's name has dots, and is no field of anything.
        if self.checked.type_names.contains_key(&expr.id) {
            self.paths.insert(expr.id, vec![field.to_owned()]);
            return Range::of(1);
        }
        let sum = self.cost(operand);
        if test {
            return sum;
        }
        let mut path = self.path(operand);
        path.push(field.to_owned());
        self.paths.insert(expr.id, path);
        match self.found(operand) {
            Type::Map(..) | Type::Struct(_) => sum.plus(Range::of(1)),
            _ => sum,
        }
    }

    fn cost_call(
        &mut self,
        expr: &'a Expr,
        function: &str,
        target: Option<&'a Expr>,
        arguments: &'a [Expr],
    ) -> Range {
        if function == "dyn"
            && let [argument] = arguments
        {
            let sum = self.cost(argument);
            self.copy_sizes(expr, argument);
            return sum.plus(Range::of(1));
        }
        let qualified = self.checked.qualified.get(&expr.id);
        let target = target.filter(|_| qualified.is_none());
        let function = qualified.map_or(function, String::as_str);
        let costs: Vec<Range> = arguments.iter().map(|one| self.cost(one)).collect();
        let known: Vec<Argument> = arguments.iter().map(|one| self.argument(one)).collect();
        let mut sum = Range::default();
        let mut known_target = None;
        if let Some(target) = target {
            sum = self.cost(target);
            known_target = Some(self.argument(target));
        }
        let mut cost: Option<Range> = None;
        let mut size: Option<Range> = None;
        for overload in &self.checked.overloads[expr.id] {
            let call = calls::Call {
                function,
                overload,
                target: known_target.as_ref(),
                arguments: &known,
            };
            let (own, own_size) = self.cost_overload(expr, &call, &costs);
            cost = joined(cost, own);
            if let Some(own) = own_size {
                size = joined(size, own);
            }
            if let (index @ ("index_list" | "index_map"), [list, ..]) = (*overload, arguments) {
                size = self.entries_of(list).map(|entries| entries.value);
                let step = if index == "index_list" {
                    "@items"
                } else {
                    "@values"
                };
                let mut path = self.path(list);
                path.push(step.to_owned());
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        // Without an overload, the checker refused the call.
        sum.plus(cost.unwrap_or_default())
    }

    /// The cost of a call with its arguments, and the size of its result if it is known.
    fn cost_overload(
        &mut self,
        expr: &Expr,
        call: &calls::Call,
        costs: &[Range],
    ) -> (Range, Option<Range>) {
        let all = costs
            .iter()
            .fold(Range::default(), |sum, one| sum.plus(*one));
        if let Some((own, size)) = calls::estimate(call, self.root) {
            return (own.plus(all), size);
        }
        let sizes: Vec<Range> = call
            .arguments
            .iter()
            .map(|one| one.size.unwrap_or(Range::UNKNOWN))
            .collect();
        match (call.overload, sizes.as_slice(), costs) {
            ("logical_or" | "logical_and", _, [left, right]) => {
                let cost = Range {
                    min: left.min,
                    max: left.max.saturating_add(right.max),
                };
                (cost, None)
            }
            ("conditional", [_, yes, no], [test, cost_yes, cost_no]) => {
                self.join_entries(expr, &call.arguments[1..]);
                (test.plus(cost_yes.union(*cost_no)), Some(yes.union(*no)))
            }
            ("add_string" | "add_bytes" | "add_list", [left, right], _) => {
                self.join_entries(expr, call.arguments);
                let size = left.plus(*right);
                let own = if call.overload == "add_list" {
                    Range::of(1)
                } else {
                    size.scaled(TEXT_FACTOR)
                };
                (own.plus(all), Some(size))
            }
            _ => {
                let (own, size) = calls::estimate_standard(call, &sizes);
                (own.plus(all), size)
            }
        }
    }

    fn cost_fold(&mut self, expr: &'a Expr, fold: &'a Fold) -> Range {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        let accu = self.bound(&fold.accu, &fold.init);
        self.locals.push(accu);
        let entries = self.entries_of(&fold.range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.found(&fold.range), Type::List(_)),
        };
        let key = entries.map(|entries| entries.key);
        let value = entries.map(|entries| entries.value);
        let base = self.path(&fold.range);
        let local = |name: &String, step: &str, size| {
            let mut path = base.clone();
            path.push(step.to_owned());
            Local {
                name: name.clone(),
                path,
                size,
                entries: None,
            }
        };
        let outer = self.locals.len();
        let items = if is_list { "@items" } else { "@values" };
        let keys = if is_list { "@indices" } else { "@keys" };
        match &fold.var2 {
            Some(var2) => {
                self.locals.push(local(&fold.var, keys, key));
                self.locals.push(local(var2, items, value));
            }
            None if is_list => self.locals.push(local(&fold.var, items, value)),
            None => self.locals.push(local(&fold.var, keys, key)),
        }
        let condition = self.cost(&fold.condition);
        let round = condition.plus(self.cost(&fold.step));
        self.locals.truncate(outer);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        let rounds = self.size_or_unknown(&fold.range);
        sum = sum.plus(rounds.times(round));
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.sizes.insert(expr.id, rounds);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn cost_binding(&mut self, expr: &'a Expr, fold: &'a Fold) -> Range {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        let bound = self.bound(&fold.accu, &fold.init);
        self.locals.push(bound);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        self.copy_sizes(expr, &fold.result);
        sum
    }
}

fn joined(before: Option<Range>, own: Range) -> Option<Range> {
    Some(before.map_or(own, |before| before.union(own)))
}
