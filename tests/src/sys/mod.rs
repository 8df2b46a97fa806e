//! The unsafe corner of the harness: limits that a child gets before it becomes the program, an allocator that counts, and a server without room.
#![allow(unsafe_code)]

pub mod allocator;
pub mod backlog;
pub mod child;
pub mod heap;
