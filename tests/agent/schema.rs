//! The keys of the answers of `agent`.

use crate::program::run;
use crate::schema::assert_schema;

/// The keys of an evaluation.
const AGENT_EVAL: [(&str, &str); 14] = [
    ("algorithm", "string"),
    ("environment", "string"),
    ("seed", "count"),
    ("episodes", "count"),
    ("actions", "string"),
    ("steps", "count"),
    ("mean_return", "number"),
    ("min_return", "number"),
    ("max_return", "number"),
    ("seconds", "number"),
    ("env_steps_per_s", "number"),
    ("device", "string"),
    ("weights", "string"),
    ("policy_hash", "string"),
];

#[test]
fn agent() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let keys = |mean_return, weights| {
        [
            ("algorithm", "string"),
            ("environment", "string"),
            ("seed", "count"),
            ("steps", "count"),
            ("episodes", "count"),
            ("updates", "count"),
            ("mean_return", mean_return),
            ("seconds", "number"),
            ("env_steps_per_s", "number"),
            ("ranks", "count"),
            ("device", "string"),
            ("weights", weights),
            ("policy_hash", "string"),
        ]
    };
    let answer = run(
        "agent train cartpole-dqn --steps 1 --quiet --format json",
        &[],
    )
    .json();
    assert_schema(&answer, &keys("null", "null"));
    let words = "agent train cartpole-dqn --steps 300 --run {} --quiet --format json";
    let answer = run(words, &[&out]).json();
    assert_schema(&answer, &keys("number", "string"));
    let weights = out.join("weights.safetensors");
    let words = "agent eval cartpole-dqn --model {} --episodes 2 --format json";
    let answer = run(words, &[&weights]).json();
    assert_schema(&answer, &AGENT_EVAL);
    let listing = run("agent list --format json", &[]).json();
    assert_schema(&listing, &[("agents", "list"), ("environments", "list")]);
    let keys = [
        ("name", "string"),
        ("about", "string"),
        ("settings", "object"),
    ];
    assert_schema(&listing["agents"][0], &keys);
}

#[test]
fn agent_with_a_learner_and_actors() {
    for (name, ratio) in [("cartpole-apex", "number"), ("cartpole-reinforce", "null")] {
        let words = format!("agent train {name} --steps 200 --quiet --format json");
        let answer = run(&words, &[]).json();
        let has_ended = answer["mean_return"].is_number();
        assert_schema(
            &answer,
            &[
                ("algorithm", "string"),
                ("environment", "string"),
                ("seed", "count"),
                ("steps", "count"),
                ("episodes", "count"),
                ("updates", "count"),
                ("mean_return", if has_ended { "number" } else { "null" }),
                ("seconds", "number"),
                ("env_steps_per_s", "number"),
                ("updates_per_s", "number"),
                ("mean_policy_lag", "number"),
                ("max_policy_lag", "count"),
                ("lost", "list"),
                ("samples_per_insert", ratio),
                ("stale_priorities", "count"),
                ("device", "string"),
                ("weights", "null"),
                ("policy_hash", "string"),
            ],
        );
    }
}
