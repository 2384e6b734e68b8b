//! The capacity of devices. Of a device that is shared each request gets a part, which the device's
//! policy rounds up.

use std::collections::BTreeMap;

use machinery::object;
use machinery::quantity::{Format, Quantity};
use serde_json::Value;

/// Something of which a device has an amount, such as memory.
#[derive(Debug)]
pub(super) struct Capacity {
    pub(super) name: String,
    /// What the whole device has.
    pub(super) value: Quantity,
    /// What a request gets that does not ask for it; `None` for all.
    default: Option<Quantity>,
    sizes: Sizes,
}

/// The parts that requests can have of a capacity.
#[derive(Debug)]
enum Sizes {
    Any,
    /// In ascending order.
    OneOf(Vec<Quantity>),
    Range {
        min: Quantity,
        max: Option<Quantity>,
        /// Parts are `min` and a multiple of this.
        step: Option<Quantity>,
    },
}

impl Capacity {
    /// Reads the capacities of a device.
    pub(super) fn read_all(device: &Value) -> Vec<Capacity> {
        let all = device["capacity"].as_object().into_iter().flatten();
        all.map(|(name, one)| Capacity::read(name, one)).collect()
    }

    fn read(name: &str, of: &Value) -> Capacity {
        let policy = &of["requestPolicy"];
        Capacity {
            name: name.to_owned(),
            value: quantity(of, "value").unwrap_or_default(),
            default: quantity(policy, "default"),
            sizes: Sizes::read(policy),
        }
    }

    /// What a request that asks for this much gets; `None` if the policy allows nothing as large.
    pub(super) fn part(&self, asked: Option<Quantity>) -> Option<Quantity> {
        let Some(asked) = asked else {
            return Some(self.default.unwrap_or(self.value));
        };
        self.sizes.at_least(asked)
    }
}

impl Sizes {
    fn read(policy: &Value) -> Sizes {
        let range = &policy["validRange"];
        if let Some(min) = quantity(range, "min") {
            return Sizes::Range {
                min,
                max: quantity(range, "max"),
                step: quantity(range, "step"),
            };
        }
        let values = object::items(policy, &["validValues"]).iter();
        let values: Vec<Quantity> = values.filter_map(parse).collect();
        if values.is_empty() {
            Sizes::Any
        } else {
            Sizes::OneOf(values)
        }
    }

    /// The smallest part that is as large as this.
    fn at_least(&self, asked: Quantity) -> Option<Quantity> {
        match self {
            Sizes::Any => Some(asked),
            Sizes::OneOf(values) => values.iter().copied().find(|value| asked <= *value),
            Sizes::Range { min, max, step } => {
                let part = match step {
                    _ if asked <= *min => *min,
                    None => asked,
                    Some(step) => next_step(*min, *step, asked)?,
                };
                // A number that does not fit 64 bits is not rounded up.
                let fits = part >= asked && max.is_none_or(|max| part <= max);
                fits.then_some(part)
            }
        }
    }
}

/// `min` and as many steps as reach what is asked for. Kubernetes computes it in whole numbers.
fn next_step(min: Quantity, step: Quantity, asked: Quantity) -> Option<Quantity> {
    let [min, step, asked] = [min, step, asked].map(|one| i128::from(one.value()));
    let above = asked - min;
    let steps = above.checked_div(step)? + i128::from(above % step != 0);
    let part = i64::try_from(min + step * steps).ok()?;
    Some(Quantity::from_integer(part, Format::BinarySi))
}

/// Quantities by name.
pub(super) fn quantities(of: &Value) -> BTreeMap<String, Quantity> {
    let all = of.as_object().into_iter().flatten();
    let all = all.map(|(name, text)| (name.clone(), parse(text).unwrap_or_default()));
    all.collect()
}

fn quantity(of: &Value, key: &str) -> Option<Quantity> {
    parse(of.get(key)?)
}

fn parse(text: &Value) -> Option<Quantity> {
    Quantity::parse(text.as_str()?).ok()
}
