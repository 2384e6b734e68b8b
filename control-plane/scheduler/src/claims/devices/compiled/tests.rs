use serde_json::json;

use super::*;
use crate::claims::devices::wanted::{Class, Wanted};

/// What patterns may take in these tests.
const LEFT: usize = 1 << 20;

fn get(compiled: &Compiled, source: &str) -> Result<Arc<Selector>, Unfit> {
    let mut left = LEFT;
    compiled.get(source, &mut left)
}

fn count(compiled: &Compiled) -> usize {
    compiled.0.lock().unwrap().selectors.len()
}

#[test]
fn a_selector_is_compiled_once_and_takes_of_the_bytes_each_time() {
    let source = "'x.com'.find('^[a-z.]{1,63}$') == device.driver";
    let compiled = Compiled::default();
    let (mut first, mut second) = (LEFT, LEFT);
    let one = compiled.get(source, &mut first).unwrap();
    let again = compiled.get(source, &mut second).unwrap();
    assert!(Arc::ptr_eq(&one, &again));
    assert!(first < LEFT);
    assert_eq!(first, second);
    // Nor does it take more than there is, because it was compiled before.
    let refused = compiled.get(source, &mut 0);
    assert!(matches!(refused, Err(Unfit::Internal(_))));
}

#[test]
fn few_selectors_are_kept() {
    let compiled = Compiled::default();
    for at in 0..=KEPT_MAX {
        let source = format!("device.driver == 'x{at}.com'");
        get(&compiled, &source).unwrap();
        assert!(count(&compiled) <= KEPT_MAX);
    }
    assert_eq!(count(&compiled), 1);
    get(&compiled, "device.driver").unwrap_err();
    assert_eq!(count(&compiled), 1, "what cannot be used is not kept");
}

#[test]
fn claims_with_the_same_selector_share_it() {
    let compiled = Compiled::default();
    let class = Class::read(&json!({"metadata": {"name": "chip"}}));
    let classes = HashMap::from([("chip".to_owned(), Arc::new(class))]);
    for name in ["c", "d"] {
        let selector = json!({"cel": {"expression": "device.driver == 'x.com'"}});
        let request = json!({"name": "one",
            "exactly": {"deviceClassName": "chip", "selectors": [selector]}});
        let claim = json!({"metadata": {"name": name},
            "spec": {"devices": {"requests": [request]}}});
        Wanted::read(&claim, &classes, &compiled).unwrap();
        assert_eq!(count(&compiled), 1);
    }
}
