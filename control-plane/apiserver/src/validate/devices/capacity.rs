//! How much of a device's capacity a claim may ask for.

use machinery::quantity::Quantity;
use machinery::status::Cause;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const OPTIONS_MAX: usize = 10;

/// A capacity. Only that of a device which several claims can share has a policy.
pub(super) fn check(causes: &mut Causes, capacity: &FieldValue, is_shared: bool) {
    let Some(policy) = capacity.child("requestPolicy") else {
        return;
    };
    if !is_shared {
        let why = "allowMultipleAllocations must be true";
        return causes.push(Cause::forbidden(&policy.path, why));
    }
    let has_options = !policy.items("validValues").is_empty();
    let range = policy.child("validRange");
    let form = match (has_options, &range) {
        (true, Some(_)) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \
                       \"validRange\" at the same time";
            return causes.push(Cause::forbidden(&policy.path, why));
        }
        (true, None) => "validValues",
        (false, Some(_)) => "validRange",
        (false, None) => return,
    };
    let Some(default) = amount(&policy, "default") else {
        let why = format!("required when {form} is defined");
        return causes.push(Cause::required(&policy.path_of("default"), &why));
    };
    let whole = amount(capacity, "value").unwrap_or(Amount::ZERO);
    match range {
        Some(range) => in_range(causes, &range, &default, &whole),
        None => one_of(causes, &policy, &default, &whole),
    }
}

/// A quantity, and its text.
struct Amount<'a> {
    text: &'a str,
    value: Quantity,
}

impl Amount<'_> {
    const ZERO: Amount<'static> = Amount {
        text: "0",
        value: Quantity::ZERO,
    };
}

fn amount<'a>(at: &FieldValue<'a>, key: &str) -> Option<Amount<'a>> {
    read(at.get(key)?.as_str()?)
}

fn read(text: &str) -> Option<Amount<'_>> {
    let value = Quantity::parse(text).ok()?;
    Some(Amount { text, value })
}

/// The policy of a few amounts.
fn one_of(causes: &mut Causes, policy: &FieldValue, default: &Amount, whole: &Amount) {
    const KEY: &str = "validValues";
    let places: Vec<FieldValue> = policy.each(KEY).collect();
    let read_one = |place: &FieldValue<'_>| {
        place
            .value
            .as_str()
            .and_then(|text| Quantity::parse(text).ok())
    };
    let options: Vec<Option<Quantity>> = places.iter().map(read_one).collect();
    for (place, pair) in places.iter().skip(1).zip(options.windows(2)) {
        if pair[0] > pair[1] {
            let why = "values must be sorted in ascending order";
            causes.push(Cause::invalid(&place.path, place.value, why));
        }
    }
    let identity = |one: &FieldValue| {
        let value = read_one(one).map_or(0, Quantity::value);
        value.to_string()
    };
    causes.few_distinct(policy, KEY, OPTIONS_MAX, identity, |causes, one| {
        if read_one(one).is_some_and(|option| option > whole.value) {
            let why = format!("option is larger than capacity value: {}", whole.text);
            causes.push(Cause::invalid(&one.path, one.value, &why));
        }
    });
    if !options.contains(&Some(default.value)) {
        let why = "default value is not valid according to the requestPolicy";
        let field = policy.path_of(KEY);
        causes.push(Cause::invalid(&field, &default.text.into(), why));
    }
}

/// The policy of a range, in steps or not.
fn in_range(causes: &mut Causes, range: &FieldValue, default: &Amount, whole: &Amount) {
    let Some(min) = amount(range, "min") else {
        let why = "required when validRange is defined";
        return causes.push(Cause::required(&range.path_of("min"), why));
    };
    let mut wrong = |key: &str, shown: &str, why: String| {
        causes.push(Cause::invalid(&range.path_of(key), &shown.into(), &why));
    };
    if min.value > whole.value {
        let why = format!("min is larger than capacity value: {}", whole.text);
        wrong("min", min.text, why);
    }
    if default.value < min.value {
        wrong(
            "min",
            default.text,
            format!("default is less than min: {}", min.text),
        );
    }
    let max = amount(range, "max");
    if let Some(max) = &max {
        if min.value > max.value {
            wrong(
                "max",
                min.text,
                format!("min is larger than max: {}", max.text),
            );
        }
        if max.value > whole.value {
            let why = format!("max is larger than capacity value: {}", whole.text);
            wrong("max", max.text, why);
        }
        if default.value > max.value {
            wrong(
                "max",
                default.text,
                format!("default is more than max: {}", max.text),
            );
        }
    }
    let Some(step) = amount(range, "step") else {
        return;
    };
    let first = min.value.plus(step.value);
    if first > whole.value {
        let why = format!(
            "one step {first} is larger than capacity value: {}",
            whole.text
        );
        wrong("step", step.text, why);
    }
    for one in [Some(default), max.as_ref()].into_iter().flatten() {
        let above = one.value.value().wrapping_sub(min.value.value());
        // Kubernetes divides by a step of zero, and breaks off.
        if above.checked_rem(step.value.value()) != Some(0) {
            let (step, min) = (step.text, min.text);
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            wrong("step", one.text, why);
        }
    }
}
