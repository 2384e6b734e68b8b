//! An allocation as the status of a claim shows it.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use super::search::Chosen;
use super::slice::{Device, Place, Slice};
use super::wanted::{Alternative, Wanted};

/// The allocation of a claim to which these devices are given, at least one for each request.
pub(super) fn allocation(wanted: &Wanted, chosen: &[Chosen<'_>]) -> Value {
    let results: Vec<Value> = chosen.iter().map(|one| result(wanted, one)).collect();
    let mut devices = json!({"results": results});
    let config = config(wanted, chosen);
    if !config.is_empty() {
        devices["config"] = config.into();
    }
    let mut allocation = json!({"devices": devices});
    if let Some(selector) = node_selector(chosen) {
        allocation["nodeSelector"] = selector;
    }
    allocation
}

fn result(wanted: &Wanted, chosen: &Chosen<'_>) -> Value {
    let by = way(wanted, chosen);
    let id = &chosen.device.id;
    let mut result = json!({
        "request": by.name, "driver": id.driver, "pool": id.pool, "device": id.device,
    });
    if by.is_admin {
        result["adminAccess"] = true.into();
    }
    if !by.tolerations.is_empty() {
        result["tolerations"] = by.tolerations.clone().into();
    }
    if chosen.device.is_shared {
        result["shareID"] = share_id(wanted, by, chosen.device).into();
        let consumed = consumed_capacity(by, chosen.device);
        if !consumed.is_empty() {
            result["consumedCapacity"] = consumed.into();
        }
    }
    result
}

/// What a request gets of a device that is shared, by the names of capacities.
fn consumed_capacity(by: &Alternative, device: &Device) -> Map<String, Value> {
    let parts = device.parts(&by.capacity).unwrap_or_default();
    let parts = device.capacities.iter().zip(parts);
    parts
        .map(|(one, part)| (one.name.clone(), Value::from(part.to_string())))
        .collect()
}

/// The id of the part of a device that a request gets: a UUID of version 8. A request gets one part
/// of a device, and every allocation of a claim begins at another version of the claim, so no other
/// part has this id. The same decision has the same id again.
fn share_id(wanted: &Wanted, by: &Alternative, device: &Device) -> String {
    let half = |at: u8| {
        let mut hasher = DefaultHasher::new();
        (at, &wanted.uid, &wanted.version, &by.name, &device.id).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    let bits = (half(0) << 64) | half(1);
    let bits = (bits & !(0xf_u128 << 76)) | (0x8_u128 << 76);
    let bits = (bits & !(0x3_u128 << 62)) | (0x2_u128 << 62);
    let hex = format!("{bits:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

fn way<'w>(wanted: &'w Wanted, chosen: &Chosen<'_>) -> &'w Alternative {
    &wanted.requests[chosen.at.request].alternatives[chosen.at.alternative]
}

/// What drivers are told: first by the classes, each once, and then by the claim.
fn config(wanted: &Wanted, chosen: &[Chosen<'_>]) -> Vec<Value> {
    let mut ways: Vec<(usize, &Alternative)> = Vec::new();
    for one in chosen {
        if ways.last().map(|(request, _)| *request) != Some(one.at.request) {
            ways.push((one.at.request, way(wanted, one)));
        }
    }
    let mut all = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for (_, by) in &ways {
        let class = &by.class;
        if told.contains(&class.name.as_str()) {
            continue;
        }
        told.push(&class.name);
        let same = ways.iter().filter(|(_, one)| one.class.name == class.name);
        let names: Vec<String> = same.map(|(_, one)| one.name.clone()).collect();
        all.extend(
            class
                .config
                .iter()
                .map(|one| with(one, "FromClass", &names)),
        );
    }
    for one in &wanted.config {
        let requests = machinery::object::items(one, &["requests"]).iter();
        let requests: Vec<String> = requests
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        let about = ways.iter().filter(|(request, by)| {
            let request = &wanted.requests[*request].name;
            requests.contains(request) || requests.contains(&by.name)
        });
        // Kubernetes has it once for each request that it names.
        let times = if requests.is_empty() {
            1
        } else {
            about.count()
        };
        let one = with(one, "FromClaim", &requests);
        all.extend(std::iter::repeat_n(one, times));
    }
    all
}

/// A configuration with its source and the requests that it is about.
fn with(config: &Value, source: &str, requests: &[String]) -> Value {
    let mut config = config.clone();
    config["source"] = source.into();
    if !requests.is_empty() {
        config["requests"] = requests.into();
    }
    config
}

/// Where all of the devices can be used; `None` for everywhere.
fn node_selector(chosen: &[Chosen<'_>]) -> Option<Value> {
    let mut term = json!({});
    for one in chosen {
        match place(one.slice, one.device) {
            Place::Node(name) => {
                let field = json!({"key": "metadata.name", "operator": "In", "values": [name]});
                return Some(json!({"nodeSelectorTerms": [{"matchFields": [field]}]}));
            }
            Place::Selected(_, selector) => {
                for key in ["matchFields", "matchExpressions"] {
                    add_new(&mut term, key, &selector["nodeSelectorTerms"][0][key]);
                }
            }
            Place::Everywhere | Place::ByDevice | Place::Unknown => {}
        }
    }
    let is_empty = term.as_object().is_none_or(serde_json::Map::is_empty);
    (!is_empty).then(|| json!({"nodeSelectorTerms": [term]}))
}

fn place<'p>(slice: &'p Slice, device: &'p Device) -> &'p Place {
    match &slice.place {
        Place::ByDevice => &device.place,
        place => place,
    }
}

/// Adds the requirements that the term does not have yet.
fn add_new(term: &mut Value, key: &str, requirements: &Value) {
    for one in requirements.as_array().into_iter().flatten() {
        match term.get_mut(key).and_then(Value::as_array_mut) {
            Some(known) if known.contains(one) => {}
            Some(known) => known.push(one.clone()),
            None => term[key] = json!([one]),
        }
    }
}
