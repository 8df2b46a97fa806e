//! Any bytes as the answer of a metrics endpoint.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringload_engine::fuzzable::metrics(bytes));
