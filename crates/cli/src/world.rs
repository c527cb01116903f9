//! Which ranks work on a command: threads of this process, or processes that a launcher started.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use shardgraph_collectives::{Comm, Launch, Op, Timeout, mpi, tcp};
use shardgraph_device::nccl::Library;
use shardgraph_device::{Device, DeviceKind};
use shardgraph_solver::Communication;
use shardgraph_storage::read_bounded;

use crate::device_choice::open_device;
use crate::duration;
use crate::exit::{self, BadInput};
use crate::report::{self, ReportArgs};

/// How ranks reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommChoice {
    /// What the launcher offers; threads without a launcher
    Auto,
    /// Ranks are threads of this process
    Threads,
    /// Ranks are processes that meet at MASTER_ADDR and MASTER_PORT
    Tcp,
    /// Ranks are processes that an MPI launcher started
    Mpi,
    /// As auto, with a GPU for each rank, whose buffers go through NCCL
    Nccl,
}

/// The flags that say which ranks there are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ranks and devices")]
pub(crate) struct WorldArgs {
    /// Ranks that share the work, as threads [default: 1; under mpirun, srun or torchrun each process is a
    /// rank]
    #[arg(long, value_name = "P")]
    pub(crate) ranks: Option<u32>,
    /// How ranks reach each other
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "auto",
        hide_short_help = true
    )]
    comm: CommChoice,
    /// The MPI library of --comm mpi: one with the standard ABI, or what `cargo xtask mpi-shim` made [default: libmpi_abi.so.1]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    mpi_library: Option<PathBuf>,
    /// The NCCL library of --comm nccl [default: libnccl.so.2]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    nccl_library: Option<PathBuf>,
    /// Longest wait: for another rank [default: 600s]
    #[arg(long, value_name = "DURATION", value_parser = duration::timeout)]
    pub(crate) timeout: Option<Timeout>,
}

/// How ranks exchange what neighbours add up.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ranks and devices")]
pub(crate) struct ExchangeArgs {
    /// How ranks share sums of embeddings over neighbours, which the closed form does not need: paper (all-reduce of partial sums), gather (all
    /// rows to all ranks), halo (the rows that have neighbours there) or grid (2D blocks); a policy that paper or grid trains depends on the ranks
    /// [default: gather]
    #[arg(hide_short_help = true, long, value_name = "paper|gather|halo|grid")]
    pub(crate) communication: Option<Communication>,
}

/// How long a process that cannot take part waits for those to whom it must say so.
const DECLINING: Duration = Duration::from_secs(10);

const NO_LAUNCHER: &str = "--comm tcp: no launcher has said which rank this is; set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or start with torchrun, srun or mpirun";

/// The processes of a command; one alone has its ranks as threads.
pub(crate) struct World {
    pub(crate) comm: Comm,
    pub(crate) n_ranks: u32,
    /// Rank of this process, where a launcher started it.
    pub(crate) rank: Option<u32>,
    /// Longest wait for another process.
    pub(crate) timeout: Timeout,
}

impl World {
    /// Whether this is the process that reads, writes and prints for all.
    pub(crate) fn is_first(&self) -> bool {
        self.comm.rank() == 0
    }

    /// Waits until all ranks have come this far, and lets none go on where one has failed: all get the exit code of the first that did.
    pub(crate) fn settle<T>(&mut self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        let own = result.as_ref().err().map_or(0, exit::code);
        let codes = self.gather([own.into()]);
        // What went wrong here explains more than that the others are gone.
        let value = result?;
        match (0u32..).zip(codes?).find(|(_, code)| *code != 0) {
            None => Ok(value),
            Some((rank, code)) => Err(FailedElsewhere {
                rank,
                code: code as u8,
                is_silent: !self.is_first(),
            }
            .into()),
        }
    }

    /// Does a part on the first rank alone; its error is that of all.
    pub(crate) fn on_first(
        &mut self,
        part: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let done = if self.is_first() { part() } else { Ok(()) };
        self.settle(done)
    }

    /// A number that the first rank finds, on all ranks; its error is that of all.
    pub(crate) fn of_first(
        &mut self,
        find: impl FnOnce() -> anyhow::Result<u64>,
    ) -> anyhow::Result<u64> {
        let found = if self.is_first() { find() } else { Ok(0) };
        let own = self.settle(found)?;
        let all = self.gather([own as u32, (own >> 32) as u32])?;
        Ok(u64::from(all[0]) | u64::from(all[1]) << 32)
    }

    /// The numbers of all ranks, one rank behind the other.
    fn gather<const N: usize>(&mut self, own: [u32; N]) -> anyhow::Result<Vec<u32>> {
        let mut all = vec![0; N * self.comm.size() as usize];
        let op = Op::AllGather {
            send: (&own).into(),
            recv: (&mut all).into(),
        };
        self.comm.run(op, self.timeout)?;
        Ok(all)
    }
}

impl WorldArgs {
    /// Finds out which ranks there are, and joins the other processes. A number of ranks, from `--ranks` or a configuration file, means threads.
    pub(crate) fn open(&self, ranks: Option<u32>, timeout: Timeout) -> anyhow::Result<World> {
        self.check_libraries(ranks)?;
        let of_processes = |comm: Comm| World {
            n_ranks: comm.size(),
            rank: Some(comm.rank()),
            comm,
            timeout,
        };
        let launch = match (self.comm, ranks) {
            (CommChoice::Threads, _) | (CommChoice::Auto | CommChoice::Nccl, Some(_)) => None,
            (CommChoice::Tcp | CommChoice::Mpi, Some(_)) => {
                let text = "--ranks counts threads, but with --comm tcp or mpi each process is one rank: leave one of them out";
                return Err(BadInput(text.to_owned()).into());
            }
            (_, None) => Launch::from_env()?,
        };
        match launch {
            Some(launch) if self.takes_mpi(&launch) => {
                self.join_mpi(&launch, timeout).map(of_processes)
            }
            Some(launch) => join(launch, timeout).map(of_processes),
            None if self.comm == CommChoice::Mpi => Err(BadInput(
                "--comm mpi: no launcher has started this process: start it with mpirun, mpiexec or srun".to_owned(),
            )
            .into()),
            None if self.comm == CommChoice::Tcp => Err(BadInput(NO_LAUNCHER.to_owned()).into()),
            None => Ok(World {
                comm: Comm::solo(),
                n_ranks: ranks.unwrap_or(1),
                rank: None,
                timeout,
            }),
        }
    }

    /// The launcher's word on this process where several pass messages to each other, over TCP: the end of one must not be the end of all, as it is
    /// with MPI. None for threads.
    pub(crate) fn open_messages(&self) -> anyhow::Result<Option<Launch>> {
        self.check_libraries(self.ranks)?;
        if matches!(self.comm, CommChoice::Mpi | CommChoice::Nccl) || self.mpi_library.is_some() {
            let text = "--comm mpi, --comm nccl and --mpi-library are for ranks with one fate: a learner and its actors pass messages over TCP, whoever started them; leave these out";
            return Err(BadInput(text.to_owned()).into());
        }
        let launch = match self.comm {
            CommChoice::Threads => None,
            _ => Launch::from_env()?,
        };
        match launch {
            None if self.comm == CommChoice::Tcp => Err(BadInput(NO_LAUNCHER.to_owned()).into()),
            launch => Ok(launch.filter(|launch| launch.size > 1)),
        }
    }

    /// Says to the processes that would look for this one over TCP, or that it would look for, that it cannot take part: within the deadline, and for
    /// some seconds at most. False where there are none of them.
    pub(crate) fn decline(&self, why: &anyhow::Error, deadline: Timeout) -> bool {
        let patience = Timeout::after(deadline.duration().min(DECLINING));
        let is_over_tcp = self.ranks.is_none() && !matches!(self.comm, CommChoice::Threads);
        let launch = Launch::from_env().ok().flatten();
        let launch = launch.filter(|launch| is_over_tcp && !self.takes_mpi(launch));
        let config = launch.and_then(|launch| tcp_config(launch, patience).ok());
        let config = config.filter(|config| config.size > 1);
        if let Some(config) = &config {
            tcp::decline(config, &why.to_string());
        }
        config.is_some()
    }

    /// A library that is named where nothing opens it is a mistake.
    fn check_libraries(&self, ranks: Option<u32>) -> Result<(), BadInput> {
        if self.nccl_library.is_some() && self.comm != CommChoice::Nccl {
            let text = "--nccl-library is for --comm nccl: add that, or leave it out";
            return Err(BadInput(text.to_owned()));
        }
        let is_without_mpi = matches!(self.comm, CommChoice::Threads | CommChoice::Tcp);
        if self.mpi_library.is_some() && (is_without_mpi || ranks.is_some()) {
            let text = "--mpi-library is for processes over MPI: leave out --ranks and use --comm mpi, or leave it out";
            return Err(BadInput(text.to_owned()));
        }
        Ok(())
    }

    /// The device of this process' ranks, which are threads, or one process of several: where they exchange through NCCL, a GPU of its own
    /// for each.
    pub(crate) fn device(
        &self,
        kind: DeviceKind,
        is_process: bool,
        report: &ReportArgs,
    ) -> anyhow::Result<Device> {
        if self.comm != CommChoice::Nccl {
            return Ok(open_device(kind, report)?);
        }
        over_nccl(kind, self.nccl_library.as_deref(), || match kind {
            DeviceKind::Cuda(first) if is_process => own_gpu(first),
            _ => Ok(Device::open(kind)?), // threads count on from it
        })
    }

    /// MPI launchers start MPI, unless somebody says where to meet without it.
    fn takes_mpi(&self, launch: &Launch) -> bool {
        match self.comm {
            CommChoice::Mpi => true,
            CommChoice::Auto | CommChoice::Nccl => {
                launch.meeting_point.is_none() && launch.size > 1
            }
            CommChoice::Threads | CommChoice::Tcp => false,
        }
    }

    fn join_mpi(&self, launch: &Launch, deadline: Timeout) -> anyhow::Result<Comm> {
        let comm = mpi::init_within(self.mpi_library.as_deref(), deadline)?;
        if comm.size() == launch.size {
            return Ok(comm);
        }
        Err(BadInput(format!(
            "{} started {} processes, but the MPI library knows of {}: it belongs to another MPI; name the launcher's own with --mpi-library",
            launch.launcher,
            launch.size,
            comm.size()
        ))
        .into())
    }
}

/// A device of this kind, whose ranks exchange through NCCL.
pub(crate) fn over_nccl(
    kind: DeviceKind,
    library: Option<&Path>,
    open: impl FnOnce() -> anyhow::Result<Device>,
) -> anyhow::Result<Device> {
    if matches!(kind, DeviceKind::Host | DeviceKind::Auto) {
        let text = "--comm nccl: NCCL works on the memory of GPUs: say --device cuda too";
        return Err(BadInput(text.to_owned()).into());
    }
    let (device, library) = (open()?, Library::open(library)?);
    let fits = library.check_device(device.kind());
    fits.map_err(|error| BadInput(format!("--comm nccl: {error}")))?;
    Ok(device.using_nccl(&library))
}

/// The GPU of a process: as many behind the first one as there are ranks before this one on the host. Where a launcher shows each
/// process a GPU of its own, they all have the same number.
fn own_gpu(first: u32) -> anyhow::Result<Device> {
    let launch = Launch::from_env()?;
    let n_before = match launch.map(|launch| (launch.size, launch.local_rank)) {
        None | Some((1, None)) => 0,
        Some((_, Some(local_rank))) => local_rank,
        Some((_, None)) => {
            let text = "--comm nccl: nothing says which rank of its host this process is: set LOCAL_RANK, from 0 on each host";
            return Err(BadInput(text.to_owned()).into());
        }
    };
    let own = first.saturating_add(n_before);
    match Device::open(DeviceKind::Cuda(own)) {
        Err(error) if error.is_missing_device() => Ok(Device::open(DeviceKind::Cuda(first))?),
        found => Ok(found?),
    }
}

fn join(launch: Launch, deadline: Timeout) -> anyhow::Result<Comm> {
    if launch.size == 1 {
        return Ok(Comm::solo());
    }
    let config = tcp_config(launch, deadline)?;
    warn_of_strangers(&config);
    Ok(tcp::join(&config)?)
}

/// What a process must know to meet the others over TCP.
pub(crate) fn tcp_config(launch: Launch, deadline: Timeout) -> Result<tcp::TcpConfig, BadInput> {
    let Some((master_addr, master_port)) = launch.meeting_point else {
        return Err(BadInput(format!(
            "{} started {} processes, but nothing says where they can meet: set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port there (--ranks and --comm threads are for threads of one process)",
            launch.launcher, launch.size
        )));
    };
    Ok(tcp::TcpConfig {
        rank: launch.rank,
        size: launch.size,
        master_addr,
        master_port,
        job: launch.job,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        timeout: deadline,
        secret: secret()?,
    })
}

/// Most bytes of a file with a secret.
const MAX_SECRET_BYTES: u64 = 4 << 10;

/// The secret of the job's ranks: of the variable, or of the file that another one names, without the
/// blanks around it.
fn secret() -> Result<Option<tcp::Secret>, BadInput> {
    const VARIABLE: &str = "SHARDGRAPH_SECRET";
    const FILE: &str = "SHARDGRAPH_SECRET_FILE";
    let (of, bytes) = match (std::env::var_os(VARIABLE), std::env::var_os(FILE)) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let why = format!("{VARIABLE} and {FILE} are both set: set one of them");
            return Err(BadInput(why));
        }
        (Some(secret), None) => (VARIABLE.to_owned(), secret.into_encoded_bytes()),
        (None, Some(path)) => {
            let path = PathBuf::from(path);
            let of = format!("{FILE}={}", path.display());
            let read = read_bounded(&path, MAX_SECRET_BYTES);
            let bytes = read.map_err(|error| BadInput(format!("{of}: cannot read: {error}")))?;
            (of, bytes)
        }
    };
    let secret = tcp::Secret::new(bytes.trim_ascii());
    let secret = secret.map_err(|why| BadInput(format!("{of}: {why}")))?;
    Ok(Some(secret))
}

/// Warns, on rank 0, of ranks that other hosts can reach and that share no secret.
pub(crate) fn warn_of_strangers(config: &tcp::TcpConfig) {
    if config.rank == 0 && config.secret.is_none() && !config.is_local() {
        report::warning(&format!(
            "rank 0 listens at {}:{} for everybody who reaches it: set SHARDGRAPH_SECRET or SHARDGRAPH_SECRET_FILE on all ranks, and only those who know it join",
            config.master_addr, config.master_port
        ));
    }
}

/// Refuses a launcher's several processes where a command knows ranks as threads only, by the flag `threads`, or none: each would do all of the
/// work, and all would write the same files.
pub(crate) fn refuse_processes(command: &str, threads: Option<&str>) -> anyhow::Result<()> {
    match Launch::from_env()? {
        Some(launch) if launch.size > 1 => {
            let instead = threads.map(|flag| format!(", with {flag} for threads"));
            Err(BadInput(format!(
                "{} started {} processes, but `{command}` runs in one: start it alone{}",
                launch.launcher,
                launch.size,
                instead.unwrap_or_default()
            ))
            .into())
        }
        _ => Ok(()),
    }
}

/// Another rank cannot go on, for a reason of its own that it tells itself.
#[derive(Debug)]
pub(crate) struct FailedElsewhere {
    rank: u32,
    pub(crate) code: u8,
    /// One rank says so for all.
    pub(crate) is_silent: bool,
}

impl fmt::Display for FailedElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} could not go on (exit code {}); it says why in its own output",
            self.rank, self.code
        )
    }
}

impl std::error::Error for FailedElsewhere {}
