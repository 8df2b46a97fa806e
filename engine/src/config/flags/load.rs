//! Flags of the profiling phase.

use super::table::{Flag, Group, Writes};

use Group::{Load, Sessions};
use Writes::{Profiling, Special};

pub(super) static FLAGS: &[Flag] = &[
    Flag::value("num-conversations", "N", Sessions, Profiling("sessions"), "Conversations to run, or a list to sweep")
        .aka(&["conversation-num", "num-sessions"])
        .list(),
    Flag::value("concurrency", "N", Load, Profiling("concurrency"), "Requests in flight, or a list to sweep, such as 1,8,64 [default: 1]")
        .list()
        .more("With a rate this is a cap: arrivals that find no slot wait in order."),
    Flag::value("prefill-concurrency", "N", Load, Profiling("prefill_concurrency"), "Requests before their first token, or a list to sweep. Needs --streaming").list(),
    Flag::value("request-count", "N", Load, Profiling("requests"), "Requests to send, or a list to sweep [default: 10 if nothing else ends the phase]")
        .aka(&["num-requests"])
        .list(),
    Flag::value("benchmark-duration", "TIME", Load, Profiling("duration"), "Time in which requests start, such as 30, 30s, 5m, or a list to sweep").list(),
    Flag::value("benchmark-grace-period", "TIME", Load, Profiling("grace_period"), "Longest wait after the duration, or inf [default: until all have ended]")
        .more("Without it the phase waits for every request in flight. Needs a duration."),
    Flag::value("request-rate", "N", Load, Profiling("rate"), "Requests per second, in an open loop, or a list to sweep").list(),
    Flag::value("arrival-pattern", "WORD", Load, Special, "Gaps between arrivals: poisson, gamma, constant, or concurrency_burst for a closed loop [default: poisson]")
        .aka(&["request-rate-mode"]),
    Flag::value("arrival-smoothness", "N", Load, Profiling("smoothness"), "Shape of gamma gaps: 1 as poisson, above 1 smoother. Implies gamma")
        .aka(&["vllm-burstiness"]),
    Flag::value("request-rate-series", "FILE", Load, Profiling("rate_series"), "Course of the rate: a JSON file of points with time_s and qps"),
    Flag::value("concurrency-ramp-duration", "TIME", Load, Profiling("concurrency_ramp"), "Time in which the concurrency rises to its value"),
    Flag::value("prefill-concurrency-ramp-duration", "TIME", Load, Profiling("prefill_ramp"), "Time in which the prefill limit rises to its value"),
    Flag::value("request-rate-ramp-duration", "TIME", Load, Profiling("rate_ramp"), "Time in which the rate rises to its value"),
    Flag::value("user-centric-rate", "N", Load, Special, "Requests per second of all --num-users together, each at even gaps of its own"),
    Flag::value("num-users", "N", Load, Profiling("users"), "Users at any time, or a list to sweep").list(),
    Flag::switch("fixed-schedule", Load, Special, "Replay the timestamps of --input-file")
        .more("A mooncake_trace whose first record has a timestamp is replayed without this flag too, unless a rate is given; --no-fixed-schedule \
               sends its records like any others."),
    Flag::switch("fixed-schedule-auto-offset", Load, Profiling("auto_offset"), "Begin at the first timestamp of the schedule [default: off]"),
    Flag::value("fixed-schedule-start-offset", "MS", Load, Profiling("start_offset"), "First timestamp to replay, in milliseconds"),
    Flag::value("fixed-schedule-end-offset", "MS", Load, Profiling("end_offset"), "Last timestamp to replay, in milliseconds"),
    Flag::value("request-cancellation-rate", "PERCENT", Load, Profiling("cancellation.rate"), "Share of requests that the client cancels, from 0 to 100 [default: 0]"),
    Flag::value("request-cancellation-delay", "TIME", Load, Profiling("cancellation.delay"), "Time from the sending of a request to its cancellation [default: 0]"),
    Flag::value("failed-request-threshold", "RATIO", Load, Profiling("failed_request_threshold"), "Share of failures, from 0 to 1, above which the run ends with code 3"),
];
