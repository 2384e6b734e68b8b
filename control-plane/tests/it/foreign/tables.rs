//! The columns of tables, compared with those of Kubernetes' own apiserver for every kind. The texts
//! about columns are Kubernetes', so `tables/golden.txt` has their hashes.
//!
//! `STELE_TABLES=go UPDATE=1` asks Kubernetes again and writes it.

use serde_json::Value;

use crate::foreign::discovery::NEW_FORM;
use crate::foreign::golden;
use crate::foreign::swap::world::World;
use crate::harness::cluster::kubectl_or_skip;
use crate::requests::http::Call;

const VARIABLE: &str = "STELE_TABLES";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// How many digits of a hash tell texts apart.
const DIGITS: usize = 12;

#[test]
fn columns_are_those_of_kubernetes() {
    if !kubectl_or_skip("the comparison of tables") {
        return;
    }
    let (_world, address) = World::apiserver_alone(golden::asks_go(VARIABLE));
    let get = |path: &str, form: &str| {
        let call = Call::new(&address, "GET", path).header("Accept", form);
        call.send().expect(200)
    };
    let mut answers = String::new();
    for root in ["/api", "/apis"] {
        for path in lists(root, &get(root, NEW_FORM)) {
            let table = get(&path, TABLE);
            let columns = table["columnDefinitions"].as_array().unwrap();
            let columns: Vec<String> = columns.iter().map(line).collect();
            golden::write_block(&mut answers, &path, &columns);
        }
    }
    golden::check("tables/golden.txt", VARIABLE, &answers);
}

/// The paths of all lists.
fn lists(root: &str, groups: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    for group in groups["items"].as_array().unwrap() {
        let place = match group["metadata"]["name"].as_str() {
            Some(name) => format!("{root}/{name}"),
            None => root.to_owned(),
        };
        for version in group["versions"].as_array().unwrap() {
            let number = version["version"].as_str().unwrap();
            for resource in version["resources"].as_array().unwrap() {
                let verbs = resource["verbs"].as_array().unwrap();
                if verbs.iter().any(|verb| verb == "list") {
                    let plural = resource["resource"].as_str().unwrap();
                    paths.push(format!("{place}/{number}/{plural}"));
                }
            }
        }
    }
    paths
}

fn line(column: &Value) -> String {
    let text = column["description"].as_str().unwrap();
    format!(
        "{} {} {} {} {}",
        column["name"],
        column["type"],
        column["format"],
        column["priority"],
        &golden::hash(text.as_bytes())[..DIGITS]
    )
}
