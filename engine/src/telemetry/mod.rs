//! What the server and its GPUs say about themselves while the load runs.
//!
//! ```text
//! scraper thread --page--> parser --families--> history --spans--> figures of a phase
//!   ^ bell: a phase starts or ends
//! ```
//!
//! Each endpoint has a thread and a history of its own. No core and no phase ever waits for one of them; they are read when the load has ended.
//! Parser, histories and figures are values: they know neither sockets nor clocks.

mod bell;
mod estimate;
mod exposition;
mod gpu;
mod gpu_stats;
mod history;
mod line;
mod scraper;
mod span;
mod stats;
mod track;
mod unit;
mod walk;

pub use bell::Bell;
pub(crate) use exposition::told;
pub use exposition::{FamilyKind, Labels};
pub use gpu::{GPU_FIELDS, GpuField, GpuHistory, GpuIdentity, gpu_fields};
pub use gpu_stats::{Efficiency, GpuFigure, GpuStats, LoadFigures, efficiency, summarize_gpus};
pub use history::{Figures, History, Scrape, Snapshot};
pub use scraper::{Answer, Course, Keep, Scrapers};
pub use span::{Lifetime, Span, union};
pub use stats::{
    CounterStats, FamilyStats, GaugeStats, HistogramStats, PERCENTILES, SeriesStats, Slice, SliceStats, Spread, Stats,
    summarize,
};
pub use walk::{SeriesName, Walk};

use crate::units::Nanos;
use exposition::Parser;

/// An answer as all that keeps answers takes it, twice: as the first one and as one that grew from it. For fuzzing.
pub(crate) fn keep(bytes: &[u8]) {
    let answer = || {
        let mut parser = Parser::default();
        parser.push(bytes);
        Answer(parser.finish())
    };
    let (mut servers, mut gpus) = (History::default(), GpuHistory::default());
    for second in 1..=2 {
        let (sent, answered) = (Nanos::from_secs(second), Nanos::from_secs(second));
        servers.keep(sent, answered, answer());
        gpus.keep(sent, answered, answer());
    }
}
