//! The project's CUDA kernels, run on the CPU for tests.
//!
//! The build script compiles `cuda/*.cu` with the machine's C++ compiler and a small emulator of
//! CUDA into one shared library, which a test opens like any other device. Nothing that is shipped
//! depends on this crate. What the emulator shows and what it cannot show is in the README.
//!
//! ```
//! match shardgraph_cuemu::library() {
//!     Some(path) => assert!(path.is_file()),
//!     None => println!("SKIPPED: {}", shardgraph_cuemu::SKIP_REASON),
//! }
//! ```
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;

use shardgraph_device::nccl::Library;
use shardgraph_device::{Device, DeviceKind};

pub mod compile;

/// Why [`library`] is `None`: what a skipped test prints.
pub const SKIP_REASON: &str = "no emulated kernels: no C++ compiler (g++) was found on this machine when the tests were built";

/// A variable that names a file, to which every test that asks for the emulator adds its name, in a line: the tests that a checking
/// build has something to check in. `cargo xtask ci` sets it. A process that a test starts has no name to add; it starts without the variable.
pub const ASKED_FOR: &str = "SHARDGRAPH_EMULATED_ASKED_FOR";

/// The library to open: `$SHARDGRAPH_EMULATED_LIBRARY` if it is set (a checking build, made by
/// `cuemu-build`), else the one that was built with this crate. Asked for on the test's own thread, whose name is the test's.
///
/// # Panics
/// When the file of [`ASKED_FOR`] cannot be written.
pub fn library() -> Option<PathBuf> {
    note_test();
    std::env::var_os("SHARDGRAPH_EMULATED_LIBRARY")
        .map(PathBuf::from)
        .or_else(|| option_env!("SHARDGRAPH_EMULATED_BUILT").map(PathBuf::from))
}

/// A library of collectives with NCCL's interface, for ranks that are threads of one process with an emulated device each;
/// `None` without a compiler when the tests were built, or on another machine. What its name plants is in `nccl.cpp`.
pub fn collectives() -> Option<PathBuf> {
    option_env!("SHARDGRAPH_EMULATED_NCCL_BUILT")
        .map(PathBuf::from)
        .filter(|library| library.is_file())
}

/// A CUDA driver for tests, `libcuda.so` in a folder of its own: the driver's C interface over the emulator's library, so
/// that the code which talks to the driver runs without a GPU. A process that is to open it starts with this folder in
/// `LD_LIBRARY_PATH`. `None` as for [`collectives`]. What a test can plant is in `driver.cpp`.
///
/// # Panics
/// As [`library`].
pub fn driver() -> Option<PathBuf> {
    note_test();
    option_env!("SHARDGRAPH_TEST_DRIVER_BUILT")
        .map(PathBuf::from)
        .filter(|library| library.is_file())
}

/// The devices that launch kernels and are here, for tests of `what`: the emulated one, and the first GPU. One that is absent is
/// printed, once in a run of the tests.
///
/// # Panics
/// When a device is here and cannot be opened: that is no skip.
#[expect(clippy::print_stdout, reason = "a skipped test is printed")]
pub fn devices(what: &str) -> Vec<Device> {
    static ABSENT: Once = Once::new();
    let emulated = library().map(|library| opened(&library));
    let cuda = Device::open(DeviceKind::Cuda(0));
    ABSENT.call_once(|| {
        if emulated.is_none() {
            println!("SKIPPED: {what} on the emulated device: {SKIP_REASON}");
        }
        if let Err(error) = &cuda {
            assert!(error.is_missing_device(), "{error}");
            println!("SKIPPED: {what} on a GPU: {error}");
        }
    });
    emulated.into_iter().chain(cuda).collect()
}

/// An emulated device whose ranks have one each and exchange through the emulated library of collectives, for tests of `what`. An
/// absent one is printed, once in a run of the tests.
///
/// # Panics
/// As [`devices`].
#[expect(clippy::print_stdout, reason = "a skipped test is printed")]
pub fn device_of_a_group(what: &str) -> Option<Device> {
    static ABSENT: Once = Once::new();
    let device = library().zip(collectives()).map(|(emulator, library)| {
        let library = Library::open(Some(&library)).expect("the emulated library of collectives");
        opened(&emulator).using_nccl(&library)
    });
    ABSENT.call_once(|| {
        if device.is_none() {
            println!("SKIPPED: {what}, ranks in a group: {SKIP_REASON}");
        }
    });
    device
}

fn opened(library: &Path) -> Device {
    Device::emulated(library).expect("the emulated device")
}

/// Adds the name of the thread, which is the test's, to the file of [`ASKED_FOR`].
fn note_test() {
    let Some(path) = std::env::var_os(ASKED_FOR) else {
        return;
    };
    let line = format!("{}\n", thread::current().name().unwrap_or("a thread"));
    // In one write: tests run side by side.
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
