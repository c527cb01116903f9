//! Timing of a case by the device's events, and the lines that it prints.

use std::process::Command;

use shardgraph_device::{Device, Error};

/// Samples of a case.
const N_SAMPLES: usize = 7;

/// Work is repeated until a sample takes about this long.
const SAMPLE_MS: f64 = 30.0;

/// The work of one repetition, as counted from the operation's definition.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// Bytes that must move at least once.
    pub(crate) bytes: f64,
    /// Floating-point operations.
    pub(crate) flop: f64,
}

impl Work {
    pub(crate) fn bytes(bytes: usize) -> Self {
        let bytes = bytes as f64;
        Self { bytes, flop: 0.0 }
    }

    pub(crate) fn flop(self, flop: usize) -> Self {
        let flop = flop as f64;
        Self { flop, ..self }
    }
}

/// Rates measured in this run, which the kernels' rates are put beside.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ceilings {
    /// Bytes a second of a copy, read and write counted.
    pub(crate) copy: f64,
    /// f32 operations a second of a large dense product by cuBLAS; nothing where that is not installed.
    pub(crate) product: Option<f64>,
}

/// Where and how cases are measured.
pub(crate) struct Report {
    pub(crate) device: Device,
    /// Small sizes, one repetition: whether the cases work, not how fast.
    pub(crate) is_test: bool,
    ceilings: Option<Ceilings>,
}

impl Report {
    pub(crate) fn new(device: Device, is_test: bool) -> Self {
        Self {
            device,
            is_test,
            ceilings: None,
        }
    }

    pub(crate) fn with_ceilings(&self, ceilings: Ceilings) -> Self {
        Self {
            device: self.device.clone(),
            is_test: self.is_test,
            ceilings: Some(ceilings),
        }
    }

    /// `full`, or `small` in a test.
    pub(crate) fn size(&self, full: usize, small: usize) -> usize {
        if self.is_test { small } else { full }
    }

    /// Says what this is measured on; after some work, so that the clocks are those of work.
    pub(crate) fn machine(&self) {
        println!("INFO:device:{}", self.device.describe());
        println!(
            "INFO:cublas:{}",
            self.device.vendor_products().unwrap_or("not installed")
        );
        let asked = |what: &str| match self.is_test {
            true => "emulated".to_string(),
            false => nvidia_smi(what),
        };
        println!("INFO:driver:{}", asked("driver_version"));
        println!(
            "INFO:clocks:{}",
            asked("clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit")
        );
    }

    pub(crate) fn metric(&self, series: &str, name: &str, value: f64, unit: &str) {
        // What a test takes is no measurement.
        if !self.is_test {
            println!("METRIC:{series}/{name}:{value}:{unit}");
        }
    }

    /// Measures `f`, which does `work`, and prints its time, its rates, and their shares of the ceilings. Returns the
    /// median time of one repetition in seconds.
    pub(crate) fn case(
        &self,
        series: &str,
        work: Work,
        mut f: impl FnMut() -> Result<(), Error>,
    ) -> Result<f64, Error> {
        let mut times = self.times(&mut f)?;
        if self.is_test {
            println!("ran {series}");
        }
        for &seconds in &times {
            self.metric(series, "time", seconds * 1e6, "us");
            if work.bytes > 0.0 {
                self.metric(series, "rate", work.bytes / seconds / 1e9, "GB/s");
            }
            if work.flop > 0.0 {
                self.metric(series, "speed", work.flop / seconds / 1e12, "TFLOP/s");
            }
            let Some(ceilings) = self.ceilings else {
                continue;
            };
            if work.bytes > 0.0 {
                let share = work.bytes / seconds / ceilings.copy;
                self.metric(series, "of_copy_rate", share, "fraction");
            }
            if let (true, Some(product)) = (work.flop > 0.0, ceilings.product) {
                let share = work.flop / seconds / product;
                self.metric(series, "of_f32_product_rate", share, "fraction");
            }
        }
        times.sort_unstable_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    fn times(&self, f: &mut impl FnMut() -> Result<(), Error>) -> Result<Vec<f64>, Error> {
        f()?; // loads kernels, fills the memory pool
        let once = self.seconds_of(1, f)?;
        if self.is_test {
            return Ok(vec![once.max(1e-9)]);
        }
        let n = (SAMPLE_MS / 1e3 / once).clamp(1.0, 2000.0) as usize;
        self.seconds_of(n, f)?; // to the clocks that the work settles at
        (0..N_SAMPLES).map(|_| self.seconds_of(n, f)).collect()
    }

    fn seconds_of(
        &self,
        n: usize,
        f: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<f64, Error> {
        let start = self.device.record()?;
        for _ in 0..n {
            f()?;
        }
        let end = self.device.record()?;
        Ok(end.elapsed_ms(&start)? / 1e3 / n as f64)
    }
}

fn nvidia_smi(query: &str) -> String {
    let query = format!("--query-gpu={query}");
    let output = Command::new("nvidia-smi")
        .args([&query, "--format=csv,noheader", "--id=0"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        }
        _ => "unknown (nvidia-smi does not answer)".to_string(),
    }
}
