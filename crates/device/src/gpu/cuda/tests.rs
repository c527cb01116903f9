//! The driver layer on a CUDA driver for tests (`driver.cpp` of the emulator's crate): copies through the ring, memory without
//! pools, faults that end a context, loading.
//!
//! The driver of a process is found once and for all, so each test here starts itself again in a process whose loader finds the
//! driver for tests, and plants what it needs there.

use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use libloading::Library;

use super::context::Images;
use super::staging::SLOT_BYTES;
use crate::gpu::kernels::{KERNELS, KERNELS_MISSING, Kernel, MODULES};
use crate::tests::scale;
use crate::{Device, DeviceKind, Error};

/// Set in a process that is to use the driver for tests.
const VARIABLE: &str = "SHARDGRAPH_TEST_DRIVER";

/// A status that ends a context, and one that does not.
const ILLEGAL_ADDRESS: i64 = 700;
const INVALID_VALUE: i64 = 1;

/// The fat binaries of this build; for the driver for tests, as many images without contents: its kernels are the emulator's, which it
/// opens before the first device.
pub(super) fn images() -> Result<Images, String> {
    static EMPTY: OnceLock<Vec<(&str, &[u8])>> = OnceLock::new();
    let Some(path) = std::env::var_os(VARIABLE) else {
        return KERNELS_MISSING.map_or(Ok(MODULES), |why| Err(why.to_string()));
    };
    Ok(EMPTY.get_or_init(|| {
        Driver::open(&path.into());
        let image = |kernel: &Kernel| (kernel.file, &b"\0"[..]);
        KERNELS.iter().map(image).collect()
    }))
}

/// What a test plants in its driver, and asks it.
struct Driver {
    library: Library,
}

impl Driver {
    fn open(path: &PathBuf) -> Self {
        let emulator = shardgraph_cuemu::library().expect("where the driver is, it is");
        let emulator = CString::new(emulator.to_str().unwrap()).unwrap();
        // SAFETY: the library is the project's own, and the symbol is a function of this type (driver.cpp).
        let library = unsafe {
            let library = Library::new(path).unwrap();
            let open: libloading::Symbol<'_, unsafe extern "C" fn(*const c_char) -> c_int> =
                library.get(b"test_driver_open").unwrap();
            assert_eq!(open(emulator.as_ptr()), 0);
            library
        };
        Self { library }
    }

    fn plant(&self, call: &str, status: i64) {
        let call = CString::new(call).unwrap();
        // SAFETY: as in `open`.
        unsafe {
            let plant: libloading::Symbol<'_, unsafe extern "C" fn(*const c_char, i64)> =
                self.library.get(b"test_driver_plant").unwrap();
            plant(call.as_ptr(), status);
        }
    }

    fn count(&self, call: &str) -> i64 {
        let call = CString::new(call).unwrap();
        // SAFETY: as in `open`.
        unsafe {
            let count: libloading::Symbol<'_, unsafe extern "C" fn(*const c_char) -> i64> =
                self.library.get(b"test_driver_count").unwrap();
            count(call.as_ptr())
        }
    }
}

/// Runs the arguments of a test binary in a process with the driver for tests; its output where it succeeds.
fn in_a_process(args: &[&str]) -> Option<String> {
    let Some(library) = shardgraph_cuemu::driver() else {
        println!(
            "SKIPPED: the driver layer: {}",
            shardgraph_cuemu::SKIP_REASON
        );
        return None;
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(args)
        .env("LD_LIBRARY_PATH", library.parent().unwrap())
        .env(VARIABLE, &library)
        .env_remove(shardgraph_cuemu::ASKED_FOR)
        .env("PROPTEST_CASES", "32")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let text = text.concat();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// The body of the test of this name, in a process of its own.
fn with_driver(test: &str, body: impl FnOnce(&Driver)) {
    match std::env::var_os(VARIABLE) {
        Some(path) => body(&Driver::open(&path.into())),
        None => {
            let name = format!("gpu::cuda::tests::{test}");
            if let Some(text) = in_a_process(&["--exact", &name]) {
                assert!(text.contains("1 passed"), "{text}");
            }
        }
    }
}

fn cuda() -> Device {
    Device::open(DeviceKind::Cuda(0)).unwrap()
}

fn text(outcome: Result<impl Sized, Error>) -> String {
    outcome.err().expect("an error").to_string()
}

/// A driver of 525 lacks a function or two: a device opens, its kernels run, and its line says what is not checked.
#[test]
fn a_driver_of_525_opens_a_device() {
    with_driver("a_driver_of_525_opens_a_device", |driver| {
        driver.plant("version", 12000);
        driver.plant("without cuFuncGetParamInfo", 1);
        let device = cuda();
        let line = device.describe();
        assert!(
            line.contains("driver for CUDA 12.0, which cannot tell kernels' parameters"),
            "{line}"
        );
        let (x, mut y) = (
            device.upload(&[1.0, 2.0]).unwrap(),
            device.zeros(2).unwrap(),
        );
        scale(&device, 3.0, &x, &mut y).unwrap();
        assert_eq!(device.download(&y).unwrap(), [3.0, 6.0]);
        assert!(crate::Timer::start(&device).elapsed_s() >= 0.0);
    });
}

/// A driver below the kernels' compiler that does not load them is a sentence with both cures.
#[test]
fn a_driver_that_loads_no_kernels_is_named() {
    with_driver("a_driver_that_loads_no_kernels_is_named", |driver| {
        driver.plant("version", 12020);
        driver.plant("cuModuleLoadData", INVALID_VALUE);
        let error = text(Device::open(DeviceKind::Cuda(0)));
        let wanted = "the CUDA driver is for CUDA 12.2 and does not load these kernels";
        assert!(error.contains(wanted), "{error}");
        assert!(error.contains("580") && error.contains("--nvcc"), "{error}");
    });
}

#[test]
fn a_driver_below_525_is_refused() {
    with_driver("a_driver_below_525_is_refused", |driver| {
        driver.plant("version", 11080);
        let error = text(Device::open(DeviceKind::Cuda(0)));
        let wanted =
            "the CUDA driver is for CUDA 11.8, this program needs 12.0 (driver 525 or newer)";
        assert!(error.contains(wanted), "{error}");
    });
}

/// All properties of back ends hold for the driver layer too.
#[test]
fn properties_of_back_ends_hold() {
    if std::env::var_os(VARIABLE).is_some() {
        return; // this test itself, in the process that it has started
    }
    let seam = in_a_process(&["tests::seam", "arena", "--test-threads=1", "--nocapture"]);
    if let Some(text) = seam {
        assert!(
            !text.contains("SKIPPED") && !text.contains(" 0 passed"),
            "{text}"
        );
    }
}

/// Copies of several slots and a half, and many small ones: every byte comes back, through pinned memory alone.
#[test]
fn copies_go_through_the_ring() {
    with_driver("copies_go_through_the_ring", |driver| {
        let device = cuda();
        let large: Vec<u8> = (0..SLOT_BYTES * 5 / 2 + 3)
            .map(|i| ((i * i) >> 7) as u8)
            .collect();
        let small: Vec<Vec<u32>> = (0..3000).map(|i| vec![i; 700]).collect();
        let mut buffers = Vec::new();
        for values in &small {
            // The source is gone before the device has read it.
            buffers.push(device.upload(&values.clone()).unwrap());
        }
        let copy = device.upload(&large).unwrap();
        let again = device.upload(&large).unwrap();
        assert_eq!(device.download(&copy).unwrap(), large);
        for (values, buffer) in small.iter().zip(&buffers) {
            assert_eq!(&device.download(buffer).unwrap(), values);
        }
        assert_eq!(device.download(&again).unwrap(), large);
        assert_eq!(driver.count("pageable-copies"), 0);
        assert_eq!(driver.count("cuMemHostAlloc"), 1);
        drop((buffers, copy, again, device));
        assert_eq!(driver.count("cuMemFreeHost"), 1);
    });
}

/// What a file gives goes into the ring piece by piece, in whole pages behind whatever was there; a reader or writer that fails ends the
/// copy, and the next one is whole.
#[test]
fn files_are_read_into_the_ring() {
    with_driver("files_are_read_into_the_ring", |driver| {
        let device = cuda();
        let len = SLOT_BYTES / 2 + 77;
        let value = |i: usize| (i * 7 + (i >> 9)) as u32;
        for n_before in [0, 3] {
            let before: Vec<_> = (0..n_before).map(|_| device.upload(&[1u8; 5])).collect();
            let (mut next, mut pieces) = (0, Vec::new());
            let buffer = device.upload_from::<u32, Error>(len, |piece| {
                pieces.push(piece.len());
                (next..)
                    .zip(piece.iter_mut())
                    .for_each(|(i, x)| *x = value(i));
                next += piece.len();
                Ok(())
            });
            let buffer = buffer.unwrap();
            drop(before);
            assert!(pieces.len() > 2 && pieces.iter().sum::<usize>() == len);
            let whole = &pieces[..pieces.len() - 1];
            assert!(whole.iter().all(|n| n % 1024 == 0), "{pieces:?}");
            let mut found = Vec::new();
            let take = |piece: &[u32]| {
                found.extend_from_slice(piece);
                Ok::<(), Error>(())
            };
            device.download_to(&buffer, take).unwrap();
            assert!((0..).map(value).zip(&found).all(|(x, &y)| x == y));
            assert_eq!(found.len(), len);
            let refused = || Error::other_device("no more", DeviceKind::Host);
            let mut n_calls = 0;
            let mut fails = || {
                n_calls += 1;
                if n_calls % 2 == 0 {
                    Err(refused())
                } else {
                    Ok(())
                }
            };
            let filled = device.upload_from::<u32, Error>(len, |_| fails());
            assert!(text(filled).starts_with("no more"));
            assert!(text(device.download_to(&buffer, |_: &[u32]| fails())).starts_with("no more"));
            assert_eq!(n_calls, 4);
            assert_eq!(device.download(&buffer).unwrap(), found);
        }
        assert_eq!(driver.count("pageable-copies"), 0);
    });
}

/// A wait that passes its limit is an error, and a later copy is none of its business.
#[test]
fn copies_have_the_limit_of_waits() {
    with_driver("copies_have_the_limit_of_waits", |driver| {
        let device = cuda();
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        driver.plant("hang", 1);
        device.set_timeout(Duration::from_millis(20));
        assert!(text(device.download(&x)).contains("did not finish within"));
    });
}

/// Without pools memory comes from the device at once, and goes back after the next wait for its stream.
#[test]
fn memory_without_pools() {
    with_driver("memory_without_pools", |driver| {
        driver.plant("no-pools", 1);
        let device = cuda();
        let x = device.upload(&[1.5f32, -2.0, 8.0]).unwrap();
        for k in 0..4 {
            let mut y = device.zeros(3).unwrap();
            scale(&device, 2.0, &x, &mut y).unwrap();
            assert_eq!(device.download(&y).unwrap(), [3.0, -4.0, 16.0]);
            // The one of this turn is still there: nothing has waited for the stream since its end.
            drop(y);
            assert_eq!(driver.count("cuMemFree"), k);
        }
        drop((x, device));
        assert_eq!(driver.count("cuMemFree"), 5);
        assert_eq!(
            driver.count("cuMemAllocAsync") + driver.count("cuMemFreeAsync"),
            0
        );
    });
}

/// The driver of tests has 1 GiB, whatever was taken of it.
#[test]
fn free_memory_is_the_drivers_word() {
    with_driver("free_memory_is_the_drivers_word", |driver| {
        let device = cuda();
        assert_eq!(device.free_bytes().unwrap(), Some(1 << 30));
        driver.plant("cuMemGetInfo", INVALID_VALUE);
        assert_eq!(
            text(device.free_bytes()),
            "cuMemGetInfo: as planted (CUDA_ERROR_INVALID_VALUE)"
        );
    });
}

/// What another card's stream still has to do comes first, and nothing goes through the host.
#[test]
fn a_buffer_goes_from_card_to_card() {
    with_driver("a_buffer_goes_from_card_to_card", |driver| {
        driver.plant("cards", 2);
        let first = cuda();
        let second = first.of_rank(1).unwrap();
        assert!(first.of_rank(2).unwrap_err().is_missing_device());
        assert!(!second.is_beside(&first) && first.new_stream().unwrap().is_beside(&first));
        let x = first.upload(&[1.5f32, -2.0, 8.0]).unwrap();
        let mut y = first.zeros(3).unwrap();
        scale(&first, 2.0, &x, &mut y).unwrap();
        let copied = second.copy_from(&first, &y).unwrap();
        assert_eq!(second.download(&copied).unwrap(), [3.0, -4.0, 16.0]);
        assert_eq!(driver.count("cuMemcpyPeerAsync"), 1);
        let traffic = [
            first.traffic().to_host_bytes,
            second.traffic().to_device_bytes,
        ];
        assert_eq!(traffic, [0, 0]);
        assert!(second.copy_from(&second, &y).is_err(), "not its buffer");
        driver.plant("cuMemcpyPeerAsync", INVALID_VALUE);
        assert_eq!(
            text(second.copy_from(&first, &y)),
            "cuMemcpyPeerAsync: as planted (CUDA_ERROR_INVALID_VALUE)"
        );
    });
}

/// A kernel's fault ends the context: every later call answers it, with the call that met it first.
#[test]
fn the_first_fault_is_answered_for_ever() {
    with_driver("the_first_fault_is_answered_for_ever", |driver| {
        let device = cuda();
        let other = device.new_stream().unwrap();
        let x = device.upload(&[1.0f32; 40]).unwrap();
        let mut y = device.zeros(40).unwrap();
        driver.plant("kernel-fault", ILLEGAL_ADDRESS);
        scale(&device, 2.0, &x, &mut y).unwrap(); // a launch does not wait for its kernel
        let first = text(device.synchronize());
        assert_eq!(
            first,
            "cuStreamQuery: as planted (CUDA_ERROR_ILLEGAL_ADDRESS)"
        );
        let n_launches = driver.count("cuLaunchKernel");
        assert_eq!(text(scale(&device, 2.0, &x, &mut y)), first);
        assert_eq!(
            driver.count("cuLaunchKernel"),
            n_launches,
            "the driver was asked again"
        );
        assert_eq!(text(device.download(&x)), first);
        assert_eq!(text(device.upload(&[1.0f32])), first);
        assert_eq!(text(device.zeros::<f32>(7)), first);
        assert_eq!(text(device.record()), first);
        assert_eq!(text(other.synchronize()), first);
        assert_eq!(text(device.new_stream()), first);
        assert_eq!(text(Device::open(DeviceKind::Cuda(0))), first);
    });
}

/// A refused call is that call's error alone.
#[test]
fn a_refused_call_ends_nothing() {
    with_driver("a_refused_call_ends_nothing", |driver| {
        let device = cuda();
        driver.plant("cuMemsetD8Async", INVALID_VALUE);
        let refused = text(device.zeros::<f32>(3));
        assert_eq!(
            refused,
            "cuMemsetD8Async: as planted (CUDA_ERROR_INVALID_VALUE)"
        );
        let x = device.upload(&[5.0f32]).unwrap();
        assert_eq!(device.download(&x).unwrap(), [5.0]);
    });
}

/// Each file is loaded once and each kernel once, all of them by `prepare_all`, and no launch loads after it.
#[test]
fn all_kernels_are_loaded_before_ranks_meet() {
    with_driver("all_kernels_are_loaded_before_ranks_meet", |driver| {
        let cuda = super::Cuda::open(0).unwrap();
        let mut files: Vec<&str> = KERNELS.iter().map(|kernel| kernel.file).collect();
        files.sort_unstable();
        files.dedup();
        let loaded =
            || ["cuModuleLoadData", "cuModuleGetFunction"].map(|call| driver.count(call) as usize);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| crate::gpu::Driver::prepare_all(&cuda).unwrap());
            }
        });
        assert_eq!(loaded(), [files.len(), KERNELS.len()]);
        let device = self::cuda();
        let x = device.upload(&[1.0f32]).unwrap();
        scale(&device, 2.0, &x, &mut device.zeros(1).unwrap()).unwrap();
        assert_eq!(loaded(), [files.len(), KERNELS.len()]);
    });
}

/// What was captured is one call of the driver, with copies and clears.
#[test]
fn a_graph_is_one_call() {
    with_driver("a_graph_is_one_call", |driver| {
        let device = cuda();
        let x = device.upload(&[1.0; 300]).unwrap();
        let mut y = device.zeros(300).unwrap();
        let graph = device.capture(&[], || {
            let mut between = device.zeros(300)?;
            scale(&device, 3.0, &x, &mut between)?;
            let mut copied = device.allocate(300)?;
            device.copy(&between, &mut copied)?;
            scale(&device, 2.0, &copied, &mut y)
        });
        let graph = graph.unwrap();
        const CALLS: [&str; 4] = [
            "cuLaunchKernel",
            "cuMemsetD8Async",
            "cuMemcpyDtoDAsync",
            "cuGraphLaunch",
        ];
        let counts = || CALLS.map(|call| driver.count(call));
        for _ in 0..3 {
            device.clear(&mut y).unwrap();
            let before = counts();
            graph.launch().unwrap();
            let after = counts();
            let calls: Vec<i64> = after.iter().zip(before).map(|(n, m)| n - m).collect();
            assert_eq!(calls, [0, 0, 0, 1]);
            assert_eq!(device.download(&y).unwrap(), [6.0; 300]);
        }
    });
}
