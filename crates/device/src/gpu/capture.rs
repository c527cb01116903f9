//! Graphs: launches that are recorded once and run again by one call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::driver::Driver;
use super::memory::{Allocation, Memory};
use super::traffic::TrafficCounter;
use super::{Gpu, kernels};
use crate::Error;

/// A recorded sequence of launches; see [`crate::Device::capture`].
///
/// It keeps the memory of all buffers that the launches were given, also of those that are dropped since.
#[derive(Debug)]
pub struct Graph {
    driver: Arc<dyn Driver>,
    graph: u64,
    recorded: Recorded,
    traffic: Arc<TrafficCounter>,
}

/// What was recorded so far.
#[derive(Debug, Default)]
struct Recorded {
    held: Vec<Held>,
    n_nodes: usize,
}

/// Memory of a recorded launch.
#[derive(Debug)]
struct Held {
    memory: Arc<Allocation>,
    is_written: bool,
}

impl Graph {
    /// Runs the recorded launches, in order, behind the work given so far.
    ///
    /// # Errors
    /// The driver's error.
    pub fn launch(&self) -> Result<(), Error> {
        for held in self.recorded.held.iter().filter(|held| held.is_written) {
            held.memory.wait_for_readers()?;
        }
        self.traffic.count_launch();
        // SAFETY: the graph holds the memory of all its launches.
        unsafe { self.driver.launch_graph(self.graph) }
    }

    /// Kernels, clears and copies of one launch.
    pub fn n_nodes(&self) -> usize {
        self.recorded.n_nodes
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.driver.destroy_graph(self.graph);
    }
}

/// The capture of a stream: the thread whose launches are recorded, and the memory that they use.
#[derive(Debug, Default)]
pub(super) struct OpenCapture {
    /// Whether there is one: launches ask this first, and lock nothing.
    is_open: AtomicBool,
    recorded: Mutex<Option<(ThreadId, Recorded)>>,
}

impl OpenCapture {
    fn recorded(&self) -> MutexGuard<'_, Option<(ThreadId, Recorded)>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the calling thread's launches are recorded.
    pub(super) fn is_recorder(&self) -> bool {
        let is_own = |(thread, _): &(ThreadId, Recorded)| *thread == thread::current().id();
        self.is_open.load(Ordering::Acquire) && self.recorded().as_ref().is_some_and(is_own)
    }

    /// Refuses a call of the thread whose launches are recorded.
    pub(super) fn refuse(&self, call: &str) -> Result<(), Error> {
        match self.is_recorder() {
            false => Ok(()),
            true => Err(Error::driver(
                call,
                "only launches, clears and copies on the device are legal while they are recorded",
            )),
        }
    }

    /// Keeps the memory of a clear or a copy for the graph, where the calling thread's launches are recorded.
    pub(super) fn hold(&self, read: Option<&Memory>, written: &Memory) {
        if self.is_recorder() {
            let read = read.map(|memory| (Some(memory), false));
            self.hold_node(read.into_iter().chain([(Some(written), true)]));
        }
    }

    /// Keeps the memory of a recorded launch for the graph.
    pub(super) fn hold_node<'a>(&self, memories: impl Iterator<Item = (Option<&'a Memory>, bool)>) {
        let mut recorded = self.recorded();
        let Some((_, recorded)) = recorded.as_mut() else {
            return;
        };
        recorded.n_nodes += 1;
        recorded
            .held
            .extend(memories.filter_map(|(memory, is_written)| {
                let memory = memory?.share();
                Some(Held { memory, is_written })
            }));
    }

    fn open(&self) {
        *self.recorded() = Some((thread::current().id(), Recorded::default()));
        self.is_open.store(true, Ordering::Release);
    }

    fn close(&self) -> Recorded {
        self.is_open.store(false, Ordering::Release);
        let open = self.recorded().take();
        open.map_or_else(Recorded::default, |(_, recorded)| recorded)
    }
}

impl Gpu {
    /// See [`crate::Device::capture`].
    pub(crate) fn capture(
        &self,
        kernels: &[&str],
        f: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        match kernels {
            [] => self.driver.prepare_all()?,
            some => {
                for kernel in some {
                    self.driver.prepare(kernels::find(kernel)?)?;
                }
            }
        }
        self.driver.begin_capture()?;
        self.capture.open();
        let mut capture = Capture {
            driver: &self.driver,
            open: &self.capture,
            is_open: true,
        };
        let done = f();
        let (ended, recorded) = capture.end();
        done?; // what went wrong inside is the cause of what the end says
        Ok(Graph {
            driver: Arc::clone(&self.driver),
            graph: ended?,
            recorded,
            traffic: Arc::clone(&self.traffic),
        })
    }
}

/// An open capture; it ends also by a panic, so that the thread's launches run again.
struct Capture<'a> {
    driver: &'a Arc<dyn Driver>,
    open: &'a OpenCapture,
    is_open: bool,
}

impl Capture<'_> {
    fn end(&mut self) -> (Result<u64, Error>, Recorded) {
        self.is_open = false;
        (self.driver.end_capture(), self.open.close())
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.is_open
            && let (Ok(graph), _) = self.end()
        {
            self.driver.destroy_graph(graph);
        }
    }
}
