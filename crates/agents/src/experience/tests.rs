//! What steps leave in a memory: ends, limits, masks, and parts of other environments.

#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

use shardgraph_environments::{Autoreset, CartPoles};

use super::*;
use crate::tests::environments::{LIMIT, cartpole, corridors};

/// A transition as a memory gets it.
#[derive(Debug, PartialEq)]
struct Stored {
    observation: Vec<f32>,
    action: u32,
    reward: f32,
    next: Vec<f32>,
    discount: f32,
}

fn step(experience: &mut Experience, actions: &[u32]) -> (Vec<Stored>, Vec<Episode>) {
    let (mut stored, mut ended) = (Vec::new(), Vec::new());
    let mut insert = |cells: &[LeafRef<'_>]| {
        let [
            LeafRef::F32(observation),
            LeafRef::U32([action]),
            LeafRef::F32([reward]),
            LeafRef::F32(next),
            LeafRef::F32([discount]),
        ] = cells
        else {
            panic!("another layout");
        };
        stored.push(Stored {
            observation: observation.to_vec(),
            action: *action,
            reward: *reward,
            next: next.to_vec(),
            discount: *discount,
        });
        Ok(())
    };
    let actions = Actions::Discrete(actions);
    experience.step(actions, &mut insert, &mut ended).unwrap();
    (stored, ended)
}

/// Carts that a limit stops at their next step: after the header of 12 bytes, 52 a cart, there is at 44 of each the number of its steps.
pub(crate) fn put_before_the_limit(carts: &mut dyn VectorEnvironment, idx: usize) {
    let mut bytes = carts.to_bytes();
    let at = 12 + 52 * idx + 44;
    bytes[at..at + 4].copy_from_slice(&499u32.to_le_bytes());
    carts.restore(&bytes).unwrap();
}

/// A cart whose pole falls at its next step: its angle and the velocity of that are at 28 and 36 of its bytes.
pub(crate) fn put_before_the_fall(carts: &mut dyn VectorEnvironment, idx: usize) {
    let mut bytes = carts.to_bytes();
    let at = 12 + 52 * idx + 28;
    bytes[at..at + 8].copy_from_slice(&0.2f64.to_le_bytes());
    bytes[at + 8..at + 16].copy_from_slice(&3.0f64.to_le_bytes());
    carts.restore(&bytes).unwrap();
}

/// The second of two carts is stopped by the limit; by hand, with twins that no limit stops.
#[test]
fn a_limit_leaves_the_discount_and_the_last_observation_of_its_own_episode() {
    for n_step in [1u32, 2, 3, 5] {
        let mut experience = Experience::new(&cartpole(), 2, n_step, 0.5, 9).unwrap();
        let mut twins = CartPoles::new(2, Autoreset::SameStep).unwrap();
        twins.reset(9);
        let (mut seen, mut stored) = (Vec::new(), Vec::new());
        for actions in [[0, 1], [1, 0], [0, 1]] {
            if seen.len() == 2 {
                put_before_the_limit(experience.vector.as_mut(), 1);
            }
            seen.push((twins.observations()[1].to_vec(), actions[1]));
            let (own, ended) = step(&mut experience, &actions);
            assert_eq!(ended.len(), usize::from(seen.len() == 3), "{n_step}");
            twins.step(&actions).unwrap();
            // Of the second cart: its own observations are those of the twin.
            let is_own = |of: &Stored| seen.iter().any(|(seen, _)| *seen == of.observation);
            stored.extend(own.into_iter().filter(is_own));
        }
        let last = twins.observations()[1].to_vec();
        let n_rest = seen.len().min(n_step as usize);
        let rest = &stored[stored.len() - n_rest..];
        for (of, n_rewards) in rest.iter().zip((1..=n_rest as i32).rev()) {
            let (observation, action) = &seen[seen.len() - n_rewards as usize];
            let expected = Stored {
                observation: observation.clone(),
                action: *action,
                reward: 2.0 - 0.5f32.powi(n_rewards - 1), // 1 + 1/2 + ...
                next: last.clone(),
                discount: 0.5f32.powi(n_rewards),
            };
            assert_eq!(of, &expected, "{n_step}");
        }
        assert_eq!(stored.len(), 3, "{n_step}");
        assert_ne!(
            experience.seen().observations[4..],
            last[..],
            "a new episode"
        );
    }
}

#[test]
fn a_fall_leaves_no_discount() {
    let mut experience = Experience::new(&cartpole(), 1, 3, 0.5, 9).unwrap();
    let (mut n_steps, mut twin) = (0, CartPoles::new(1, Autoreset::Disabled).unwrap());
    twin.reset(9);
    let stored = loop {
        let (stored, ended) = step(&mut experience, &[1]);
        twin.step(&[1]).unwrap();
        n_steps += 1;
        if let [episode] = ended[..] {
            assert_eq!(episode.length, n_steps);
            break stored;
        }
        assert!(stored.iter().all(|of| of.discount == 0.125));
    };
    assert_eq!(stored.len(), 3);
    for of in &stored {
        assert_eq!(
            (of.discount, &of.next[..]),
            (0.0, &twin.observations()[0][..])
        );
    }
}

/// A limit stops an episode in the third cell, where it is not allowed to stand still; the next one begins in the first, where it is.
#[test]
fn a_limit_leaves_the_mask_of_its_own_episode() {
    let mut experience = Experience::new(&corridors(false), 1, 1, 0.5, 9).unwrap();
    let mut masks = Vec::new();
    let mut insert = |cells: &[LeafRef<'_>]| {
        let [.., LeafRef::U8(mask)] = cells else {
            panic!("another layout");
        };
        masks.push(mask.to_vec());
        Ok(())
    };
    let (turns, mut ended) = ([1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1], Vec::new());
    assert_eq!(turns.len(), LIMIT as usize);
    for turn in turns {
        let actions = Actions::Discrete(&[turn]);
        experience.step(actions, &mut insert, &mut ended).unwrap();
    }
    assert_eq!(ended.len(), 1);
    assert_eq!(masks[LIMIT as usize - 1], [1, 1, 0]);
    assert_eq!(experience.seen().mask, Some(&[false, true, true][..]));
}

#[test]
fn parts_of_other_environments_are_refused() {
    let experience = Experience::new(&cartpole(), 2, 3, 0.5, 9).unwrap();
    let mut tensors = Tensors::new();
    experience.add_to("environments", &mut tensors).unwrap();
    let mut other = Experience::new(&cartpole(), 3, 3, 0.5, 9).unwrap();
    for n in [2, 3] {
        let episodes = EpisodeStatistics::new(n);
        assert!(other.restore("environments", &tensors, episodes).is_err());
    }
}
