//! Kubernetes' order of ports and of subsets: that of the hashes of what Go's package spew prints.

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, ObjectReference};
use k8s_openapi::api::discovery::v1 as discovery;

/// The state of FNV-1a before the first byte, with 128 bits.
const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

pub(super) fn of_port(port: &EndpointPort) -> u128 {
    let mut hash = Fnv(BASIS);
    hash.put(&["(v1.EndpointPort)"]);
    hash.port(port);
    hash.0
}

pub(super) fn of_subset(subset: &EndpointSubset) -> u128 {
    let mut hash = Fnv(BASIS);
    hash.put(&["(v1.EndpointSubset){Addresses:"]);
    hash.list("EndpointAddress", &subset.addresses, Fnv::address);
    hash.put(&[" NotReadyAddresses:"]);
    hash.list("EndpointAddress", &subset.not_ready_addresses, Fnv::address);
    hash.put(&[" Ports:"]);
    hash.list("EndpointPort", &subset.ports, Fnv::port);
    hash.put(&["}"]);
    hash.0
}

pub(super) fn of_slice_port(port: &discovery::EndpointPort) -> u128 {
    let mut hash = Fnv(BASIS);
    let number = port.port.map(|number| number.to_string());
    hash.put(&["(v1.EndpointPort){Name:"]);
    hash.pointer(&port.name);
    hash.put(&[" Protocol:(*v1.Protocol)", or_nil(&port.protocol)]);
    hash.put(&[" Port:(*int32)", or_nil(&number), " AppProtocol:"]);
    hash.pointer(&port.app_protocol);
    hash.put(&["}"]);
    hash.0
}

/// A hash of the text so far. Each method adds a value as spew prints it with `%#v`.
struct Fnv(u128);

impl Fnv {
    fn put(&mut self, texts: &[&str]) {
        for byte in texts.iter().flat_map(|text| text.bytes()) {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }

    fn list<T>(&mut self, kind: &str, items: &Option<Vec<T>>, put: fn(&mut Fnv, &T)) {
        self.put(&["([]v1.", kind, ")"]);
        let Some(items) = items else {
            return self.put(&["<nil>"]);
        };
        self.put(&["["]);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.put(&[" "]);
            }
            put(self, item);
        }
        self.put(&["]"]);
    }

    fn address(&mut self, address: &EndpointAddress) {
        let hostname = text(&address.hostname);
        self.put(&["{IP:(string)", &address.ip, " Hostname:(string)", hostname]);
        self.put(&[" NodeName:"]);
        self.pointer(&address.node_name);
        self.put(&[" TargetRef:(*v1.ObjectReference)"]);
        match &address.target_ref {
            Some(target) => self.reference(target),
            None => self.put(&["<nil>"]),
        }
        self.put(&["}"]);
    }

    fn reference(&mut self, to: &ObjectReference) {
        self.put(&["{Kind:(string)", text(&to.kind)]);
        self.put(&[" Namespace:(string)", text(&to.namespace)]);
        self.put(&[" Name:(string)", text(&to.name)]);
        self.put(&[" UID:(types.UID)", text(&to.uid)]);
        self.put(&[" APIVersion:(string)", text(&to.api_version)]);
        self.put(&[" ResourceVersion:(string)", text(&to.resource_version)]);
        self.put(&[" FieldPath:(string)", text(&to.field_path), "}"]);
    }

    fn port(&mut self, port: &EndpointPort) {
        self.put(&["{Name:(string)", text(&port.name)]);
        self.put(&[" Port:(int32)", &port.port.to_string()]);
        self.put(&[" Protocol:(v1.Protocol)", text(&port.protocol)]);
        self.put(&[" AppProtocol:"]);
        self.pointer(&port.app_protocol);
        self.put(&["}"]);
    }

    fn pointer(&mut self, to: &Option<String>) {
        self.put(&["(*string)", or_nil(to)]);
    }
}

fn or_nil(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("<nil>")
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}
