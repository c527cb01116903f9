//! How ranks come to be: threads of this program, or this program once more for each rank.

use crate::arguments::Arguments;
use crate::work;
use shardgraph_collectives::{Comm, CommError, Timeout, mpi, tcp, threads};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The first argument of a process that is a rank; then `tcp RANK SIZE ADDRESS PORT` or `mpi
/// LIBRARY`, and what to measure.
pub(crate) const RANK_MARK: &str = "--rank-of";

/// Measures on every back end with every number of ranks.
pub(crate) fn run_all(arguments: &Arguments) -> Result<(), String> {
    for backend in &arguments.backends {
        for &n_ranks in &arguments.ranks {
            run(arguments, backend, n_ranks)?;
        }
    }
    Ok(())
}

fn run(arguments: &Arguments, backend: &str, n_ranks: u32) -> Result<(), String> {
    let measure = |comm: Comm| work::measure(comm, arguments, backend);
    match backend {
        "threads" => all_ended(threads::run(n_ranks, measure)),
        "tcp-threads" => all_ended(tcp::run(n_ranks, measure)),
        "tcp" => processes(arguments, n_ranks),
        "mpi" => under_mpiexec(arguments, n_ranks),
        other => Err(format!(
            "no back end {other:?}: threads, tcp, tcp-threads, mpi"
        )),
    }
}

fn all_ended(results: Vec<Result<Result<(), String>, CommError>>) -> Result<(), String> {
    for result in results {
        result.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// This program as one rank of `n_ranks`.
fn rank_command(n_ranks: u32, arguments: &Arguments, place: &[String]) -> Result<Command, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command
        .arg(RANK_MARK)
        .args(place)
        .args(arguments.for_rank(n_ranks))
        .stdin(Stdio::null());
    Ok(command)
}

fn processes(arguments: &Arguments, n_ranks: u32) -> Result<(), String> {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
    let port = port.map_err(|error| error.to_string())?.port().to_string();
    let mut children = Vec::new();
    for rank in 0..n_ranks {
        let place = [
            "tcp",
            &rank.to_string(),
            &n_ranks.to_string(),
            "127.0.0.1",
            &port,
        ];
        let command = rank_command(n_ranks, arguments, &place.map(str::to_owned));
        children.push(command?.spawn().map_err(|error| error.to_string())?);
    }
    let ends = children.into_iter().map(|mut child: Child| child.wait());
    let ends: Vec<_> = ends.collect();
    let is_good = |end: &std::io::Result<std::process::ExitStatus>| {
        end.as_ref().is_ok_and(|status| status.success())
    };
    match ends.iter().all(is_good) {
        true => Ok(()),
        false => Err(format!("ranks over tcp ended with {ends:?}")),
    }
}

fn under_mpiexec(arguments: &Arguments, n_ranks: u32) -> Result<(), String> {
    let (Some(mpiexec), Some(library)) = (&arguments.mpiexec, &arguments.library) else {
        println!("SKIPPED: mpi with {n_ranks} ranks: give --mpiexec and --library");
        return Ok(());
    };
    let place = ["mpi".to_owned(), library.display().to_string()];
    let rank = rank_command(n_ranks, arguments, &place)?;
    let mut command = Command::new(mpiexec);
    // Open MPI asks for leave to run as root and with more ranks than cores; other launchers do not
    // know these variables.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
        command.env(name, "1").env(format!("{name}_CONFIRM"), "1");
    }
    command
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .args(["-n", &n_ranks.to_string()])
        .arg(rank.get_program())
        .args(rank.get_args())
        .stdin(Stdio::null());
    let status = command.status().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("mpiexec -n {n_ranks} ended with {status}")),
    }
}

/// This process is one rank.
pub(crate) fn be_rank(words: &[String]) -> Result<(), String> {
    let usage =
        || format!("{RANK_MARK} tcp RANK SIZE ADDRESS PORT FLAGS or {RANK_MARK} mpi LIBRARY FLAGS");
    let n_place = match words.first().map(String::as_str) {
        Some("tcp") => 5,
        Some("mpi") => 2,
        _ => return Err(usage()),
    };
    let (place, flags) = words.split_at_checked(n_place).ok_or_else(usage)?;
    let arguments = Arguments::parse(flags)?;
    let timeout = Timeout::after(Duration::from_secs_f64(arguments.timeout_seconds));
    let comm = match place {
        [_, rank, size, address, port] => {
            let config = tcp::TcpConfig {
                rank: rank.parse().map_err(|_| usage())?,
                size: size.parse().map_err(|_| usage())?,
                master_addr: address.clone(),
                master_port: port.parse().map_err(|_| usage())?,
                job: format!("bench at {address}:{port}"),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                timeout,
                secret: None,
            };
            tcp::join(&config)
        }
        [_, library] => mpi::init_within(Some(Path::new(library)), timeout),
        _ => return Err(usage()),
    };
    let comm = comm.map_err(|error| error.to_string())?;
    work::measure(comm, &arguments, &place[0])
}
