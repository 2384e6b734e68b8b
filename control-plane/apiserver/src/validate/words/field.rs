//! Values in an object with their paths, and the rules that many fields share, so that the rules of
//! a kind read as a list. It knows no kind.

use machinery::object;
use machinery::status::Cause;
use serde_json::{Map, Value};

use crate::validate::words::maps;
use crate::validate::{Causes, named};

const WRONG_OPERATOR: &str = "not a valid selector operator";

/// The errors of a text.
type Rule = fn(&str) -> Vec<String>;

/// A value in an object, and its path.
#[derive(Clone)]
pub(crate) struct FieldValue<'a> {
    pub(crate) path: String,
    pub(crate) value: &'a Value,
}

impl<'a> FieldValue<'a> {
    pub(crate) fn new(path: impl Into<String>, value: &'a Value) -> FieldValue<'a> {
        let path = path.into();
        FieldValue { path, value }
    }

    /// The path of a key.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// The value of a key; `None` if it is null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The place of a key.
    pub(crate) fn child(&self, key: &str) -> Option<FieldValue<'a>> {
        let value = self.get(key)?;
        Some(FieldValue::new(self.path_of(key), value))
    }

    /// The list at a key.
    pub(crate) fn items(&self, key: &str) -> &'a [Value] {
        object::items(self.value, &[key])
    }

    /// The places of the items of a list.
    pub(crate) fn each(&self, key: &str) -> impl Iterator<Item = FieldValue<'a>> + use<'a> {
        let path = self.path_of(key);
        let items = self.items(key).iter().enumerate();
        items.map(move |(index, value)| FieldValue::new(format!("{path}[{index}]"), value))
    }

    /// The map at a key.
    pub(crate) fn map(&self, key: &str) -> Option<&'a Map<String, Value>> {
        self.get(key)?.as_object()
    }

    pub(crate) fn text(&self, key: &str) -> &'a str {
        object::text(self.value, &[key])
    }

    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        object::integer(self.value, &[key])
    }

    /// The number at a key; 0 if missing.
    pub(crate) fn number(&self, key: &str) -> i64 {
        self.integer(key).unwrap_or(0)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(true))
    }
}

/// The rules. Each is about a key of a field value.
impl Causes {
    /// The value is invalid.
    pub(crate) fn wrong(&mut self, at: &FieldValue, key: &str, why: &str) {
        let value = at.value.get(key).cloned().unwrap_or_default();
        self.push(Cause::invalid(&at.path_of(key), &value, why));
    }

    /// The text is invalid; a missing text is empty.
    pub(crate) fn wrong_text(&mut self, at: &FieldValue, key: &str, why: &str) {
        let text = at.text(key);
        self.push(Cause::invalid(&at.path_of(key), &text.into(), why));
    }

    /// A required text.
    pub(crate) fn required(&mut self, at: &FieldValue, key: &str) -> bool {
        let given = !at.text(key).is_empty();
        if !given {
            self.push(Cause::required(&at.path_of(key), ""));
        }
        given
    }

    /// A forbidden field.
    pub(crate) fn forbidden(&mut self, at: &FieldValue, key: &str, why: &str) {
        if at.has(key) {
            self.push(Cause::forbidden(&at.path_of(key), why));
        }
    }

    /// An optional text, one of the known ones. An empty text is one that is given: decoding drops
    /// those that Go takes for missing.
    pub(crate) fn word(&mut self, at: &FieldValue, key: &str, known: &[&str]) {
        if at.has(key) && !known.contains(&at.text(key)) {
            self.unknown(at, key, known);
        }
    }

    /// A required text, one of the known ones; an empty text is none of them, not a missing one.
    pub(crate) fn word_given(&mut self, at: &FieldValue, key: &str, known: &[&str]) {
        if at.has(key) {
            self.word(at, key, known);
        } else {
            self.push(Cause::required(&at.path_of(key), ""));
        }
    }

    /// A required text, one of the known ones.
    pub(crate) fn choice(&mut self, at: &FieldValue, key: &str, known: &[&str]) {
        if self.required(at, key) {
            self.word(at, key, known);
        }
    }

    /// The text is none of the supported ones.
    pub(crate) fn unknown(&mut self, at: &FieldValue, key: &str, known: &[&str]) {
        let text = at.text(key);
        self.push(Cause::not_supported(&at.path_of(key), &text.into(), known));
    }

    /// An optional text that follows a rule, also if it is empty.
    pub(crate) fn named(&mut self, at: &FieldValue, key: &str, rule: Rule) {
        if let Some(text) = at.get(key).and_then(Value::as_str) {
            self.extend(named(&at.path_of(key), text, rule(text)));
        }
    }

    /// An optional text that follows a rule; Kubernetes takes an empty one for missing.
    pub(crate) fn named_unless_empty(&mut self, at: &FieldValue, key: &str, rule: Rule) {
        if !at.text(key).is_empty() {
            self.named(at, key, rule);
        }
    }

    /// A required text that follows a rule.
    pub(crate) fn must_be_named(&mut self, at: &FieldValue, key: &str, rule: Rule) {
        if self.required(at, key) {
            self.named(at, key, rule);
        }
    }

    /// An optional number, at least zero.
    pub(crate) fn not_negative(&mut self, at: &FieldValue, key: &str) {
        if at.number(key) < 0 {
            self.wrong(at, key, "must be greater than or equal to 0");
        }
    }

    /// An optional number between two bounds.
    pub(crate) fn within(&mut self, at: &FieldValue, key: &str, least: i64, most: i64) {
        let outside = |number: &i64| !(least..=most).contains(number);
        if at.integer(key).is_some_and(|number| outside(&number)) {
            let why = format!("must be between {least} and {most}, inclusive");
            self.wrong(at, key, &why);
        }
    }

    /// Checks the value of a key, if there is one.
    pub(crate) fn below<'a>(
        &mut self,
        at: &FieldValue<'a>,
        key: &str,
        check: impl FnOnce(&mut Causes, &FieldValue<'a>),
    ) {
        if let Some(child) = at.child(key) {
            check(self, &child);
        }
    }

    /// Checks the items of a list, until the errors are full.
    pub(crate) fn each<'a>(
        &mut self,
        at: &FieldValue<'a>,
        key: &str,
        mut check: impl FnMut(&mut Causes, &FieldValue<'a>),
    ) {
        for item in at.each(key) {
            if self.is_full() {
                break;
            }
            check(self, &item);
        }
    }

    /// A map of labels.
    pub(crate) fn labels(&mut self, at: &FieldValue, key: &str) {
        self.extend(maps::labels(&at.path_of(key), at.map(key)));
    }

    /// A label selector.
    pub(crate) fn label_selector(&mut self, at: &FieldValue, key: &str) {
        self.label_selector_with(at, key, false);
    }

    /// A label selector. Its conditions may name any values if the object had wrong ones before.
    pub(crate) fn label_selector_with(&mut self, at: &FieldValue, key: &str, any_value: bool) {
        self.below(at, key, |causes, selector| {
            causes.labels(selector, "matchLabels");
            causes.each(selector, "matchExpressions", |causes, one| {
                causes.requirement(one, &["In", "NotIn"], &["Exists", "DoesNotExist"], &[]);
                if !any_value {
                    causes.label_values(one);
                }
            });
        });
    }

    /// The operator of a requirement, its values, and its key.
    pub(crate) fn requirement(
        &mut self,
        one: &FieldValue,
        some: &[&str],
        none: &[&str],
        single: &[&str],
    ) {
        let operator = one.text("operator");
        let (values, count) = (one.path_of("values"), one.items("values").len());
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
    pub(crate) fn label_values(&mut self, one: &FieldValue) {
        self.each(one, "values", |causes, value| {
            let text = value.value.as_str().unwrap_or_default();
            causes.extend(named(&value.path, text, machinery::name::label_value(text)));
        });
    }

    /// A label key; a missing one is invalid, too.
    pub(crate) fn label_name(&mut self, at: &FieldValue, key: &str) {
        let text = at.text(key);
        let wrong = machinery::name::qualified_name(text);
        self.extend(named(&at.path_of(key), text, wrong));
    }
}
