//! Devices: what claims ask for, what classes say of them, and what drivers publish.

pub(crate) mod admin;
mod capacity;
mod claim;
mod class;
mod device;
mod places;
mod slice;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use machinery::cel::devices::{Unfit, check_selector};
use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::words::field::FieldValue;
use super::workloads::pod::volumes;
use super::{Causes, named};

pub(crate) use claim::{claim, template, unchanged};
pub(crate) use class::{class, class_name};
pub(crate) use slice::{slice, slice_update};
pub(crate) use status::{device_id, devices_of, status};

const IMMUTABLE: &str = "field is immutable";
/// The most items of some lists.
const SELECTORS_MAX: usize = 32;
const CONFIGURATIONS_MAX: usize = 32;
const REQUESTS_MAX: usize = 32;
/// Upper bound of one expression, and of parameters and other JSON, in bytes.
const EXPRESSION_BYTES_MAX: usize = 10 << 10;
const JSON_BYTES_MAX: usize = 10 << 10;
const POOL_BYTES_MAX: usize = 253;
/// Upper bound of an identifier within a domain, in bytes.
const IDENTIFIER_BYTES_MAX: usize = 32;
/// Texts in errors about JSON are left out, because they may be long.
const OMITTED: &str = "\"<value omitted>\"";
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// A field that must not change; a missing one is shown as `missing`.
fn same(old: &Value, new: &Value, path: &[&str], missing: Value) -> Causes {
    let (was, is) = (object::at(old, path), object::at(new, path));
    if was == is {
        return Causes::default();
    }
    let shown = is.cloned().unwrap_or(missing);
    Cause::invalid(&path.join("."), &shown, IMMUTABLE).into()
}

/// Rules that several of the kinds share.
impl Causes {
    /// The items of a list that has at most this many.
    fn few<'a>(
        &mut self,
        at: &FieldValue<'a>,
        key: &str,
        most: usize,
        check: impl FnMut(&mut Causes, &FieldValue<'a>),
    ) {
        let count = at.items(key).len();
        if count > most {
            return self.push(Cause::too_many(&at.path_of(key), count, most));
        }
        self.each(at, key, check);
    }

    /// The same, and no two items have equal identities.
    fn few_distinct<'a>(
        &mut self,
        at: &FieldValue<'a>,
        key: &str,
        most: usize,
        identity: impl Fn(&FieldValue<'a>) -> String,
        mut check: impl FnMut(&mut Causes, &FieldValue<'a>),
    ) {
        let mut seen = BTreeSet::new();
        self.few(at, key, most, |causes, item| {
            check(causes, item);
            let identity = identity(item);
            if !seen.insert(identity.clone()) {
                causes.push(Cause::duplicate(&item.path, &identity.into()));
            }
        });
    }

    /// A label in the sense of DNS; a missing one is empty.
    fn dns_label(&mut self, at: &FieldValue, key: &str) {
        let text = at.text(key);
        self.extend(named(&at.path_of(key), text, name::dns1123_label(text)));
    }

    /// The name of a driver.
    fn driver(&mut self, at: &FieldValue, key: &str) {
        volumes::driver_name(at, key, self);
    }

    /// The name of a pool: subdomains with slashes between them.
    fn pool_name(&mut self, at: &FieldValue, key: &str) {
        if !self.required(at, key) {
            return;
        }
        let (text, field) = (at.text(key), at.path_of(key));
        if text.len() > POOL_BYTES_MAX {
            self.push(Cause::too_long(&field, POOL_BYTES_MAX));
        }
        for part in text.split('/') {
            self.extend(named(&field, part, name::dns1123_subdomain(part)));
        }
    }

    /// The selectors of a class or a request.
    fn selectors(&mut self, at: &FieldValue) {
        self.few(at, "selectors", SELECTORS_MAX, |causes, selector| {
            let Some(cel) = selector.child("cel") else {
                return causes.push(Cause::required(&selector.path_of("cel"), ""));
            };
            let (source, field) = (cel.text("expression"), cel.path_of("expression"));
            if source.len() > EXPRESSION_BYTES_MAX {
                return causes.push(Cause::too_long(&field, EXPRESSION_BYTES_MAX));
            }
            causes.extend(check_selector(source).err().map(|unfit| match unfit {
                Unfit::Invalid(why) => Cause::invalid(&field, &source.into(), &why),
                Unfit::TooExpensive => Cause::forbidden(&field, "too complex, exceeds cost limit"),
                Unfit::Internal(why) => Cause {
                    reason: "InternalError",
                    message: format!("Internal error: {why}"),
                    field,
                },
            }));
        });
    }

    /// What a driver is told about devices.
    fn configuration(&mut self, at: &FieldValue) {
        let Some(opaque) = at.child("opaque") else {
            return self.push(Cause::required(&at.path_of("opaque"), ""));
        };
        self.driver(&opaque, "driver");
        self.json_object(&opaque, "parameters");
    }

    /// A required object with any fields.
    fn json_object(&mut self, at: &FieldValue, key: &str) {
        let field = at.path_of(key);
        let Some(value) = at.get(key) else {
            return self.push(Cause::required(&field, ""));
        };
        if value.to_string().len() > JSON_BYTES_MAX {
            self.push(Cause::too_long(&field, JSON_BYTES_MAX));
        } else if !value.is_object() {
            let why = "must be a valid JSON object";
            self.push(Cause::invalid_shown(&field, OMITTED, why));
        }
    }

    /// A name within the domain of a driver, or with a domain of its own before a slash.
    fn domain_name(&mut self, field: &str, text: &str) {
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [only] => self.identifier(field, only),
            [domain, id] => {
                if domain.is_empty() {
                    let why = "the domain must not be empty";
                    self.push(Cause::invalid(field, &"".into(), why));
                } else {
                    let domain = serde_json::json!({"": domain});
                    let mut wrong = Causes::default();
                    wrong.driver(&FieldValue::new(field, &domain), "");
                    let wrong = wrong.into_iter().map(|cause| Cause {
                        field: field.to_owned(),
                        ..cause
                    });
                    self.extend(wrong);
                }
                if id.is_empty() {
                    let why = "the name must not be empty";
                    self.push(Cause::invalid(field, &"".into(), why));
                } else {
                    self.identifier(field, id);
                }
            }
            // Kubernetes lets names with more slashes through.
            _ => {}
        }
    }

    fn identifier(&mut self, field: &str, text: &str) {
        if text.len() > IDENTIFIER_BYTES_MAX {
            self.push(Cause::too_long(field, IDENTIFIER_BYTES_MAX));
        }
        let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        let inside = |c: char| letter(c) || c.is_ascii_digit();
        if !(text.starts_with(letter) && text.chars().all(inside)) {
            self.push(Cause::invalid(field, &text.into(), IDENTIFIER));
        }
    }

    /// The conditions that a device has to have before its pod starts, and those that end the wait.
    fn binding_conditions(&mut self, at: &FieldValue) {
        const KEYS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
        const CONDITIONS_MAX: usize = 4;
        let [good, bad] = KEYS.map(|key| at.items(key));
        // Lists that are too long come here, too.
        let all_good: BTreeSet<Option<&str>> = good.iter().map(Value::as_str).collect();
        for key in KEYS {
            self.few(at, key, CONDITIONS_MAX, |causes, one| {
                let text = one.value.as_str().unwrap_or_default();
                causes.extend(named(&one.path, text, name::qualified_name(text)));
            });
        }
        for key in KEYS {
            let mut seen = BTreeSet::new();
            for one in at.each(key) {
                if !seen.insert(one.value.as_str()) {
                    self.push(Cause::duplicate(&one.path, one.value));
                }
                if key == KEYS[1] && all_good.contains(&one.value.as_str()) {
                    let why = "bindingFailureConditions must not overlap with bindingConditions";
                    self.push(Cause::invalid(&one.path, one.value, why));
                }
            }
        }
        for (missing, is_missing, given) in [
            (KEYS[0], good.is_empty() && !bad.is_empty(), KEYS[1]),
            (KEYS[1], bad.is_empty() && !good.is_empty(), KEYS[0]),
        ] {
            if is_missing {
                let why = format!("{missing} are required to use {given}");
                self.wrong(at, missing, &why);
            }
        }
    }
}
