//! The words of `profile --dry-run`.

use crate::engine::{
    Arrival, Bound, Cells, ConvergenceMode, DrainRule, Gaps, HostPreview, ModelPlan, Nanos, PhaseForecast, PhasePlan,
    Plan, Preview, RateCourse, RatePlan, Requests,
};
use crate::number::{counted, grouped, grouped_decimal};

/// Cells that are shown one by one; the rest is counted.
const CELLS_SHOWN: usize = 50;

/// The whole page.
pub(crate) fn render(plan: &Plan, cells: Option<&Cells>, preview: &Preview) -> String {
    let mut page = String::new();
    if let Some(cells) = cells {
        page.push_str(&cell_table(cells));
        page.push_str(&format!("\nthe first of them, {}:\n", cells.cells()[0].name));
    }
    for (index, (phase, forecast)) in plan.phases.iter().zip(&preview.forecast.phases).enumerate() {
        page.push_str(&phase_lines(index, phase, forecast, plan.endpoint.request_timeout));
    }
    page.push('\n');
    page.push_str(&row("ends", &bound(preview.forecast.end, "the start")));
    let servers: Vec<&str> = plan
        .endpoint
        .targets
        .iter()
        .map(|target| target.origin.as_str())
        .collect();
    let in_turn = if servers.len() == 1 { "" } else { ", taken in turn" };
    let urls = counted(servers.len() as u64, "URL") + in_turn;
    page.push_str(&row("server", &format!("{} ({urls})", servers.join(", "))));
    page.push_str(&row("dataset", &dataset(plan)));
    page.push_str(&models(&plan.models));
    let hooks = hooks(plan);
    let hooks = if hooks.is_empty() {
        "none".to_owned()
    } else {
        hooks.join("; ")
    };
    page.push_str(&row("hooks", &hooks));
    if let Ok(host) = &preview.host {
        page.push_str(&host_lines(host));
    }
    let directory = cells.map_or(plan.artifacts.directory.as_path(), |cells| cells.directory());
    page.push_str(&row("artifacts", &directory.display().to_string()));
    page
}

fn row(title: &str, text: &str) -> String {
    format!("{title:<11}{text}\n")
}

/// What decides the end of a phase whose drain has no bound of its own.
fn last_answers(phase: &PhasePlan, timeout: Option<Nanos>) -> Option<String> {
    let timeout = timeout.filter(|_| !matches!(phase.drain, DrainRule::Grace(_)))?;
    phase.stop.duration?;
    Some(format!(": {} for the timeout of the last requests", timeout.in_words()))
}

fn phase_lines(index: usize, phase: &PhasePlan, forecast: &PhaseForecast, timeout: Option<Nanos>) -> String {
    let seamless = if phase.seamless { ", seamless" } else { "" };
    let mut lines = format!(
        "{}. {} ({}{seamless}): {}\n",
        index + 1,
        phase.name,
        phase.kind.as_str(),
        load(&phase.arrival)
    );
    let mut detail = |title: &str, text: String| lines.push_str(&format!("     {title:<10}{text}\n"));
    let limits = limits(phase);
    if !limits.is_empty() {
        detail("limits", limits.join(", "));
    }
    detail("stops", stops(phase));
    detail("requests", requests(forecast.requests));
    detail(
        "ends",
        bound(forecast.end, "its start") + last_answers(phase, timeout).as_deref().unwrap_or_default(),
    );
    lines
}

/// The load pattern in words.
pub(crate) fn load(arrival: &Arrival) -> String {
    match arrival {
        Arrival::ClosedLoop => "closed loop, a request as a slot gets free".to_owned(),
        Arrival::AtRate { gaps, rate } => {
            let gaps = match gaps {
                Gaps::Even => "even gaps".to_owned(),
                Gaps::Exponential => "Poisson arrivals".to_owned(),
                Gaps::Gamma { shape } => format!("gamma gaps of shape {shape}"),
            };
            format!("open loop, {gaps}, {}", course(rate))
        }
        Arrival::FixedSchedule(schedule) => format!(
            "fixed schedule of {} over {}",
            counted(schedule.starts().len() as u64, "session"),
            schedule
                .starts()
                .last()
                .map_or(Nanos::ZERO, |start| start.due)
                .in_words()
        ),
        Arrival::UserCentric { users, rate } => {
            format!(
                "{}, {rate} requests/s of all together",
                counted(u64::from(*users), "user")
            )
        }
    }
}

fn course(rate: &RatePlan) -> String {
    let course = match &rate.course {
        RateCourse::Constant(rate) => format!("{rate} requests/s"),
        RateCourse::Series(points) => format!(
            "{} to {} requests/s over {}",
            points.first().map_or(0.0, |point| point.rate),
            points.last().map_or(0.0, |point| point.rate),
            counted(points.len() as u64, "point")
        ),
    };
    match rate.ramp {
        Some(ramp) => format!("{course} after a ramp of {}", ramp.duration.in_words()),
        None => course,
    }
}

fn limits(phase: &PhasePlan) -> Vec<String> {
    let mut limits = Vec::new();
    limits.extend(phase.concurrency.map(|limit| format!("concurrency {limit}")));
    limits.extend(phase.limits.prefill.map(|limit| format!("prefill {limit}")));
    if phase.limits.adaptive.is_some() {
        limits.push("moved by adaptive scale".to_owned());
    }
    if let Some(cancellation) = phase.cancellation.filter(|cancellation| cancellation.probability > 0.0) {
        let percent = cancellation.probability * 100.0;
        limits.push(format!("{percent} % cancelled"));
    }
    if phase.drops_arrivals() {
        limits.push("arrivals without a slot are dropped".to_owned());
    }
    limits
}

fn stops(phase: &PhasePlan) -> String {
    let stop = &phase.stop;
    let count = |count: Option<u64>, what: &str| count.map(|count| counted(count, what));
    let parts: Vec<String> = [
        count(stop.requests, "request"),
        count(stop.sessions, "session"),
        stop.duration.map(Nanos::in_words),
    ]
    .into_iter()
    .flatten()
    .collect();
    match parts.len() {
        0 => "when interrupted".to_owned(),
        1 => format!("after {}", parts[0]),
        _ => format!("after {}, whichever comes first", parts.join(" or ")),
    }
}

fn requests(requests: Requests) -> String {
    match requests {
        Requests::Exactly(count) => grouped(count),
        Requests::AtMost(count) => format!("at most {}", grouped(count)),
        Requests::About(count) => format!("about {}", grouped_decimal(count, 0)),
        Requests::Open => "as many as the server answers".to_owned(),
    }
}

fn bound(bound: Bound, since: &str) -> String {
    match bound {
        Bound::At(time) => format!("{} after {since} at the latest", time.in_words()),
        Bound::About(time) => format!("about {} after {since} at the latest", time.in_words()),
        Bound::None(reason) => format!("no latest moment: {reason}"),
    }
}

fn dataset(plan: &Plan) -> String {
    let conversations = &plan.requests.conversations;
    let count = u64::from(conversations.count());
    if conversations.has_later_turns() {
        format!(
            "{} of {:.2} turns on average",
            counted(count, "conversation"),
            conversations.turns_mean()
        )
    } else {
        counted(count, "request")
    }
}

/// Several models, and how conversations get them.
fn models(models: &ModelPlan) -> String {
    if models.names.len() == 1 {
        return String::new();
    }
    let Some(shares) = models.choice.probabilities() else {
        let text = format!("{} (conversations take them in turn)", models.names.join(", "));
        return row("models", &text);
    };
    let share = |(name, share): (&String, &f64)| format!("{name} {} %", grouped_decimal(share * 100.0, 1));
    let shares: Vec<String> = models.names.iter().zip(&shares).map(share).collect();
    row(
        "models",
        &format!("{} (drawn for each conversation)", shares.join(", ")),
    )
}

/// The control calls of a run, a line each.
pub(crate) fn hooks(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(readiness) = &plan.readiness {
        lines.push(format!("wait for the model, up to {}", readiness.timeout.in_words()));
    }
    if let Some(reset) = &plan.hooks.reset_kv_cache {
        lines.push(format!("POST {} before the load", shown(&reset.path)));
    }
    if let Some(profiler) = &plan.hooks.server_profiler {
        lines.push(format!(
            "POST {} and {} around profiling phases",
            shown(&profiler.start_path),
            shown(&profiler.stop_path)
        ));
    }
    lines
}

/// A path may carry a key in its query.
fn shown(path: &str) -> String {
    crate::engine::redact_url(path)
}

fn host_lines(host: &HostPreview) -> String {
    let mut lines = row("cores", &host.placement);
    let driver = match &host.driver.1 {
        Some(reason) => format!("{} ({reason})", host.driver.0),
        None => host.driver.0.to_owned(),
    };
    lines.push_str(&row("driver", &driver));
    let (needed, limit) = host.descriptors;
    lines.push_str(&row(
        "sockets",
        &format!(
            "up to {} at once; {} needed, {} allowed",
            counted(host.connections, "connection"),
            counted(needed, "file descriptor"),
            grouped(limit)
        ),
    ));
    if let Some(ports) = host.local_ports {
        lines.push_str(&row(
            "ports",
            &format!("{} for each address of the server", grouped(ports)),
        ));
    }
    let mebibytes = |bytes: u64| grouped_decimal(bytes as f64 / f64::from(1 << 20), 1);
    lines.push_str(&row(
        "memory",
        &format!(
            "{} MiB of requests, about {} MiB of connections; buffers and histograms not counted",
            mebibytes(host.request_bytes),
            mebibytes(host.connection_bytes)
        ),
    ));
    lines
}

/// How many cells run.
pub(crate) fn cell_count(cells: &Cells) -> String {
    let at_most = if cells.convergence().is_some() { "at most " } else { "" };
    at_most.to_owned() + &counted(cells.cells().len() as u64, "cell")
}

/// How they come about.
pub(crate) fn shape(cells: &Cells) -> String {
    let most = counted(u64::from(cells.trials()), "run");
    let runs = match cells.convergence() {
        Some(rule) if rule.min_runs < cells.trials() => format!("{} to {most}", rule.min_runs),
        _ => most,
    };
    format!("{}, {runs} of each", counted(cells.variations() as u64, "variation"))
}

/// When a variation runs no more.
fn convergence(cells: &Cells) -> String {
    let Some(rule) = cells.convergence() else {
        return String::new();
    };
    let (metric, stat, threshold) = (rule.metric, rule.stat, rule.threshold);
    match rule.mode {
        ConvergenceMode::Distribution => {
            format!(", until {metric} by request has a p-value of at least {threshold}")
        }
        mode => format!(", until {metric} {stat} has a {} of at most {threshold}", mode.as_str()),
    }
}

fn cell_table(cells: &Cells) -> String {
    let all = cells.cells();
    let mut table = format!("{}: {}{}\n", cell_count(cells), shape(cells), convergence(cells));
    for (index, cell) in all.iter().enumerate().take(CELLS_SHOWN) {
        let directory = cell
            .directory
            .strip_prefix(cells.directory())
            .unwrap_or(&cell.directory);
        table.push_str(&format!("{index:>5}  {}  ->  {}\n", cell.name, directory.display()));
    }
    if all.len() > CELLS_SHOWN {
        table.push_str(&format!(
            "       and {} more; --format json lists all\n",
            grouped((all.len() - CELLS_SHOWN) as u64)
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_figure_says_why() {
        assert_eq!(
            bound(Bound::None("it depends"), "the start"),
            "no latest moment: it depends"
        );
        assert_eq!(requests(Requests::Open), "as many as the server answers");
        assert_eq!(requests(Requests::About(1234.4)), "about 1,234");
        assert_eq!(requests(Requests::AtMost(1000)), "at most 1,000");
    }
}
