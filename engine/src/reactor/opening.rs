//! How a core opens connections, and what becomes of a request that gets none.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::connection::{Request, State};
use super::core::Core;
use super::failure;
use super::routes::Route;
use crate::record::{ErrorDetail, FailureClass, Outcome};
use crate::sys::driver::Driver;
use crate::sys::socket;
use crate::units::Nanos;

/// While connecting fails, a closed loop starts one request per core in this time: a dead server is asked 2,000 times a second, not as fast
/// as the kernel can refuse.
pub(super) const FAILURE_PAUSE: Nanos = Nanos::from_micros(500);

impl<D: Driver> Core<D> {
    /// Opens a connection for `request` in the claimed place `index`.
    pub(super) fn connect(&mut self, index: u32, request: Request, now: Nanos) {
        let place = self.slab.get(index);
        place.begin(request, &mut self.scratch);
        place.state = State::Connecting;
        let route = self.routes.next(place.server);
        let opened = open_socket(&route);
        if let Some(trace) = &mut place.trace {
            trace.connecting(opened.is_ok().then(|| route.to.address()), now);
        }
        match opened {
            Ok(socket) => {
                place.socket = Some(socket);
                place.operations += 1;
                let (generation, socket) = (place.generation, place.raw_socket());
                self.ramp.opened();
                self.driver.connect(index, generation, socket, route.peer);
            }
            Err(detail) => self.connect_failed(index, detail, now),
        }
    }

    pub(super) fn connect_failed(&mut self, index: u32, detail: ErrorDetail, now: Nanos) {
        self.connect_failing = true;
        self.paused_until = self.paused_until.max(now + FAILURE_PAUSE);
        let phase = self.slab.get(index).request().credit.phase.index();
        match detail.class {
            FailureClass::LocalPortsExhausted => self.health.window(phase).local_ports_exhausted += 1,
            FailureClass::DescriptorsExhausted => self.health.window(phase).descriptors_exhausted += 1,
            _ => {}
        }
        self.fail(index, Outcome::Error, detail, now);
    }
}

/// A socket for that way, bound to its source.
fn open_socket(route: &Route<'_>) -> Result<OwnedFd, ErrorDetail> {
    let errno = |error: io::Error| error.raw_os_error().unwrap_or(0);
    let socket = socket::stream_socket(route.to).map_err(|error| failure::connecting(errno(error)))?;
    if let Some(source) = route.from {
        socket::bind_source(socket.as_fd(), source).map_err(|error| failure::binding(errno(error)))?;
    }
    Ok(socket)
}
