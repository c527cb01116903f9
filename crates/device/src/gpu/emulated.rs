//! The driver that runs the kernels on the processor, in a library that the emulator's crate builds.
//!
//! A stream is a queue, and nothing in it runs before somebody needs it: a download, a wait for the stream, or an event
//! that another stream waits for. So what a program forgets to wait for has not happened yet, on every run, and not now
//! and then as on a GPU. Only the calls of a library of collectives, and what comes before them, run by themselves too: see
//! [`calls`].

mod calls;
mod library;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use self::calls::{Call, StreamHandle};
use self::library::Functions;
use super::driver::{Fill, Take};
use super::kernels::Kernel;
use super::{Driver, Launch, Timeout};
use crate::buffer::bytes_of_mut;
use crate::{DeviceKind, Error, ErrorKind, Timer, free_host_bytes};

/// A queue is worked through when it gets this long, so that memory that was given back does not pile up.
const MAX_QUEUE: usize = 4096;

/// How long a wait for a call that is not done sleeps before it asks again.
const NAP: Duration = Duration::from_micros(50);

/// One stream of the emulated device.
#[derive(Debug)]
pub(crate) struct Emulated {
    machine: Arc<Machine>,
    stream: usize,
    /// What a library of collectives is given for the stream; boxed, since it keeps the address.
    handle: Box<StreamHandle>,
    /// The thread whose launches are recorded instead, and what it has recorded.
    recorder: Mutex<Option<(ThreadId, Vec<Work>)>>,
}

/// What all streams of one opened library share.
#[derive(Debug)]
struct Machine {
    functions: Arc<Functions>,
    state: Mutex<State>,
    clock: Timer,
    timeout: Timeout,
}

#[derive(Debug, Default)]
struct State {
    streams: Vec<Queue>,
    /// When each event happened, if it has; by number.
    events: BTreeMap<u64, Event>,
    n_events: u64,
    graphs: BTreeMap<u64, Arc<Vec<Work>>>,
    n_graphs: u64,
    /// The seed of the next launch's order of blocks, warps and lanes.
    n_launches: u64,
    /// Whether a thread runs the queues that have calls.
    is_driven: bool,
}

#[derive(Debug, Default)]
struct Queue {
    commands: VecDeque<Command>,
    /// How many of them are calls.
    n_calls: usize,
    /// The first error, for whoever waits for the stream next.
    failed: Option<Error>,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Pending { stream: usize },
    Happened { nanos: u64 },
}

#[derive(Debug)]
enum Command {
    Work(Work),
    Upload {
        source: Vec<u64>,
        target: u64,
        bytes: usize,
    },
    Free {
        address: u64,
    },
    Record {
        event: u64,
    },
    Wait {
        event: u64,
    },
    Call(Call),
}

/// How far a queue is worked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    Event(u64),
    LastCall,
}

/// What can be recorded.
#[derive(Debug, Clone)]
enum Work {
    Launch {
        kernel: &'static Kernel,
        shape: Launch,
        values: Vec<u64>,
    },
    Clear {
        address: u64,
        bytes: usize,
    },
    Copy {
        source: u64,
        target: u64,
        bytes: usize,
    },
}

impl Machine {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works through a queue as far as `until`, and says whether it came there: a call that is not done holds it up. Streams
    /// that it waits for come first, as far as it waits.
    fn run(&self, state: &mut State, stream: usize, until: Until) -> bool {
        while let Some(command) = state.streams[stream].commands.pop_front() {
            match command {
                Command::Wait { event } => {
                    if let Some(&Event::Pending { stream: other }) = state.events.get(&event)
                        && !self.run(state, other, Until::Event(event))
                    {
                        state.streams[stream].commands.push_front(command);
                        return false;
                    }
                }
                Command::Record { event } => {
                    let nanos = self.clock.elapsed().as_nanos() as u64;
                    state.events.insert(event, Event::Happened { nanos });
                    if until == Until::Event(event) {
                        return true;
                    }
                }
                Command::Call(call) => {
                    let queue = &mut state.streams[stream];
                    if !call.step() {
                        queue.commands.push_front(Command::Call(call));
                        return false;
                    }
                    queue.n_calls -= 1;
                    if until == Until::LastCall && queue.n_calls == 0 {
                        return true;
                    }
                }
                // SAFETY: who queued it promised that its memory is there when its turn comes: memory is given back by
                // commands too.
                work => unsafe { self.work(state, stream, work) },
            }
        }
        true
    }

    /// # Safety
    /// The memory of the command is there.
    unsafe fn work(&self, state: &mut State, stream: usize, command: Command) {
        // SAFETY: the caller's promise, for every arm.
        unsafe {
            match command {
                Command::Work(Work::Launch {
                    kernel,
                    shape,
                    mut values,
                }) if state.streams[stream].failed.is_none() => {
                    state.n_launches += 1;
                    let seed = state.n_launches;
                    let done = self.functions.run(kernel, shape, &mut values, seed);
                    state.streams[stream].failed = done.err();
                }
                Command::Work(Work::Clear { address, bytes }) => {
                    std::ptr::write_bytes(address as *mut u8, 0, bytes);
                }
                Command::Work(Work::Copy {
                    source,
                    target,
                    bytes,
                }) => std::ptr::copy_nonoverlapping(source as *const u8, target as *mut u8, bytes),
                Command::Upload {
                    source,
                    target,
                    bytes,
                } => {
                    let source = source.as_ptr().cast::<u8>();
                    std::ptr::copy_nonoverlapping(source, target as *mut u8, bytes);
                }
                Command::Free { address } => self.functions.give_back(address),
                Command::Work(Work::Launch { .. })
                | Command::Record { .. }
                | Command::Wait { .. }
                | Command::Call(_) => {}
            }
        }
    }

    /// Works through a queue as far as `until`, with pauses in which the peers of a call get on.
    fn wait(&self, stream: usize, until: Until) -> Result<MutexGuard<'_, State>, Error> {
        let timer = Timer::wall();
        loop {
            let mut state = self.state();
            if self.run(&mut state, stream, until) {
                return Ok(state);
            }
            drop(state);
            // Only a call that waits for a peer makes a wait take any time.
            self.timeout.check(timer.elapsed(), DeviceKind::Emulated)?;
            thread::sleep(NAP);
        }
    }

    /// Waits for a stream.
    fn finish(&self, stream: usize) -> Result<(), Error> {
        let mut state = self.wait(stream, Until::End)?;
        state.streams[stream].failed.take().map_or(Ok(()), Err)
    }

    /// Waits for an event.
    fn when(&self, event: u64) -> Result<u64, Error> {
        let mut state = self.state();
        if let Some(&Event::Pending { stream }) = state.events.get(&event) {
            drop(state);
            state = self.wait(stream, Until::Event(event))?;
        }
        match state.events.get(&event) {
            Some(&Event::Happened { nanos }) => Ok(nanos),
            _ => Err(Error::driver("elapsed_ms", "the event is not known")),
        }
    }
}

impl Emulated {
    /// The first stream on the emulator in the library.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        Ok(Self::with(Arc::new(Functions::load(path)?)))
    }

    /// The first stream of a machine of its own.
    fn with(functions: Arc<Functions>) -> Self {
        Self::on(Arc::new(Machine {
            functions,
            state: Mutex::default(),
            clock: Timer::wall(),
            timeout: Timeout::default(),
        }))
    }

    fn on(machine: Arc<Machine>) -> Self {
        let mut state = machine.state();
        state.streams.push(Queue::default());
        let stream = state.streams.len() - 1;
        drop(state);
        Self {
            handle: Box::new(StreamHandle::new(&machine, stream)),
            machine,
            stream,
            recorder: Mutex::default(),
        }
    }

    fn recorder(&self) -> MutexGuard<'_, Option<(ThreadId, Vec<Work>)>> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues work, or records it for the thread that does so.
    fn queue_work(&self, work: Work) {
        if let Some((thread, recorded)) = &mut *self.recorder()
            && *thread == thread::current().id()
        {
            recorded.push(work);
            return;
        }
        self.queue(Command::Work(work));
    }

    fn queue(&self, command: Command) {
        let mut state = self.machine.state();
        let commands = &mut state.streams[self.stream].commands;
        commands.push_back(command);
        if commands.len() > MAX_QUEUE {
            self.machine.run(&mut state, self.stream, Until::End);
        }
    }
}

impl Driver for Emulated {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Emulated
    }

    fn device_id(&self) -> u64 {
        Arc::as_ptr(&self.machine) as u64
    }

    fn describe(&self) -> String {
        "CUDA kernels emulated on the processor".to_string()
    }

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let out_of_memory = || ErrorKind::OutOfMemory {
            device: self.kind().to_string(),
            wanted: bytes as u64,
            free: 0,
        };
        let address = self.machine.functions.allocate(bytes);
        address.ok_or_else(|| out_of_memory().into())
    }

    fn free(&self, address: u64) {
        self.queue(Command::Free { address });
    }

    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        Ok(free_host_bytes()) // its memory is the host's
    }

    unsafe fn clear(&self, address: u64, bytes: usize) -> Result<(), Error> {
        self.queue_work(Work::Clear { address, bytes });
        Ok(())
    }

    unsafe fn upload(&self, target: u64, bytes: usize, fill: Fill<'_>) -> Result<(), Error> {
        let mut source = vec![0u64; bytes.div_ceil(8)];
        if fill(&mut bytes_of_mut(&mut source)[..bytes]) {
            self.queue(Command::Upload {
                source,
                target,
                bytes,
            });
        }
        Ok(())
    }

    unsafe fn download(&self, source: u64, bytes: usize, take: Take<'_>) -> Result<(), Error> {
        self.synchronize()?;
        // SAFETY: the caller's promise; all work is done, and the caller gives none until this call returns.
        take(unsafe { std::slice::from_raw_parts(source as *const u8, bytes) });
        Ok(())
    }

    unsafe fn copy(&self, source: u64, target: u64, bytes: usize) -> Result<(), Error> {
        self.queue_work(Work::Copy {
            source,
            target,
            bytes,
        });
        Ok(())
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: Launch,
        values: &mut [u64],
    ) -> Result<(), Error> {
        self.queue_work(Work::Launch {
            kernel,
            shape,
            values: values.to_vec(),
        });
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.machine.finish(self.stream)
    }

    fn set_timeout(&self, timeout: Duration) {
        self.machine.timeout.set(timeout);
    }

    fn new_stream(&self) -> Result<Arc<dyn Driver>, Error> {
        Ok(Arc::new(Self::on(Arc::clone(&self.machine))))
    }

    fn of_rank(&self, _rank: u32) -> Result<Arc<dyn Driver>, Error> {
        let functions = Arc::clone(&self.machine.functions);
        Ok(Arc::new(Self::with(functions)))
    }

    fn record(&self) -> Result<u64, Error> {
        let mut state = self.machine.state();
        state.n_events += 1;
        let (event, stream) = (state.n_events, self.stream);
        state.events.insert(event, Event::Pending { stream });
        drop(state);
        self.queue(Command::Record { event });
        Ok(event)
    }

    fn wait(&self, event: u64) -> Result<(), Error> {
        self.queue(Command::Wait { event });
        Ok(())
    }

    fn elapsed_ms(&self, first: u64, last: u64) -> Result<f64, Error> {
        let first = self.machine.when(first)?;
        let last = self.machine.when(last)?;
        Ok((last as f64 - first as f64) / 1e6)
    }

    fn has_happened(&self, event: u64) -> Result<bool, Error> {
        let mut state = self.machine.state();
        match state.events.get(&event) {
            Some(&Event::Pending { stream }) => {
                Ok(self.machine.run(&mut state, stream, Until::Event(event)))
            }
            Some(Event::Happened { .. }) => Ok(true),
            None => Err(Error::driver("has_happened", "the event is not known")),
        }
    }

    fn collective_stream(&self) -> u64 {
        std::ptr::from_ref(&*self.handle) as u64
    }

    fn destroy_event(&self, event: u64) {
        let mut state = self.machine.state();
        // One that is still to happen stays: a stream may be waiting for it.
        if let Some(Event::Happened { .. }) = state.events.get(&event) {
            state.events.remove(&event);
        }
    }

    fn begin_capture(&self) -> Result<(), Error> {
        let mut recorder = self.recorder();
        if recorder.is_some() {
            return Err(Error::driver(
                "capture",
                "this stream is being recorded already",
            ));
        }
        *recorder = Some((thread::current().id(), Vec::new()));
        Ok(())
    }

    fn end_capture(&self) -> Result<u64, Error> {
        let recorded = self.recorder().take();
        let (_, launches) =
            recorded.ok_or_else(|| Error::driver("capture", "nothing is being recorded"))?;
        let mut state = self.machine.state();
        state.n_graphs += 1;
        let graph = state.n_graphs;
        state.graphs.insert(graph, Arc::new(launches));
        Ok(graph)
    }

    unsafe fn launch_graph(&self, graph: u64) -> Result<(), Error> {
        let recorded = self.machine.state().graphs.get(&graph).cloned();
        let recorded = recorded.ok_or_else(|| Error::driver("graph", "it is not known"))?;
        for work in recorded.iter() {
            self.queue(Command::Work(work.clone()));
        }
        Ok(())
    }

    fn destroy_graph(&self, graph: u64) {
        self.machine.state().graphs.remove(&graph);
    }
}

impl Drop for Emulated {
    /// Buffers hold their stream, so all that is left is work that nobody waited for, and memory to give back.
    fn drop(&mut self) {
        let mut state = self.machine.state();
        self.machine.run(&mut state, self.stream, Until::End);
    }
}
