//! The order of edges on a device, and rates that fall within a launch.

use shardgraph_device::{Device, ErrorKind};

use super::super::{AliasTable, EdgeList, EdgeOrder, FallingRate, Mode, Samples, Tables, Trainer};
use super::devices::{devices, gpus};
use super::{ONE_WARP, case};

/// Every device puts the edges into the same order, which is another one and holds each edge once.
#[test]
fn edges_are_permuted_alike_everywhere() {
    for n in [0u32, 1, 2, 33, 255, 256, 257, 5000] {
        let pairs: Vec<u32> = (0..n).flat_map(|i| [i, i + n]).collect();
        let permuted = |device: &Device, key: u64| {
            let edges = EdgeList::upload(device, &pairs).unwrap();
            let edges = edges.permuted(device, key).unwrap();
            device.download(&edges.pairs).unwrap()
        };
        let wanted = permuted(&Device::host(), 0x0123_4567_89AB_CDEF);
        for device in devices() {
            assert_eq!(permuted(&device, 0x0123_4567_89AB_CDEF), wanted, "{n}");
            if n > 30 {
                assert_ne!(permuted(&device, 1), wanted, "{n}");
            }
        }
        let mut sorted: Vec<[u32; 2]> = wanted.as_chunks().0.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted.as_flattened(), pairs);
        assert!(n < 30 || wanted != pairs);
    }
    let host = Device::host();
    let weighted = EdgeList::upload_weighted(&host, &[0, 1], &[1.0]).unwrap();
    let refused = weighted.permuted(&host, 1).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Invalid { .. }));
}

/// One launch whose rate falls is as many launches of one sample with its rate each.
fn falling(device: &Device, group: u32) {
    let mut case = case(36, 4, 40);
    case.settings.group = group;
    let rate = FallingRate {
        first: 0.25,
        slope: -1.0 / 256.0, // products and sums are exact
    };
    let edges = EdgeList::upload(device, &case.pairs).unwrap();
    let negatives = AliasTable::from_degrees(device, &case.degrees).unwrap();
    let samples = |first: u64, count: u64| Samples {
        edges: &edges,
        negatives: &negatives,
        order: EdgeOrder::Listed { first },
        reversed: false,
        first,
        count,
    };
    let run = |by_group: bool| {
        let mut trainer = Trainer::new(device, case.settings).unwrap();
        (trainer.max_blocks, trainer.block) = (ONE_WARP.max_blocks, ONE_WARP.block);
        let [mut vertex, mut context] =
            [case.vertex(), case.context()].map(|rows| device.upload(&rows).unwrap());
        let mut first = 0;
        while first < case.count {
            let tables = Tables::Order2 {
                vertex: &mut vertex,
                context: &mut context,
            };
            let count = if by_group {
                u64::from(group)
            } else {
                case.count
            };
            if by_group {
                let rate = rate.first + rate.slope * first as f32;
                trainer
                    .step(&samples(first, count), rate, tables, None)
                    .unwrap();
            } else {
                trainer
                    .step_falling(&samples(0, count), rate, tables)
                    .unwrap();
            }
            first += count;
        }
        [vertex, context].map(|rows| device.download(&rows).unwrap())
    };
    assert_eq!(run(true), run(false), "groups of {group}");
}

#[test]
fn rates_fall_within_a_launch() {
    for device in gpus() {
        for group in [1, 4] {
            falling(&device, group);
        }
    }
    let host = Device::host();
    let case = case(8, 2, 4);
    let edges = EdgeList::upload(&host, &case.pairs).unwrap();
    let negatives = AliasTable::from_degrees(&host, &case.degrees).unwrap();
    let samples = Samples {
        edges: &edges,
        negatives: &negatives,
        order: EdgeOrder::Listed { first: 0 },
        reversed: false,
        first: 0,
        count: 4,
    };
    let (mut vertex, mut context) = (case.vertex().into(), case.context().into());
    let tables = Tables::Order2 {
        vertex: &mut vertex,
        context: &mut context,
    };
    assert_eq!(case.settings.mode, Mode::Hogwild);
    let mut trainer = Trainer::new(&host, case.settings).unwrap();
    let refused = trainer.step_falling::<f32>(&samples, FallingRate::constant(0.1), tables);
    let kind = refused.unwrap_err();
    assert!(
        matches!(kind.kind(), ErrorKind::Unsupported { .. }),
        "{kind}"
    );
}
