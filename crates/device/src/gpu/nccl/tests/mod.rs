//! Groups of emulated devices: what they compute, and what they do about faults; and NCCL itself, where it and a GPU are.

mod faults;
mod probes;
mod results;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Group, Library, Member, Probe, UniqueId};
use crate::{Device, DeviceKind, Error};

/// Long enough for any machine that gets on at all.
const PATIENT: Duration = Duration::from_secs(120);

/// Short, for ranks that wait for one that never comes.
const SHORT: Duration = Duration::from_millis(300);

/// A way to run groups: a library, and a device of its own for each rank.
struct World {
    library: Library,
    devices: Box<dyn Fn() -> Device + Sync>,
}

/// The emulated library of collectives under a name that plants a fault, in a folder of its own.
struct Planted {
    folder: PathBuf,
    library: PathBuf,
}

impl Planted {
    fn new(fault: &str) -> Option<Self> {
        static N_FOLDERS: AtomicU32 = AtomicU32::new(0);
        let Some(original) = shardgraph_cuemu::collectives() else {
            println!(
                "SKIPPED: groups of emulated devices: no emulated library of collectives (it needs g++, and the machine that built the tests)"
            );
            return None;
        };
        let n = N_FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("shardgraph-nccl-{}-{n}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let library = folder.join(format!("libnccl-{fault}-.so"));
        std::fs::copy(original, &library).unwrap();
        Some(Self { folder, library })
    }

    fn open(&self) -> Result<Library, Error> {
        Library::open(Some(&self.library))
    }

    /// A group of emulated devices over this library.
    fn world(&self) -> World {
        World::emulated(self.open().unwrap())
    }

    /// How many communicators have been neither destroyed nor aborted.
    fn n_live(&self) -> i32 {
        // SAFETY: the library is open already, and the symbol is a function of this type (nccl.cpp).
        unsafe {
            let library = libloading::Library::new(&self.library).unwrap();
            let live: libloading::Symbol<'_, unsafe extern "C" fn() -> i32> =
                library.get(b"shardgraph_live_communicators").unwrap();
            live()
        }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl World {
    fn emulated(library: Library) -> Self {
        let path = shardgraph_cuemu::library().expect("where the collectives are, it is");
        let devices = Box::new(move || Device::emulated(&path).unwrap());
        Self { library, devices }
    }

    /// All ranks on the one GPU that there is.
    fn nccl() -> Option<Self> {
        let device = Device::open(DeviceKind::Cuda(0)).ok()?;
        let library = match Library::open(None) {
            Ok(library) => library,
            Err(error) => {
                println!("SKIPPED: ranks that share a GPU through NCCL: {error}");
                return None;
            }
        };
        if library.version() < 23003 || std::env::var_os("NCCL_MULTI_RANK_GPU_ENABLE").is_none() {
            println!(
                "SKIPPED: ranks that share a GPU through NCCL: that needs 2.30.3 and NCCL_MULTI_RANK_GPU_ENABLE=1, this is {library:?}"
            );
            return None;
        }
        // Loading a kernel may wait for what runs on the GPU, be it a peer that waits for this rank: all are loaded before.
        let x = device.upload(&[1.0f32]).unwrap();
        crate::tests::scale(&device, 1.0, &x, &mut device.zeros(1).unwrap()).unwrap();
        let devices = Box::new(move || device.new_stream().unwrap());
        Some(Self { library, devices })
    }

    /// Every way that is here: emulated devices, with and without checks, and ranks on one GPU.
    fn all(planted: Option<&Planted>) -> Vec<Self> {
        let emulated = planted.map(|planted| [planted.world(), planted.world().unchecked()]);
        emulated.into_iter().flatten().chain(Self::nccl()).collect()
    }

    /// The same without a comparison of what ranks ask for.
    fn unchecked(self) -> Self {
        let library = self.library.with_checks(false);
        Self { library, ..self }
    }

    fn join(
        &self,
        id: UniqueId,
        rank: u32,
        size: u32,
        deadline: Duration,
    ) -> Result<Device, Error> {
        self.join_with(id, Member { rank, size }, deadline, Probe::default())
    }

    fn join_with(
        &self,
        id: UniqueId,
        member: Member,
        deadline: Duration,
        probe: Probe,
    ) -> Result<Device, Error> {
        (self.devices)().join(&self.library, id, member, deadline, probe)
    }

    /// What each rank of a group gets.
    fn run<R: Send>(
        &self,
        size: u32,
        work: impl Fn(&Device, &Group) -> Result<R, Error> + Sync,
    ) -> Vec<Result<R, Error>> {
        self.run_probed(size, &Probe::default(), work)
    }

    /// The same with a probe for all.
    fn run_probed<R: Send>(
        &self,
        size: u32,
        probe: &Probe,
        work: impl Fn(&Device, &Group) -> Result<R, Error> + Sync,
    ) -> Vec<Result<R, Error>> {
        let id = self.library.unique_id().unwrap();
        on_threads(size, |rank| {
            let device = self.join_with(id, Member { rank, size }, PATIENT, probe.clone())?;
            work(&device, device.group().unwrap())
        })
    }

    /// The same; ranks that have got it leave the group together, as peers may still be getting theirs.
    fn run_and_close<R: Send>(
        &self,
        size: u32,
        work: impl Fn(&Device, &Group) -> Result<R, Error> + Sync,
    ) -> Vec<Result<R, Error>> {
        self.run(size, |device, group| {
            let result = work(device, group)?;
            group.close(PATIENT)?;
            Ok(result)
        })
    }
}

fn on_threads<R: Send>(size: u32, work: impl Fn(u32) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| scope.spawn(move || work(rank)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
