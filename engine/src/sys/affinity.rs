//! Which processors exist, and pinning the calling thread to one.

/// Processors that this process may run on, by number, ascending.
pub(crate) fn allowed_processors() -> Vec<usize> {
    let mut ids: Vec<usize> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|core| core.id)
        .collect();
    ids.sort_unstable();
    ids
}

/// Pins the calling thread; `false` where the host refuses.
pub(crate) fn pin_to(processor: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: processor })
}
