//! Folding two ranks into one and back, of shapes and of values, and which shapes cannot be.

use proptest::prelude::*;

use crate::space::{
    Major, RankedSpace, Space, Value, fold_time, fold_time_values, unfold_time, unfold_time_values,
};

proptest! {
    #[test]
    fn unfolding_is_the_inverse_of_folding(n_outer in 1..5usize, n_inner in 0..5usize, rest in prop::collection::vec(0..4usize, 0..3)) {
        let shape = [&[n_outer, n_inner], rest.as_slice()].concat();
        let folded = fold_time(&shape).unwrap();
        prop_assert_eq!(folded[0], n_outer * n_inner);
        prop_assert_eq!(unfold_time(&folded, n_outer).unwrap(), shape);

        let value = |outer: usize, inner: usize| Value::U32((outer * n_inner + inner) as u32);
        let steps: Vec<Vec<_>> = (0..n_outer).map(|outer| (0..n_inner).map(|inner| value(outer, inner)).collect()).collect();
        let rows = fold_time_values(steps.clone()).unwrap();
        let expected: Vec<_> = (0..folded[0] as u32).map(Value::U32).collect();
        prop_assert_eq!(&rows, &expected);
        prop_assert_eq!(unfold_time_values(rows, n_outer).unwrap(), steps);
    }
}

#[test]
fn shapes_that_do_not_fold_are_refused() {
    for shape in [&[][..], &[3], &[0, 3], &[usize::MAX, 2]] {
        let error = fold_time(shape).unwrap_err().to_string();
        let expected = "fold_time: the shape: expected two ranks or more, the first one not 0, whose product fits, given ";
        assert_eq!(error, format!("{expected}{shape:?}"));
    }
    for (shape, n_outer) in [(&[][..], 1), (&[7, 2], 2), (&[7], 0), (&[0], 0)] {
        let error = unfold_time(shape, n_outer).unwrap_err().to_string();
        let expected = format!(
            "expected a first rank that is a multiple of {n_outer}, which is not 0, given {shape:?}"
        );
        assert_eq!(error, format!("unfold_time: the shape: {expected}"));
    }
    let row = |n| vec![Value::U32(0); n];
    for steps in [vec![], vec![row(1), row(2)], vec![row(2), row(2), row(0)]] {
        let error = fold_time_values(steps).unwrap_err().to_string();
        assert!(error.starts_with("fold_time_values: the steps: expected one or more, each with as many values, given ["), "{error}");
    }
    assert!(unfold_time_values(row(3), 2).is_err());
}

#[test]
fn ranks_stand_in_their_order() {
    let space = RankedSpace::new(Space::discrete(2).unwrap());
    let batch = space.clone().with_batch();
    for (ranked, expected) in [
        (space.clone(), vec![]),
        (batch.clone(), vec![3]),
        (space.clone().with_time(Major::Time), vec![5]),
        (space.with_time(Major::Batch), vec![5]),
        (batch.clone().with_time(Major::Time), vec![5, 3]),
        (batch.with_time(Major::Batch), vec![3, 5]),
    ] {
        assert_eq!(ranked.leading_shape(5, 3), expected, "{ranked:?}");
    }
}
