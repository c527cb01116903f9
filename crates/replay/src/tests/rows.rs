//! Rows, layouts, and what is refused with which words.

use crate::{
    ColumnLayout, ElementKind, LeafRef, Prioritization, PrioritizedMemory, Rows, UniformMemory,
};

pub(crate) fn layout() -> ColumnLayout {
    ColumnLayout::new(&[
        ("observation", ElementKind::F32, 3),
        ("action", ElementKind::U32, 1),
        ("flags", ElementKind::U8, 2),
    ])
    .unwrap()
}

#[test]
fn layouts_that_are_none_are_refused() {
    let cases: [&[(&str, ElementKind, usize)]; 4] = [
        &[],
        &[("a", ElementKind::U8, 0)],
        &[
            ("a", ElementKind::U8, 1),
            ("b", ElementKind::F32, 1),
            ("a", ElementKind::F32, 1),
        ],
        &[("a", ElementKind::U8, 1 << 32)],
    ];
    for columns in cases {
        let error = ColumnLayout::new(columns).unwrap_err().to_string();
        assert!(
            error.starts_with("ColumnLayout::new: columns: expected one or more"),
            "{error}"
        );
    }
    assert_eq!(
        layout().to_string(),
        "observation: 3 f32, action: 1 u32, flags: 2 u8"
    );
    assert_eq!(layout().row_bytes(), 18);
}

const FEW: &str =
    "the row: expected 3 cells (observation: 3 f32, action: 1 u32, flags: 2 u8), given";
const X: LeafRef<'_> = LeafRef::F32(&[1.0, 2.0, 3.0]);
const A: LeafRef<'_> = LeafRef::U32(&[7]);
const B: LeafRef<'_> = LeafRef::U8(&[0, 1]);

/// Rows that are none of `layout()`, and why.
fn misfits() -> [(Vec<LeafRef<'static>>, String); 7] {
    let why = |reason: &str| reason.to_owned();
    let finite = "column observation: expected finite numbers, given";
    [
        (vec![], format!("{FEW} 0 cells")),
        (vec![X, A], format!("{FEW} 2 cells")),
        (
            vec![LeafRef::F32(&[2.0, 3.0]), A, B],
            why("column observation: expected 3 f32, given 2 f32"),
        ),
        (
            vec![X, LeafRef::F32(&[1.0]), B],
            why("column action: expected 1 u32, given 1 f32"),
        ),
        (
            vec![X, A, LeafRef::U8(&[1, 2, 3])],
            why("column flags: expected 2 u8, given 3 u8"),
        ),
        (
            vec![LeafRef::F32(&[0.0, f32::NAN, 0.0]), A, B],
            format!("{finite} NaN"),
        ),
        (
            vec![LeafRef::F32(&[0.0, 1.0, f32::INFINITY]), A, B],
            format!("{finite} inf"),
        ),
    ]
}

#[test]
fn rows_of_another_form_are_refused_and_change_nothing() {
    let mut rows = Rows::new(layout());
    let mut uniform = UniformMemory::new(layout(), 4).unwrap();
    let mut prioritized = PrioritizedMemory::new(layout(), 4, Prioritization::default()).unwrap();
    for (cells, expected) in misfits() {
        let refused = [
            ("Rows::push", rows.push(&cells)),
            ("UniformMemory::insert", uniform.insert(&cells).map(|_| ())),
            (
                "PrioritizedMemory::insert",
                prioritized.insert(&cells).map(|_| ()),
            ),
            (
                "PrioritizedMemory::insert_with",
                prioritized.insert_with(&cells, 1.0).map(|_| ()),
            ),
        ];
        for (method, refused) in refused {
            let error = refused.unwrap_err().to_string();
            assert_eq!(error, format!("{method}: {expected}"));
        }
    }
    assert!(rows.is_empty() && uniform.is_empty() && prioritized.is_empty());
    assert!(rows.f32s(0).is_empty() && uniform.n_inserted() + prioritized.n_inserted() == 0);
}

#[test]
fn blocks_and_batches_of_another_layout_are_refused() {
    let other = ColumnLayout::new(&[("action", ElementKind::U32, 1)]).unwrap();
    let mut memory = UniformMemory::new(layout(), 4).unwrap();
    let mut rows = Rows::new(other);
    let expected =
        "the layout: expected observation: 3 f32, action: 1 u32, flags: 2 u8, given action: 1 u32";
    let error = memory.insert_rows(&rows).unwrap_err().to_string();
    assert_eq!(error, format!("UniformMemory::insert_rows: {expected}"));
    let error = memory.gather_into(&[], &mut rows).unwrap_err().to_string();
    assert_eq!(error, format!("UniformMemory::gather_into: {expected}"));
}

#[test]
fn capacities_out_of_range_are_refused() {
    for capacity in [0, 1 << 32] {
        assert!(UniformMemory::new(layout(), capacity).is_err());
        assert!(PrioritizedMemory::new(layout(), capacity, Prioritization::default()).is_err());
    }
}

#[test]
#[should_panic(expected = "column action: 1 u32 was asked for as f32")]
fn a_column_of_another_kind_is_refused() {
    Rows::new(layout()).f32s(1);
}
