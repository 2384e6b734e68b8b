//! Ranges that services get addresses from.

use std::net::IpAddr;

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::basics::address::range;
use crate::validate::words::address;
use crate::validate::words::causes::Causes;

const FIELD: &str = "spec.cidrs";
const PATH: [&str; 2] = ["spec", "cidrs"];
const IMMUTABLE: &str = "field is immutable";

/// A new range: one for each family of addresses.
pub(crate) fn check(range: &Value) -> Causes {
    let cidrs = object::items(range, &PATH);
    match cidrs {
        [] => Cause::required(FIELD, "at least one CIDR required").into(),
        [_] | [_, _] => each(cidrs),
        _ => {
            let shown = object::at(range, &["spec"]).unwrap_or(&Value::Null);
            Cause::invalid(FIELD, shown, "may only hold up to 2 values").into()
        }
    }
}

fn each(cidrs: &[Value]) -> Causes {
    let mut causes = Causes::default();
    for (at, cidr) in cidrs.iter().enumerate() {
        let text = cidr.as_str().unwrap_or_default();
        causes.extend(wrong(&format!("{FIELD}[{at}]"), text));
    }
    let families = cidrs.iter().filter_map(|cidr| {
        let (address, _) = range(cidr.as_str()?)?;
        Some(address.is_ipv4())
    });
    let families: Vec<bool> = families.collect();
    if let [first, second] = families[..]
        && first == second
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                   2001:db8::/64";
        causes.push(Cause::invalid(FIELD, &cidrs.into(), why));
    }
    causes
}

/// The error if a text is not a range, or is not written as everybody else writes it.
fn wrong(field: &str, text: &str) -> Option<Cause> {
    let Some((address, bits)) = range(text) else {
        return address::wrong_range(field, text);
    };
    let first = first_of(address, bits);
    let why = if first != address {
        format!("must not have bits set beyond the prefix length (should be \"{first}/{bits}\")")
    } else if format!("{address}/{bits}") != text {
        format!("must be in canonical form (\"{address}/{bits}\")")
    } else {
        return None;
    };
    Some(Cause::invalid(field, &text.into(), &why))
}

fn first_of(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits));
            IpAddr::V4((u32::from(v4) & mask.unwrap_or(0)).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits));
            IpAddr::V6((u128::from(v6) & mask.unwrap_or(0)).into())
        }
    }
}

/// A range after an update: it may only get a second family of addresses.
pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let (had, has) = (object::items(old, &PATH), object::items(new, &PATH));
    let changed = |at: usize| {
        let cause = Cause::invalid(&format!("{FIELD}[{at}]"), &has[at], IMMUTABLE);
        (had[at] != has[at]).then_some(cause)
    };
    let mut causes = Causes::default();
    match (had.len(), has.len()) {
        (before, after) if before == after => causes.extend((0..after).filter_map(changed)),
        (1, 2) => {
            causes.extend(changed(0));
            causes.extend(each(has));
        }
        _ => {
            let shown = object::at(new, &PATH).unwrap_or(&Value::Null);
            causes.push(Cause::invalid(FIELD, shown, IMMUTABLE));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(causes: Causes) -> Vec<String> {
        let causes: Vec<Cause> = causes.into();
        let told = causes
            .into_iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message));
        told.collect()
    }

    fn range(cidrs: &[&str]) -> Value {
        json!({"spec": {"cidrs": cidrs}})
    }

    #[test]
    fn a_range_has_one_cidr_of_each_family() {
        let checked = |cidrs: &[&str]| told(check(&range(cidrs)));
        for good in [&["10.0.0.0/8"][..], &["fd00::/64", "10.0.0.0/24"]] {
            assert_eq!(checked(good), [""; 0]);
        }
        for (cidrs, wanted) in [
            (&[][..], "at least one CIDR required"),
            (
                &["10.0.0.0/24", "10.0.1.0/24"],
                "no more than one IP for each IP family",
            ),
            (
                &["10.0.0.0/24", "fd00::/64", "10.1.0.0/24"],
                "up to 2 values",
            ),
            (&["10.0.0.1"], "must be a valid CIDR value"),
            (&["10.0.0.1/24"], "(should be \"10.0.0.0/24\")"),
            (
                &["fd00:0::/64"],
                "must be in canonical form (\"fd00::/64\")",
            ),
        ] {
            let told = checked(cidrs);
            assert!(
                told.len() == 1 && told[0].contains(wanted),
                "{cidrs:?}: {told:?}"
            );
        }
    }

    #[test]
    fn an_update_may_only_add_a_family() {
        let updated = |old: &[&str], new: &[&str]| told(update(&range(old), &range(new))).len();
        assert_eq!(updated(&["10.0.0.0/24"], &["10.0.0.0/24"]), 0);
        assert_eq!(updated(&["10.0.0.0/24"], &["10.0.0.0/24", "fd00::/64"]), 0);
        assert_eq!(updated(&["10.0.0.0/24"], &["10.0.1.0/24"]), 1);
        assert_eq!(
            updated(&["10.0.0.0/24"], &["10.0.0.0/24", "10.0.1.0/24"]),
            1
        );
        assert_eq!(updated(&["10.0.0.0/24", "fd00::/64"], &["10.0.0.0/24"]), 1);
        let without = told(update(&range(&["10.0.0.0/24"]), &json!({"spec": {}})));
        let wanted = "spec.cidrs: Invalid value: null: field is immutable";
        assert_eq!(without, [wanted]);
    }
}
