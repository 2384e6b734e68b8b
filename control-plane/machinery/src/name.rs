//! The rules for names, labels and annotations, with the messages Kubernetes gives.
//!
//! Each function returns what is wrong with a text; nothing when it is fine.

/// A DNS label (RFC 1123): what namespaces are called.
pub fn dns1123_label(_name: &str) -> Vec<String> {
    unimplemented!()
}

/// A DNS subdomain (RFC 1123): what most objects are called.
pub fn dns1123_subdomain(_name: &str) -> Vec<String> {
    unimplemented!()
}

/// A DNS label (RFC 1035): begins with a letter.
pub fn dns1035_label(_name: &str) -> Vec<String> {
    unimplemented!()
}

/// A name that only must be one segment of a path: what RBAC objects are called.
pub fn path_segment(_name: &str) -> Vec<String> {
    unimplemented!()
}

/// A key of a label or annotation.
pub fn qualified_name(_key: &str) -> Vec<String> {
    unimplemented!()
}

/// A value of a label.
pub fn label_value(_value: &str) -> Vec<String> {
    unimplemented!()
}

/// A key of a config map or secret.
pub fn config_map_key(_key: &str) -> Vec<String> {
    unimplemented!()
}
