//! What a job takes of the host's memory at the least, beside its graphs: one that cannot fit is refused before it begins.

use shardgraph_device::{Device, DeviceKind, free_host_bytes};
use shardgraph_layers::PolicyShape;

use crate::Error;

/// Bytes of the embeddings of so many rows (a node of a state each) in one evaluation: every layer makes its sums and what becomes of them, of K
/// numbers each, and all are kept to the end.
pub(crate) fn embedding_bytes(shape: PolicyShape, n_rows: u64) -> u64 {
    let numbers = (2 * shape.n_layers as u64).saturating_mul(shape.embed_dim as u64);
    numbers.saturating_mul(4).saturating_mul(n_rows)
}

/// The same for an evaluation that keeps no layer longer than the next one needs it: what all layers share, and one layer.
pub(crate) fn layer_bytes(shape: PolicyShape, n_rows: u64) -> u64 {
    embedding_bytes(
        PolicyShape {
            n_layers: 1,
            ..shape
        },
        n_rows,
    )
}

/// Refuses what is more than the host can still give; `cure` says what would take less.
///
/// # Errors
/// [`ErrorKind::Input`](crate::ErrorKind::Input) with both numbers.
pub(crate) fn check_room(device: &Device, least: u64, cure: &str) -> Result<(), Error> {
    match free_host_bytes().filter(|_| device.kind() == DeviceKind::Host) {
        Some(free) => check(least, free, cure),
        None => Ok(()),
    }
}

/// The largest block that glibc learns from, less room for its header.
const LEARNT_BYTES: usize = (32 << 20) - (64 << 10);

/// Makes glibc keep what a step frees for the next one. It gives freed memory back above a threshold, twice the largest block so far that had a
/// mapping of its own; below that, every step asks the system for its arrays anew and has the pages cleared. Freeing one such block, which nobody touches,
/// sets the thresholds; other allocators take no notice.
///
/// # Source
/// mallopt(3), `M_MMAP_THRESHOLD`, on its dynamic adjustment.
pub(crate) fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LEARNT_BYTES)));
}

fn check(least: u64, free: u64, cure: &str) -> Result<(), Error> {
    match least <= free {
        true => Ok(()),
        false => Err(Error::input(format!(
            "this takes {} MiB of memory at the least, beside the graphs, and {} MiB are free: {cure}",
            least.div_ceil(1 << 20),
            free >> 20
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        check(3 << 20, 3 << 20, "wait").unwrap();
        let error = check((3 << 20) + 1, (3 << 20) + 7, "wait");
        error.unwrap();
        let error = check((3 << 20) + 1, 3 << 20, "wait").unwrap_err();
        let wanted =
            "takes 4 MiB of memory at the least, beside the graphs, and 3 MiB are free: wait";
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(error.class(), shardgraph_error::Class::Input);
    }

    /// The estimate is a lower bound: an evaluation of the general path keeps more arrays than it counts.
    #[test]
    fn embeddings_are_counted_by_rows_layers_and_width() {
        let shape = PolicyShape {
            embed_dim: 32,
            n_layers: 4,
            ..PolicyShape::default()
        };
        assert_eq!(embedding_bytes(shape, 1000), 8 * 32 * 4 * 1000);
        assert_eq!(embedding_bytes(shape, u64::MAX), u64::MAX);
        assert_eq!(layer_bytes(shape, 1000), 2 * 32 * 4 * 1000);
    }
}
