//! How much is told of what is wrong with a write: the way to a field may be as long as a body, and
//! thousands of fields may be at the end of it.

use super::*;

/// More than what is told in the end, in bytes.
const TOLD_MAX: usize = 5 << 20;

/// A Deployment with one container, whose name is long.
fn deployment(mut container: Value) -> Value {
    container["name"] = "n".repeat(64 << 10).into();
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n"},
        "spec": {"template": {"spec": {"containers": [container]}}}})
}

#[test]
fn conflicts_are_told_up_to_a_bound() {
    let env = |value: &str| {
        let variables = (0..1000).map(|at| json!({"name": format!("v{at}"), "value": value}));
        deployment(json!({"image": "i", "env": variables.collect::<Vec<_>>()}))
    };
    let kinds = Kinds::new("apps/v1", "Deployment");
    let write = |manager: &str, live: Option<&Value>, value: &str| {
        let line = json!({"manager": manager, "apply": env(value)});
        run(&kinds, live, &line)
    };
    let live = write("a", None, "1").unwrap();
    let Error::Conflicts(conflicts) = write("b", Some(&live), "2").unwrap_err() else {
        panic!("no conflicts");
    };
    let text = conflicts.to_string();
    let begin =
        "Apply failed with 1000 conflicts: conflicts with \"a\":\n- .spec.template.spec.containers";
    assert!(text.starts_with(begin), "{}", &text[..200]);
    assert!(text.len() < TOLD_MAX, "{}", text.len());
    let more = 1000 - conflicts.told().len();
    assert!(text.ends_with(&format!("\nand {more} more")));
}

#[test]
fn misfits_are_told_up_to_a_bound() {
    let message = schema::kind("apps", "v1", "Deployment").unwrap().message();
    let object = deployment(json!({"command": vec![1; 1000]}));
    let misfits = check::check(message, &object, false).unwrap_err();
    assert_eq!(misfits.told.len() + misfits.more, 1000);
    let text = misfits.to_string();
    assert!(text.len() < TOLD_MAX, "{}", text.len());
    assert!(text.ends_with(&format!("\n  and {} more", misfits.more)));
}

/// A long way to thousands of fields is walked once, and not once more for each of them.
#[test]
fn fields_below_a_key_as_long_as_a_body_may_be_are_found() {
    const COUNT: usize = 20_000;
    let message = schema::kind("apps", "v1", "Deployment").unwrap().message();
    let env = (0..COUNT).map(|at| json!({"name": format!("v{at}"), "value": "1"}));
    let mut object = deployment(json!({"env": env.collect::<Vec<_>>()}));
    let container = &mut object["spec"]["template"]["spec"]["containers"][0];
    container["name"] = "n".repeat(1 << 20).into();
    let fields = fields_of(message, &object).unwrap();
    // Each variable with its name and its value, and the container with its name. The rest is
    // `apiVersion`, `kind`, `metadata.name` and `metadata.namespace`.
    assert_eq!(fields.len(), 3 * COUNT + 2 + 4);
    assert_eq!(
        Set::from_fields_v1(&fields.to_fields_v1()),
        Ok(fields.clone())
    );
    let found = compare(message, &json!({}), &object).unwrap();
    assert!(fields.difference(&found.added).is_empty());
    assert!(found.modified.is_empty() && found.removed.is_empty());
    let found = compare(message, &object, &object).unwrap();
    assert_eq!(found, Comparison::default());
}

/// Each entry for updates is merged into the one of those before it.
#[test]
fn the_oldest_of_many_updates_are_one_entry() {
    let field = |at: usize| Set::of_names(&[&["data", &format!("f{at}")]]);
    let updates = (0..1000).map(|at| {
        let manager = Manager::new(&format!("m{at}"), Operation::Update, "v1", "");
        let owned = Owned {
            set: field(at),
            api_version: "v1".to_owned(),
            time: Some(format!("2026-01-01T00:00:00Z+{at:04}")),
        };
        (manager, owned)
    });
    let mut managers = Managers(updates.collect());
    managers.cap();
    assert_eq!(managers.0.len(), 10);
    let merged = Manager::new("ancient-changes", Operation::Update, "v1", "");
    let oldest = (0..991).fold(Set::default(), |all, at| all.union(&field(at)));
    assert_eq!(managers.0[&merged].set, oldest);
}
