//! What became of every request, and the figures kept while the load runs.

mod core_histograms;
mod error_table;
mod outcome;
mod request_record;

pub use core_histograms::{Family, FamilyHistogram, PhaseHistograms};
pub use error_table::{ErrorDetail, ErrorTable};
pub use outcome::{FailureClass, Outcome};
pub use request_record::{DecodeError, RequestRecord, Usage};
