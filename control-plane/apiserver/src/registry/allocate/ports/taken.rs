//! Which node ports are taken, for all apiservers of a store: one object under Kubernetes' key and in
//! Kubernetes' form, a RangeAllocation with a bit for each port.
//!
//! Each write depends on the revision that it was made from. So of two apiservers that choose ports at
//! once one fails, and chooses again from what the other one has left.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::status::Status;
use machinery::{object, protobuf};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::NODE_PORTS;
use crate::storage::store::{Store, Swap};

const KEY: &str = "/registry/ranges/servicenodeports";
const BITS: i64 = 8;

/// Ports that are taken.
pub(crate) type Ports = BTreeSet<i64>;

/// The object in the store.
#[derive(Default)]
pub(crate) struct Taken {
    /// The writes of this process go one after the other, so that they do not fail each other.
    turn: Mutex<()>,
}

impl Taken {
    /// The ports that are taken now.
    pub(super) async fn read(&self, store: &Store) -> Result<Ports, Status> {
        let (found, _) = store.get(KEY).await?;
        found.map_or(Ok(Ports::new()), |raw| decode(raw.plain()))
    }

    /// Changes which ports are taken. `change` is called again if another apiserver was faster.
    pub(super) async fn change<T>(
        &self,
        store: &Store,
        mut change: impl FnMut(&mut Ports) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let _turn = self.turn.lock().await;
        let (mut found, _) = store.get(KEY).await?;
        loop {
            let (revision, before) = match &found {
                Some(raw) => (raw.revision, decode(raw.plain())?),
                None => (0, Ports::new()),
            };
            let mut after = before.clone();
            let result = change(&mut after)?;
            if after.range(NODE_PORTS).eq(before.range(NODE_PORTS)) {
                return Ok(result);
            }
            match store.swap_plain(KEY, revision, encode(&after)?).await? {
                Swap::Done(_) => return Ok(result),
                Swap::Changed(newer) => found = newer,
            }
        }
    }
}

/// The bits are one number, whose last byte has the first ports. An object of a server with another
/// range says from which port on it counts.
fn decode(bytes: &[u8]) -> Result<Ports, Status> {
    let damaged = |why: &str| Status::internal(&format!("{KEY} is damaged: {why}"));
    let object = protobuf::decode(bytes).map_err(|error| damaged(&error.0))?;
    let data = STANDARD.decode(object::text(&object, &["data"]));
    let data = data.map_err(|error| damaged(&error.to_string()))?;
    let bytes = (0..).step_by(BITS as usize).zip(data.iter().rev());
    let range = object::text(&object, &["range"]).split_once('-');
    let first = range.and_then(|(first, _)| first.parse().ok());
    let first: i64 = first.unwrap_or(*NODE_PORTS.start());
    let bits = bytes.flat_map(|(at, byte)| (0..BITS).map(move |bit| (at + bit, byte >> bit & 1)));
    let set = bits.filter(|(_, is_set)| *is_set == 1);
    Ok(set.map(|(at, _)| first + at).collect())
}

/// Ports outside of the range have no bit. A service may have one from before the range changed.
fn encode(ports: &Ports) -> Result<Vec<u8>, Status> {
    let mut data = Vec::new();
    for port in ports.range(NODE_PORTS) {
        let at = port - NODE_PORTS.start();
        let byte = usize::try_from(at / BITS).map_err(|error| internal(&error))?;
        if data.len() <= byte {
            data.resize(byte + 1, 0_u8);
        }
        data[byte] |= 1 << (at % BITS);
    }
    data.reverse();
    let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
    let object: Value = json!({
        "kind": "RangeAllocation", "apiVersion": "v1",
        "range": format!("{first}-{last}"), "data": STANDARD.encode(data),
    });
    protobuf::encode(&object).map_err(|error| internal(&error))
}

fn internal(error: &impl std::fmt::Display) -> Status {
    Status::internal(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_the_bits_of_one_number() {
        let ports = Ports::from([30_000, 30_003, 30_086, 32_767]);
        let bytes = encode(&ports).unwrap();
        assert_eq!(decode(&bytes).unwrap(), ports);
        let object = protobuf::decode(&bytes).unwrap();
        assert_eq!(object["range"], "30000-32767");
        let data = STANDARD.decode(object["data"].as_str().unwrap()).unwrap();
        assert_eq!((data.len(), data[0], data[345]), (346, 1 << 7, 0b1001));
        assert_eq!(
            decode(&encode(&Ports::new()).unwrap()).unwrap(),
            Ports::new()
        );
        assert!(decode(b"{}").is_err());
    }

    #[test]
    fn a_port_of_another_range_keeps_no_other_from_its_mark() {
        let ports = Ports::from([20_000, 30_001, 40_000]);
        let marked = decode(&encode(&ports).unwrap()).unwrap();
        assert_eq!(marked, Ports::from([30_001]));
        let older = json!({
            "kind": "RangeAllocation", "apiVersion": "v1",
            "range": "20000-22767", "data": STANDARD.encode([0b101]),
        });
        let older = decode(&protobuf::encode(&older).unwrap()).unwrap();
        assert_eq!(older, Ports::from([20_000, 20_002]));
    }
}
