//! What to measure, as words on a command line and back.

use std::path::PathBuf;

/// The operations, with the names that they have in the tables.
pub(crate) const OPS: [&str; 5] = [
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "all_to_all",
];

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    /// `threads`, `tcp` (a process a rank), `tcp-threads` (a thread a rank, over the loopback
    /// interface), `mpi`.
    pub(crate) backends: Vec<String>,
    pub(crate) ops: Vec<String>,
    pub(crate) ranks: Vec<u32>,
    /// Bytes of the longer buffer of a rank: the first size, the last one, and the step between
    /// two.
    pub(crate) begin: usize,
    pub(crate) end: usize,
    pub(crate) factor: usize,
    pub(crate) checks: bool,
    /// Timed repetitions at most, and untimed ones before them.
    pub(crate) n_iterations: u64,
    pub(crate) n_warm_ups: u64,
    /// How long the timed repetitions of a point may take, unless two take longer.
    pub(crate) budget_ms: u64,
    /// `auto` for the choice by size, or names of algorithms.
    pub(crate) algorithms: Vec<String>,
    pub(crate) timeout_seconds: f64,
    pub(crate) mpiexec: Option<PathBuf>,
    pub(crate) library: Option<PathBuf>,
}

impl Default for Arguments {
    /// A test: everything once, small.
    fn default() -> Arguments {
        Arguments {
            backends: vec!["threads".into(), "tcp-threads".into()],
            ops: OPS.map(str::to_owned).to_vec(),
            ranks: vec![1, 2, 3],
            begin: 8,
            end: 256 << 10,
            factor: 32,
            checks: true,
            n_iterations: 2,
            n_warm_ups: 1,
            budget_ms: 10,
            algorithms: vec!["auto".into()],
            timeout_seconds: 60.0,
            mpiexec: None,
            library: None,
        }
    }
}

impl Arguments {
    /// Reads pairs of flag and value. Cargo's own `--bench` and a test harness' flags without a
    /// value are passed over.
    pub(crate) fn parse(words: &[String]) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            if ["--bench", "--test", "--nocapture", "--show-output"].contains(&flag.as_str()) {
                continue;
            }
            let value = words.next().ok_or(format!("{flag} needs a value"))?;
            arguments.set(flag, value)?;
        }
        Ok(arguments)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let wrong = || format!("{flag} {value}: not understood");
        let names = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        match flag {
            "--backends" => self.backends = names(),
            "--ops" => self.ops = names(),
            "--algorithms" => self.algorithms = names(),
            "--ranks" => {
                let ranks = value.split(',').map(str::parse).collect::<Result<_, _>>();
                self.ranks = ranks.map_err(|_| wrong())?;
            }
            "-b" => self.begin = size(value).ok_or_else(wrong)?,
            "-e" => self.end = size(value).ok_or_else(wrong)?,
            "-f" => self.factor = value.parse().map_err(|_| wrong())?,
            "-c" => self.checks = value != "0",
            "-n" => self.n_iterations = value.parse().map_err(|_| wrong())?,
            "-w" => self.n_warm_ups = value.parse().map_err(|_| wrong())?,
            "--budget-ms" => self.budget_ms = value.parse().map_err(|_| wrong())?,
            "--deadline" => self.timeout_seconds = value.parse().map_err(|_| wrong())?,
            "--mpiexec" => self.mpiexec = Some(value.into()),
            "--library" => self.library = Some(value.into()),
            _ => return Err(format!("{flag}: not a flag")),
        }
        Ok(())
    }

    /// The words that make a rank measure the same with `n_ranks`.
    pub(crate) fn for_rank(&self, n_ranks: u32) -> Vec<String> {
        let pairs = [
            ("--ops", self.ops.join(",")),
            ("--algorithms", self.algorithms.join(",")),
            ("--ranks", n_ranks.to_string()),
            ("-b", self.begin.to_string()),
            ("-e", self.end.to_string()),
            ("-f", self.factor.to_string()),
            ("-c", u8::from(self.checks).to_string()),
            ("-n", self.n_iterations.to_string()),
            ("-w", self.n_warm_ups.to_string()),
            ("--budget-ms", self.budget_ms.to_string()),
            ("--deadline", self.timeout_seconds.to_string()),
        ];
        let words = pairs
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value]);
        words.collect()
    }

    /// The sizes, ascending.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let next = |&bytes: &usize| bytes.checked_mul(self.factor.max(2));
        std::iter::successors(Some(self.begin.max(4)), next)
            .take_while(|&bytes| bytes <= self.end)
            .collect()
    }
}

/// `64M` and the like; K, M and G are powers of 1024.
fn size(text: &str) -> Option<usize> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (
            digits,
            match text.as_bytes().last() {
                Some(b'K') => 10,
                Some(b'M') => 20,
                _ => 30,
            },
        ),
        None => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_shl(shift)
}
