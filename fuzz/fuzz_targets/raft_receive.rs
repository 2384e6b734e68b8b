#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| raft::fuzzing::raft_receive(data));
