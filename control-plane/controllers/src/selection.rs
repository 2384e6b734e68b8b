//! Which loops run, written as for kube-controller-manager.

use crate::loops;

/// What Kubernetes adds to the name of a loop.
const SUFFIX: &str = "-controller";

/// The loops that `*` does not choose, as in Kubernetes.
const OFF: [&str; 2] = ["bootstrap-signer", "token-cleaner"];

/// A choice of loops: `*` is all of them that are on by default, `foo` one, `-foo` all but one.
#[derive(Debug, Clone)]
pub struct Selection(Vec<String>);

impl Default for Selection {
    fn default() -> Selection {
        Selection(vec!["*".to_owned()])
    }
}

impl Selection {
    /// Reads names such as `garbage-collector-controller`. A name that no loop has is refused.
    pub fn parse(words: &[String]) -> Result<Selection, String> {
        let known: Vec<String> = loops::names()
            .map(|name| format!("{name}{SUFFIX}"))
            .collect();
        let is_known = |word: &&String| {
            let name = word.strip_prefix('-').unwrap_or(word);
            name == "*" || known.iter().any(|one| one == name)
        };
        if let Some(word) = words.iter().find(|word| !is_known(word)) {
            let known = known.join(", ");
            return Err(format!(
                "{word:?} is no controller here; those are: {known}"
            ));
        }
        Ok(Selection(words.to_vec()))
    }

    /// True if the loop of this name runs.
    pub(crate) fn has(&self, name: &str) -> bool {
        let whole = format!("{name}{SUFFIX}");
        for word in &self.0 {
            if *word == whole {
                return true;
            }
            if word.strip_prefix('-') == Some(&whole) {
                return false;
            }
        }
        !OFF.contains(&name) && self.0.iter().any(|word| word == "*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(words: &[&str]) -> Vec<&'static str> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let selection = Selection::parse(&words).unwrap();
        loops::names().filter(|name| selection.has(name)).collect()
    }

    #[test]
    fn a_name_chooses_a_loop_and_a_minus_leaves_it_out() {
        assert_eq!(chosen(&["*"]).len() + OFF.len(), loops::names().count());
        assert!(!chosen(&["*"]).contains(&"token-cleaner"));
        let more = chosen(&["*", "token-cleaner-controller"]);
        assert!(more.contains(&"token-cleaner") && more.contains(&"namespace"));
        assert_eq!(chosen(&["namespace-controller"]), ["namespace"]);
        assert!(chosen(&[]).is_empty());
        let most = chosen(&["*", "-deployment-controller"]);
        assert!(most.contains(&"replicaset") && !most.contains(&"deployment"));
        let error = Selection::parse(&["deployment".to_owned()]).unwrap_err();
        assert!(
            error.starts_with("\"deployment\" is no controller here"),
            "{error}"
        );
    }
}
