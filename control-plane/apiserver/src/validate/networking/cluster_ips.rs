//! The addresses of services within the cluster, and their families.

use std::collections::BTreeSet;

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::basics::address::read;
use crate::basics::cidr::Family;
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, words::address};

const FIELD: &str = "spec.clusterIPs";
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const FIXED: &str = "may not change once set";

/// The addresses of a service and their families, of which some may be missing yet. An update may keep
/// addresses in a form that is refused today.
pub(crate) fn addresses(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = spec(object);
    if is_external(&spec) {
        return causes;
    }
    first_of_list(&spec, &mut causes);
    let mut seen = BTreeSet::new();
    causes.each(&spec, "ipFamilies", |causes, one| {
        let family = one.value.as_str().unwrap_or_default();
        if !FAMILIES.contains(&family) {
            causes.push(Cause::not_supported(&one.path, one.value, &FAMILIES));
        }
        if !seen.insert(family) {
            causes.push(Cause::duplicate(&one.path, one.value));
        }
    });
    causes.word(&spec, "ipFamilyPolicy", &POLICIES);
    let list = spec.items("clusterIPs");
    let none = list.first().is_some_and(|first| first == "None");
    let mut are_addresses = !(none && list.len() > 1);
    if !are_addresses {
        let why = "'None' must be the first and only value";
        causes.wrong(&spec, "clusterIPs", why);
    }
    let path = ["spec", "clusterIPs"];
    let had = old.map_or(&[][..], |old| object::items(old, &path));
    let had = address::texts(had);
    for one in spec.each("clusterIPs").skip(usize::from(none)) {
        if causes.is_full() {
            break;
        }
        let text = one.value.as_str().unwrap_or_default();
        let wrong = address::wrong_new(&one.path, text, &had);
        are_addresses &= wrong.is_none();
        causes.extend(wrong);
    }
    if list.len() > 2 {
        causes.wrong(&spec, "clusterIPs", "may only hold up to 2 values");
    }
    if are_addresses && !none {
        of_families(&spec, &mut causes);
    }
    causes
}

/// The single address is the first of the list.
fn first_of_list(spec: &FieldValue, causes: &mut Causes) {
    let first = spec.items("clusterIPs").first();
    match (spec.text("clusterIP"), first) {
        ("", None) => {}
        ("", Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            causes.wrong(spec, "clusterIPs", why);
        }
        (_, None) => causes.push(Cause::required(FIELD, "")),
        (one, Some(first)) if first != one => {
            causes.wrong(spec, "clusterIPs", "first value must match `clusterIP`");
        }
        _ => {}
    }
}

/// The list has an address of each family at most, in the order of the families.
fn of_families(spec: &FieldValue, causes: &mut Causes) {
    let list = spec.items("clusterIPs");
    let families: Vec<Option<Family>> = list.iter().map(family_of).collect();
    let different: BTreeSet<_> = families.iter().collect();
    if list.len() > 1 && different.len() < 2 {
        let why = "may specify no more than one IP for each IP family";
        causes.wrong(spec, "clusterIPs", why);
    }
    let named = spec.items("ipFamilies").iter().enumerate();
    for ((at, named), family) in named.zip(families) {
        let named = named.as_str().and_then(Family::named);
        if let Some(named) = named.filter(|named| Some(*named) != family) {
            let why = format!(
                "expected an {} value as indicated by `ipFamilies[{at}]`",
                named.name()
            );
            causes.push(Cause::invalid(&format!("{FIELD}[{at}]"), &list[at], &why));
        }
    }
}

fn family_of(address: &Value) -> Option<Family> {
    read(address.as_str()?).map(Family::of)
}

/// An update keeps what the service has, but for a second family and its address.
pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let (before, after) = (spec(old), spec(new));
    if is_external(&before) || is_external(&after) {
        return causes;
    }
    let headless = (is_headless(&before), is_headless(&after));
    if headless != (true, true) {
        addresses_kept(&before, &after, &mut causes);
    }
    if headless == (false, false) {
        families_kept(&before, &after, &mut causes);
    }
    causes
}

fn addresses_kept(before: &FieldValue, after: &FieldValue, causes: &mut Causes) {
    let key = "clusterIPs";
    let (had, has) = (before.items(key), after.items(key));
    let mut wrong = |at: usize, why: &str| {
        causes.push(Cause::invalid(
            &format!("{FIELD}[{at}]"),
            &shown(after, key),
            why,
        ));
    };
    if !had.is_empty() && has.is_empty() {
        wrong(0, "primary clusterIP can not be unset");
    }
    // If the length changes, only the first one must stay the same.
    let counts = if had.len() == has.len() { had.len() } else { 1 };
    let pairs = had.iter().zip(has).enumerate().take(counts);
    for (at, _) in pairs.filter(|(_, (had, has))| had != has) {
        wrong(at, FIXED);
    }
    second_released(had.len(), has.len(), after, "clusterIP", causes);
}

fn families_kept(before: &FieldValue, after: &FieldValue, causes: &mut Causes) {
    let key = "ipFamilies";
    let (had, has) = (before.items(key), after.items(key));
    // Kubernetes shows the addresses if the number of families changes.
    let same = had.len() == has.len();
    let told = shown(after, if same { key } else { "clusterIPs" });
    let field = "spec.ipFamilies[0]";
    if had.len() > has.len() && after.items("clusterIPs").is_empty() {
        let why = "primary ipFamily can not be unset";
        causes.push(Cause::invalid(field, &shown(after, key), why));
    }
    let counts = if same { had.len() } else { 1 };
    let pairs = had.iter().zip(has).take(counts);
    for _ in pairs.filter(|(had, has)| had != has) {
        causes.push(Cause::invalid(field, &told, FIXED));
    }
    second_released(had.len(), has.len(), after, "ipFamily", causes);
}

fn second_released(had: usize, has: usize, after: &FieldValue, what: &str, causes: &mut Causes) {
    if had > 1 && has == 1 && after.text("ipFamilyPolicy") != "SingleStack" {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        causes.wrong(after, "ipFamilyPolicy", &why);
    }
}

fn shown(spec: &FieldValue, key: &str) -> Value {
    spec.get(key).cloned().unwrap_or_default()
}

fn spec(object: &Value) -> FieldValue<'_> {
    FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null))
}

fn is_external(spec: &FieldValue) -> bool {
    spec.text("type") == "ExternalName"
}

/// True if clients find the pods themselves.
pub(super) fn is_headless(spec: &FieldValue) -> bool {
    matches!(spec.items("clusterIPs"), [one] if one == "None")
}
