//! What resident blocks and masks refuse, and products without elements.

use shardgraph_device::{Device, ErrorKind};

use super::sparse::{bits, lists, run};
use super::{devices, gpus};
use crate::{self as ops, Adjacency, MaskedProduct, ResidentAdjacency, RowIndex, SparseProduct};

/// Two rows that name the columns 1 and 2.
const TWO_ROWS: Adjacency<'_> = Adjacency::Csr {
    row_ptr: &[0, 1, 2],
    columns: &[1, 2],
    values: None,
};

/// What a product with a block of this shape fails with.
fn refusal(
    device: &Device,
    adjacency: Adjacency<'_>,
    n_rows: usize,
    n_columns: usize,
) -> Option<ErrorKind> {
    let product = SparseProduct {
        adjacency,
        n_rows,
        n_columns,
        width: 1,
    };
    let x = device.zeros(n_columns).unwrap();
    let mut out = device.zeros(n_rows).unwrap();
    let outcome = ops::sparse_product(device, product, &x, &mut out);
    outcome.err().map(|error| error.kind().clone())
}

fn is_column_2_of_2(kind: Option<ErrorKind>) -> bool {
    matches!(
        kind,
        Some(ErrorKind::Index {
            index: 2,
            n_rows: 2,
            ..
        })
    )
}

#[test]
fn resident_blocks_are_checked_against_products() {
    for device in devices() {
        let resident = ResidentAdjacency::upload(&device, TWO_ROWS).unwrap();
        let block = Adjacency::Resident(&resident);
        assert_eq!(refusal(&device, block, 2, 3), None);
        let rows = refusal(&device, block, 3, 3);
        assert!(matches!(rows, Some(ErrorKind::Length { given: 2, .. })));
        assert!(is_column_2_of_2(refusal(&device, block, 2, 2)));
        let resident = ResidentAdjacency::upload(&device, bits(&[0; 3], 1)).unwrap();
        let block = Adjacency::Resident(&resident);
        assert_eq!(refusal(&device, block, 64, 3), None);
        for (n_rows, n_columns) in [(65, 3), (64, 4), (64, 2)] {
            let kind = refusal(&device, block, n_rows, n_columns);
            assert!(matches!(kind, Some(ErrorKind::Length { .. })), "{kind:?}");
        }
    }
}

/// The same error on every device, and nothing read behind the end of `x`.
#[test]
fn column_ids_that_x_does_not_have_are_errors() {
    for device in devices() {
        assert!(is_column_2_of_2(refusal(&device, TWO_ROWS, 2, 2)));
    }
}

#[test]
fn blocks_of_another_device_are_refused() {
    let host = Device::host();
    for device in gpus() {
        for (has, wants) in [(&host, &device), (&device, &host)] {
            let block = ResidentAdjacency::upload(has, TWO_ROWS).unwrap();
            let kind = refusal(wants, Adjacency::Resident(&block), 2, 3);
            assert!(
                matches!(kind, Some(ErrorKind::OtherDevice { .. })),
                "{kind:?}"
            );
            let by = RowIndex::upload(has, 3, [2, 0]).unwrap();
            let (x, mut out) = (wants.zeros(3).unwrap(), wants.zeros(2).unwrap());
            let error = ops::gather_rows(wants, &by, 1, &x, &mut out).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::OtherDevice { .. }),
                "{error}"
            );
            let (x, mut out) = (wants.zeros(2).unwrap(), wants.zeros(3).unwrap());
            let error = ops::scatter_rows(wants, &by, 1, &x, &mut out).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::OtherDevice { .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn blocks_that_are_no_matrix_are_not_made_resident() {
    for device in devices() {
        let resident = ResidentAdjacency::upload(&device, TWO_ROWS).unwrap();
        let again = ResidentAdjacency::upload(&device, Adjacency::Resident(&resident)).unwrap_err();
        assert!(matches!(again.kind(), ErrorKind::Invalid { .. }), "{again}");
        for broken in [
            bits(&[0; 3], 2),
            bits(&[0; 3], 0),
            lists(&[0, 1], &[1], Some(&[])),
            lists(&[], &[], None),
            lists(&[0, 2], &[1], None),
            lists(&[0, 2, 1], &[1], None),
            lists(&[1, 1], &[1], None),
        ] {
            let error = ResidentAdjacency::upload(&device, broken).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Length { .. }), "{error}");
        }
    }
}

/// A product of three states whose mask has nine elements.
fn three_states(adjacency: Adjacency<'_>) -> MaskedProduct<'_> {
    MaskedProduct {
        adjacency,
        n_rows: 2,
        n_columns: 3,
        n_states: 3,
        width: 1,
        first_row: 1,
        keep: None,
        scale: None,
        bias: None,
        relu: false,
    }
}

/// What a masked product with nine elements of `x` and six of `out` fails with.
fn masked_refusal(device: &Device, product: MaskedProduct<'_>) -> Option<String> {
    let (x, mut out) = (device.zeros(9).unwrap(), device.zeros(6).unwrap());
    let outcome = ops::masked_sparse_product(device, product, &x, &mut out);
    outcome.err().map(|error| error.to_string())
}

#[test]
fn masks_of_another_length_are_errors() {
    for device in devices() {
        let resident = ResidentAdjacency::upload(&device, TWO_ROWS).unwrap();
        let [five, nine] = [5, 9].map(|n| device.zeros(n).unwrap());
        let mut right = three_states(Adjacency::Resident(&resident));
        right.keep = Some(&nine);
        assert_eq!(masked_refusal(&device, right), None);
        let mut wrong = [right; 5];
        wrong[0].keep = Some(&five);
        wrong[1].scale = Some(&five);
        wrong[2].bias = Some(&five);
        wrong[3].first_row = 2;
        wrong[4].n_rows = 3;
        let texts = [
            "`keep` has 5 elements, 9 are",
            "`scale` has 5 elements, 3 are",
            "`bias` has 5 elements, 6 are",
            "`keep rows` has 3 elements, 4 are",
            "`out` has 6 elements, 9 are",
        ];
        for (product, text) in wrong.into_iter().zip(texts) {
            let given = masked_refusal(&device, product).unwrap();
            assert!(given.contains(text), "{given}");
        }
    }
}

#[test]
fn products_without_elements_are_fine() {
    for device in devices() {
        let product = |block, n_rows, n_columns, width, x: &[f32]| {
            let block = ResidentAdjacency::upload(&device, block).unwrap();
            let product = SparseProduct {
                adjacency: Adjacency::Resident(&block),
                n_rows,
                n_columns,
                width,
            };
            run(&device, product, x)
        };
        let zeros = lists(&[0; 3], &[], None);
        assert!(product(lists(&[0], &[], None), 0, 3, 2, &[1.0; 6]).is_empty());
        assert!(product(zeros, 2, 3, 0, &[]).is_empty());
        assert_eq!(product(zeros, 2, 0, 2, &[]), [0.0; 4]);
        assert_eq!(product(bits(&[], 1), 2, 0, 2, &[]), [0.0; 4]);
        assert!(product(bits(&[], 0), 0, 3, 2, &[1.0; 6]).is_empty());
    }
}
