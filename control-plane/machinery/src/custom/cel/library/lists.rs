//! Functions on lists, sets and maps.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::value::{List, Map, Value, Why};

/// The most items of a list that a function makes.
const ITEMS_MAX: i64 = 1_000_000;

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    if let ("lists.range", [Value::Int(count)]) = (function, arguments) {
        if *count > ITEMS_MAX {
            return Some(Err(too_many()));
        }
        return Some(Ok(Value::list((0..*count).map(Value::Int).collect())));
    }
    let (Value::List(list), rest) = arguments.split_first()? else {
        return None;
    };
    let called = match (function, rest) {
        ("isSorted", []) => is_sorted(list).map(Value::Bool),
        ("sum", []) => sum(list),
        ("min", []) => extreme(list, "min", Ordering::Greater),
        ("max", []) => extreme(list, "max", Ordering::Less),
        ("indexOf", [item]) => position(list, item, false),
        ("lastIndexOf", [item]) => position(list, item, true),
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(list, *from, *to),
        ("flatten", []) => flatten(list, 1),
        ("flatten", [Value::Int(depth)]) if *depth < 0 => {
            Err("level must be non-negative".to_owned())
        }
        ("flatten", [Value::Int(depth)]) => flatten(list, *depth),
        ("distinct", []) => distinct(list),
        ("reverse", []) => list.items().map(|mut items| {
            items.reverse();
            Value::list(items)
        }),
        ("first", []) => Ok(end(list, 0)),
        ("last", []) => Ok(end(list, list.len().wrapping_sub(1))),
        ("sort", []) => list.items().and_then(|keys| sort(list, keys)),
        ("@sortByAssociatedKeys", [Value::List(keys)]) => {
            keys.items().and_then(|keys| sort(list, keys))
        }
        ("sets.contains", [Value::List(other)]) => contains(list, other).map(Value::Bool),
        ("sets.equivalent", [Value::List(other)]) => contains(list, other)
            .and_then(|all| Ok(all && contains(other, list)?))
            .map(Value::Bool),
        ("sets.intersects", [Value::List(other)]) => intersects(list, other).map(Value::Bool),
        _ => return None,
    };
    Some(called)
}

/// Adds an entry, or the entries of a map, to a map. One that no one else has grows in place.
pub(in super::super) fn insert(mut arguments: Vec<Value<'_>>) -> Result<Value<'_>, Why> {
    let rest = arguments.split_off(1);
    let Some(Value::Map(Map::Made(mut made))) = arguments.pop() else {
        return Err("no such overload: cel.@mapInsert".to_owned());
    };
    let target = Rc::make_mut(&mut made);
    match rest.as_slice() {
        [key, value] => target.insert(key.clone(), value.clone())?,
        [Value::Map(entries)] => {
            for entry in entries.entries() {
                let (key, value) = entry?;
                target.insert(key, value)?;
            }
        }
        _ => return Err("no such overload: cel.@mapInsert".to_owned()),
    }
    Ok(Value::Map(Map::Made(made)))
}

fn is_sorted(list: &List) -> Result<bool, Why> {
    let items = list.items()?;
    Ok(items
        .windows(2)
        .all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater)))
}

fn sum<'a>(list: &List<'a>) -> Result<Value<'a>, Why> {
    let mut sum: Option<Value> = None;
    for item in list.iter() {
        let item = item?;
        sum = Some(match sum {
            None => item,
            Some(sum) => super::arithmetic::call("_+_", &[sum, item])
                .unwrap_or_else(|| Err("no such overload".to_owned()))?,
        });
    }
    Ok(sum.unwrap_or(Value::Int(0)))
}

fn extreme<'a>(list: &List<'a>, name: &str, replace: Ordering) -> Result<Value<'a>, Why> {
    let mut found: Option<Value> = None;
    for item in list.iter() {
        let item = item?;
        let better = match &found {
            None => true,
            Some(found) => found.compare(&item) == Some(replace),
        };
        if better {
            found = Some(item);
        }
    }
    found.ok_or_else(|| format!("{name} called on empty list"))
}

fn position<'a>(list: &List<'a>, item: &Value<'a>, last: bool) -> Result<Value<'a>, Why> {
    let mut found = None;
    for (at, one) in list.iter().enumerate() {
        if one?.equals(item) == Ok(true) {
            found = Some(at);
            if !last {
                break;
            }
        }
    }
    let found = found.and_then(|at| i64::try_from(at).ok());
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn slice<'a>(list: &List<'a>, from: i64, to: i64) -> Result<Value<'a>, Why> {
    let length = list.len();
    let cannot = format!("cannot slice({from}, {to})");
    let (Ok(start), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return Err(format!("{cannot}, negative indexes not supported"));
    };
    if start > end {
        return Err(format!(
            "{cannot}, start index must be less than or equal to end index"
        ));
    }
    if length < end {
        return Err(format!("{cannot}, list is length {length}"));
    }
    let items: Result<Vec<Value>, Why> = list.iter().skip(start).take(end - start).collect();
    items.map(Value::list)
}

fn flatten<'a>(list: &List<'a>, depth: i64) -> Result<Value<'a>, Why> {
    let mut items = Vec::new();
    flatten_into(list, depth, &mut items)?;
    Ok(Value::list(items))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, into: &mut Vec<Value<'a>>) -> Result<(), Why> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, into)?,
            other => into.push(other),
        }
        if into.len() as i64 > ITEMS_MAX {
            return Err(too_many());
        }
    }
    Ok(())
}

fn distinct<'a>(list: &List<'a>) -> Result<Value<'a>, Why> {
    let mut seen = std::collections::HashSet::new();
    let mut items: Vec<Value> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let is_new = match item.key() {
            Some(key) => seen.insert(key),
            None => !holds(&items, &item),
        };
        if is_new {
            items.push(item);
        }
    }
    Ok(Value::list(items))
}

fn end<'a>(list: &List<'a>, at: usize) -> Value<'a> {
    match list.get(at) {
        Some(Ok(item)) => Value::some(item),
        _ => Value::Optional(None),
    }
}

/// The items in the order of their keys; items of equal keys stay in their order.
fn sort<'a>(list: &List<'a>, keys: Vec<Value<'a>>) -> Result<Value<'a>, Why> {
    let items = list.items()?;
    if items.len() != keys.len() {
        return Err(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys \
             list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        ));
    }
    if let Some(first) = keys.first() {
        if first.compare(first).is_none() {
            return Err("list elements must be comparable".to_owned());
        }
        let same = |key: &Value| key.type_of() == first.type_of();
        if !keys.iter().all(same) {
            return Err("list elements must have the same type".to_owned());
        }
    }
    let mut pairs: Vec<(Value, Value)> = keys.into_iter().zip(items).collect();
    // Not a number compares with nothing, itself included. It comes last: a sort may panic if its
    // order contradicts itself.
    let is_last = |key: &Value| key.compare(key).is_none();
    pairs.sort_by(|(one, _), (other, _)| {
        let order = one.compare(other);
        order.unwrap_or_else(|| is_last(one).cmp(&is_last(other)))
    });
    Ok(Value::list(
        pairs.into_iter().map(|(_, item)| item).collect(),
    ))
}

/// Whether every item of `other` is in the list.
fn contains<'a>(list: &List<'a>, other: &List<'a>) -> Result<bool, Why> {
    let items = list.items()?;
    let keys: std::collections::HashSet<_> = items.iter().filter_map(Value::key).collect();
    for item in other.iter() {
        let item = item?;
        let known = item.key().is_some_and(|key| keys.contains(&key));
        if !known && !holds(&items, &item) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(list: &List<'a>, other: &List<'a>) -> Result<bool, Why> {
    let items = list.items()?;
    for item in other.iter() {
        if holds(&items, &item?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds<'a>(items: &[Value<'a>], item: &Value<'a>) -> bool {
    items.iter().any(|one| one.equals(item) == Ok(true))
}

fn too_many() -> Why {
    format!("list has more than {ITEMS_MAX} items")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_comes_last() {
        for count in [24, 40, 64, 1000] {
            let number = |at: i32| match at % 3 {
                2 => f64::NAN,
                _ => f64::from(at * 7919 % 1009),
            };
            let list = Value::list((0..count).map(number).map(Value::Double).collect());
            let sorted = match call("sort", &[list]) {
                Some(Ok(Value::List(sorted))) => sorted.items().unwrap(),
                other => panic!("{other:?}"),
            };
            let numbers = sorted.iter().map(|one| match one {
                Value::Double(number) => *number,
                other => panic!("{other:?}"),
            });
            let numbers: Vec<f64> = numbers.collect();
            let first = numbers.iter().position(|one| one.is_nan());
            let (real, others) = numbers.split_at(first.unwrap_or(numbers.len()));
            assert!(real.is_sorted() && others.iter().all(|one| one.is_nan()));
            assert_eq!(others.len(), (0..count).filter(|at| at % 3 == 2).count());
        }
    }
}
