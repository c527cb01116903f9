"""Steps a second of vectors of environments, by Gymnasium's own benchmark; ``cargo xtask bench python/environments`` calls it.

The argument is JSON: ids with num_envs each, peers (ids of Gymnasium), seconds of a run and runs. The benchmark's own time for drawing
actions is part of it; rows "step alone" take the same actions again and again.
"""

import json
import sys
import time

import gymnasium
import shardgraph.gym  # noqa: F401
from gymnasium.utils.performance import benchmark_vector_step


def made(name, num_envs):
    options = {"copy": False} if name.startswith("shardgraph/") else {}
    return gymnasium.make_vec(name, num_envs=num_envs, vectorization_mode="vector_entry_point", **options)


def step_alone(env, seconds):
    """Steps a second without the time for drawing actions."""
    env.reset(seed=1)
    actions, n_steps = env.action_space.sample(), 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        env.step(actions)
        n_steps += env.num_envs
    return n_steps / (time.perf_counter() - begin)


def main(request):
    for name, num_envs in request["environments"]:
        env = made(name, num_envs)
        rates = [benchmark_vector_step(env, request["seconds"], seed=1) for _ in range(request["runs"])]
        alone = [step_alone(env, request["seconds"]) for _ in range(request["runs"])]
        row = {"environment": name, "num_envs": num_envs, "steps_per_s": rates, "step_alone_per_s": alone}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
