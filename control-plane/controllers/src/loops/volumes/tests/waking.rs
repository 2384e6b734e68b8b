//! What wakes which key, and what two decisions at once do.

use std::collections::BTreeSet;
use std::time::Duration;

use api_client::Notice;
use machinery::api::kind_of;
use machinery::status::Status;
use machinery::time::Timestamp;

use super::*;
use crate::cache::Destination;
use crate::manager::{Manager, Moment};
use crate::tests::fixtures::{now, pod};

/// The names of the keys that the change of the last of these objects wakes.
fn woken(objects: &[Value]) -> BTreeSet<String> {
    let (last, before) = objects.split_last().unwrap();
    let mut caches = caches(before);
    let mut last = last.clone();
    object::set_resource_version(&mut last, 100);
    object::set(&mut last, &["metadata", "uid"], "last".into());
    let kind = kind_of(&last);
    let notice = Notice::Applied(last);
    let effects = caches.observe(kind, Destination::Both, notice, now());
    keys(&caches, &effects.changed)
}

fn keys(caches: &Caches, changed: &[Changed]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for one in changed {
        VolumeBinder.wakes(caches, one, &mut |(namespace, name)| {
            keys.insert(format!("{namespace}/{name}"));
        });
    }
    keys
}

#[test]
fn a_change_wakes_whom_it_concerns() {
    let named = with(&claim("named"), &["spec", "volumeName"], "v");
    let late = class("late", "example.com/maker", "WaitForFirstConsumer");
    let waiting = of_class(&claim("waiting"), "late");
    let large = with(
        &claim("large"),
        &["spec", "resources", "requests", "storage"],
        "9Gi",
    );
    let world = vec![named, late, waiting, large, claim("small")];
    let with_last = |last: Value| woken(&[world.clone(), vec![last]].concat());
    let set = |names: &[&str]| -> BTreeSet<String> {
        let names = names.iter().map(|name| (*name).to_owned());
        names.collect()
    };
    let free = volume("v", "1Gi");
    let free_late = with(&free, &["spec", "storageClassName"], "late");
    let mut user = pod("p", "", false);
    user["spec"]["volumes"] = json!([
        {"name": "a", "persistentVolumeClaim": {"claimName": "waiting"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "small"}},
    ]);
    let cases: Vec<(Value, BTreeSet<String>)> = vec![
        (free.clone(), set(&["/v", "n/named", "n/small"])),
        (free_late, set(&["/v", "n/named"])),
        (promised(&free, "c", "u"), set(&["/v", "n/named", "n/c"])),
        (class("late", "d", "Immediate"), set(&["n/waiting"])),
        (
            annotated(
                &class("new", "d", "Immediate"),
                "storageclass.beta.kubernetes.io/is-default-class",
                "true",
            ),
            set(&["n/large", "n/small"]),
        ),
        (user, set(&["n/waiting"])),
        (bound("c", "w"), set(&["n/c", "/w"])),
    ];
    for (last, expected) in cases {
        let name = object::name(&last).to_owned();
        assert_eq!(with_last(last), expected, "{name}");
    }
    let promised = promised(&free, "c", "u");
    assert_eq!(woken(&[promised, claim("c")]), set(&["n/c", "/v"]));
}

#[test]
fn a_claim_that_goes_leaves_what_it_could_have_had_to_others() {
    let mut caches = caches(&[
        claim("c"),
        claim("d"),
        volume("v", "1Gi"),
        of_class(&claim("e"), "gold"),
    ]);
    let gone = json!({"metadata": {
        "namespace": "n", "name": "c", "uid": "persistentvolumeclaims/c",
    }});
    let claims = kind_of(&claim("c"));
    let notice = Notice::Deleted(gone);
    let effects = caches.observe(claims, Destination::Both, notice, now());
    let woken = keys(&caches, &effects.changed);
    assert_eq!(woken, ["n/c", "n/d"].map(str::to_owned).into());
}

fn moment() -> Moment {
    Moment {
        since_start: Duration::from_secs(1),
        wall: Timestamp::default(),
    }
}

/// A manager with these objects and this loop alone.
fn manager(objects: &[Value]) -> Manager {
    let mut manager = Manager::new(vec![Box::new(VolumeBinder)]);
    for (place, one) in objects.iter().enumerate() {
        let mut one = one.clone();
        let kind = kind_of(&one);
        let uid = format!("{}/{}", kind.plural(), object::name(&one));
        machinery::defaults::apply(kind.group(), kind.kind(), &mut one);
        object::set(&mut one, &["metadata", "uid"], uid.into());
        object::set_resource_version(&mut one, place as i64 + 1);
        let notice = Notice::Applied(one);
        manager.observe(kind, Destination::Both, notice, moment());
    }
    manager
}

#[test]
fn decisions_at_once_take_different_volumes() {
    let mut manager = manager(&[
        claim("c"),
        claim("d"),
        claim("e"),
        volume("small", "1Gi"),
        volume("large", "2Gi"),
    ]);
    let first = manager.next(moment()).unwrap();
    let second = manager.next(moment()).unwrap();
    let taken = [&first, &second].map(|work| work.decision.takes.clone().unwrap());
    assert_eq!(taken, ["small", "large"]);
    // Nothing is left for the third.
    assert!(manager.next(moment()).is_none());
    assert_eq!(manager.take_notes().len(), 1);
    // A write that failed leaves its volume to whoever comes next.
    let failed = Err((0, Status::unavailable("no")));
    manager.done(&first, failed, moment());
    let gone = json!({"metadata": {
        "namespace": "n", "name": "c", "uid": "persistentvolumeclaims/c",
    }});
    let claims = kind_of(&claim("c"));
    let notice = Notice::Deleted(gone);
    manager.observe(claims, Destination::Both, notice, moment());
    let third = manager.next(moment()).unwrap();
    assert_eq!(third.key.1, "e");
    assert_eq!(third.decision.takes.as_deref(), Some("small"));
}
