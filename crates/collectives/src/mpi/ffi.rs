//! The functions of an MPI library, opened at run time, behind safe calls.
//!
//! A started operation owns every buffer that MPI may still touch, and keeps it out of reach until
//! MPI says that the operation is over; where that never comes, the memory is leaked.

pub(crate) mod abi;
mod library;

use crate::error::CommErrorKind;
use crate::op::Reduction;
pub(super) use abi::STANDARD_NAME;
use abi::Wire;
use abi::{
    ANY_SOURCE, COMM_NULL, COMM_WORLD, Count, Displacement, ERRORS_RETURN, Handle, IN_PLACE, MAX,
    MAX_ERROR_STRING, MIN, REQUEST_NULL, SUCCESS, SUM, TAG, THREAD_SERIALIZED,
};
use libloading::Library;
use library::Functions;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// An MPI library that has been started. Every call takes it by `&mut`, so that no two threads are
/// ever inside MPI.
pub(super) struct Api {
    functions: Functions,
    /// Never closed: MPI leaves threads and exit handlers behind.
    _library: ManuallyDrop<Library>,
}

/// A communicator of MPI.
#[derive(Clone, Copy)]
pub(super) struct Group {
    handle: Handle,
    pub(super) rank: u32,
    pub(super) size: u32,
}

/// The buffers of a started operation.
struct Owned<T> {
    send: Vec<T>,
    recv: Vec<T>,
    send_layout: Layout,
    recv_layout: Layout,
}

/// The lengths of the parts of a buffer and where they begin.
#[derive(Default)]
struct Layout {
    counts: Vec<Count>,
    displacements: Vec<Displacement>,
}

impl Layout {
    fn of(counts: &[usize]) -> Layout {
        let mut start = 0;
        let displacements = counts.iter().map(|&count| {
            start += count;
            (start - count) as Displacement
        });
        Layout {
            displacements: displacements.collect(),
            counts: counts.iter().map(|&count| count as Count).collect(),
        }
    }
}

/// A started operation and the memory that MPI may touch until it is over. Dropped before that, it
/// leaks the memory.
pub(super) struct Pending<T> {
    request: Handle,
    is_done: bool,
    /// The received elements have their highest bits flipped.
    is_turned: bool,
    owned: ManuallyDrop<Owned<T>>,
}

impl<T: Wire> Pending<T> {
    fn new(send: Vec<T>, recv: Vec<T>, layouts: [Layout; 2]) -> Pending<T> {
        let [send_layout, recv_layout] = layouts;
        Pending {
            request: REQUEST_NULL,
            is_done: false,
            is_turned: false,
            owned: ManuallyDrop::new(Owned {
                send,
                recv,
                send_layout,
                recv_layout,
            }),
        }
    }

    /// The buffers that were sent from and received into, or nothing as long as MPI may touch them.
    pub(super) fn finish(self) -> Option<(Vec<T>, Vec<T>)> {
        let mut owned = self.is_done.then(|| ManuallyDrop::into_inner(self.owned))?;
        if self.is_turned {
            T::turn(&mut owned.recv);
        }
        Some((owned.send, owned.recv))
    }
}

/// The address of a buffer. An empty vector of bytes has the address 1, which MPI takes for
/// [`IN_PLACE`].
fn address<T>(buffer: &[T]) -> *const c_void {
    match buffer {
        [] => ptr::from_ref(&NOTHING).cast(),
        _ => buffer.as_ptr().cast(),
    }
}

/// As `address`; nothing is written where there is no element.
fn address_mut<T>(buffer: &mut [T]) -> *mut c_void {
    match buffer {
        [] => ptr::from_ref(&NOTHING).cast_mut().cast(),
        _ => buffer.as_mut_ptr().cast(),
    }
}

static NOTHING: u64 = 0;

/// Result of a call.
type Called<T> = Result<T, CommErrorKind>;

pub(super) fn refusal(text: String) -> CommErrorKind {
    CommErrorKind::Backend { code: 0, text }
}

impl Api {
    /// Opens the library without starting MPI.
    pub(super) fn open(path: &Path) -> Called<Api> {
        let (library, functions) = library::open(path)?;
        Ok(Api {
            functions,
            _library: ManuallyDrop::new(library),
        })
    }

    /// Starts MPI in this process; once only. Errors come back as codes from here on.
    pub(super) fn start(&mut self) -> Called<()> {
        let (mut is_started, mut level) = (0, 0);
        // SAFETY: MPI allows this call at any time; the argument is a live integer.
        self.check("MPI_Initialized", unsafe {
            (self.functions.initialized)(&mut is_started)
        })?;
        if is_started != 0 {
            let text =
                "MPI has been started in this process already, and it can be started only once";
            return Err(refusal(text.to_string()));
        }
        // SAFETY: null pointers are allowed for the program's arguments; the level is a live
        // integer.
        self.check("MPI_Init_thread", unsafe {
            (self.functions.init_thread)(
                ptr::null_mut(),
                ptr::null_mut(),
                THREAD_SERIALIZED,
                &mut level,
            )
        })?;
        if level < THREAD_SERIALIZED {
            return Err(refusal(format!(
                "this MPI allows calls from its first thread only (level {level}): build it with thread support"
            )));
        }
        // SAFETY: MPI has been started; both handles are predefined.
        self.check("MPI_Comm_set_errhandler", unsafe {
            (self.functions.comm_set_errhandler)(COMM_WORLD, ERRORS_RETURN)
        })
    }

    /// A communicator of all ranks, apart from every other. All ranks call it; it waits for them.
    pub(super) fn world(&mut self) -> Called<Group> {
        let mut handle = COMM_NULL;
        // SAFETY: MPI has been started; the handle is a live word.
        self.check("MPI_Comm_dup", unsafe {
            (self.functions.comm_dup)(COMM_WORLD, &mut handle)
        })?;
        self.group(handle)
    }

    fn group(&mut self, handle: Handle) -> Called<Group> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the communicator has just been made; the results are live integers.
        self.check("MPI_Comm_rank", unsafe {
            (self.functions.comm_rank)(handle, &mut rank)
        })?;
        // SAFETY: as above.
        self.check("MPI_Comm_size", unsafe {
            (self.functions.comm_size)(handle, &mut size)
        })?;
        Ok(Group {
            handle,
            rank: rank as u32,
            size: size as u32,
        })
    }

    /// Ends MPI in this process. All ranks call it; it waits for them.
    pub(super) fn stop(&mut self) -> Called<()> {
        // SAFETY: MPI has been started, and this is the thread that started it.
        self.check("MPI_Finalize", unsafe { (self.functions.finalize)() })
    }

    /// Every rank gets all ranks' `send`, of one length.
    pub(super) fn all_gather<T: Wire>(
        &mut self,
        group: Group,
        send: Vec<T>,
        mut recv: Vec<T>,
    ) -> Called<Pending<T>> {
        recv.resize(send.len() * group.size as usize, T::default());
        let mut pending = Pending::new(send, recv, Default::default());
        let Owned { send, recv, .. } = &mut *pending.owned;
        let count = send.len() as Count;
        // SAFETY: `recv` has room for `count` elements of each rank; `pending` owns both buffers.
        let status = unsafe {
            (self.functions.all_gather)(
                address(send),
                count,
                T::TYPE,
                address_mut(recv),
                count,
                T::TYPE,
                group.handle,
                &mut pending.request,
            )
        };
        self.check("MPI_Iallgather", status).map(|()| pending)
    }

    /// As `all_gather` with a length for each rank; `send` has this rank's.
    pub(super) fn all_gather_v<T: Wire>(
        &mut self,
        group: Group,
        send: Vec<T>,
        mut recv: Vec<T>,
        counts: &[usize],
    ) -> Called<Pending<T>> {
        assert_eq!(counts.len(), group.size as usize);
        assert_eq!(send.len(), counts[group.rank as usize]);
        recv.resize(counts.iter().sum(), T::default());
        let mut pending = Pending::new(send, recv, [Layout::default(), Layout::of(counts)]);
        let Owned {
            send,
            recv,
            recv_layout,
            ..
        } = &mut *pending.owned;
        // SAFETY: `recv` has room for all parts, and there is one count per rank; `pending` owns
        // the buffers and the layout.
        let status = unsafe {
            (self.functions.all_gather_v)(
                address(send),
                send.len() as Count,
                T::TYPE,
                address_mut(recv),
                recv_layout.counts.as_ptr(),
                recv_layout.displacements.as_ptr(),
                T::TYPE,
                group.handle,
                &mut pending.request,
            )
        };
        self.check("MPI_Iallgatherv", status).map(|()| pending)
    }

    /// Part i of `send` goes to rank i; `recv` gets a part of each rank.
    pub(super) fn all_to_all_v<T: Wire>(
        &mut self,
        group: Group,
        buffers: (Vec<T>, Vec<T>),
        send_counts: &[usize],
        recv_counts: &[usize],
    ) -> Called<Pending<T>> {
        let (send, mut recv) = buffers;
        let n_ranks = group.size as usize;
        assert_eq!((send_counts.len(), recv_counts.len()), (n_ranks, n_ranks));
        assert_eq!(send.len(), send_counts.iter().sum::<usize>());
        recv.resize(recv_counts.iter().sum(), T::default());
        let layouts = [Layout::of(send_counts), Layout::of(recv_counts)];
        let mut pending = Pending::new(send, recv, layouts);
        let Owned {
            send,
            recv,
            send_layout,
            recv_layout,
        } = &mut *pending.owned;
        // SAFETY: both buffers have the length of their parts, and there is one count per rank;
        // `pending` owns all of them.
        let status = unsafe {
            (self.functions.all_to_all_v)(
                address(send),
                send_layout.counts.as_ptr(),
                send_layout.displacements.as_ptr(),
                T::TYPE,
                address_mut(recv),
                recv_layout.counts.as_ptr(),
                recv_layout.displacements.as_ptr(),
                T::TYPE,
                group.handle,
                &mut pending.request,
            )
        };
        self.check("MPI_Ialltoallv", status).map(|()| pending)
    }

    /// MPI's own reduction, in place.
    pub(super) fn all_reduce<T: Wire>(
        &mut self,
        group: Group,
        mut buf: Vec<T>,
        reduction: Reduction,
    ) -> Called<Pending<T>> {
        let (wire, operation) = match reduction {
            Reduction::Sum => (T::SUM_TYPE, SUM),
            Reduction::Max => (T::ORDER_TYPE, MAX),
            Reduction::Min => (T::ORDER_TYPE, MIN),
        };
        let is_turned = reduction != Reduction::Sum;
        if is_turned {
            T::turn(&mut buf);
        }
        let mut pending = Pending::new(Vec::new(), buf, Default::default());
        pending.is_turned = is_turned;
        let buf = &mut pending.owned.recv;
        // SAFETY: the buffer has `len` elements, and `pending` owns it.
        let status = unsafe {
            (self.functions.all_reduce)(
                IN_PLACE as *const c_void,
                address_mut(buf),
                buf.len() as Count,
                wire,
                operation,
                group.handle,
                &mut pending.request,
            )
        };
        self.check("MPI_Iallreduce", status).map(|()| pending)
    }

    /// Every rank gets the buffer of `root`.
    pub(super) fn broadcast<T: Wire>(
        &mut self,
        group: Group,
        buf: Vec<T>,
        root: u32,
    ) -> Called<Pending<T>> {
        let mut pending = Pending::new(Vec::new(), buf, Default::default());
        let buf = &mut pending.owned.recv;
        // SAFETY: the buffer has `len` elements, and `pending` owns it.
        let status = unsafe {
            (self.functions.broadcast)(
                address_mut(buf),
                buf.len() as Count,
                T::TYPE,
                root as c_int,
                group.handle,
                &mut pending.request,
            )
        };
        self.check("MPI_Ibcast", status).map(|()| pending)
    }

    /// Sends bytes to one rank.
    pub(super) fn send(&mut self, group: Group, to: u32, send: Vec<u8>) -> Called<Pending<u8>> {
        let mut pending = Pending::new(send, Vec::new(), Default::default());
        let send = &pending.owned.send;
        // SAFETY: the buffer has `len` bytes, and `pending` owns it.
        let status = unsafe {
            (self.functions.send)(
                address(send),
                send.len() as Count,
                u8::TYPE,
                to as c_int,
                TAG,
                group.handle,
                &mut pending.request,
            )
        };
        self.check("MPI_Isend", status).map(|()| pending)
    }

    /// Receives up to `recv.len()` bytes from any rank.
    pub(super) fn receive(&mut self, group: Group, recv: Vec<u8>) -> Called<Pending<u8>> {
        let mut pending = Pending::new(Vec::new(), recv, Default::default());
        let recv = &mut pending.owned.recv;
        // SAFETY: the buffer has `len` bytes, and `pending` owns it.
        let status = unsafe {
            (self.functions.receive)(
                address_mut(recv),
                recv.len() as Count,
                u8::TYPE,
                ANY_SOURCE,
                TAG,
                group.handle,
                &mut pending.request,
            )
        };
        self.check("MPI_Irecv", status).map(|()| pending)
    }

    /// Lets MPI work on everything that is under way; true if this operation is over.
    pub(super) fn test<T>(&mut self, pending: &mut Pending<T>) -> Called<bool> {
        if pending.is_done {
            return Ok(true);
        }
        let mut flag = 0;
        // SAFETY: the request came from a start that succeeded and has not been over; a null status
        // is allowed.
        let status =
            unsafe { (self.functions.test)(&mut pending.request, &mut flag, ptr::null_mut()) };
        self.check("MPI_Test", status)?;
        pending.is_done = flag != 0;
        Ok(pending.is_done)
    }

    /// Takes a receive back; it is over, with or without a message, once `test` says so.
    pub(super) fn cancel(&mut self, pending: &mut Pending<u8>) -> Called<()> {
        // SAFETY: as in `test`.
        self.check("MPI_Cancel", unsafe {
            (self.functions.cancel)(&mut pending.request)
        })
    }

    fn check(&mut self, function: &str, status: c_int) -> Called<()> {
        if status == SUCCESS {
            return Ok(());
        }
        let mut text = vec![0u8; MAX_ERROR_STRING];
        let mut len = 0;
        // SAFETY: the buffer has the length that the standard asks for.
        let known =
            unsafe { (self.functions.error_string)(status, text.as_mut_ptr().cast(), &mut len) };
        let text = match known {
            SUCCESS => first_line(&text, len),
            _ => "an error without a text".to_string(),
        };
        Err(CommErrorKind::Backend {
            code: status,
            text: format!("{function}: {text}"),
        })
    }
}

/// Keeps the process for a while when it ends in order, after all that it had to say.
pub(super) fn stay_at_exit(time: Duration) {
    unsafe extern "C" {
        fn atexit(handler: extern "C" fn()) -> c_int;
    }
    extern "C" fn stay() {
        thread::sleep(Duration::from_millis(STAY_MS.load(Ordering::Relaxed)));
    }
    static STAY_MS: AtomicU64 = AtomicU64::new(0);
    let is_first = STAY_MS.swap(time.as_millis() as u64, Ordering::Relaxed) == 0;
    if is_first {
        // SAFETY: the function of the C library that every program with `std` is linked with; the
        // handler neither unwinds nor touches anything. Where it finds no room for a handler, the
        // process ends at once.
        let _ = unsafe { atexit(stay) };
    }
}

fn first_line(text: &[u8], len: c_int) -> String {
    let text = &text[..text.len().min(len.max(0) as usize)];
    let text = String::from_utf8_lossy(text);
    let line = text.lines().next().unwrap_or_default();
    line.trim_end_matches('\0').trim().to_string()
}
