//! What claims ask for, and what classes say of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use machinery::cel::devices::{Selector, Unfit};
use machinery::object::{self, Object};
use machinery::quantity::Quantity;
use serde_json::Value;

use super::capacity::quantities;
use super::compiled::Compiled;
use super::slice::Device;

/// The most devices that the API lets one claim have.
pub(super) const DEVICES_MAX: usize = 32;
/// Upper bound of the patterns of all selectors of a claim or a class, compiled, in bytes. They are
/// in memory together, and a claim may have thousands of selectors.
const PATTERNS_BYTES_MAX: usize = 16 << 20;
/// What selectors may cost in one search, which is ten times what one of them may.
pub(super) const COST_MAX: u64 = 10_000_000;

/// A class of devices.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: String,
    /// The error says which of them cannot be read.
    selectors: Result<Vec<Arc<Selector>>, String>,
    /// What drivers are told.
    pub(super) config: Vec<Value>,
}

/// A claim that is not allocated.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) finalizers: Vec<String>,
    pub(super) requests: Vec<Request>,
    pub(super) constraints: Vec<Constraint>,
    /// What drivers are told.
    pub(super) config: Vec<Value>,
}

/// Devices that a claim asks for, in one of several ways.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) name: String,
    /// The best first.
    pub(super) alternatives: Vec<Alternative>,
}

#[derive(Debug)]
pub(super) struct Alternative {
    /// The name of the request, and its own if there are several.
    pub(super) name: String,
    pub(super) class: Arc<Class>,
    pub(super) amount: Amount,
    pub(super) tolerations: Vec<Value>,
    /// What each device must have left, by the names of capacities.
    pub(super) capacity: BTreeMap<String, Quantity>,
    /// The devices may be in use.
    pub(super) is_admin: bool,
    /// The claim, for errors.
    pub(super) of: String,
    selectors: Vec<Arc<Selector>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    Exactly(usize),
    /// All of the node, and at least one.
    All,
}

/// What the devices of some requests must have in common, or must not.
#[derive(Debug)]
pub(super) struct Constraint {
    /// Empty for all.
    requests: Vec<String>,
    pub(super) attribute: String,
    pub(super) is_distinct: bool,
}

impl Class {
    pub(super) fn read(class: &Object) -> Class {
        let name = object::name(class).to_owned();
        let spec = class.get("spec").unwrap_or(&Value::Null);
        let mut left = PATTERNS_BYTES_MAX;
        Class {
            selectors: selectors(
                spec,
                &format!("class {name}"),
                &Compiled::default(),
                &mut left,
            ),
            config: object::items(spec, &["config"]).to_vec(),
            name,
        }
    }
}

impl Wanted {
    /// Reads a claim. The error says why no node can have what it asks for.
    pub(super) fn read(
        claim: &Object,
        classes: &HashMap<String, Arc<Class>>,
        compiled: &Compiled,
    ) -> Result<Wanted, String> {
        let full_name = format!("{}/{}", object::namespace(claim), object::name(claim));
        let devices = object::at(claim, &["spec", "devices"]).unwrap_or(&Value::Null);
        let requests = object::items(devices, &["requests"]).iter();
        let mut left = PATTERNS_BYTES_MAX;
        let read = |one| Request::read(one, &full_name, classes, compiled, &mut left);
        let requests = requests.map(read);
        let requests: Vec<Request> = requests.collect::<Result<_, _>>()?;
        let least = requests.iter().map(Request::least);
        let least = least.fold(0, usize::saturating_add);
        if least > DEVICES_MAX {
            return Err(format!(
                "claim {full_name}: number of requested devices {least} exceeds the claim limit of \
                 {DEVICES_MAX}"
            ));
        }
        let constraints = object::items(devices, &["constraints"]).iter();
        Ok(Wanted {
            name: object::name(claim).to_owned(),
            uid: object::uid(claim).to_owned(),
            version: object::resource_version(claim).to_owned(),
            finalizers: object::finalizers(claim).map(str::to_owned).collect(),
            requests,
            constraints: constraints.map(Constraint::read).collect(),
            config: object::items(devices, &["config"]).to_vec(),
        })
    }
}

impl Request {
    fn read(
        request: &Value,
        claim: &str,
        classes: &HashMap<String, Arc<Class>>,
        compiled: &Compiled,
        patterns_left: &mut usize,
    ) -> Result<Request, String> {
        let name = object::text(request, &["name"]);
        let several = object::items(request, &["firstAvailable"]);
        let mut read = |name: String, one: &Value| {
            Alternative::read(name, one, claim, classes, compiled, patterns_left)
        };
        let alternatives = match request.get("exactly").filter(|one| one.is_object()) {
            Some(one) => vec![read(name.to_owned(), one)?],
            None if several.is_empty() => {
                return Err(format!(
                    "resource claim {claim}, request {name}: unknown request type"
                ));
            }
            None => several
                .iter()
                .map(|one| read(format!("{name}/{}", object::text(one, &["name"])), one))
                .collect::<Result<_, _>>()?,
        };
        Ok(Request {
            name: name.to_owned(),
            alternatives,
        })
    }

    /// The least number of devices that satisfy it.
    fn least(&self) -> usize {
        let alternatives = self.alternatives.iter();
        let counts = alternatives.map(|one| match one.amount {
            Amount::Exactly(count) => count,
            Amount::All => 1,
        });
        counts.min().unwrap_or(0)
    }
}

impl Alternative {
    fn read(
        name: String,
        of: &Value,
        claim: &str,
        classes: &HashMap<String, Arc<Class>>,
        compiled: &Compiled,
        patterns_left: &mut usize,
    ) -> Result<Alternative, String> {
        let class = object::text(of, &["deviceClassName"]);
        let Some(class) = classes.get(class) else {
            return Err(format!(
                "request {name}: device class {class} does not exist"
            ));
        };
        if let Err(why) = &class.selectors {
            return Err(why.clone());
        }
        let count = object::integer(of, &["count"]).unwrap_or(1);
        let amount = match object::text(of, &["allocationMode"]) {
            "All" => Amount::All,
            "ExactCount" | "" => Amount::Exactly(usize::try_from(count).unwrap_or(usize::MAX)),
            other => {
                return Err(format!(
                    "claim {claim}, request {name}: unsupported count mode {other}"
                ));
            }
        };
        Ok(Alternative {
            class: Arc::clone(class),
            amount,
            tolerations: object::items(of, &["tolerations"]).to_vec(),
            capacity: quantities(&of["capacity"]["requests"]),
            is_admin: of["adminAccess"] == true,
            selectors: selectors(of, &format!("claim {claim}"), compiled, patterns_left)?,
            of: claim.to_owned(),
            name,
        })
    }

    /// True if the class and the request select the device. The error says why that is not known.
    /// What it took is added to `cost`.
    pub(super) fn selects(&self, device: &Device, cost: &mut u64) -> Result<bool, String> {
        let of_class = self.class.selectors.as_deref().unwrap_or_default();
        let class = || format!("class {}", self.class.name);
        let claim = || format!("claim {}", self.of);
        Ok(all_select(of_class, device, cost, class)?
            && all_select(&self.selectors, device, cost, claim)?)
    }
}

impl Constraint {
    fn read(constraint: &Value) -> Constraint {
        let distinct = object::text(constraint, &["distinctAttribute"]);
        let matching = object::text(constraint, &["matchAttribute"]);
        let requests = object::items(constraint, &["requests"]).iter();
        // The API has one of them.
        Constraint {
            requests: requests
                .filter_map(|one| one.as_str().map(str::to_owned))
                .collect(),
            attribute: format!("{matching}{distinct}"),
            is_distinct: matching.is_empty(),
        }
    }

    /// True if it is about the devices of a request that is satisfied in this way.
    pub(super) fn covers(&self, request: &Request, alternative: &Alternative) -> bool {
        let names = |one: &String| *one == request.name || *one == alternative.name;
        self.requests.is_empty() || self.requests.iter().any(names)
    }
}

fn all_select(
    selectors: &[Arc<Selector>],
    device: &Device,
    cost: &mut u64,
    of: impl Fn() -> String,
) -> Result<bool, String> {
    for (at, selector) in selectors.iter().enumerate() {
        if *cost > COST_MAX {
            return Err(format!("selectors of devices cost more than {COST_MAX}"));
        }
        match selector.selects(&device.id.driver, &device.published, cost) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                let of = of();
                return Err(format!("{of}: selector #{at}: CEL runtime error: {why}"));
            }
        }
    }
    Ok(true)
}

/// Compiles the selectors of a class or of a request.
fn selectors(
    of: &Value,
    what: &str,
    compiled: &Compiled,
    patterns_left: &mut usize,
) -> Result<Vec<Arc<Selector>>, String> {
    let all = object::items(of, &["selectors"]).iter().enumerate();
    let all = all.map(|(at, one)| {
        let source = object::text(one, &["cel", "expression"]);
        compiled.get(source, patterns_left).map_err(|unfit| {
            let why = match unfit {
                Unfit::Invalid(why) | Unfit::Internal(why) => why,
                Unfit::TooExpensive => "too complex, exceeds cost limit".to_owned(),
            };
            format!("{what}: selector #{at}: CEL compile error: {why}")
        })
    });
    all.collect()
}
