//! The report as rows for a console: what to print, in which order, and nothing left to compute.

use super::metric::Group;
use super::scope::{ScopeReport, Value};
use super::validity::ClientReport;
use super::{PhaseReport, Report};

/// Statistics of one metric; `None` is printed as "N/A".
#[derive(Debug, Clone, PartialEq)]
pub struct DistributionRow {
    /// Tag of the metric: its key in artifacts.
    pub tag: &'static str,
    /// Name of the metric.
    pub header: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The part of the table it belongs to.
    pub group: Group,
    /// Mean.
    pub avg: Option<f64>,
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// Population standard deviation.
    pub std: Option<f64>,
}

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalarRow {
    /// Tag of the metric: its key in artifacts.
    pub tag: &'static str,
    /// Name of the metric.
    pub header: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The part of the table it belongs to.
    pub group: Group,
    /// The number.
    pub value: f64,
}

/// The rows of one scope, by group and then by the order of the metrics.
#[derive(Debug, Clone)]
pub struct Table<'a> {
    /// The phase; `None` for the aggregate over all profiling phases.
    pub phase: Option<&'a PhaseReport>,
    /// What the client says of itself: over the phase, or over the profiling phase where it did worst.
    pub client: Option<&'a ClientReport>,
    /// The scope that the rows come from, with its counts and errors.
    pub scope: &'a ScopeReport,
    /// Metrics with statistics.
    pub rows: Vec<DistributionRow>,
    /// Metrics of one number.
    pub scalars: Vec<ScalarRow>,
}

impl Report {
    /// One table per phase in the order of the workflow, then the aggregate.
    pub fn scopes(&self) -> Vec<Table<'_>> {
        let phases = self
            .phases
            .iter()
            .map(|phase| (Some(phase), &phase.scope, phase.client.as_ref()));
        let worst = self.worst_client().map(|(_, client)| client);
        phases
            .chain([(None, &self.aggregate, worst)])
            .map(|(phase, scope, client)| Table::new(phase, scope, client))
            .collect()
    }
}

impl<'a> Table<'a> {
    fn new(phase: Option<&'a PhaseReport>, scope: &'a ScopeReport, client: Option<&'a ClientReport>) -> Self {
        let mut shown: Vec<_> = scope
            .metrics
            .iter()
            .filter_map(|measured| measured.metric.group.map(|group| (group, measured)))
            .collect();
        // Stable, so metrics of equal order stay as in the table of metrics.
        shown.sort_by_key(|(group, measured)| (*group, measured.metric.order));
        let mut table = Self {
            phase,
            client,
            scope,
            rows: Vec::new(),
            scalars: Vec::new(),
        };
        for (group, measured) in shown {
            let (tag, header, unit) = (measured.metric.tag, measured.metric.header, measured.metric.unit.name());
            match &measured.value {
                Value::Scalar(value) => table.scalars.push(ScalarRow {
                    tag,
                    header,
                    unit,
                    group,
                    value: *value,
                }),
                Value::Distribution(d) => table.rows.push(DistributionRow {
                    tag,
                    header,
                    unit,
                    group,
                    avg: d.avg,
                    min: d.min,
                    max: d.max,
                    p99: d.percentile(99),
                    p90: d.percentile(90),
                    p50: d.percentile(50),
                    std: d.std,
                }),
            }
        }
        table
    }
}
