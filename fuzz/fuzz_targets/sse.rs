//! Any bytes as the body of an event stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringload_engine::fuzzable::sse(bytes));
