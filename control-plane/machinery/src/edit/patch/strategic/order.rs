//! The order of merged lists, by `$setElementOrder`.

use serde_json::Value;

use super::{
    DIRECTIVE, ELEMENT_ORDER, Known, Object, comparable, find, list, member, merge_list, show_list,
    unfit, without_directives,
};
use crate::edit::patch::Error;

/// Merges the lists for which the patch has `$setElementOrder`, and puts them into that order.
pub(super) fn order_lists(
    original: &mut Object,
    patch: &mut Object,
    known: Known,
    depth: usize,
) -> Result<(), Error> {
    let keys = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER));
    for directive in keys.cloned().collect::<Vec<_>>() {
        let order = list(patch.remove(&directive).unwrap_or_default())?;
        let key = &directive[ELEMENT_ORDER.len()..];
        let ours = original.get(key).cloned().map(list).transpose()?;
        let theirs = patch.get(key).cloned().map(list).transpose()?;
        let field = known.field(key)?;
        let merge_key = field.patch.merge_key;
        same_order(theirs.as_deref().unwrap_or_default(), &order, merge_key)?;
        let mut server = ours.clone().unwrap_or_default();
        comparable(&server, theirs.as_deref().unwrap_or_default())?;
        if !merge_key.is_empty() {
            refill(
                &mut server,
                theirs.as_deref().unwrap_or_default(),
                merge_key,
            );
        }
        let merged = match (ours, theirs) {
            (None, None) => continue,
            (Some(ours), None) => ours,
            (None, Some(theirs)) => theirs.into_iter().filter_map(without_directives).collect(),
            (Some(ours), Some(theirs)) if field.patch.merge => {
                merge_list(ours, theirs, field, false, depth)?
            }
            (Some(_), Some(theirs)) => theirs,
        };
        if merged.is_empty() && server.is_empty() && patch.get(key).is_none_or(is_empty_list) {
            return Err(unfit("no elements in any of the given slices"));
        }
        original.insert(
            key.into(),
            arrange(merged, &order, &server, merge_key)?.into(),
        );
        patch.remove(key);
    }
    Ok(())
}

/// Removes deleted items from the server's list and fills the free slots with added items, up to
/// the old length. Go edits the server's list in place and then takes its order, so the result
/// depends on this.
fn refill(server: &mut Vec<Value>, patch: &[Value], key: &str) {
    let (length, before) = (server.len(), server.clone());
    let named = |one: &Value, item: &Value| one.get(key) == item.get(key);
    let (special, plain): (Vec<_>, Vec<_>) =
        patch.iter().partition(|item| item.get(DIRECTIVE).is_some());
    if special.iter().any(|item| item[DIRECTIVE] == "replace") {
        return;
    }
    server.retain(|one| !special.iter().any(|item| named(one, item)));
    let added = plain.into_iter().filter(|item| {
        let deleted = special.iter().any(|gone| named(gone, item));
        deleted || !before.iter().any(|one| named(one, item))
    });
    server.extend(added.cloned());
    server.truncate(length);
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Checks that every item of the patch occurs in the order, in the same sequence.
fn same_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut places = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let same = |place: &Value| match key {
            "" => Ok(place == item),
            key => Ok(member(place, key)? == member(item, key)?),
        };
        let mut found = false;
        for place in places.by_ref() {
            if same(place)? {
                found = true;
                break;
            }
        }
        if !found {
            let (patch, order) = (show_list(patch), show_list(order));
            return Err(unfit(format!(
                "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// Sorts the items that `order` names by it. The rest keep the server's order: each goes before the
/// first named item that it preceded on the server.
pub(super) fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    server: &[Value],
    key: &str,
) -> Result<Vec<Value>, Error> {
    comparable(&merged, order)?;
    comparable(&merged, server)?;
    let index = |list: &[Value], item: &Value| -> Result<Option<usize>, Error> {
        match key {
            "" => Ok(list.iter().position(|one| one == item)),
            key => find(list, key, member(item, key)?),
        }
    };
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    for item in merged {
        match index(order, &item)? {
            Some(at) => named.push((at, index(server, &item)?, item)),
            None => rest.push((index(server, &item)?, item)),
        }
    }
    named.sort_by_key(|(at, _, _)| *at);
    rest.sort_by_key(|(at, _)| at.unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(named.len() + rest.len());
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    loop {
        let first = match (rest.peek(), named.peek()) {
            (Some((Some(left), _)), Some((_, Some(right), _))) => left < right,
            (Some(_), None) => true,
            (None, None) => return Ok(arranged),
            _ => false,
        };
        let item = if first {
            rest.next().map(|(_, item)| item)
        } else {
            named.next().map(|(_, _, item)| item)
        };
        arranged.extend(item);
    }
}
