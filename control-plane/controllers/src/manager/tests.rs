use super::*;
use crate::cache::Changed;
use crate::known::kind_of;
use crate::loops::namespace::Namespaces;
use crate::loops::node_lifecycle::NodeLifecycle;
use crate::loops::service_account::ServiceAccounts;
use crate::tests::fixtures;
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};

const SECOND: Duration = Duration::from_secs(1);

fn at(since_start: Duration) -> Moment {
    Moment {
        since_start,
        wall: fixtures::now(),
    }
}

fn namespace(name: &str) -> Object {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
    })
}

fn manager() -> Manager {
    let mut manager = Manager::new(vec![Box::new(ServiceAccounts), Box::new(Namespaces)]);
    let notice = Notice::Replaced(vec![namespace("n")]);
    let kind = kind_of::<Namespace>();
    manager.observe(kind, Destination::Both, notice, at(Duration::ZERO));
    manager
}

#[test]
fn a_key_that_failed_is_tried_again_later_each_time() {
    let mut manager = manager();
    let mut now = SECOND;
    let mut last = Duration::ZERO;
    for _ in 0..5 {
        let work = manager.next(at(now)).unwrap();
        assert_eq!(work.decision.steps.len(), 1);
        let answer = Err(Status::unavailable("no"));
        manager.answered(&work.decision.steps[0], &answer, at(now));
        let error = work.decision.steps[0].verdict(&answer).unwrap_err();
        manager.done(&work, Err((0, error)), at(now));
        assert!(manager.next(at(now)).is_none());
        let wait = manager.wake_at().unwrap() - now;
        assert!(wait > last, "{wait:?} after {last:?}");
        last = wait;
        now += wait;
    }
}

#[test]
fn an_own_write_is_known_before_any_watch_tells_of_it() {
    let mut manager = manager();
    let work = manager.next(at(SECOND)).unwrap();
    let Call::Create { object, .. } = &work.decision.steps[0].call else {
        panic!("the account is missing");
    };
    let mut made = object.clone();
    made["metadata"]["uid"] = "u".into();
    made["metadata"]["resourceVersion"] = "2".into();
    manager.answered(&work.decision.steps[0], &Ok(made), at(SECOND));
    manager.done(&work, Ok(()), at(SECOND));
    // The namespace arrives again before the watch reports the service account.
    let notice = Notice::Applied({
        let mut again = namespace("n");
        again["metadata"]["resourceVersion"] = "3".into();
        again
    });
    manager.observe(
        kind_of::<Namespace>(),
        Destination::Both,
        notice,
        at(SECOND),
    );
    assert!(manager.next(at(SECOND)).is_none());
}

#[test]
fn a_deletion_that_answers_with_a_status_is_known_too() {
    let mut manager = manager();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "n", "name": "default", "uid": "u", "resourceVersion": "2"},
    });
    let kind = kind_of::<ServiceAccount>();
    let notice = Notice::Applied(account);
    manager.observe(kind, Destination::Both, notice, at(SECOND));
    assert!(manager.next(at(SECOND)).is_none());
    let mut decision = Decision::nothing();
    decision.push(Call::Delete {
        kind: kind.clone(),
        namespace: "n".into(),
        name: "default".into(),
        options: machinery::api::DeleteOptions::of("u"),
    });
    let answer = Ok(machinery::status::success(
        "",
        "serviceaccounts",
        "default",
        "u",
    ));
    manager.answered(&decision.steps[0], &answer, at(SECOND));
    assert!(manager.next(at(SECOND)).is_some());
}

#[test]
fn nodes_that_come_and_go_are_told_of() {
    let mut manager = Manager::new(vec![Box::new(NodeLifecycle)]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"},
    });
    let nodes = kind_of::<Node>();
    let mut tell = |notice| {
        manager.observe(nodes, Destination::Both, notice, at(Duration::ZERO));
        let notes = manager.take_notes().into_iter();
        notes
            .map(|(by, note)| format!("{by}: {} {}", note.reason, note.message))
            .collect::<Vec<String>>()
    };
    assert_eq!(
        tell(Notice::Applied(node.clone())),
        ["node-controller: RegisteredNode Node a event: Registered Node a in Controller"]
    );
    assert_eq!(tell(Notice::Applied(node.clone())), Vec::<String>::new());
    assert_eq!(
        tell(Notice::Deleted(node)),
        ["node-controller: RemovingNode Node a event: Removing Node a from Controller"]
    );
}

#[test]
fn a_list_that_was_to_be_empty_stops_a_decision() {
    let mut decision = Decision::nothing();
    let step = decision.push(Call::List {
        kind: kind_of::<ServiceAccount>().clone(),
        namespace: "n".into(),
    });
    assert!(step.verdict(&Ok(json!({"items": []}))).is_ok());
    assert!(step.verdict(&Ok(json!({"items": [{}]}))).is_err());
    // Discovery lists the kind: it may be another apiserver that does not serve it yet.
    let not_served = Err(Status::unknown_path());
    assert!(step.verdict(&not_served).is_err());
}

/// Until an apiserver has read the definitions, it does not serve their kinds.
#[test]
fn an_owner_is_absent_only_if_it_was_looked_for() {
    let mut manager = manager();
    let mut decision = Decision::nothing();
    let owner = decision.push(Call::Get {
        kind: kind_of::<ServiceAccount>().clone(),
        namespace: "n".into(),
        name: "a".into(),
    });
    owner.asks = Some("u".into());
    decision.push(Call::Delete {
        kind: kind_of::<ServiceAccount>().clone(),
        namespace: "n".into(),
        name: "a".into(),
        options: machinery::api::DeleteOptions::of("u"),
    });
    let not_found = Status::not_found("", "serviceaccounts", "a");
    for (error, is_absent) in [(Status::unknown_path(), false), (not_found, true)] {
        let answer = Err(error);
        for step in &decision.steps {
            assert_eq!(step.verdict(&answer).is_ok(), is_absent, "{answer:?}");
        }
        manager.answered(&decision.steps[0], &answer, at(SECOND));
        let kind = kind_of::<ServiceAccount>();
        let graph = &manager.caches.graph;
        assert_eq!(graph.is_absent(kind, "n", "a", "u"), is_absent);
        assert!(!graph.is_absent(kind, "m", "a", "u"));
    }
}

/// A loop that only has something to say.
struct Tells;

impl Loop for Tells {
    fn name(&self) -> &'static str {
        "tells"
    }

    fn wakes(&self, _: &Caches, _: &Changed, _: &mut dyn FnMut(Key)) {}

    fn period(&self) -> Option<Duration> {
        Some(SECOND)
    }

    fn decide(&self, _: &Context<'_>, _: &Key) -> Decision {
        let mut decision = Decision::nothing();
        let note = Note::new(&Namespace::default(), "Seen", "It was seen".into());
        decision.notes.push(note);
        decision
    }
}

#[test]
fn a_decision_without_calls_may_have_events() {
    let mut manager = Manager::new(vec![Box::new(Tells)]);
    assert!(manager.next(at(Duration::ZERO)).is_none());
    let notes = manager.take_notes();
    let told = notes.iter().map(|(by, note)| (by.as_str(), note.reason));
    assert_eq!(told.collect::<Vec<_>>(), [("tells-controller", "Seen")]);
}

/// A loop that wants to delete something, and to look again after a minute.
struct Looks;

impl Loop for Looks {
    fn name(&self) -> &'static str {
        "looks"
    }

    fn wakes(&self, _: &Caches, _: &Changed, _: &mut dyn FnMut(Key)) {}

    fn period(&self) -> Option<Duration> {
        Some(SECOND * 3600)
    }

    fn decide(&self, _: &Context<'_>, _: &Key) -> Decision {
        let mut decision = Decision::of(crate::decision::delete(&Namespace::default()));
        decision.again(SECOND * 60);
        decision
    }
}

#[test]
fn what_is_due_does_not_wait_for_a_call_that_always_fails() {
    let mut manager = Manager::new(vec![Box::new(Looks)]);
    let mut now = SECOND;
    for _ in 0..30 {
        let work = manager.next(at(now)).expect("it is due");
        manager.done(&work, Err((0, Status::unavailable("no"))), at(now));
        let next = manager.wake_at().unwrap();
        assert!(
            next > now && next <= now + SECOND * 60,
            "{next:?} at {now:?}"
        );
        now = next;
    }
}

#[test]
fn a_deletion_that_is_refused_with_a_conflict_is_told_unless_the_object_is_another() {
    let is_told = |why: &str| {
        let mut manager = Manager::new(vec![Box::new(Looks)]);
        let work = manager.next(at(SECOND)).expect("it is due");
        let error = Status::conflict("", "namespaces", "n", why);
        manager.done(&work, Err((0, error)), at(SECOND));
        manager.loops[0].failures.contains_key(&work.key)
    };
    assert!(is_told(
        "admission webhook \"w\" denied the request: not now"
    ));
    let another = "the UID in the precondition (a) does not match the UID in record (b)";
    assert!(!is_told(another));
}
