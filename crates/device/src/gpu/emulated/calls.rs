//! Calls: what a library of collectives puts into a stream.
//!
//! A collective operation waits on the stream for its peers, so on an emulated stream it is a function that is called when
//! its turn comes, again and again until it says that it is done. A GPU works through its streams while the host does
//! something else, and ranks rely on that: one may wait for an answer of another rank, whose stream has to get past an
//! operation first. So a thread runs the queues as far as their last call. What comes behind it stays late.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::{Command, Machine, Until};

/// How long the thread that runs calls sleeps between two rounds.
const PAUSE: Duration = Duration::from_micros(100);

/// The function of a call: 0 while it waits for a peer. Afterwards it has freed `data` and is not called again.
type Step = unsafe extern "C" fn(data: *mut c_void) -> c_int;

/// A call in a queue.
pub(super) struct Call {
    step: Step,
    data: *mut c_void,
}

// SAFETY: whoever enqueues a call promises that its function may run on any thread, one at a time (see `enqueue`).
unsafe impl Send for Call {}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

impl Call {
    /// Whether the call is done; it is asked again only while it is not.
    pub(super) fn step(&self) -> bool {
        // SAFETY: the promise of who enqueued it, and the queue that holds it is locked.
        unsafe { (self.step)(self.data) != 0 }
    }
}

/// What a library of collectives sees of an emulated stream: the address of a structure that begins with `enqueue`.
#[repr(C)]
pub(super) struct StreamHandle {
    enqueue: unsafe extern "C" fn(*const StreamHandle, Step, *mut c_void),
    machine: Weak<Machine>,
    stream: usize,
}

impl fmt::Debug for StreamHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamHandle")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl StreamHandle {
    pub(super) fn new(machine: &Arc<Machine>, stream: usize) -> Self {
        Self {
            enqueue,
            machine: Arc::downgrade(machine),
            stream,
        }
    }
}

/// Puts a call at the end of the stream.
///
/// # Safety
/// The handle is one that `Driver::collective_stream` gave, and its stream exists. `step` may be called with `data` on any
/// thread until it answers other than 0.
unsafe extern "C" fn enqueue(handle: *const StreamHandle, step: Step, data: *mut c_void) {
    // SAFETY: the caller's promise; the stream owns the handle.
    let handle = unsafe { &*handle };
    let Some(machine) = handle.machine.upgrade() else {
        return;
    };
    let mut state = machine.state();
    let queue = &mut state.streams[handle.stream];
    queue.commands.push_back(Command::Call(Call { step, data }));
    queue.n_calls += 1;
    if !state.is_driven {
        let weak = Arc::downgrade(&machine);
        // Without the thread, calls run when somebody waits for their stream.
        state.is_driven = thread::Builder::new().spawn(move || drive(&weak)).is_ok();
    }
}

/// Runs the queues that have calls until there are no more.
fn drive(machine: &Weak<Machine>) {
    loop {
        thread::sleep(PAUSE);
        let Some(machine) = machine.upgrade() else {
            return;
        };
        let mut state = machine.state();
        for stream in 0..state.streams.len() {
            if state.streams[stream].n_calls > 0 {
                machine.run(&mut state, stream, Until::LastCall);
            }
        }
        if state.streams.iter().all(|queue| queue.n_calls == 0) {
            state.is_driven = false;
            return;
        }
    }
}
