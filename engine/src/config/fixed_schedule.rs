//! The keys of a phase with type: fixed_schedule, which replays the timestamps of its dataset.

use super::decode::Section;

/// Keys that only a fixed schedule has.
const KEYS: [&str; 3] = ["auto_offset", "start_offset", "end_offset"];

/// Latest offset in milliseconds, as for timestamps in a dataset.
const MAX_OFFSET_MS: i128 = 10_000_000_000_000;

/// The part of a schedule that is replayed, and the timestamp that is its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleWindow {
    /// Whether the first timestamp of the part is the beginning of the phase.
    pub auto_offset: Option<bool>,
    /// First timestamp of the part, in milliseconds; the beginning of the phase unless `auto_offset` moves it.
    pub start_ms: Option<u64>,
    /// Last timestamp of the part, in milliseconds.
    pub end_ms: Option<u64>,
}

/// The window of a fixed schedule. Keys that contradict it or each other are reported.
pub(super) fn decode(section: &Section<'_>) -> Option<ScheduleWindow> {
    let advice = [
        ("requests", "take fewer entries with end_offset or dataset.entries"),
        ("sessions", "take fewer entries with end_offset or dataset.entries"),
        ("rate", "its entries say when they start"),
        ("rate_series", "its entries say when they start"),
        ("rate_ramp", "its entries say when they start"),
    ];
    for (key, advice) in advice {
        if section.field(key).is_some() {
            section.report(
                key,
                format!("a fixed schedule sends each of its entries once, so `{key}` has no meaning; remove the key ({advice})"),
            );
        }
    }
    let auto = section.field("auto_offset").map(|field| field.boolean());
    let offset = |key| section.field(key).map(|field| field.integer(0, MAX_OFFSET_MS));
    let (start, end) = (offset("start_offset"), offset("end_offset"));
    if let (Some(field), None | Some(Some(true))) = (section.field("start_offset"), auto) {
        field.report(
            "auto_offset, which is on unless it is set to false, makes the first timestamp the beginning of the phase; add auto_offset: false \
             or remove the key",
        );
    }
    if let (Some(field), Some(Some(start)), Some(Some(end))) = (section.field("end_offset"), start, end)
        && start > end
    {
        field.report(format!(
            "found {}; allowed: at least start_offset ({start})",
            field.found()
        ));
    }
    Some(ScheduleWindow {
        auto_offset: kept(auto)?,
        start_ms: kept(start)?,
        end_ms: kept(end)?,
    })
}

/// Absent keys are fine; those with mistakes are not.
fn kept<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(value) => value.map(Some),
        None => Some(None),
    }
}

/// Reports the keys of a fixed schedule in a phase of another type.
pub(super) fn report_foreign(section: &Section<'_>, kind: &str) {
    for key in KEYS {
        if section.field(key).is_some() {
            section.report(
                key,
                format!("only phases of type fixed_schedule have offsets, and this one is {kind}; remove the key"),
            );
        }
    }
}
