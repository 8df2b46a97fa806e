//! Mock inference server.
