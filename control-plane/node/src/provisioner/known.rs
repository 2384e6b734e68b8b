//! The claims, classes and volumes that are known, and what is left to do about them. There is no
//! clock and no network: notices and the time go in, tasks come out.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use api_client::Notice;
use machinery::object::{self, Object};
use machinery::queue::{BackOff, Queue};
use machinery::status::Status;

use super::volume;

/// The delays after failed tasks.
const BACK_OFF: BackOff = BackOff {
    first: Duration::from_secs(1),
    last: Duration::from_secs(300),
};

/// The kinds of objects that the provisioner follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Class,
    Claim,
    Volume,
}

/// The claim or volume that a task is about.
pub(super) type Job = (Sort, Key);

/// Something to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Makes the volume of a claim.
    Provide { claim: Object, class: Object },
    /// Deletes a volume.
    Delete { volume: Object },
}

/// Namespace and name; the namespace of classes and volumes is empty.
type Key = (String, String);
type Objects = HashMap<Key, Object>;

/// The state of the provisioner.
#[derive(Debug)]
pub(super) struct Known {
    classes: Objects,
    /// Those that wait for a volume from here.
    claims: Objects,
    /// Those that were made here.
    volumes: Objects,
    queue: Queue<Job>,
}

impl Default for Known {
    fn default() -> Known {
        Known {
            classes: Objects::new(),
            claims: Objects::new(),
            volumes: Objects::new(),
            queue: Queue::new(BACK_OFF),
        }
    }
}

impl Known {
    /// Applies a notice from an informer.
    pub(super) fn take(&mut self, sort: Sort, notice: Notice) {
        match notice {
            Notice::Replaced(all) => {
                let there: HashSet<Key> = all.iter().map(key).collect();
                let known = self.objects(sort).keys();
                let gone = known.filter(|key| !there.contains(*key)).cloned();
                let gone: Vec<Key> = gone.collect();
                gone.iter().for_each(|key| self.lost(sort, key));
                all.into_iter().for_each(|one| self.seen(sort, one));
            }
            Notice::Applied(object) => self.seen(sort, object),
            Notice::Deleted(object) => self.lost(sort, &key(&object)),
        }
    }

    /// The next task; the caller must report its result with [`Known::done`].
    pub(super) fn next(&mut self, now: Duration) -> Option<(Job, Task)> {
        loop {
            let job = self.queue.next(now)?;
            if let Some(task) = self.task(&job) {
                return Some((job, task));
            }
            self.queue.forget(&job);
            self.queue.done(&job);
        }
    }

    /// Ends a task.
    pub(super) fn done(&mut self, job: &Job, result: &Result<(), Status>, now: Duration) {
        match result {
            Ok(()) => self.queue.forget(job),
            Err(_) => {
                self.queue.add_failed(job.clone(), now);
            }
        }
        self.queue.done(job);
    }

    /// When to call [`Known::next`] even if nothing happens.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        self.queue.wake_at()
    }

    /// What is to be done about a claim or a volume as it is now.
    fn task(&self, (sort, key): &Job) -> Option<Task> {
        if *sort == Sort::Volume {
            let volume = self.volumes.get(key)?;
            let volume = volume.clone();
            return volume::is_to_go(&volume).then_some(Task::Delete { volume });
        }
        let claim = self.claims.get(key)?;
        let class = self
            .classes
            .get(&of_cluster(object::storage_class(claim)))?;
        let is_made = self
            .volumes
            .contains_key(&of_cluster(&volume::name_for(claim)));
        (!is_made && volume::is_ready(claim, class)).then(|| Task::Provide {
            claim: claim.clone(),
            class: class.clone(),
        })
    }

    /// An object is new or changed.
    fn seen(&mut self, sort: Sort, object: Object) {
        let key = key(&object);
        match sort {
            Sort::Class => {
                for (claim, waiting) in &self.claims {
                    if object::storage_class(waiting) == key.1 {
                        self.queue.add((Sort::Claim, claim.clone()));
                    }
                }
            }
            Sort::Claim if !volume::waits_for_volume(&object) => return self.lost(sort, &key),
            Sort::Volume if !volume::is_ours(&object) => return self.lost(sort, &key),
            Sort::Claim | Sort::Volume => self.queue.add((sort, key.clone())),
        }
        self.objects(sort).insert(key, object);
    }

    /// An object is gone, or does not concern the provisioner any more.
    fn lost(&mut self, sort: Sort, key: &Key) {
        let lost = self.objects(sort).remove(key);
        if let (Sort::Volume, Some(volume)) = (sort, lost) {
            // Its claim may wait for a volume again.
            let claim = |part| object::text(&volume, &["spec", "claimRef", part]).to_owned();
            let claim = (claim("namespace"), claim("name"));
            self.queue.add((Sort::Claim, claim));
        }
    }

    fn objects(&mut self, sort: Sort) -> &mut Objects {
        match sort {
            Sort::Class => &mut self.classes,
            Sort::Claim => &mut self.claims,
            Sort::Volume => &mut self.volumes,
        }
    }
}

fn key(object: &Object) -> Key {
    (
        object::namespace(object).to_owned(),
        object::name(object).to_owned(),
    )
}

fn of_cluster(name: &str) -> Key {
    (String::new(), name.to_owned())
}
