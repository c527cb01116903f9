//! Folding step by step: tables worked out by hand, and what the definition and the memory of
//! episodes say.

use proptest::prelude::*;

use crate::{Ending, EpisodeMemory, NStepAssembler, NStepTransition, naive};

/// (start, rewards, sum, discount) of rewards 1, 2, 4, 8 with n = 3 and gamma 1/2, for an episode
/// that did not terminate. The first two windows are full, the second one at the last step.
const TABLE: [(usize, u32, f32, f32); 4] = [
    (0, 3, 3.0, 0.125),
    (1, 3, 6.0, 0.125),
    (2, 2, 8.0, 0.25),
    (3, 1, 8.0, 0.5),
];

/// What comes out of each push, ended by `end` behind the last one if there is one.
fn fold(n: u32, rewards: &[f32], ending: Option<Ending>) -> Vec<Vec<NStepTransition<usize>>> {
    let mut folder = NStepAssembler::new(n, 0.5);
    let last = rewards.len() - 1;
    let mut pushes = Vec::new();
    for (start, &reward) in rewards.iter().enumerate() {
        let mut out = Vec::new();
        folder.push(start, reward, ending.filter(|_| start == last), &mut out);
        pushes.push(out);
    }
    if ending.is_some() {
        assert_eq!(folder.pending().count(), 0);
    }
    pushes
}

fn rows(pushes: Vec<Vec<NStepTransition<usize>>>) -> Vec<(usize, u32, f32, f32)> {
    let row = |f: NStepTransition<usize>| (f.start, f.n_rewards, f.reward_sum, f.discount);
    pushes.into_iter().flatten().map(row).collect()
}

#[test]
fn a_terminated_episode_has_nothing_after_its_end() {
    let pushes = fold(3, &[1.0, 2.0, 4.0, 8.0], Some(Ending::Terminated));
    assert_eq!(
        pushes.iter().map(Vec::len).collect::<Vec<_>>(),
        [0, 0, 1, 3]
    );
    assert_eq!(pushes[2][0].ending, None);
    let is_terminal = |f: &NStepTransition<usize>| f.ending == Some(Ending::Terminated);
    assert!(pushes[3].iter().all(is_terminal));
    let mut expected = TABLE;
    expected[1..].iter_mut().for_each(|row| row.3 = 0.0);
    assert_eq!(rows(pushes), expected);
}

#[test]
fn truncated_and_cut_episodes_have_a_value_at_their_end() {
    for ending in [Ending::Truncated, Ending::Cut] {
        let pushes = fold(3, &[1.0, 2.0, 4.0, 8.0], Some(ending));
        assert!(pushes[3].iter().all(|f| f.ending == Some(ending)));
        assert_eq!(rows(pushes), TABLE);
    }
}

#[test]
fn a_running_episode_keeps_what_is_not_complete() {
    let pushes = fold(3, &[1.0, 2.0, 4.0, 8.0], None);
    assert!(pushes.iter().flatten().all(|f| f.ending.is_none()));
    assert_eq!(rows(pushes), TABLE[..2]);
}

#[test]
fn a_cut_fragment_goes_on_anew() {
    let (mut folder, mut out) = (NStepAssembler::new(3, 0.5), Vec::new());
    folder.push(0, 1.0, None, &mut out);
    folder.push(1, 2.0, None, &mut out);
    assert!(out.is_empty());
    folder.cut(&mut out);
    let cut = std::mem::take(&mut out);
    assert!(cut.iter().all(|f| f.ending == Some(Ending::Cut)));
    assert_eq!(rows(vec![cut]), [(0, 2, 2.0, 0.25), (1, 1, 2.0, 0.5)]);
    folder.push(2, 4.0, None, &mut out);
    assert!(out.is_empty());
    folder.cut(&mut out);
    assert_eq!(rows(vec![std::mem::take(&mut out)]), [(2, 1, 4.0, 0.5)]);
    folder.cut(&mut out);
    assert!(out.is_empty());
}

#[test]
#[should_panic(expected = "at least one reward")]
fn no_steps_are_refused() {
    NStepAssembler::<()>::new(0, 0.9);
}

fn ending() -> impl Strategy<Value = Ending> {
    prop::sample::select(vec![Ending::Terminated, Ending::Truncated, Ending::Cut])
}

proptest! {
    #[test]
    fn episodes_fold_as_the_definition_says(
        episodes in prop::collection::vec((prop::collection::vec(-4i8..4, 1..9), ending()), 1..5),
        n in 1u32..6,
    ) {
        let mut folder = NStepAssembler::new(n, 0.9);
        for (rewards, ending) in episodes {
            let rewards: Vec<f32> = rewards.into_iter().map(f32::from).collect();
            let (mut out, mut memory) = (Vec::new(), EpisodeMemory::new(100));
            memory.begin_episode(0);
            for (start, &reward) in rewards.iter().enumerate() {
                let is_last = start + 1 == rewards.len();
                folder.push(start, reward, is_last.then_some(ending), &mut out);
                memory.record(0, reward, None).unwrap();
                // A checkpoint between any two steps changes nothing.
                let mut again = NStepAssembler::new(n, 0.9);
                folder.pending().for_each(|(start, reward)| again.push(*start, reward, None, &mut Vec::new()));
                prop_assert_eq!(&again, &folder);
            }
            memory.end_episode(ending).unwrap();
            prop_assert_eq!(&out, &naive::fold_episode(&rewards, n as usize, 0.9, ending));
            for (folded, transition) in out.iter().zip(memory.iter()) {
                let other = memory.n_step(&transition, n, 0.9).unwrap();
                prop_assert_eq!((folded.reward_sum, folded.discount, folded.ending), (other.reward_sum, other.discount, other.ending));
            }
        }
    }
}
