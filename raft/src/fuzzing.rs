//! Bodies of the fuzz targets; the crate's own tests run them on seeded bytes.

use bytes::Bytes;

use crate::wire;

/// Whatever the bytes: no panic, and what can be read is written and read back the same.
pub fn wire_decode(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(message) = wire::decode_message(&bytes) {
        let mut again = Vec::new();
        wire::encode_message(&message, &mut again);
        assert_eq!(wire::decode_message(&again.into()), Ok(message));
    }
    if let Ok(entry) = wire::decode_entry(&bytes) {
        let mut again = Vec::new();
        wire::encode_entry(&entry, &mut again);
        assert_eq!(wire::decode_entry(&again.into()), Ok(entry));
    }
    if let Ok(state) = wire::decode_hard_state(&bytes) {
        assert_eq!(
            wire::decode_hard_state(&wire::encode_hard_state(&state)),
            Ok(state)
        );
    }
    if let Ok(snapshot) = wire::decode_snapshot(&bytes) {
        assert_eq!(
            wire::decode_snapshot(&wire::encode_snapshot(&snapshot)),
            Ok(snapshot)
        );
    }
    if let Ok(change) = wire::decode_conf_change(&bytes) {
        assert_eq!(
            wire::decode_conf_change(&wire::encode_conf_change(&change)),
            Ok(change)
        );
    }
    if let Ok(change) = wire::decode_conf_change_v2(&bytes) {
        let again = wire::encode_conf_change_v2(&change);
        assert_eq!(wire::decode_conf_change_v2(&again), Ok(change));
    }
}
