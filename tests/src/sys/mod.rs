//! The unsafe corner of the harness: limits that a child gets before it becomes the program, and an allocator that counts.
#![allow(unsafe_code)]

pub mod allocator;
pub mod child;
pub mod heap;
