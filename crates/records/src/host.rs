//! What a record says about the machine and the revision it was made on.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

use serde::{Deserialize, Serialize};

use crate::process;

/// The machine of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Name of the machine.
    pub label: String,
    /// Model of its processor.
    pub cpu: String,
    /// Threads that run at once.
    pub n_cores: usize,
    /// Main memory, where the system tells.
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel.
    pub system: String,
    /// Version of the compiler.
    pub rustc: String,
}

impl Host {
    /// Looks at this machine; `label` names it in folder names (default: its host name).
    pub fn here(label: Option<&str>) -> Host {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let name = file("/proc/sys/kernel/hostname");
        let kernel = file("/proc/sys/kernel/osrelease");
        Host {
            label: slug(label.unwrap_or(name.trim())),
            cpu: field(&file("/proc/cpuinfo"), "model name"),
            n_cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&file("/proc/meminfo")),
            system: format!("{} {}", std::env::consts::OS, kernel.trim())
                .trim()
                .to_owned(),
            rustc: first_line("rustc", &["--version"]),
        }
    }
}

/// The commit that is checked out, and whether the files differ from it.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Hash of the commit.
    pub commit: String,
    /// Whether files differ from it.
    pub is_dirty: bool,
}

impl Revision {
    /// That of the checkout.
    pub fn here() -> Revision {
        let commit = first_line("git", &["rev-parse", "HEAD"]);
        // Records themselves are not part of what is measured.
        let changes = ["status", "--porcelain", "--", ".", ":!bench-results"];
        Revision {
            is_dirty: !first_line("git", &changes).is_empty(),
            commit,
        }
    }
}

/// Runnable processes over the last minute, where the system tells.
pub fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn first_line(program: &str, args: &[&str]) -> String {
    let output = process::stdout_of(process::command(program).args(args)).unwrap_or_default();
    output.lines().next().unwrap_or_default().to_owned()
}

/// The value of `key : value` in a text as `/proc/cpuinfo` has it, or `unknown`.
fn field(text: &str, key: &str) -> String {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| name.trim() == key);
    found
        .map_or("unknown", |(_, value)| value.trim())
        .to_owned()
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let total = field(meminfo, "MemTotal");
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Lower case letters and digits, everything else one `-`.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    match slug.trim_end_matches('-') {
        "" => "unknown".to_owned(),
        slug => slug.to_owned(),
    }
}

/// Today in UTC, as `2026-11-20`.
///
/// # Errors
/// When the clock is before 1970.
pub fn today() -> Result<String> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970")?;
    let (year, month, day) = civil(since.as_secs() / 86_400);
    Ok(format!("{year:04}-{month:02}-{day:02}"))
}

/// Days since 1970-01-01 to the Gregorian date, counted off year by year and month by month.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(19_722), (2023, 12, 31));
        assert_eq!(civil(19_723), (2024, 1, 1));
        assert_eq!(civil(20_777), (2026, 11, 20));
    }

    #[test]
    fn slugs() {
        assert_eq!(slug("  My Box (2)!"), "my-box-2");
        assert_eq!(slug("!?"), "unknown");
    }

    #[test]
    fn proc_files() {
        assert_eq!(
            field("model name\t: X 1\nmodel name: Y\n", "model name"),
            "X 1"
        );
        assert_eq!(field("", "model name"), "unknown");
        assert_eq!(memory_bytes("MemTotal:       2 kB\n"), Some(2048));
        assert_eq!(memory_bytes(""), None);
    }
}
