use super::*;

/// A built-in object as the store has it.
fn stored(kind: &str, name: &str) -> (Value, &'static Value) {
    let mut all = flow_control::all().iter();
    let wanted = all
        .find(|one| (object::kind(one), object::name(one)) == (kind, name))
        .unwrap();
    let mut stored = wanted.clone();
    object::set(&mut stored, &["metadata", "generation"], 1.into());
    (stored, wanted)
}

fn annotate(object: &mut Value, value: Option<&str>) {
    let path = ["metadata", "annotations", AUTO_UPDATE];
    match value {
        Some(value) => object::set(object, &path, value.into()),
        None => drop(object::remove(object, &path)),
    }
}

#[test]
fn what_nobody_changed_stays() {
    for wanted in flow_control::all() {
        let (stored, wanted) = stored(object::kind(wanted), object::name(wanted));
        assert_eq!(revised(&stored, wanted), None);
    }
}

#[test]
fn owners_keep_suggested_objects_that_they_change() {
    let (mut changed, wanted) = stored(LEVEL, "system");
    changed["spec"]["limited"]["lendablePercent"] = 7.into();
    let repaired = revised(&changed, wanted).unwrap();
    assert_eq!(repaired["spec"], wanted["spec"]);
    annotate(&mut changed, Some("false"));
    assert_eq!(revised(&changed, wanted), None);
    // Without a clear annotation the generation decides, and the decision is written down.
    annotate(&mut changed, Some("perhaps"));
    assert_eq!(revised(&changed, wanted).unwrap()["spec"], wanted["spec"]);
    annotate(&mut changed, None);
    object::set(&mut changed, &["metadata", "generation"], 2.into());
    let kept = revised(&changed, wanted).unwrap();
    assert_eq!(kept["spec"], changed["spec"]);
    assert_eq!(auto_update(&kept), Some(false));
}

#[test]
fn mandatory_objects_are_repaired_whatever_their_annotation_says() {
    let (mut changed, wanted) = stored(LEVEL, "catch-all");
    annotate(&mut changed, Some("false"));
    changed["spec"]["limited"]["nominalConcurrencyShares"] = 50.into();
    let repaired = revised(&changed, wanted).unwrap();
    assert_eq!(repaired["spec"], wanted["spec"]);
    assert_eq!(auto_update(&repaired), Some(true));
}

#[test]
fn the_shares_of_the_exempt_level_belong_to_the_owner() {
    let (mut changed, wanted) = stored(LEVEL, EXEMPT);
    changed["spec"]["exempt"]["nominalConcurrencyShares"] = 50.into();
    assert_eq!(revised(&changed, wanted), None);
    changed["spec"].as_object_mut().unwrap().remove("exempt");
    assert_eq!(revised(&changed, wanted).unwrap()["spec"], wanted["spec"]);
}

#[test]
fn schemas_tell_whether_their_level_exists() {
    let now = Timestamp::default();
    let (schema, _) = stored(SCHEMA, "probes");
    let found = reported(&schema, true, now).unwrap();
    let condition = &found["status"]["conditions"][0];
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "Found");
    assert_eq!(reported(&found, true, now), None);
    let lost = reported(&found, false, now).unwrap();
    assert_eq!(lost["status"]["conditions"].as_array().unwrap().len(), 1);
    let condition = &lost["status"]["conditions"][0];
    assert_eq!(condition["status"], "True");
    assert_eq!(
        condition["message"],
        "This FlowSchema references the PriorityLevelConfiguration object named \"exempt\" but there is no such object"
    );
}
