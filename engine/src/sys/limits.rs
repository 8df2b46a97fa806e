//! Limits of the process.
#![allow(unsafe_code)]

/// The soft and hard limit of open descriptors (getrlimit(2), `RLIMIT_NOFILE`).
fn descriptor_limits() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes one live rlimit; the resource exists on every Linux.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit
}

/// Raises the soft descriptor limit to at least `needed` where the hard limit allows; returns the soft limit that now holds.
///
/// The limit is raised all the way to the hard one: the engine sizes unlimited phases by it.
pub(crate) fn raise_descriptor_limit(needed: u64) -> u64 {
    let limit = descriptor_limits();
    if limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            rlim_max: limit.rlim_max,
        };
        // SAFETY: reads one live rlimit.
        let failed = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } != 0;
        if failed && limit.rlim_cur < needed {
            // A hard limit above the system's own bound (fs.nr_open) is refused as a whole; ask for no more than is needed.
            let exact = libc::rlimit {
                rlim_cur: needed.min(limit.rlim_max),
                rlim_max: limit.rlim_max,
            };
            // SAFETY: as above.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &exact) };
        }
    }
    descriptor_limits().rlim_cur
}

/// How many local ports one address of this host has for connections that bind none (ip(7), `ip_local_port_range`); `None` where the host does not
/// tell.
pub(crate) fn local_ports() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (first <= last).then(|| last - first + 1)
}

/// Lets this thread's timed waits end on time: the default slack allows the kernel to be 50 us late (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) fn sharpen_timers() {
    // SAFETY: takes no pointers; a refusal changes nothing.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
