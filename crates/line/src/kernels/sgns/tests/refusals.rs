//! Operands and settings that are refused, each with its reason.

use shardgraph_device::Device;

use super::{AliasTable, EdgeList, EdgeOrder, Mode, Samples, Settings, Tables, Trainer};

/// A step of two samples from four ids to tables of the given heights.
fn try_step(
    heights: (usize, usize),
    change: impl FnOnce(&mut Samples<'_>),
    rate: f32,
) -> Result<(), String> {
    let device = Device::host();
    let edges = EdgeList::upload(&device, &[0, 3, 6, 8]).unwrap();
    let negatives = AliasTable::from_degrees(&device, &[1; 9]).unwrap();
    let mut samples = Samples {
        edges: &edges,
        negatives: &negatives,
        order: EdgeOrder::Listed { first: 0 },
        reversed: false,
        first: 0,
        count: 2,
    };
    change(&mut samples);
    let mut trainer = Trainer::new(&device, super::settings(2, 1)).unwrap();
    let mut vertex = device.zeros::<f32>(2 * heights.0).unwrap();
    let mut context = device.zeros::<f32>(2 * heights.1).unwrap();
    let tables = Tables::Order2 {
        vertex: &mut vertex,
        context: &mut context,
    };
    trainer
        .step(&samples, rate, tables, None)
        .map_err(|e| e.to_string())
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    assert_eq!(try_step((7, 9), |_| {}, 0.1), Ok(()));
    let refused = |result: Result<(), String>, text: &str| {
        let message = result.unwrap_err();
        assert!(message.contains(text), "{message}");
    };
    refused(
        try_step((6, 9), |_| {}, 0.1),
        "row 6 is outside a table of 6 rows",
    );
    refused(
        try_step((7, 8), |_| {}, 0.1),
        "row 8 is outside a table of 8 rows",
    );
    refused(
        try_step((7, 9), |s| s.reversed = true, 0.1),
        "row 8 is outside a table of 7 rows",
    );
    refused(
        try_step((7, 9), |s| s.order = EdgeOrder::Drawn, 0.1),
        "without weights",
    );
    refused(try_step((7, 9), |s| s.first = u64::MAX, 0.1), "below 2^64");
    refused(try_step((7, 9), |_| {}, f32::NAN), "not finite");
    assert!(EdgeList::upload(&Device::host(), &[1, 2, 3]).is_err());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let settings = super::settings(2, 1);
    let refuse = |settings: Settings, text: &str| {
        let message = Trainer::new(&Device::host(), settings)
            .unwrap_err()
            .to_string();
        assert!(message.contains(text), "{message}");
    };
    refuse(
        Settings {
            group: 0,
            ..settings
        },
        "group",
    );
    refuse(Settings { dim: 0, ..settings }, "dim");
    refuse(
        Settings {
            n_negatives: 32,
            ..settings
        },
        "at most 31",
    );
    let mode = Mode::Deterministic { batch: 0 };
    refuse(Settings { mode, ..settings }, "batch");
}
