//! The rules for extra attributes in constrained impersonation.

use std::collections::BTreeMap;

use machinery::status::told_together;

use crate::basics::prefixed_path;

/// Refuses what no authenticator would say of a user.
pub(super) fn check(extra: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let causes = prefixed_path::causes("extra.key", key);
        if !causes.is_empty() {
            let causes = told_together(&causes);
            return Err(format!(
                "impersonating an invalid key in extra is not allowed: {causes}"
            ));
        }
        if key.chars().any(char::is_uppercase) {
            return Err(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key:?}"
            ));
        }
        if values.is_empty() {
            return Err("impersonating empty values in extra is not allowed".to_owned());
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}
