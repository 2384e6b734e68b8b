//! A rule in CEL, as the schema has it.

use serde_json::Value;

use super::field_path::normalised;

/// A rule as its author wrote it.
#[derive(Debug, Clone, Default)]
pub(in crate::custom::structural) struct Rule {
    pub(in crate::custom::structural) rule: String,
    pub(in crate::custom::structural) message: String,
    pub(in crate::custom::structural) message_expression: String,
    pub(in crate::custom::structural) reason: Option<String>,
    pub(in crate::custom::structural) field_path: String,
    /// Where its errors are, relative to the value; empty for the value itself.
    pub(in crate::custom::structural) place: String,
    pub(in crate::custom::structural) optional_old_self: Option<bool>,
}

impl Rule {
    /// Reads a rule of a schema.
    pub(in crate::custom::structural) fn read(rule: &Value, schema: &Value) -> Rule {
        let text = |key: &str| {
            let text = rule.get(key).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        Rule {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: rule
                .get("reason")
                .and_then(Value::as_str)
                .map(str::to_owned),
            place: normalised(&text("fieldPath"), schema).unwrap_or_default(),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }

    /// What names the rule in errors.
    pub(in crate::custom::structural) fn shown(&self) -> &str {
        if self.message.is_empty() {
            self.rule.trim()
        } else {
            self.message.trim()
        }
    }
}
