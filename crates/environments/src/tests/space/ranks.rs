//! The shape of a batch and of time in front of a space.

use crate::space::{Major, RankedSpace, Space};

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
