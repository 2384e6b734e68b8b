//! Options of a write that bodies and queries share.

use machinery::status::Cause;

/// What happens to fields that a kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    Ignore,
    Warn,
    Strict,
}

impl Validation {
    /// Parses `fieldValidation`.
    pub(crate) fn parse(text: &str, causes: &mut Vec<Cause>) -> Validation {
        match text {
            "Ignore" => Validation::Ignore,
            "Strict" => Validation::Strict,
            "" | "Warn" => Validation::Warn,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                causes.push(Cause::not_supported(
                    "fieldValidation",
                    &other.into(),
                    &known,
                ));
                Validation::Warn
            }
        }
    }
}

/// Parses `dryRun`, in a query or in options.
pub(crate) fn dry_run<'a>(values: impl Iterator<Item = &'a str>, causes: &mut Vec<Cause>) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        let shown = values.as_slice().into();
        causes.push(Cause::not_supported("dryRun", &shown, &["All"]));
    }
    !values.is_empty()
}
