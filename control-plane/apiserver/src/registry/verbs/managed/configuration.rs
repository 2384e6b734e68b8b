//! A configuration that a client applies, as its body says it.

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::registry::options::Validation;

/// What the parser's list of problems begins with.
const MANY: &str = "unmarshal errors:\n";

/// A configuration that a client applies.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(super) document: Value,
    /// Takes over fields of other managers.
    pub(super) force: bool,
    /// What is duplicated in the body.
    problem: Option<String>,
    validation: Validation,
}

impl Configuration {
    /// A configuration from a body; `problem` says which keys it duplicates.
    pub(crate) fn new(
        document: Value,
        problem: Option<String>,
        force: bool,
        validation: Validation,
    ) -> Configuration {
        Configuration {
            document,
            force,
            problem,
            validation,
        }
    }

    /// The uid that it names; may be empty.
    pub(crate) fn uid(&self) -> &str {
        object::uid(&self.document)
    }

    /// The configuration is for objects of this type.
    pub(super) fn check_type(&self, api_version: &str, kind: &str) -> Result<(), Status> {
        let given = (
            object::api_version(&self.document),
            object::kind(&self.document),
        );
        if given == (api_version, kind) {
            return Ok(());
        }
        let version = match given.0 {
            core if !core.contains('/') => format!("/{core}"),
            other => other.to_owned(),
        };
        let text = format!("invalid object type: {version}, Kind={}", given.1);
        Err(Status::bad_request(text))
    }

    /// Warnings for the client, one for each key, or the error that it asked for.
    pub(super) fn judge(&self) -> Result<Vec<String>, Status> {
        match (&self.problem, self.validation) {
            (None, _) | (_, Validation::Ignore) => Ok(Vec::new()),
            (Some(why), Validation::Warn) => {
                let keys = why.strip_prefix(MANY).unwrap_or(why).lines();
                Ok(keys.map(|key| key.trim().to_owned()).collect())
            }
            (Some(why), Validation::Strict) => {
                let text = format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: {why}"
                );
                Err(Status::bad_request(text))
            }
        }
    }
}

#[test]
fn a_duplicated_key_is_told_in_the_words_of_go() {
    let judged = |validation| {
        let problem = format!("{MANY}  line 7: key \"replicas\" already set in map");
        Configuration::new(Value::Null, Some(problem), false, validation).judge()
    };
    assert_eq!(judged(Validation::Ignore), Ok(Vec::new()));
    let warning = "line 7: key \"replicas\" already set in map".to_owned();
    assert_eq!(judged(Validation::Warn), Ok(vec![warning]));
    assert_eq!(
        judged(Validation::Strict).unwrap_err().message,
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"replicas\" already set in map"
    );
}
