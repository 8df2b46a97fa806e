//! A schedule that is replayed. A test's number is the scenario's.

use super::assert_clean;
use crate::coordinator::event::StopReason;
use crate::coordinator::simulation::{Reply, World, ms, profiling};
use crate::plan::PhasePlan;
use crate::units::Nanos;

/// The timestamps of the scenario, in milliseconds.
const TIMESTAMPS: [Nanos; 4] = [ms(1000), ms(1000), ms(1500), ms(4000)];

fn replay() -> PhasePlan {
    profiling("p").at_timestamps(&TIMESTAMPS)
}

#[test]
fn s60_every_entry_starts_at_its_timestamp_counted_from_the_first() {
    let run = World::new(vec![replay()]).run();
    assert_clean(&run);
    assert_eq!(run.sends(0), [ms(0), ms(0), ms(500), ms(3000)]);
    assert_eq!(run.phase(0).stop_reason, StopReason::Requests);
    // The last answer comes 200 ms after the last entry.
    assert_eq!((run.sending_complete(0), run.end(0)), (ms(3000), ms(3200)));
}

#[test]
fn s60_under_a_cap_entries_wait_in_order_and_none_is_lost() {
    let run = World::new(vec![replay().cap(1)])
        .serving(|_, _| Reply::After(ms(2000)))
        .run();
    assert_clean(&run);
    assert_eq!(run.sends(0), [ms(0), ms(2000), ms(4000), ms(6000)]);
    assert_eq!((run.tally(0).sent, run.tally(0).succeeded, run.peak(0)), (4, 4, 1));
    assert_eq!(run.phase(0).stop_reason, StopReason::Requests);
}

#[test]
fn s60_a_duration_ends_the_schedule_before_its_last_entries() {
    let run = World::new(vec![replay().cap(2).lasting(ms(1000))])
        .serving(|_, _| Reply::After(ms(2000)))
        .run();
    assert_clean(&run);
    // The third entry was due at 0.5 s and found no slot until the end of the phase; the fourth was never due.
    assert_eq!(run.sends(0), [ms(0), ms(0)]);
    assert_eq!(
        (run.phase(0).stop_reason, run.sending_complete(0)),
        (StopReason::Duration, ms(1000))
    );

    let uncapped = World::new(vec![replay().lasting(ms(1000))]).run();
    assert_eq!(uncapped.sends(0), [ms(0), ms(0), ms(500)]);
    assert_eq!(
        (uncapped.phase(0).stop_reason, uncapped.sending_complete(0)),
        (StopReason::Duration, ms(1000))
    );
}

#[test]
fn a_duration_beyond_the_last_entry_does_not_prolong_the_phase() {
    let run = World::new(vec![replay().lasting(ms(60_000))]).run();
    assert_eq!((run.phase(0).stop_reason, run.end(0)), (StopReason::Requests, ms(3200)));
}

#[test]
fn a_seamless_successor_starts_with_the_last_entry_and_takes_the_dataset_from_where_it_was() {
    // The world checks that the phases around the schedule take the entries of the dataset in order, without a gap.
    let around = |name: &str| profiling(name).requests(3);
    let run = World::new(vec![around("a"), replay(), around("b").seamless()]).run();
    assert_clean(&run);
    assert_eq!(run.start(2), run.sending_complete(1));
}
