//! Places in an object, and the rules that many fields share, so that the rules of a kind read as a
//! list. It knows no kind.

use machinery::object;
use machinery::status::Cause;
use serde_json::{Map, Value};

use super::{Causes, meta, named};

const WRONG_OPERATOR: &str = "not a valid selector operator";

/// The errors of a text.
type Rule = fn(&str) -> Vec<String>;

/// A value in an object, and its path.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) path: String,
    pub(super) value: &'a Value,
}

impl<'a> Place<'a> {
    pub(super) fn new(path: impl Into<String>, value: &'a Value) -> Place<'a> {
        let path = path.into();
        Place { path, value }
    }

    /// The path of a key.
    pub(super) fn field(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// The value of a key; `None` if it is null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The place of a key.
    pub(super) fn child(&self, key: &str) -> Option<Place<'a>> {
        let value = self.get(key)?;
        Some(Place::new(self.field(key), value))
    }

    /// The list at a key.
    pub(super) fn items(&self, key: &str) -> &'a [Value] {
        object::items(self.value, &[key])
    }

    /// The places of the items of a list.
    pub(super) fn each(&self, key: &str) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let path = self.field(key);
        let items = self.items(key).iter().enumerate();
        items.map(move |(at, value)| Place::new(format!("{path}[{at}]"), value))
    }

    /// The map at a key.
    pub(super) fn map(&self, key: &str) -> Option<&'a Map<String, Value>> {
        self.get(key)?.as_object()
    }

    pub(super) fn text(&self, key: &str) -> &'a str {
        object::text(self.value, &[key])
    }

    pub(super) fn integer(&self, key: &str) -> Option<i64> {
        object::integer(self.value, &[key])
    }

    /// The number at a key; 0 if missing.
    pub(super) fn number(&self, key: &str) -> i64 {
        self.integer(key).unwrap_or(0)
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(true))
    }
}

/// The rules. Each is about a key of a place.
impl Causes {
    /// The value is invalid.
    pub(super) fn wrong(&mut self, place: &Place, key: &str, why: &str) {
        let value = place.value.get(key).cloned().unwrap_or_default();
        self.push(Cause::invalid(&place.field(key), &value, why));
    }

    /// The text is invalid; a missing text is empty.
    pub(super) fn wrong_text(&mut self, place: &Place, key: &str, why: &str) {
        let text = place.text(key);
        self.push(Cause::invalid(&place.field(key), &text.into(), why));
    }

    /// A required text.
    pub(super) fn required(&mut self, place: &Place, key: &str) -> bool {
        let given = !place.text(key).is_empty();
        if !given {
            self.push(Cause::required(&place.field(key), ""));
        }
        given
    }

    /// A forbidden field.
    pub(super) fn forbidden(&mut self, place: &Place, key: &str, why: &str) {
        if place.has(key) {
            self.push(Cause::forbidden(&place.field(key), why));
        }
    }

    /// An optional text, one of the known ones.
    pub(super) fn word(&mut self, place: &Place, key: &str, known: &[&str]) {
        let text = place.text(key);
        if !text.is_empty() && !known.contains(&text) {
            self.unknown(place, key, known);
        }
    }

    /// A required text, one of the known ones.
    pub(super) fn choice(&mut self, place: &Place, key: &str, known: &[&str]) {
        if self.required(place, key) {
            self.word(place, key, known);
        }
    }

    /// The text is none of the supported ones.
    pub(super) fn unknown(&mut self, place: &Place, key: &str, known: &[&str]) {
        let text = place.text(key);
        self.push(Cause::not_supported(&place.field(key), &text.into(), known));
    }

    /// An optional text that follows a rule.
    pub(super) fn named(&mut self, place: &Place, key: &str, rule: Rule) {
        let text = place.text(key);
        if !text.is_empty() {
            self.extend(named(&place.field(key), text, rule(text)));
        }
    }

    /// A required text that follows a rule.
    pub(super) fn must_be_named(&mut self, place: &Place, key: &str, rule: Rule) {
        if self.required(place, key) {
            self.named(place, key, rule);
        }
    }

    /// An optional number, at least zero.
    pub(super) fn not_negative(&mut self, place: &Place, key: &str) {
        if place.number(key) < 0 {
            self.wrong(place, key, "must be greater than or equal to 0");
        }
    }

    /// An optional number between two bounds.
    pub(super) fn within(&mut self, place: &Place, key: &str, least: i64, most: i64) {
        let outside = |number: &i64| !(least..=most).contains(number);
        if place.integer(key).is_some_and(|number| outside(&number)) {
            let why = format!("must be between {least} and {most}, inclusive");
            self.wrong(place, key, &why);
        }
    }

    /// Checks the value of a key, if there is one.
    pub(super) fn below<'a>(
        &mut self,
        place: &Place<'a>,
        key: &str,
        check: impl FnOnce(&mut Causes, &Place<'a>),
    ) {
        if let Some(child) = place.child(key) {
            check(self, &child);
        }
    }

    /// Checks the items of a list, until the errors are full.
    pub(super) fn each<'a>(
        &mut self,
        place: &Place<'a>,
        key: &str,
        mut check: impl FnMut(&mut Causes, &Place<'a>),
    ) {
        for item in place.each(key) {
            if self.is_full() {
                break;
            }
            check(self, &item);
        }
    }

    /// A map of labels.
    pub(super) fn labels(&mut self, place: &Place, key: &str) {
        self.extend(meta::labels(&place.field(key), place.map(key)));
    }

    /// A label selector.
    pub(super) fn label_selector(&mut self, place: &Place, key: &str) {
        self.below(place, key, |causes, selector| {
            causes.labels(selector, "matchLabels");
            causes.each(selector, "matchExpressions", |causes, one| {
                causes.requirement(one, &["In", "NotIn"], &["Exists", "DoesNotExist"], &[]);
                causes.label_values(one);
            });
        });
    }

    /// The operator of a requirement, its values, and its key.
    pub(super) fn requirement(
        &mut self,
        one: &Place,
        some: &[&str],
        none: &[&str],
        single: &[&str],
    ) {
        let operator = one.text("operator");
        let (values, count) = (one.field("values"), one.items("values").len());
        if some.contains(&operator) {
            if count == 0 {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                self.push(Cause::required(&values, why));
            }
        } else if none.contains(&operator) {
            if count > 0 {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                self.push(Cause::forbidden(&values, why));
            }
        } else if single.contains(&operator) {
            if count != 1 {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                self.push(Cause::required(&values, why));
            }
        } else {
            self.wrong_text(one, "operator", WRONG_OPERATOR);
        }
        self.label_name(one, "key");
    }

    /// The values of a requirement, which are label values.
    pub(super) fn label_values(&mut self, one: &Place) {
        self.each(one, "values", |causes, value| {
            let text = value.value.as_str().unwrap_or_default();
            causes.extend(named(&value.path, text, machinery::name::label_value(text)));
        });
    }

    /// A label key; a missing one is invalid, too.
    pub(super) fn label_name(&mut self, place: &Place, key: &str) {
        let text = place.text(key);
        let wrong = machinery::name::qualified_name(text);
        self.extend(named(&place.field(key), text, wrong));
    }
}
