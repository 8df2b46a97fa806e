//! What became of every request, and the figures kept while the load runs.

mod core_histograms;
mod core_window;
mod encoding;
mod error_table;
mod error_text;
mod gap_arena;
mod http_trace;
mod judge;
mod outcome;
mod request_record;
mod server_counts;
mod transcript;

pub use core_histograms::{Family, FamilyHistogram, PhaseHistograms};
pub use core_window::CoreWindow;
pub use error_table::{ErrorDetail, ErrorTable};
pub use http_trace::HttpTrace;
pub use outcome::{FailureClass, Outcome};
pub use request_record::{DecodeError, RequestRecord, Usage};
pub use transcript::Transcript;

pub(crate) use encoding::{Attachments, decode, encode};
pub(crate) use error_text::{decode_text, encode_text};
pub(crate) use gap_arena::{GapArena, GapChain};
pub(crate) use judge::{Better, Criterion, Finding, ImageFacts, Judge, RecordView};
pub(crate) use server_counts::ServerCounts;
