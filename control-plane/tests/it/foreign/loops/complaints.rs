//! What the logs of Kubernetes' own parts may not say.

use testkit::Kubernetes;

use crate::foreign::swap::world::World;

/// Parts of messages that blame the apiserver: something is missing, forbidden or malformed.
const COMPLAINTS: [&str; 12] = [
    "could not find the requested resource",
    "no matches for kind",
    "is forbidden: User",
    "Unauthorized",
    "the server does not allow this method",
    "unknown field",
    "strict decoding error",
    "couldn't get version/kind",
    "unable to decode",
    "failed to list",
    "Failed to watch",
    "is invalid:",
];

/// Fails if a log has a warning or an error of this sort.
pub(super) fn none(world: &World) {
    let mut found = Vec::new();
    for program in [Kubernetes::ControllerManager, Kubernetes::Scheduler] {
        let log = world.text_of_log(program);
        assert!(!log.is_empty(), "{} has a log", program.name());
        let complaints = log.lines().filter(|line| complains(line));
        found.extend(complaints.map(|line| format!("{}: {line}", program.name())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn complains(line: &str) -> bool {
    // Nothing in the scenario serves metrics.
    let is_about_metrics = line.contains("unable to get metrics for resource");
    let is_loud = line.starts_with(['W', 'E', 'F']);
    is_loud && !is_about_metrics && COMPLAINTS.iter().any(|one| line.contains(one))
}
