//! The same sums by every transport, and errors that end all ranks' waits.

use proptest::prelude::*;
use shardgraph_collectives::threads;

use std::sync::Arc;

use shardgraph_collectives::Timeout;
use shardgraph_device::Device;

use crate::tests::{gpus, gpus_together_and_apart, on_rank_device};
use crate::{DeviceComm, Error};

/// Numbers of every size and kind, often of one size so that sums cancel.
fn partial() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -4.0f32..4.0,
        4 => any::<f32>(),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
        2 => Just(-0.0),
        2 => (any::<u32>()).prop_map(|bits| f32::from_bits(bits & 0x807f_ffff)), // subnormal
    ]
}

/// For each rank its blocks of `len` elements.
fn parts() -> impl Strategy<Value = (usize, Vec<Vec<f32>>)> {
    (1usize..70, prop::collection::vec(0usize..12, 1..=6)).prop_flat_map(|(len, n_blocks)| {
        let part = |n: &usize| prop::collection::vec(partial(), n * len);
        (Just(len), n_blocks.iter().map(part).collect::<Vec<_>>())
    })
}

/// Each rank's result of the exact sum of its part.
fn exact_sums(device: &Device, len: usize, parts: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let results = threads::run(parts.len() as u32, |mut comm| {
        on_rank_device(device, &mut comm, |device, comm| {
            let own = Arc::new(device.upload(&parts[comm.rank() as usize]).unwrap());
            let mut ranks = DeviceComm::new(device, comm, Timeout::default());
            let mut sum = device.zeros(len).unwrap();
            ranks.exact_sum(&own, &mut sum).unwrap();
            device.download(&sum).unwrap()
        })
    });
    let bits = |sum: Vec<f32>| sum.into_iter().map(f32::to_bits).collect();
    results.into_iter().map(|sum| bits(sum.unwrap())).collect()
}

proptest! {
    /// The device's kernel and the communicator give the same bits.
    #[test]
    fn the_exact_sum_is_the_same_on_a_device((len, parts) in parts()) {
        let want = exact_sums(&Device::host(), len, &parts);
        for device in gpus_together_and_apart() {
            prop_assert_eq!(exact_sums(&device, len, &parts), want.clone());
        }
    }
}

/// Ranks that wait in a group on the devices hear of what their communicator knows, which then says the same.
#[test]
fn a_rank_that_gives_up_elsewhere_ends_the_waits_of_a_group() {
    let devices = gpus_together_and_apart();
    for device in devices.iter().filter(|device| device.nccl().is_some()) {
        let results = threads::run(3, |mut comm| {
            let deadline = Timeout::default();
            let device = crate::rank_device(device, &mut comm, deadline)?;
            if comm.rank() == 1 {
                comm.abort("disk full");
                return Ok(());
            }
            let own = Arc::new(device.upload(&[1.0; 8])?);
            let mut ranks = DeviceComm::new(&device, &mut comm, Timeout::default());
            let mut sum = device.zeros(4)?;
            let summed = ranks.exact_sum(&own, &mut sum);
            let error = summed
                .and_then(|()| Ok(device.download(&sum)?))
                .unwrap_err();
            assert!(
                error
                    .device_error()
                    .is_some_and(|error| error.is_lost_rank())
            );
            assert!(
                error.to_string().ends_with("aborted by rank 1: disk full"),
                "{error}"
            );
            let known = comm.failure().map(|error| error.kind().to_string());
            assert_eq!(known.unwrap(), "aborted by rank 1: disk full");
            Ok::<_, Error>(())
        });
        for result in results {
            result.unwrap().unwrap();
        }
    }
}

/// A rank whose device fails ends this operation or the next one for all: nobody waits for the deadline.
#[test]
fn a_rank_that_runs_out_of_memory_takes_nobody_with_it_into_a_wait() {
    for device in gpus() {
        for k in 0..4 {
            let results = threads::run(3, |mut comm| {
                let mut device = device.new_stream().unwrap();
                let own = vec![comm.rank() as f32; 8];
                if comm.rank() == 1 {
                    device = device.failing_at_allocation(k);
                }
                let own = Arc::new(device.upload(&own)?);
                let mut ranks = DeviceComm::new(&device, &mut comm, Timeout::default());
                for _ in 0..2 {
                    let mut sum = device.zeros(4)?;
                    ranks.exact_sum(&own, &mut sum)?;
                }
                let mut sum = device.zeros(4)?;
                ranks.exact_sum(&own, &mut sum)?;
                Ok::<_, Error>(device.download(&sum)?)
            });
            let failed = results
                .iter()
                .filter(|result| matches!(result, Ok(Err(_))))
                .count();
            assert_eq!(failed, 3, "allocation {k}: {results:?}");
            let text = results[1]
                .as_ref()
                .unwrap()
                .as_ref()
                .unwrap_err()
                .to_string();
            assert!(text.contains("no room for"), "{text}");
        }
    }
}
