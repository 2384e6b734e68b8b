#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etcd_files::fuzzing::bbolt_read(data));
