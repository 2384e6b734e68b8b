//! Expressions that select devices, as claims and classes of `resource.k8s.io` have them.

use std::sync::{Arc, LazyLock};

use super::Environment;
use super::admission::types::{name, record, text};
use super::types::Type;
use super::types::shape::Shape;

/// The most attributes and capacities of a device, which bounds what an expression costs.
const ENTRIES_MAX: i64 = 32;
/// What the most expensive expression may cost.
const COST_MAX: u64 = 1_000_000;
/// Upper bound of the patterns of an expression, compiled, in bytes: a claim may have a thousand
/// expressions.
const PATTERNS_BYTES_MAX: usize = 256 << 10;

/// Why an expression selects no devices.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It does not compile, or has a result of another type.
    Invalid(String),
    /// The author is not to blame, in Kubernetes' view.
    Internal(String),
    /// It may cost too much.
    TooExpensive,
}

/// `device`: what a driver publishes of a device. Attributes and capacities are by domain and name.
static DEVICE: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    let by_name = |value: Shape| {
        let inner = Shape::map(Arc::new(value), Some(ENTRIES_MAX));
        Arc::new(Shape::map(Arc::new(inner), Some(ENTRIES_MAX)))
    };
    record(
        "DRADevice",
        [
            ("driver", text()),
            ("allowMultipleAllocations", Arc::new(Shape::boolean())),
            ("attributes", by_name(Shape::any())),
            ("capacity", by_name(Shape::quantity())),
        ],
    )
});

static ENVIRONMENT: LazyLock<Environment> =
    LazyLock::new(|| Environment::new().with_shape("device", &DEVICE, false));

/// Checks an expression that has to be true for a device that is selected.
pub fn check_selector(source: &str) -> Result<(), Unfit> {
    let mut left = PATTERNS_BYTES_MAX;
    let program = ENVIRONMENT.compile_within(source, &mut left);
    let program = program.map_err(|why| {
        if why.starts_with("program instantiation failed") {
            Unfit::Internal(why)
        } else {
            Unfit::Invalid(why)
        }
    })?;
    let found = program.result();
    if !matches!(found, Type::Bool | Type::Dyn) {
        let found = name(found);
        let why = format!("must evaluate to bool or the unknown type, not {found}");
        return Err(Unfit::Invalid(why));
    }
    if program.cost_max() > COST_MAX {
        return Err(Unfit::TooExpensive);
    }
    Ok(())
}

#[test]
fn an_expression_selects_devices_by_what_drivers_publish() {
    for good in [
        "true",
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model",
        "device.attributes['gpu.example.com'].model == 'a' && 'b' in device.attributes",
        "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('1Gi'))",
        "device.allowMultipleAllocations",
    ] {
        assert_eq!(check_selector(good), Ok(()), "{good}");
    }
    let why = |source| match check_selector(source) {
        Err(Unfit::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    let nothing = "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>'";
    assert!(why("").starts_with(nothing), "{}", why(""));
    assert!(!why("").contains('\n'), "{}", why(""));
    assert!(why("device.wrong").contains("undefined field 'wrong'"));
    assert_eq!(
        why("device.driver"),
        "must evaluate to bool or the unknown type, not string"
    );
    assert!(why("device.capacity['a'].b == 1").contains("found no matching overload"));
    let pattern = |pattern: &str| format!("'a'.find('{pattern}') == device.driver");
    assert_eq!(check_selector(&pattern("^[a-z.]{1,63}$")), Ok(()));
    let Err(Unfit::Internal(why)) = check_selector(&pattern("[^a]{1000}")) else {
        panic!("a large pattern is refused");
    };
    assert!(why.contains("expression too large"), "{why}");
    let lists = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = "abcdef".chars().fold("true".to_owned(), |inner, name| {
        format!("{lists}.all({name}, {inner})")
    });
    assert_eq!(check_selector(&nested), Err(Unfit::TooExpensive));
}
