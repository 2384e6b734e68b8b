//! Decodes the password hashes in the log: base64, with the rules of Go's decoder.

/// `None`: not base64. Line breaks are ignored, padding is required, and the unused bits after the
/// last byte may have any value.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    use base64::alphabet::STANDARD;
    use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let text: Vec<u8> = text
        .bytes()
        .filter(|b| !matches!(b, b'\r' | b'\n'))
        .collect();
    GeneralPurpose::new(&STANDARD, config).decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        assert_eq!(decode_base64("").unwrap(), b"");
        assert_eq!(decode_base64("aGk=").unwrap(), b"hi");
        assert_eq!(decode_base64("aG\nk=\r\n").unwrap(), b"hi");
        assert_eq!(decode_base64("aGl=").unwrap(), b"hi", "bits to spare");
        assert_eq!(decode_base64("aGk"), None);
        assert_eq!(decode_base64("a Gk="), None);
        assert_eq!(decode_base64("-_8="), None);
    }
}
