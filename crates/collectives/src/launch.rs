//! Which rank of how many this process is, as the launcher that started it says in the environment.

use crate::error::{CommError, CommErrorKind};
use std::collections::BTreeMap;
use std::fmt;

/// What a launcher told this process.
///
/// Launchers are looked for in the order Open MPI, MPICH (and others that speak PMI), SLURM,
/// torchrun; the first whose variables are there counts, so that `srun` inside an `mpirun` does not
/// confuse. SLURM counts only inside a step (`srun`), not in a batch script.
///
/// ```
/// use shardgraph_collectives::{Launch, Launcher};
///
/// let vars = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "node7"), ("MASTER_PORT", "29500")];
/// let launch = Launch::from_vars(vars)?.expect("torchrun's variables are there");
/// assert_eq!((launch.rank, launch.size, launch.launcher), (1, 2, Launcher::Torchrun));
/// assert_eq!(launch.meeting_point, Some(("node7".to_string(), 29500)));
///
/// let error = Launch::from_vars([("RANK", "1")]).unwrap_err();
/// assert!(error.to_string().contains("WORLD_SIZE"));
/// assert!(Launch::from_vars([("HOME", "/root")])?.is_none());
/// # Ok::<(), shardgraph_collectives::CommError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Who started this process.
    pub launcher: Launcher,
    /// The number of this rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// The number of this rank among those of its host, where the launcher says so.
    pub local_rank: Option<u32>,
    /// The name of the job: the same for all its ranks, another for another job.
    pub job: String,
    /// The host and port where rank 0 can be met over TCP; `None` where nothing says so.
    pub meeting_point: Option<(String, u16)>,
}

/// A program that starts the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpiexec` of MPICH, and what else speaks PMI.
    Mpich,
    /// `srun`.
    Slurm,
    /// `torchrun`, and scripts that set its variables.
    Torchrun,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::OpenMpi => "Open MPI",
            Launcher::Mpich => "MPICH",
            Launcher::Slurm => "SLURM",
            Launcher::Torchrun => "torchrun",
        })
    }
}

/// The variables of one launcher.
struct Names {
    launcher: Launcher,
    /// It is there when one of these is.
    marks: &'static [&'static str],
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    /// What tells one job from another.
    job: &'static [&'static str],
}

const LAUNCHERS: [Names; 4] = [
    Names {
        launcher: Launcher::OpenMpi,
        marks: &["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        job: &["OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"],
    },
    Names {
        launcher: Launcher::Mpich,
        marks: &["PMI_RANK", "PMI_SIZE"],
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        job: &["PMI_JOBID", "PMI_ID_JOB"],
    },
    Names {
        launcher: Launcher::Slurm,
        marks: &["SLURM_STEP_ID"],
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Names {
        launcher: Launcher::Torchrun,
        marks: &["RANK", "WORLD_SIZE"],
        rank: "RANK",
        size: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        job: &["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"],
    },
];

type Vars = BTreeMap<String, String>;

impl Launch {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// As [`Launch::from_vars`].
    pub fn from_env() -> Result<Option<Launch>, CommError> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Launch::from_vars(std::env::vars_os().filter_map(text))
    }

    /// Reads an environment given as pairs of name and value. `None` where no launcher has left its
    /// variables.
    ///
    /// The meeting point is `MASTER_ADDR` and `MASTER_PORT`, from every launcher; an IPv6 address
    /// may stand in brackets. Where SLURM sets neither, it is the first host of the step's node
    /// list and a port made from the numbers of job and step. Where torchrun's own store has the
    /// port, it is the next one.
    ///
    /// # Errors
    /// [`CommErrorKind::Launch`] naming the launcher and the variable that is missing or is no such
    /// number.
    pub fn from_vars<N: Into<String>, V: Into<String>>(
        vars: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Option<Launch>, CommError> {
        let vars: Vars = vars
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let is_there = |names: &&Names| {
            let is_slurms = names.launcher == Launcher::Mpich && is_of_srun(&vars);
            !is_slurms && names.marks.iter().any(|mark| vars.contains_key(*mark))
        };
        let launch = LAUNCHERS
            .iter()
            .find(is_there)
            .map(|names| names.read(&vars));
        launch
            .transpose()
            .map_err(|what| CommError::new(CommErrorKind::Launch { what }, [].iter()))
    }
}

/// Whether `srun` itself has set MPICH's variables (its plugin for PMI does): then they say what
/// SLURM's say. An `mpiexec` that starts its helpers by `srun` leaves SLURM's variables of the
/// helpers, and sets some that `srun` does not.
fn is_of_srun(vars: &Vars) -> bool {
    let same = |pmi: &str, slurm: &str| vars.contains_key(pmi) && vars.get(pmi) == vars.get(slurm);
    let n_tasks = match vars.contains_key("SLURM_STEP_NUM_TASKS") {
        true => "SLURM_STEP_NUM_TASKS",
        false => "SLURM_NTASKS",
    };
    let has_size = vars.contains_key("PMI_SIZE");
    let of_mpiexec = ["MPI_LOCALRANKID", "HYDI_CONTROL_FD"];
    vars.contains_key("SLURM_STEP_ID")
        && !of_mpiexec.iter().any(|name| vars.contains_key(*name))
        && same("PMI_RANK", "SLURM_PROCID")
        && (!has_size || same("PMI_SIZE", n_tasks))
}

impl Names {
    fn read(&self, vars: &Vars) -> Result<Launch, String> {
        let rank = self
            .number(vars, self.rank)?
            .ok_or_else(|| self.missing(self.rank))?;
        // A step may have fewer tasks than its job.
        let of_step = match self.launcher {
            Launcher::Slurm => self.number(vars, "SLURM_STEP_NUM_TASKS")?,
            _ => None,
        };
        let size = match of_step {
            Some(size) => size,
            None => self
                .number(vars, self.size)?
                .ok_or_else(|| self.missing(self.size))?,
        };
        if rank >= size {
            return Err(format!(
                "{}={rank} and {}={size}, from {}: the rank must be below the number of ranks",
                self.rank, self.size, self.launcher
            ));
        }
        Ok(Launch {
            launcher: self.launcher,
            rank,
            size,
            local_rank: self.number(vars, self.local_rank)?,
            job: self.job(vars),
            meeting_point: self.meeting_point(vars)?,
        })
    }

    fn missing(&self, name: &str) -> String {
        let there: Vec<&str> = self
            .marks
            .iter()
            .copied()
            .filter(|mark| *mark != name)
            .collect();
        format!(
            "{name} is not set although {} is, from {}: set both, or neither and start without a launcher",
            there.join(" or "),
            self.launcher
        )
    }

    fn number(&self, vars: &Vars, name: &str) -> Result<Option<u32>, String> {
        let Some(text) = vars.get(name) else {
            return Ok(None);
        };
        let number = text.trim().parse();
        let wrong = |_| format!("{name}=`{text}`, from {}: expected a number", self.launcher);
        number.map(Some).map_err(wrong)
    }

    fn job(&self, vars: &Vars) -> String {
        let values = self.job.iter().filter_map(|name| vars.get(*name));
        let values: Vec<&str> = values.map(String::as_str).collect();
        format!("{} {}", self.launcher, values.join("."))
    }

    fn meeting_point(&self, vars: &Vars) -> Result<Option<(String, u16)>, String> {
        let given = vars.get("MASTER_ADDR").map(|host| bare_host(host));
        // Set to nothing is not set.
        match (given.filter(|host| !host.is_empty()), self.port(vars)?) {
            (Some(host), Some(port)) => Ok(Some((host.to_string(), port))),
            (None, None) if self.launcher == Launcher::Slurm => self.slurm_meeting_point(vars),
            (None, None) if self.launcher != Launcher::Torchrun => Ok(None),
            (None, _) => Err(self.incomplete("MASTER_ADDR", "the host of rank 0")),
            (_, None) => Err(self.incomplete("MASTER_PORT", "a free port of that host")),
        }
    }

    fn incomplete(&self, name: &str, what: &str) -> String {
        format!(
            "{name} is not set, although {} started this process: set it to {what}",
            self.launcher
        )
    }

    fn port(&self, vars: &Vars) -> Result<Option<u16>, String> {
        // Set to nothing is not set.
        let Some(text) = vars.get("MASTER_PORT").filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let wrong = || {
            format!(
                "MASTER_PORT=`{text}`, from {}: expected a port, a number from 1 to 65535",
                self.launcher
            )
        };
        let port: u16 = text.trim().parse().map_err(|_| wrong())?;
        // There torchrun's agent itself listens on the port.
        let is_taken = vars
            .get("TORCHELASTIC_USE_AGENT_STORE")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        match (port, self.launcher, is_taken) {
            (0, ..) => Err(wrong()),
            (port, Launcher::Torchrun, true) => Ok(Some(port.checked_add(1).unwrap_or(1024))),
            (port, ..) => Ok(Some(port)),
        }
    }

    fn slurm_meeting_point(&self, vars: &Vars) -> Result<Option<(String, u16)>, String> {
        /// Below the ports that systems give away by themselves (from 32768 on Linux), above the
        /// usual services.
        const PORTS: std::ops::Range<u32> = 20_000..32_000;
        let list = vars
            .get("SLURM_STEP_NODELIST")
            .ok_or_else(|| self.incomplete("SLURM_STEP_NODELIST", "the hosts of the step"))?;
        let host = first_host(list).ok_or_else(|| {
            format!("SLURM_STEP_NODELIST=`{list}`: expected hosts such as node7 or node[03-05,9]")
        })?;
        let job = self.number(vars, "SLURM_JOB_ID")?.unwrap_or(0);
        let step = self.number(vars, "SLURM_STEP_ID")?.unwrap_or(0);
        let mixed = job.wrapping_mul(31).wrapping_add(step) % PORTS.len() as u32;
        Ok(Some((host, (PORTS.start + mixed) as u16)))
    }
}

/// `::1` of `[::1]`, as URLs and some scripts write IPv6 addresses.
fn bare_host(host: &str) -> &str {
    let host = host.trim();
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inside.filter(|inside| inside.contains(':')).unwrap_or(host)
}

/// The first host of a list such as `node[03-05,9],gate`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (prefix, rest) = list.split_at(end);
    let Some(rest) = rest.strip_prefix('[') else {
        return (!prefix.is_empty()).then(|| prefix.trim().to_string());
    };
    let (numbers, rest) = rest.split_once(']')?;
    let first = numbers.split([',', '-']).next()?;
    if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // There may be a second pair of brackets: `rack[0-1]node[0-3]`.
    let suffix = match rest.starts_with(',') || rest.is_empty() {
        true => String::new(),
        false => first_host(rest)?,
    };
    Some(format!("{prefix}{first}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_of_a_list() {
        for (list, host) in [
            ("node7", Some("node7")),
            ("node7,node8", Some("node7")),
            ("node[03-05,9],gate", Some("node03")),
            ("node[9,3]", Some("node9")),
            ("gate,node[1-2]", Some("gate")),
            ("rack[0-1]node[2-3]", Some("rack0node2")),
            ("node[1-2]-ib,x", Some("node1-ib")),
            ("", None),
            (",a", None),
            ("node[", None),
            ("node[]", None),
            ("node[a-b]", None),
        ] {
            assert_eq!(first_host(list).as_deref(), host, "{list}");
        }
    }

    #[test]
    fn brackets_of_an_address_are_taken_off() {
        for (host, bare) in [
            ("[::1]", "::1"),
            ("[fe80::1%eth0]", "fe80::1%eth0"),
            ("::1", "::1"),
            (" node7 ", "node7"),
            ("10.0.0.7", "10.0.0.7"),
            ("[node7]", "[node7]"),
            ("[::1", "[::1"),
            ("", ""),
        ] {
            assert_eq!(bare_host(host), bare);
        }
    }
}
