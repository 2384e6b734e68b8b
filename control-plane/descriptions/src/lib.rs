//! What Kubernetes' documentation says of each type and field of the API. The texts are in the crate
//! k8s-openapi; the build script takes them from there, and the program contains them compressed.

use std::collections::BTreeMap;

use flate2::read::GzDecoder;

const ZIPPED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.json.gz"));

/// The unpacked table. It takes about 1 MB, so it is dropped after use.
pub struct Descriptions(BTreeMap<String, BTreeMap<String, String>>);

impl Descriptions {
    /// Unpacks the table.
    pub fn unpack() -> Descriptions {
        // The build script has written what can be read.
        Descriptions(serde_json::from_reader(GzDecoder::new(ZIPPED)).unwrap_or_default())
    }

    /// The text about a type, such as `io.k8s.api.core.v1.Pod`.
    pub fn of_type(&self, name: &str) -> Option<&str> {
        self.of_field(name, "")
    }

    /// The text about a field of a type.
    pub fn of_field(&self, name: &str, field: &str) -> Option<&str> {
        Some(self.0.get(name)?.get(field)?)
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptions;

    #[test]
    fn types_and_fields_have_texts() {
        let all = Descriptions::unpack();
        let spec = "io.k8s.api.core.v1.PodSpec";
        assert!(all.of_type(spec).is_some_and(|text| text.contains("pod")));
        assert!(all.of_field(spec, "containers").is_some());
        assert_eq!(all.of_field(spec, "nothing"), None);
        assert_eq!(all.of_type("nothing"), None);
    }
}
