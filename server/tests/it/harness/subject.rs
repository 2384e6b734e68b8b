//! The server under test: Stele as built by cargo, or etcd to verify the tests themselves.

use testkit::{Launch, Tools};

/// How to start the server under test.
pub(crate) fn launch() -> Launch {
    if is_etcd() {
        let tools = Tools::locate().unwrap_or_else(|missing| panic!("{missing}"));
        return Launch::etcd(&tools);
    }
    Launch::program(env!("CARGO_BIN_EXE_stele"))
}

/// Whether `STELE_TEST_PROGRAM=etcd` asks for real etcd in Stele's place.
pub(crate) fn is_etcd() -> bool {
    std::env::var("STELE_TEST_PROGRAM").is_ok_and(|program| program == "etcd")
}

/// A number from the environment, for long forms of a test.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    }
}
