//! The usages of a key, by their names in a CertificateSigningRequest.

/// Bits of the extension `keyUsage`, counted from the first.
const BITS: [(&str, usize); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Identifiers of the extension `extKeyUsage`, in the order in which Kubernetes writes them.
const EXTENDED: [(&str, &[u64]); 13] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

/// The usages of a certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Usages {
    /// Bit n of the extension `keyUsage` is bit n here.
    bits: u16,
    /// The identifiers of the extension `extKeyUsage`.
    pub(crate) extended: Vec<&'static [u64]>,
}

impl Usages {
    /// Reads names. One that is unknown is an error.
    pub(crate) fn of(names: &[String]) -> Result<Usages, String> {
        let mut usages = Usages::default();
        let mut unknown = Vec::new();
        for name in names {
            if let Some((_, bit)) = BITS.iter().find(|(known, _)| known == name) {
                usages.bits |= 1 << bit;
            } else if !EXTENDED.iter().any(|(known, _)| known == name) {
                unknown.push(name);
            }
        }
        if !unknown.is_empty() {
            return Err(format!("unrecognized usage values: {unknown:?}"));
        }
        for (known, identifier) in EXTENDED {
            if names.iter().any(|name| name == known) && !usages.extended.contains(&identifier) {
                usages.extended.push(identifier);
            }
        }
        Ok(usages)
    }

    /// The bits as DER has them, the first bit highest, and their number up to the last one that is
    /// set. `None` if none is set.
    pub(crate) fn bits(&self) -> Option<([u8; 2], usize)> {
        let last = self.bits.checked_ilog2()?;
        Some((self.bits.reverse_bits().to_be_bytes(), last as usize + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usages(names: &[&str]) -> Result<Usages, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Usages::of(&names)
    }

    #[test]
    fn bits_are_counted_from_the_first() {
        let bits = |names: &[&str]| usages(names).unwrap().bits();
        assert_eq!(bits(&["client auth"]), None);
        assert_eq!(
            bits(&["signing", "digital signature"]),
            Some(([0x80, 0], 1))
        );
        let both = ["digital signature", "key encipherment"];
        assert_eq!(bits(&both), Some(([0xa0, 0], 3)));
        assert_eq!(bits(&["decipher only"]), Some(([0, 0x80], 9)));
    }

    #[test]
    fn two_names_of_one_usage_are_written_once() {
        let usages = usages(&["s/mime", "client auth", "email protection"]).unwrap();
        let last = |one: &&[u64]| *one.last().unwrap();
        let ends: Vec<u64> = usages.extended.iter().map(last).collect();
        assert_eq!(ends, [2, 4]);
    }

    #[test]
    fn unknown_usages_are_named() {
        let told = usages(&["client auth", "party"]).unwrap_err();
        assert_eq!(told, "unrecognized usage values: [\"party\"]");
    }
}
