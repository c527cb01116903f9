//! Three machines on one: network namespaces joined by a bridge, each connection held to a rate.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::process;

pub(super) const N_NODES: u32 = 3;

/// The first three numbers of their addresses.
const NETWORK: &str = "10.77.0";

/// What the token bucket may send at once. Less than one of the kernel's large segments makes it slower than its rate.
const BURST: &str = "128kb";

/// Bytes that wait for the rate before some are dropped: more than the connections have under way.
const LIMIT: &str = "4mb";

/// The namespaces; gone when this is dropped.
pub(super) struct Namespaces {
    /// What their names begin with.
    mark: String,
}

impl Namespaces {
    /// Makes them with `rate` (as `1gbit`) in both directions.
    ///
    /// # Errors
    /// Only root may, and only where `ip` and `tc` are installed.
    pub(super) fn make(rate: &str) -> Result<Namespaces> {
        // Interface names have 15 letters at most.
        let made = Namespaces {
            mark: format!("sg{}", std::process::id() % 100_000),
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
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{words}`: {}", text.trim());
    Ok(())
}
