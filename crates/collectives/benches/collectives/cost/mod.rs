//! How long an operation takes, from what it moves: a latency for each step, and time for each
//! message, byte and addition.
//!
//! [`Work`] counts what an [`Algorithm`](shardgraph_collectives::Algorithm) does, without any
//! constant of a machine. A [`Network`] has those constants; [`fit`] finds them from measured
//! times, and [`Network::seconds`] puts the two together. What this says of a machine that nobody
//! measured is a prediction, and is to be called one wherever it is shown.
//!
//! # Source
//! The latency and bandwidth terms are the alpha and beta of Hockney's model, the terms for
//! messages and additions the overhead of LogP and the gamma of the usual analysis of collective
//! operations.

mod fit;
mod work;

#[cfg(test)]
#[allow(unused_imports, reason = "the tests of the suite name it")]
pub(crate) use fit::Fit;
pub(crate) use fit::{Measured, fit};
pub(crate) use work::{Load, Work};

/// The constants of a machine, or of many with a network between them. All times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Network {
    /// Of each step: how long ranks wait for each other if nothing is sent.
    pub(crate) latency: f64,
    /// Of a processor, for each message that it sends or receives.
    pub(crate) message: f64,
    /// Of a processor, for each byte that it sends or receives.
    pub(crate) byte: f64,
    /// Of a processor, for each byte that it adds to another.
    pub(crate) reduced_byte: f64,
    /// Of the connection of a machine, for each byte in one direction; zero where all ranks are on
    /// one machine.
    pub(crate) wire_byte: f64,
    /// Ranks on each machine: the first so many on the first, and so on.
    pub(crate) ranks_per_node: u32,
    /// Processors of each machine. More ranks than processors take turns.
    pub(crate) cores_per_node: u32,
}

impl Default for Network {
    /// A machine for each rank, and no time for anything.
    fn default() -> Network {
        Network {
            latency: 0.0,
            message: 0.0,
            byte: 0.0,
            reduced_byte: 0.0,
            wire_byte: 0.0,
            ranks_per_node: 1,
            cores_per_node: 1,
        }
    }
}

impl Network {
    /// How long `work` takes: its steps, and after each other what the processors do or what the
    /// wire carries, whichever is longer.
    pub(crate) fn seconds(&self, work: &Work) -> f64 {
        let busy = self.busiest(work);
        let processor = self.message * busy.messages
            + self.byte * busy.bytes
            + self.reduced_byte * busy.reduced_bytes;
        self.latency * work.steps + processor.max(self.wire_byte * work.wire_bytes)
    }

    /// What the processor that has most to do does: that of the busiest rank, or one that ranks
    /// share.
    pub(crate) fn busiest(&self, work: &Work) -> Load {
        let share = f64::from(self.cores_per_node.min(self.ranks_per_node).max(1));
        let more = |rank: f64, node: f64| rank.max(node / share);
        Load {
            messages: more(work.rank.messages, work.node.messages),
            bytes: more(work.rank.bytes, work.node.bytes),
            reduced_bytes: more(work.rank.reduced_bytes, work.node.reduced_bytes),
        }
    }
}
