//! Any bytes as the answers to two requests on one connection.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringload_engine::fuzzable::http(bytes));
