//! Any bytes as a config file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringload_engine::fuzzable::config(bytes));
