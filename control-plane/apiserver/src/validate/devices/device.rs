//! One device of a slice.

use machinery::name;
use machinery::status::Cause;
use serde_json::Value;

use super::EFFECTS;
use super::capacity;
use super::places::{places, shown};
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

const ATTRIBUTES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 64;
/// The most bytes of a key that errors show: a domain, a slash and an identifier.
const KEY_BYTES_SHOWN: usize = 96;
const LABEL_BYTES_MAX: usize = 63;
const TAINTS_MAX: usize = 16;
const COUNTER_SETS_MAX: usize = 2;
const COUNTERS_MAX: usize = 32;
const VALUES: [&str; 4] = ["bool", "int", "string", "version"];
const ONE_PLACE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
const NO_PLACE: &str = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

/// A device. With `by_device`, each says itself where it is.
pub(super) fn device(causes: &mut Causes, device: &FieldValue, by_device: bool) {
    causes.dns_label(device, "name");
    let count = |key: &str| device.map(key).map_or(0, serde_json::Map::len);
    let total = count("attributes") + count("capacity");
    if total > ATTRIBUTES_MAX {
        let why = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}"
        );
        causes.push(Cause::invalid(&device.path, &total.into(), &why));
    }
    let qualified = |causes: &mut Causes, field: &str, key: &str| causes.domain_name(field, key);
    entries(
        causes,
        device,
        "attributes",
        KEY_BYTES_SHOWN,
        qualified,
        attribute,
    );
    let is_shared = device.flag("allowMultipleAllocations");
    entries(
        causes,
        device,
        "capacity",
        KEY_BYTES_SHOWN,
        qualified,
        |causes, one| {
            capacity::check(causes, one, is_shared);
        },
    );
    causes.few(device, "taints", TAINTS_MAX, taint);
    let identity = |one: &FieldValue| one.text("counterSet").to_owned();
    let key = "consumesCounters";
    causes.few_distinct(device, key, COUNTER_SETS_MAX, identity, |causes, one| {
        causes.must_be_named(one, "counterSet", name::dns1123_label);
        counters(causes, one);
    });
    place(causes, device, by_device);
    causes.binding_conditions(device);
}

fn place(causes: &mut Causes, device: &FieldValue, by_device: bool) {
    if by_device {
        match places(causes, device, &["allNodes"]).as_slice() {
            [] => causes.push(Cause::required(&device.path, ONE_PLACE)),
            [_] => {}
            several => causes.push(Cause::invalid(&device.path, &shown(several), ONE_PLACE)),
        }
    } else if ["nodeName", "nodeSelector", "allNodes"]
        .iter()
        .any(|key| device.has(key))
    {
        causes.push(Cause::invalid(&device.path, &Value::Null, NO_PLACE));
    }
}

/// The counters of a set, or what a device consumes of them.
pub(super) fn counters(causes: &mut Causes, at: &FieldValue) {
    let count = at.map("counters").map_or(0, serde_json::Map::len);
    let field = at.path_of("counters");
    if count == 0 {
        causes.push(Cause::required(&field, ""));
    } else if count > COUNTERS_MAX {
        causes.push(Cause::too_many(&field, count, COUNTERS_MAX));
    } else {
        let label = |causes: &mut Causes, field: &str, key: &str| {
            causes.extend(named(field, key, name::dns1123_label(key)));
        };
        entries(causes, at, "counters", LABEL_BYTES_MAX, label, |_, _| {});
    }
}

/// The keys and the values of a map. Errors show at most so many bytes of a key.
fn entries<'a>(
    causes: &mut Causes,
    at: &FieldValue<'a>,
    key: &str,
    bytes_shown: usize,
    check_key: impl Fn(&mut Causes, &str, &str),
    check: impl Fn(&mut Causes, &FieldValue<'a>),
) {
    let field = at.path_of(key);
    for (name, value) in at.map(key).into_iter().flatten() {
        check_key(causes, &field, name);
        let place = format!("{field}[{}]", shortened(name, bytes_shown));
        check(causes, &FieldValue::new(place, value));
    }
}

/// A text without its middle if it is too long.
fn shortened(text: &str, most: usize) -> String {
    const CUT: &str = "...";
    if text.len() <= most {
        return text.to_owned();
    }
    let kept = most - CUT.len();
    let begin = text.floor_char_boundary(kept.div_ceil(2));
    let end = text.ceil_char_boundary(text.len() - kept / 2);
    format!("{}{CUT}{}", &text[..begin], &text[end..])
}

fn attribute(causes: &mut Causes, attribute: &FieldValue) {
    causes.at_most(attribute, "string", VALUE_BYTES_MAX);
    if attribute.has("version") {
        if !is_version(attribute.text("version")) {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            causes.wrong(attribute, "version", why);
        }
        causes.at_most(attribute, "version", VALUE_BYTES_MAX);
    }
    let why = "exactly one value must be specified";
    match VALUES.iter().filter(|key| attribute.has(key)).count() {
        0 => causes.push(Cause::invalid(&attribute.path, &"".into(), why)),
        1 => {}
        _ => causes.push(Cause::invalid(&attribute.path, attribute.value, why)),
    }
}

/// True for a version as semver.org describes it.
fn is_version(text: &str) -> bool {
    let word = |part: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty() && part.bytes().all(inside)
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let number =
        |part: &str| !part.is_empty() && digits(part) && (part == "0" || !part.starts_with('0'));
    let (text, build) = text.split_once('+').unwrap_or((text, "0"));
    let (core, before) = text.split_once('-').unwrap_or((text, "0"));
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() == 3
        && numbers.into_iter().all(number)
        && before
            .split('.')
            .all(|part| number(part) || word(part) && !digits(part))
        && build.split('.').all(word)
}

fn taint(causes: &mut Causes, taint: &FieldValue) {
    causes.label_name(taint, "key");
    causes.named_unless_empty(taint, "value", name::label_value);
    causes.choice(taint, "effect", &EFFECTS);
}

#[test]
fn versions_are_those_of_semver() {
    for good in [
        "1.2.3",
        "0.0.0",
        "1.2.3-alpha.1",
        "1.2.3--",
        "1.2.3-0a+001.x",
    ] {
        assert!(is_version(good), "{good}");
    }
    for bad in [
        "",
        "1",
        "1.2",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3+",
        "1.2.3-a..b",
        "v1.2.3",
    ] {
        assert!(!is_version(bad), "{bad}");
    }
}
