//! Expressions that select devices, as claims and classes of `resource.k8s.io` have them.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use super::admission::types::{name, record, text};
use super::eval::{Failure, Host, eval};
use super::library::semver;
use super::types::Type;
use super::types::shape::Shape;
use super::value::{Made, Map, Text, Value, Why};
use super::{Environment, Program};
use crate::values::quantity::Quantity;

/// The most attributes and capacities of a device, which bounds what an expression costs.
const ENTRIES_MAX: i64 = 32;
/// What the most expensive expression may cost.
const COST_MAX: u64 = 1_000_000;
/// Upper bound of the patterns of an expression, compiled, in bytes: a claim may have a thousand
/// expressions.
const PATTERNS_BYTES_MAX: usize = 256 << 10;
/// What it counts to make the value of a device for an expression. Kubernetes counts nothing.
const DEVICE_COST: u64 = 100;

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

/// An expression that is true for the devices that it selects.
#[derive(Debug)]
pub struct Selector(Program);

impl Selector {
    /// Compiles one expression of several: `left` is how many bytes the patterns of this one and of
    /// those after it may take.
    pub fn new(source: &str, left: &mut usize) -> Result<Selector, Unfit> {
        let most = PATTERNS_BYTES_MAX.min(*left);
        let mut own = most;
        let program = compile(source, &mut own);
        *left -= most - own;
        program.map(Selector)
    }

    /// True if it selects this device of a driver, as a slice describes it. The error says why that
    /// is not known. What it took is added to `cost`.
    pub fn selects(&self, driver: &str, device: &Json, cost: &mut u64) -> Result<bool, String> {
        let known = Published(published(driver, device)?);
        let (result, spent) = eval(&self.0, &known, COST_MAX);
        *cost = cost.saturating_add(spent).saturating_add(DEVICE_COST);
        match result {
            Ok(Value::Bool(result)) => Ok(result),
            Ok(other) => {
                let is = other.type_name();
                Err(format!(
                    "CEL result of type {is} could not be converted to bool"
                ))
            }
            Err(Failure::Error(why)) => Err(why),
            Err(Failure::TooExpensive) => {
                Err("operation cancelled: actual cost limit exceeded".to_owned())
            }
            Err(Failure::Needs(need)) => Err(format!("unknown: {need:?}")),
        }
    }
}

/// Checks an expression that has to be true for a device that is selected.
pub fn check_selector(source: &str) -> Result<(), Unfit> {
    let mut left = PATTERNS_BYTES_MAX;
    compile(source, &mut left).map(drop)
}

fn compile(source: &str, left: &mut usize) -> Result<Program, Unfit> {
    let program = ENVIRONMENT.compile_within(source, left);
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
    Ok(program)
}

/// The value of `device`.
struct Published<'a>(Value<'a>);

impl<'a> Host<'a> for Published<'a> {
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, Why>> {
        (name == "device").then(|| Ok(self.0.clone()))
    }
}

fn published<'a>(driver: &'a str, device: &'a Json) -> Result<Value<'a>, Why> {
    let is_shared = device["allowMultipleAllocations"] == true;
    let attributes = by_domain(driver, &device["attributes"], |name, one| {
        attribute(one).map_err(|why| format!("attribute {name}: {why}"))
    })?;
    let capacity = by_domain(driver, &device["capacity"], |_, one| {
        let quantity = Quantity::parse(one["value"].as_str().unwrap_or_default());
        quantity.map(Value::Quantity).map_err(|why| why.to_string())
    })?;
    made([
        ("driver", borrowed(driver)),
        ("allowMultipleAllocations", Value::Bool(is_shared)),
        ("attributes", attributes),
        ("capacity", capacity),
    ])
}

/// Attributes or capacities by domain and name. A domain without any has an empty map, so that
/// expressions may look into it.
fn by_domain<'a>(
    driver: &'a str,
    all: &'a Json,
    read: impl Fn(&str, &'a Json) -> Result<Value<'a>, Why>,
) -> Result<Value<'a>, Why> {
    let mut domains: BTreeMap<&str, Vec<(&str, Value<'a>)>> = BTreeMap::new();
    for (name, one) in all.as_object().into_iter().flatten() {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name.as_str()));
        let of_domain = domains.entry(domain).or_default();
        of_domain.push((id, read(name, one)?));
    }
    let mut outer = Made::default();
    for (domain, entries) in domains {
        outer.set(borrowed(domain), made(entries)?)?;
    }
    outer.otherwise = Some(made([])?);
    Ok(Value::Map(Map::Made(Rc::new(outer))))
}

fn attribute(one: &Json) -> Result<Value<'_>, Why> {
    if let Some(whole) = one["int"].as_i64() {
        return Ok(Value::Int(whole));
    }
    if let Some(flag) = one["bool"].as_bool() {
        return Ok(Value::Bool(flag));
    }
    if let Some(text) = one["string"].as_str() {
        return Ok(borrowed(text));
    }
    if let Some(version) = one["version"].as_str() {
        let version = semver::parse(version);
        let version = version.map_err(|why| format!("parse semantic version: {why}"))?;
        return Ok(Value::Semver(Rc::new(version)));
    }
    Err("unsupported attribute value".to_owned())
}

/// A map with these entries. Of two with the same key the second counts.
fn made<'a>(entries: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Result<Value<'a>, Why> {
    let mut map = Made::default();
    for (key, value) in entries {
        map.set(borrowed(key), value)?;
    }
    Ok(Value::Map(Map::Made(Rc::new(map))))
}

fn borrowed(text: &str) -> Value<'_> {
    Value::String(Text::Borrowed(text))
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

#[test]
fn a_selector_sees_what_a_driver_publishes() {
    let device = serde_json::json!({
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "a"}, "cores": {"int": 8}, "ecc": {"bool": true},
            "other.com/firmware": {"version": "1.10.0"},
        },
        "capacity": {"memory": {"value": "16Gi"}},
    });
    let selects = |source: &str| {
        let mut left = PATTERNS_BYTES_MAX;
        let selector = Selector::new(source, &mut left).unwrap();
        selector.selects("gpu.example.com", &device, &mut 0)
    };
    for yes in [
        "true",
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model == 'a'",
        "device.attributes['gpu.example.com'].cores > 4",
        "device.attributes['gpu.example.com'].ecc",
        "device.attributes['other.com'].firmware.isGreaterThan(semver('1.9.0'))",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('16Gi')) == 0",
        "!device.allowMultipleAllocations",
        // A domain that has nothing is empty, and not there.
        "!('model' in device.attributes['nobody.com'])",
        "!('nobody.com' in device.attributes)",
    ] {
        assert_eq!(selects(yes), Ok(true), "{yes}");
    }
    assert_eq!(selects("device.driver == 'x.com'"), Ok(false));
    let missing = selects("device.attributes['nobody.com'].model == 'a'");
    assert_eq!(missing, Err("no such key: model".to_owned()));
}

#[test]
fn what_selectors_take_is_counted_together() {
    let source = "'x.com'.find('^[a-z.]{1,63}$') == device.driver";
    let mut left = 2 * PATTERNS_BYTES_MAX;
    let selector = Selector::new(source, &mut left).unwrap();
    assert!(left < 2 * PATTERNS_BYTES_MAX);
    left = 0;
    let Err(Unfit::Internal(why)) = Selector::new(source, &mut left) else {
        panic!("nothing is left for a pattern");
    };
    assert!(why.contains("expression too large"), "{why}");
    Selector::new("true", &mut left).unwrap();
    let (mut once, mut twice) = (0, 0);
    let select = |cost: &mut u64| selector.selects("x.com", &Json::Null, cost).unwrap();
    assert!(select(&mut once));
    assert!(select(&mut twice) && select(&mut twice));
    assert!(once > DEVICE_COST && twice == 2 * once, "{once} {twice}");
}
