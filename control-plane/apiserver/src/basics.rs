//! What any layer may use: time, address ranges, certificate requests.

pub(crate) mod cidr;
pub(crate) mod clock;
pub(crate) mod pkcs10;
