//! Versions of the learner's weights as messages: one flat list each.

use super::wire::to_bytes;

/// The message with the learner's present weights, made when the first actor wants them.
#[derive(Debug, Default)]
pub(crate) struct PresentWeights {
    /// Its version, the number of updates that it has seen.
    version: Option<u64>,
    bytes: Vec<u8>,
    /// The version alone, for actors that have it.
    nothing_newer: Vec<u8>,
}

impl PresentWeights {
    /// What an actor is told that has the version `known`, if any.
    pub(crate) fn message(&mut self, version: u64, weights: &[f32], known: Option<u64>) -> &[u8] {
        if self.version != Some(version) {
            self.version = Some(version);
            self.bytes = to_bytes(&(version, weights));
            self.nothing_newer = to_bytes(&(version, [0.0f32; 0].as_slice()));
        }
        match known == self.version {
            true => &self.nothing_newer,
            false => &self.bytes,
        }
    }
}

/// A version, the number of updates that it has seen, and its weights; none where the actor has them.
pub(crate) type VersionedWeights = (u64, Vec<f32>);

#[cfg(test)]
mod tests {
    use super::super::wire::from_bytes;
    use super::*;

    #[test]
    fn weights_are_sent_to_who_has_others() {
        let mut present = PresentWeights::default();
        let mut told = |version, weights: &[f32], known| {
            from_bytes::<VersionedWeights>("weights", present.message(version, weights, known))
                .unwrap()
        };
        assert_eq!(told(3, &[0.5, 1.5], None), (3, vec![0.5, 1.5]));
        assert_eq!(told(3, &[0.5, 1.5], Some(2)), (3, vec![0.5, 1.5]));
        assert_eq!(told(3, &[0.5, 1.5], Some(3)), (3, vec![]));
        assert_eq!(told(4, &[2.5, 1.5], Some(3)), (4, vec![2.5, 1.5]));
        assert_eq!(told(4, &[2.5, 1.5], Some(4)), (4, vec![]));
    }
}
