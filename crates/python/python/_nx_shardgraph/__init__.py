"""What NetworkX shows of the shardgraph backend, without importing it."""

_LIMITS = {
    "time_limit : float, optional (default: 1 beyond reductions and greedy)": "Seconds of the search.",
    "steps : int, optional": "Steps of local search in place of a time: one seed, one answer.",
    "threads : int, optional (default: 1)": "Local searches at the same time.",
}
_SEED = {"seed : int, optional (default: 1)": "The seed of the search."}
_BEST = "The best of a trained policy, greedy algorithms, exact reductions and search."

_FUNCTIONS = {
    "clique_removal": (
        "The independent set is the best that the search finds; greedy cliques part the nodes.",
        _SEED,
    ),
    "dominating_set": (_BEST, _SEED),
    "large_clique_size": (_BEST, _SEED),
    "max_clique": (_BEST, _SEED),
    "max_weight_clique": (
        "Branch and bound; NotImplementedError where the time ends before the proof.",
        _SEED,
    ),
    "maximal_independent_set": ("A set as large as the search finds, in an order that `seed` draws.", {}),
    "maximum_independent_set": (_BEST, _SEED),
    "min_weighted_dominating_set": (f"{_BEST} Without node weights.", _SEED),
    "min_weighted_vertex_cover": (f"{_BEST} Weights are whole numbers.", _SEED),
    "one_exchange": ("Simulated annealing after exact reductions.", {}),
    "randomized_partitioning": ("The partition of NetworkX, its weight summed over arrays.", {}),
}


def get_info():
    """The functions of the backend, with what they take beside NetworkX's parameters."""
    functions = {
        name: {
            "additional_docs": docs,
            "additional_parameters": {} if name == "randomized_partitioning" else _LIMITS | seed,
        }
        for name, (docs, seed) in _FUNCTIONS.items()
    }
    return {
        "backend_name": "shardgraph",
        "project": "shardgraph",
        "package": "shardgraph",
        "short_summary": "Covers, independent sets, cliques, cuts and dominating sets by reductions, policies and search.",
        "default_config": {},
        "functions": functions,
    }
