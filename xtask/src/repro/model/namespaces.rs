//! Three machines on one: network namespaces joined by a bridge, each connection held to a rate.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};

use crate::process;

pub(super) const N_NODES: u32 = 3;

/// The first three numbers of their addresses.
const NETWORK: &str = "10.77.0";

/// What the token bucket may send at once. Less than one of the kernel's large segments makes it slower than its rate.
const BURST: &str = "128kb";

/// Bytes that wait for the rate before some are dropped: more than the connections have under way.
const LIMIT: &str = "4mb";

/// What this machine has not, so that it can have no namespaces; `None` where whatever goes wrong with them is an error.
pub(super) fn cannot() -> Option<String> {
    for program in ["ip", "tc"] {
        let shown = process::command(program).arg("-V").output();
        if shown.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Some(format!(
                "there is no program `{program}` (Debian's package iproute2 has it)"
            ));
        }
    }
    match fs::read_to_string("/proc/self/status") {
        Ok(status) => (!is_allowed(&status))
            .then(|| "only root may make them (CAP_NET_ADMIN and CAP_SYS_ADMIN)".to_owned()),
        Err(_) => Some("only Linux has them".to_owned()),
    }
}

/// Whether a process may make interfaces and namespaces, by the capabilities that `/proc/self/status` shows.
fn is_allowed(status: &str) -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_ADMIN: u64 = 1 << 21;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|bits| bits & NET_ADMIN != 0 && bits & SYS_ADMIN != 0)
}

/// The namespaces; gone when this is dropped.
pub(super) struct Namespaces {
    /// What their names begin with.
    mark: String,
}

impl Namespaces {
    /// Makes them with `rate` (as `1gbit`) in both directions. What was made of them before an error is removed again.
    pub(super) fn make(rate: &str) -> Result<Namespaces> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Interface names have 15 letters at most.
        let made = Namespaces {
            mark: format!(
                "sg{}x{}",
                std::process::id() % 100_000,
                NEXT.fetch_add(1, Ordering::Relaxed) % 100
            ),
        };
        let mark = &made.mark;
        run(&format!("ip link add {mark}br type bridge"))?;
        run(&format!("ip link set {mark}br up"))?;
        for node in 0..N_NODES {
            let (name, port, address) = (
                made.name(node),
                format!("{mark}v{node}"),
                made.address(node),
            );
            let bucket = format!("root tbf rate {rate} burst {BURST} limit {LIMIT}");
            run(&format!("ip netns add {name}"))?;
            run(&format!(
                "ip link add {port} type veth peer name eth0 netns {name}"
            ))?;
            run(&format!("ip link set {port} master {mark}br up"))?;
            run(&format!("ip -n {name} addr add {address}/24 dev eth0"))?;
            run(&format!("ip -n {name} link set lo up"))?;
            run(&format!("ip -n {name} link set eth0 up"))?;
            run(&format!("tc qdisc add dev {port} {bucket}"))?;
            run(&format!("tc -n {name} qdisc add dev eth0 {bucket}"))?;
        }
        Ok(made)
    }

    fn name(&self, node: u32) -> String {
        format!("{}n{node}", self.mark)
    }

    pub(super) fn address(&self, node: u32) -> String {
        format!("{NETWORK}.{}", node + 1)
    }

    /// A command that runs on a node.
    pub(super) fn command_on(&self, node: u32) -> Command {
        let mut command = process::command("ip");
        command.args(["netns", "exec", &self.name(node)]);
        command
    }

    /// Takes the connection of a node down.
    pub(super) fn cut(&self, node: u32) -> Result<()> {
        run(&format!("ip link set {}v{node} down", self.mark))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // What was not made cannot be removed, and whoever drops this has an error to report already.
        for node in 0..N_NODES {
            let _ = run(&format!("ip link del {}v{node}", self.mark));
            let _ = run(&format!("ip netns del {}", self.name(node)));
        }
        let _ = run(&format!("ip link del {}br", self.mark));
    }
}

fn run(words: &str) -> Result<()> {
    let mut words_of = words.split(' ');
    let program = words_of.next().unwrap_or_default();
    let output = process::command(program)
        .args(words_of)
        .stdout(Stdio::null())
        .output()
        .with_context(|| format!("`{words}`"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{words}`: {}", text.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Children;

    #[test]
    fn the_capabilities_decide() {
        let status = |bits: u64| format!("Name:\tx\nCapEff:\t{bits:016x}\nSeccomp:\t0\n");
        assert!(is_allowed(&status(u64::MAX)) && is_allowed(&status(1 << 12 | 1 << 21)));
        for lacking in [0, 1 << 12, 1 << 21, !(1 << 12), !(1 << 21)] {
            assert!(!is_allowed(&status(lacking)), "{lacking:x}");
        }
        assert!(!is_allowed("Name:\tx\n"));
    }

    /// Whether an error says that a privilege is missing, which a container can take from root without a sign in the capabilities.
    fn is_denied(error: &str) -> bool {
        let words = ["Operation not permitted", "Permission denied"];
        words.iter().any(|words| error.contains(words))
    }

    #[test]
    fn only_a_missing_privilege_is_a_skip() {
        let of_ip = "`ip netns add sg1x0n0`: mount --make-shared /run/netns failed: ";
        for why in ["Operation not permitted", "Permission denied"] {
            assert!(is_denied(&format!("{of_ip}{why}")));
        }
        for error in [
            "`ip link add sg1x0br type bridge`: RTNETLINK answers: File exists",
            "`tc qdisc add dev sg1x0v0 root tbf rate 1gbit`: What is \"rte\"?",
            "on purpose",
            "",
        ] {
            assert!(!is_denied(error), "{error}");
        }
    }

    /// What of the machine has the mark in its name.
    fn left(mark: &str) -> Vec<String> {
        let lines = ["netns", "link"].map(|what| {
            let mut list = process::command("ip");
            process::stdout_of(list.arg(what)).unwrap()
        });
        let lines = lines.concat();
        let marked = lines.lines().filter(|line| line.contains(mark));
        marked.map(str::to_owned).collect()
    }

    /// Whoever returns early leaves neither a process nor a namespace behind.
    #[test]
    fn an_early_return_leaves_nothing_behind() {
        if let Some(why) = cannot() {
            println!("SKIPPED: network namespaces: {why}");
            return;
        }
        let (mut mark, mut child) = (String::new(), 0);
        let mut fails = || -> Result<()> {
            let namespaces = Namespaces::make("1gbit")?;
            mark = namespaces.mark.clone();
            let mut children = Children::default();
            children.push(namespaces.command_on(1).args(["sleep", "600"]).spawn()?);
            child = children[0].id();
            assert!(!left(&mark).is_empty());
            anyhow::bail!("on purpose")
        };
        let error = format!("{:#}", fails().unwrap_err());
        if is_denied(&error) {
            println!("SKIPPED: network namespaces: this system refuses them to root: {error}");
            return;
        }
        assert_eq!(error, "on purpose");
        assert_eq!(left(&mark), [""; 0]);
        assert!(!std::path::Path::new(&format!("/proc/{child}")).exists());
        // A rate that is none fails when half of it is there.
        assert!(Namespaces::make("1parsec").is_err());
        assert_eq!(
            left(&format!("sg{}x", std::process::id() % 100_000)),
            [""; 0]
        );
    }
}
