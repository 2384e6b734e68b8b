//! All loops together over an in-memory API: late watches, crashes between any two writes.

mod canary;
pub(crate) mod fixtures;
mod scenario;
pub(crate) mod simulation;

use scenario::{STORIES, Story};
use simulation::Simulation;

/// The final state of a story without a crash, and the number of writes.
fn undisturbed(story: &Story, seed: u64) -> (String, usize) {
    let mut simulation = Simulation::new(seed, None);
    story.play(&mut simulation);
    (simulation.normalised(), simulation.writes())
}

#[test]
fn a_manager_that_crashes_after_any_write_ends_in_the_same_state() {
    for story in &STORIES {
        let (expected, writes) = undisturbed(story, 1);
        assert!(writes > story.writes_min, "{}: {writes}", story.name);
        for crash in 1..=writes {
            let mut simulation = Simulation::new(crash as u64, Some(crash));
            story.play(&mut simulation);
            let end = simulation.normalised();
            assert_eq!(end, expected, "{}, crash after write {crash}", story.name);
        }
    }
}

#[test]
fn late_watches_change_nothing_in_the_end() {
    for story in &STORIES {
        let (expected, _) = undisturbed(story, 1);
        for seed in 2..12 {
            let (end, _) = undisturbed(story, seed);
            assert_eq!(end, expected, "{}, seed {seed}", story.name);
        }
    }
}
