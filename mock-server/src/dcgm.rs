//! `/dcgm/metrics`: a graphics card as NVIDIA's exporter shows one. There is none: its load is that of this server, and the rest follows from it.

use std::fmt::Write as _;

/// Requests at once that keep the card busy all the time.
const FULL: u64 = 32;
const IDLE_W: f64 = 100.0;
const FULL_W: f64 = 700.0;

/// How busy a card is that serves so many requests at once, from 0 to 1.
pub(crate) fn busy(in_flight: u64) -> f64 {
    in_flight.min(FULL) as f64 / FULL as f64
}

/// The card's energy counter, which must never fall.
#[derive(Debug)]
pub(crate) struct Gpu {
    joules: f64,
    read_ns: u64,
}

impl Gpu {
    pub(crate) fn new(now_ns: u64) -> Gpu {
        Gpu {
            joules: 0.0,
            read_ns: now_ns,
        }
    }

    /// The page. Energy since the last one is taken to have been used at the power of now.
    pub(crate) fn page(&mut self, busy: f64, now_ns: u64) -> String {
        let watts = IDLE_W + (FULL_W - IDLE_W) * busy;
        self.joules += watts * (now_ns.saturating_sub(self.read_ns)) as f64 / 1e9;
        self.read_ns = self.read_ns.max(now_ns);
        let percent = 100.0 * busy;
        let fields = [
            ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", watts),
            (
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                "counter",
                "Total energy consumption since boot (in mJ).",
                self.joules * 1e3,
            ),
            ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", percent),
            (
                "DCGM_FI_DEV_MEM_COPY_UTIL",
                "gauge",
                "Memory utilization (in %).",
                percent / 2.0,
            ),
            (
                "DCGM_FI_DEV_FB_USED",
                "gauge",
                "Framebuffer memory used (in MiB).",
                40_960.0,
            ),
            (
                "DCGM_FI_DEV_GPU_TEMP",
                "gauge",
                "GPU temperature (in C).",
                40.0 + 40.0 * busy,
            ),
            (
                "DCGM_FI_PROF_SM_ACTIVE",
                "gauge",
                "The ratio of cycles an SM has at least 1 warp assigned.",
                busy,
            ),
            (
                "DCGM_FI_DEV_XID_ERRORS",
                "gauge",
                "Value of the last XID error encountered.",
                0.0,
            ),
            (
                "DCGM_FI_DEV_POWER_VIOLATION",
                "counter",
                "Throttling duration due to power constraints (in ns).",
                0.0,
            ),
        ];
        let mut out = String::with_capacity(4 * 1024);
        for (name, kind, help, value) in fields {
            let labels = "gpu=\"0\",UUID=\"GPU-00000000-0000-0000-0000-000000000000\",pci_bus_id=\"00000000:01:00.0\",\
                device=\"nvidia0\",modelName=\"Mock H200\",Hostname=\"mockhost\"";
            writeln!(
                out,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{{labels}}} {value:?}"
            )
            .expect("a string takes all");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_power_over_time_and_never_falls() {
        let mut gpu = Gpu::new(0);
        let energy = |page: String| -> f64 {
            let line = page
                .lines()
                .find(|line| line.starts_with("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{"));
            let value = line.and_then(|line| line.rsplit(' ').next()).expect("the field");
            value.parse().expect("a number")
        };
        assert_eq!(energy(gpu.page(busy(0), 2_000_000_000)), 200_000.0);
        assert_eq!(energy(gpu.page(busy(64), 3_000_000_000)), 900_000.0);
        assert_eq!(energy(gpu.page(busy(64), 2_500_000_000)), 900_000.0);
    }
}
