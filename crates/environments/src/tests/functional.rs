//! Vectors of functional environments: equal to their copies alone, in every autoreset mode, and
//! restored to the same future.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shardgraph_random::KeyedRng;

use crate::space::{Space, SpaceKind};
use crate::{
    Actions, Autoreset, ENVIRONMENTS, ScaledObservations, Threads, VectorEnvironment,
    named_environment,
};

fn make(name: &str, n: usize, autoreset: Autoreset) -> Box<dyn VectorEnvironment> {
    named_environment(name, &BTreeMap::new(), n, autoreset).unwrap()
}

/// Actions drawn among those that the masks allow.
enum Drawn {
    Discrete(Vec<u32>),
    Continuous(Vec<f32>),
}

impl Drawn {
    fn actions(&self) -> Actions<'_> {
        match self {
            Drawn::Discrete(numbers) => Actions::Discrete(numbers),
            Drawn::Continuous(elements) => Actions::Continuous(elements),
        }
    }
}

fn draw(vector: &dyn VectorEnvironment, rng: &mut KeyedRng) -> Drawn {
    let n = vector.n_environments();
    let SpaceKind::Discrete { n: n_actions } = *vector.action_space().kind() else {
        let elements = (0..n).map(|_| 2.0 * rng.uniform_f32() - 1.0);
        return Drawn::Continuous(elements.collect());
    };
    let one = |idx: usize| match vector.action_mask() {
        None => rng.below_u32(n_actions),
        Some(masks) => {
            let row = &masks[idx * n_actions as usize..][..n_actions as usize];
            let allowed: Vec<u32> = (0..n_actions).filter(|&a| row[a as usize]).collect();
            // Of an episode that is done, none may be taken.
            match allowed.len() {
                0 => 0,
                n => allowed[rng.index(n)],
            }
        }
    };
    Drawn::Discrete((0..n).map(one).collect())
}

/// The first rows of the actions.
fn rows(drawn: &Drawn, n: usize) -> Drawn {
    match drawn {
        Drawn::Discrete(numbers) => Drawn::Discrete(numbers[..n].to_vec()),
        Drawn::Continuous(elements) => Drawn::Continuous(elements[..n].to_vec()),
    }
}

/// The first environments of `whole` are in the states of `part`.
fn assert_same_rows(whole: &dyn VectorEnvironment, part: &dyn VectorEnvironment) {
    let n_floats = part.observations().len();
    assert_eq!(&whole.observations()[..n_floats], part.observations());
    let (all, some) = (whole.last_step(), part.last_step());
    for idx in 0..part.n_environments() {
        assert_eq!(whole.final_observation(idx), part.final_observation(idx));
        assert_eq!(whole.final_action_mask(idx), part.final_action_mask(idx));
        assert_eq!(all.rewards[idx].to_bits(), some.rewards[idx].to_bits());
        assert_eq!(all.terminated[idx], some.terminated[idx]);
        assert_eq!(all.truncated[idx], some.truncated[idx]);
        assert_eq!(all.reset[idx], some.reset[idx]);
    }
}

/// The first environments of a vector do what they do in a smaller one.
#[test]
fn an_environment_does_not_depend_on_the_number_beside_it() {
    for known in ENVIRONMENTS {
        for autoreset in [Autoreset::SameStep, Autoreset::NextStep] {
            let mut whole = make(known.name, 3, autoreset);
            let mut alone = make(known.name, 1, autoreset);
            let mut pair = make(known.name, 2, autoreset);
            for vector in [&mut whole, &mut alone, &mut pair] {
                vector.reset(5);
            }
            let mut rng = KeyedRng::new(1, known.name, 0);
            for _ in 0..600 {
                let drawn = draw(whole.as_ref(), &mut rng);
                whole.step(drawn.actions()).unwrap();
                alone.step(rows(&drawn, 1).actions()).unwrap();
                pair.step(rows(&drawn, 2).actions()).unwrap();
                assert_same_rows(whole.as_ref(), alone.as_ref());
                assert_same_rows(whole.as_ref(), pair.as_ref());
            }
        }
    }
}

#[test]
fn episodes_begin_anew_as_the_mode_says() {
    for known in ENVIRONMENTS {
        let mut same = make(known.name, 1, Autoreset::SameStep);
        let mut next = make(known.name, 1, Autoreset::NextStep);
        let mut never = make(known.name, 1, Autoreset::Disabled);
        for vector in [&mut same, &mut next, &mut never] {
            vector.reset(3);
        }
        let mut rng = KeyedRng::new(2, known.name, 0);
        // Freeway's episodes are the longest.
        let ended = (0..3000).find(|_| {
            let drawn = draw(same.as_ref(), &mut rng);
            for vector in [&mut same, &mut next, &mut never] {
                vector.step(drawn.actions()).unwrap();
            }
            same.last_step().ended(0)
        });
        assert!(ended.is_some(), "{}: no end", known.name);
        assert_eq!(same.last_step(), next.last_step());
        let last = same.final_observation(0).unwrap();
        assert_eq!(last, next.observations());
        assert_eq!(last, never.observations());
        assert!(next.final_observation(0).is_none());
        let drawn = draw(next.as_ref(), &mut rng);
        assert!(
            never
                .step(drawn.actions())
                .unwrap_err()
                .to_string()
                .contains("0")
        );
        let step = next.step(drawn.actions()).unwrap();
        let begun = (step.reset[0], step.rewards[0].to_bits(), step.ended(0));
        assert_eq!(begun, (true, 0, false), "{}", known.name);
        never.reset_where(&[true]).unwrap();
        assert_eq!(next.observations(), same.observations());
        assert_eq!(never.observations(), same.observations());
    }
}

/// Rows that only changes were written to are those of episodes that are begun by hand, which are written whole.
#[test]
fn rows_of_many_episodes_are_those_written_anew() {
    for known in ENVIRONMENTS {
        let n = 8;
        let mut same = make(known.name, n, Autoreset::SameStep);
        let mut by_hand = make(known.name, n, Autoreset::Disabled);
        same.reset(7);
        by_hand.reset(7);
        let mut rng = KeyedRng::new(4, known.name, 0);
        for _ in 0..300 {
            let drawn = draw(same.as_ref(), &mut rng);
            same.step(drawn.actions()).unwrap();
            by_hand.step(drawn.actions()).unwrap();
            let width = same.observations().len() / n;
            let step = by_hand.last_step().clone();
            let marks: Vec<bool> = (0..n).map(|idx| step.ended(idx)).collect();
            for idx in (0..n).filter(|&idx| marks[idx]) {
                let last = &by_hand.observations()[idx * width..][..width];
                assert_eq!(same.final_observation(idx), Some(last), "{}", known.name);
            }
            by_hand.reset_where(&marks).unwrap();
            assert_eq!(
                same.observations(),
                by_hand.observations(),
                "{}",
                known.name
            );
            assert_eq!(same.action_mask(), by_hand.action_mask(), "{}", known.name);
        }
    }
}

#[test]
fn bytes_restore_the_same_future() {
    for known in ENVIRONMENTS {
        let mut first = make(known.name, 4, Autoreset::SameStep);
        first.reset(11);
        let mut rng = KeyedRng::new(3, known.name, 0);
        for _ in 0..150 {
            first
                .step(draw(first.as_ref(), &mut rng).actions())
                .unwrap();
        }
        let mut second = make(known.name, 4, Autoreset::SameStep);
        second.restore(&first.to_bytes()).unwrap();
        assert_eq!(second.observations(), first.observations());
        for _ in 0..150 {
            let drawn = draw(first.as_ref(), &mut rng);
            first.step(drawn.actions()).unwrap();
            second.step(drawn.actions()).unwrap();
            assert_eq!(
                second.observations(),
                first.observations(),
                "{}",
                known.name
            );
            assert_eq!(second.last_step(), first.last_step(), "{}", known.name);
        }
        let bytes = first.to_bytes();
        for (name, n, autoreset) in [
            (known.name, 3, Autoreset::SameStep),
            (known.name, 4, Autoreset::NextStep),
            (
                if known.name == "taxi" {
                    "pendulum"
                } else {
                    "taxi"
                },
                4,
                Autoreset::SameStep,
            ),
        ] {
            let mut other = make(name, n, autoreset);
            let before = other.to_bytes();
            assert!(other.restore(&bytes).is_err(), "{} into {name}", known.name);
            assert_eq!(other.to_bytes(), before);
        }
    }
}

proptest! {
    /// Damaged bytes are refused, or are of states that go on without a panic.
    #[test]
    fn damaged_bytes_do_not_panic(
        which in 0..ENVIRONMENTS.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let name = ENVIRONMENTS[which].name;
        let mut vector = make(name, 2, Autoreset::SameStep);
        let mut bytes = vector.to_bytes();
        for (at, by) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
        }
        if cut.index(4) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if vector.restore(&bytes).is_ok() {
            let mut rng = KeyedRng::new(4, name, 0);
            for _ in 0..20 {
                let drawn = draw(vector.as_ref(), &mut rng);
                prop_assert!(vector.step(drawn.actions()).is_ok());
            }
        }
    }
}

/// Threads change no bit: not of the steps, and not of the checkpoint.
#[test]
fn threads_give_the_same_bits() {
    for known in ENVIRONMENTS {
        for autoreset in [Autoreset::SameStep, Autoreset::NextStep] {
            // Some whole shards, and a part of one.
            let n = if known.name == "cartpole" { 2500 } else { 150 };
            let mut alone = make(known.name, n, autoreset);
            alone.reset(9);
            let mut shared = Vec::new();
            for n_threads in [2, 3, 8] {
                let mut vector = make(known.name, n, autoreset);
                vector.set_threads(&Threads::new(n_threads).unwrap());
                vector.reset(9);
                shared.push(vector);
            }
            let mut rng = KeyedRng::new(6, known.name, 0);
            for _ in 0..30 {
                let drawn = draw(alone.as_ref(), &mut rng);
                alone.step(drawn.actions()).unwrap();
                for vector in &mut shared {
                    vector.step(drawn.actions()).unwrap();
                    assert_eq!(vector.action_mask(), alone.action_mask());
                    assert_same_rows(vector.as_ref(), alone.as_ref());
                }
            }
            for vector in &shared {
                assert_eq!(vector.to_bytes(), alone.to_bytes(), "{}", known.name);
            }
        }
    }
    assert!(Threads::new(0).is_err());
}

/// Every number of a bounded box lies in -1 to 1, and goes back to what it was.
#[test]
fn scaled_observations_are_the_plain_ones() {
    for name in [
        "acrobot",
        "mountain-car",
        "cartpole",
        "vertex-cover",
        "taxi",
    ] {
        let mut plain = make(name, 5, Autoreset::SameStep);
        let scaled = ScaledObservations::new(make(name, 5, Autoreset::SameStep)).unwrap();
        let mut scaled: Box<dyn VectorEnvironment> = Box::new(scaled);
        let bounds = bounds_of(&plain.observation_space());
        plain.reset(3);
        scaled.reset(3);
        let mut rng = KeyedRng::new(8, name, 0);
        let check = |plain: &[f32], scaled: &[f32]| {
            for (idx, (&x, &y)) in plain.iter().zip(scaled).enumerate() {
                let (low, high) = bounds[idx % bounds.len()];
                if high - low < f32::INFINITY {
                    let back = 0.5 * (low + high) + y * 0.5 * (high - low);
                    assert!((-1.0001..=1.0001).contains(&y) && (back - x).abs() < 1e-4);
                } else {
                    assert_eq!(x.to_bits(), y.to_bits());
                }
            }
        };
        let mut n_ends = 0;
        for _ in 0..600 {
            check(plain.observations(), scaled.observations());
            let drawn = draw(plain.as_ref(), &mut rng);
            assert_eq!(plain.step(drawn.actions()), scaled.step(drawn.actions()));
            for idx in 0..5 {
                if let Some(last) = plain.final_observation(idx) {
                    check(last, scaled.final_observation(idx).unwrap());
                    n_ends += 1;
                }
            }
        }
        assert!(n_ends > 0, "{name}");
        let bytes = plain.to_bytes();
        plain.reset(1);
        scaled.restore(&bytes).unwrap();
        assert_eq!(scaled.to_bytes(), bytes);
    }
}

fn bounds_of(space: &Space) -> Vec<(f32, f32)> {
    match space.kind() {
        SpaceKind::Box { shape, low, high } => {
            let n: usize = shape.iter().product();
            (0..n).map(|idx| (low.at(idx), high.at(idx))).collect()
        }
        SpaceKind::Dict { spaces } => spaces.iter().flat_map(|(_, s)| bounds_of(s)).collect(),
        _ => vec![(f32::NEG_INFINITY, f32::INFINITY); space.flat_width().unwrap()],
    }
}

#[test]
fn a_refused_action_moves_no_shard() {
    let mut shared = make("vertex-cover", 200, Autoreset::SameStep);
    shared.set_threads(&Threads::new(2).unwrap());
    shared.reset(1);
    let before = shared.to_bytes();
    let mask = shared.action_mask().unwrap();
    let first = |row: &[bool]| row.iter().position(|&may| may).unwrap() as u32;
    let mut actions: Vec<u32> = mask.chunks_exact(20).map(first).collect();
    let forbidden = mask[199 * 20..].iter().position(|&may| !may).unwrap();
    actions[199] = forbidden as u32;
    let error = shared.step(Actions::Discrete(&actions)).unwrap_err();
    assert!(error.to_string().contains("environment 199"), "{error}");
    assert_eq!(shared.to_bytes(), before);
}

#[test]
fn what_is_wrong_with_actions_is_said() {
    let mut taxi = make("taxi", 2, Autoreset::SameStep);
    let before = taxi.to_bytes();
    let message = |vector: &mut Box<dyn VectorEnvironment>, actions: Actions<'_>| {
        vector.step(actions).unwrap_err().to_string()
    };
    assert!(message(&mut taxi, Actions::Discrete(&[0])).contains("2"));
    assert!(message(&mut taxi, Actions::Discrete(&[0, 6])).contains("given 6"));
    assert!(message(&mut taxi, Actions::Continuous(&[0.0, 0.0])).contains("Continuous"));
    // Nobody is aboard at first.
    assert!(message(&mut taxi, Actions::Discrete(&[5, 5])).contains("given 5"));
    assert_eq!(taxi.to_bytes(), before);
    let mut pendulum = make("pendulum", 2, Autoreset::SameStep);
    let wrong = message(&mut pendulum, Actions::Continuous(&[0.0, f32::NAN]));
    assert!(wrong.contains("NaN"), "{wrong}");
}

#[test]
fn names_and_options_are_checked() {
    let of = |name: &str, key: &str, value: serde_json::Value| {
        let options = BTreeMap::from([(key.to_owned(), value)]);
        named_environment(name, &options, 1, Autoreset::SameStep).map(|_| ())
    };
    assert!(ENVIRONMENTS.is_sorted_by_key(|known| known.name));
    for known in ENVIRONMENTS {
        let text = format!("options = {{ {} }}", known.options);
        let defaults: toml::Table = text.parse().unwrap();
        let defaults = serde_json::to_value(&defaults["options"]).unwrap();
        let defaults = serde_json::from_value(defaults).unwrap();
        named_environment(known.name, &defaults, 1, Autoreset::SameStep).unwrap();
        assert!(
            of(known.name, "no_such", 1.into()).is_err(),
            "{}",
            known.name
        );
        assert!(named_environment(known.name, &BTreeMap::new(), 0, Autoreset::SameStep).is_err());
    }
    assert!(of("frozen-lake", "side", 8.into()).is_ok());
    let error = of("frozen-lake", "side", 5.into()).unwrap_err().to_string();
    assert!(error.contains("4 and 8"), "{error}");
    assert!(of("breakout", "sticky_actions", 1.5.into()).is_err());
    let error = of("pong", "x", 1.into()).unwrap_err().to_string();
    assert!(error.contains("breakout, cartpole"), "{error}");
}
