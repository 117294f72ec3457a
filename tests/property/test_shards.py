"""Groups of bounded size: a partition, within the limit, as full as can be, whatever the similarity."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband.similarity.shards import link, pack, refill, similarity_within


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 40), size=st.integers(1, 12), seed=st.integers(0, 2**32 - 1), kinds=st.integers(1, 5))
def test_groups_are_a_bounded_partition_in_which_no_two_would_fit_together(
    count: int, size: int, seed: int, kinds: int
) -> None:
    rng = np.random.default_rng(seed)
    A = rng.integers(0, kinds, size=(count, count)) / max(1, kinds - 1)  # many ties, zeros among them
    A = np.maximum(A, A.T)
    groups = pack(A, size=size)
    assert sorted(np.concatenate(groups).tolist()) == list(range(count))
    sizes = sorted(len(group) for group in groups)
    assert sizes[-1] <= size
    assert len(sizes) < 2 or sizes[0] + sizes[1] > size
    assert [int(group[0]) for group in groups] == sorted(int(group.min()) for group in groups)


@settings(max_examples=40, deadline=None)
@given(count=st.integers(2, 30), size=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_what_is_kept_and_what_is_cut_make_up_the_whole(count: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(count, count))
    A = A + A.T
    groups = pack(np.abs(A), size=size)
    kept, cut = similarity_within(A, groups)
    home = np.empty(count, dtype=int)
    for number, group in enumerate(groups):
        home[group] = number
    pairs = [(i, j) for i in range(count) for j in range(i)]
    np.testing.assert_allclose(kept, sum(abs(A[i, j]) for i, j in pairs if home[i] == home[j]), atol=1e-9)
    np.testing.assert_allclose(cut, sum(abs(A[i, j]) for i, j in pairs if home[i] != home[j]), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(count=st.integers(2, 14), size=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_it_is_average_linkage_with_a_limit(count: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.random((count, count))
    A = (A + A.T) / 2  # no ties, so that there is one answer
    groups = [[m] for m in range(count)]
    while True:
        pairs = [(i, j) for i in range(len(groups)) for j in range(i) if len(groups[i]) + len(groups[j]) <= size]
        if not pairs:
            break
        i, j = max(pairs, key=lambda p: A[np.ix_(groups[p[0]], groups[p[1]])].mean())
        groups[j] += groups.pop(i)
    assert {frozenset(group) for group in groups} == {frozenset(group.tolist()) for group in link(A, size=size)}


@settings(max_examples=40, deadline=None)
@given(count=st.integers(2, 40), size=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_refilling_never_parts_more_than_before(count: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.random(count)
    A = np.exp(-np.abs(np.subtract.outer(places, places)) / rng.uniform(0.02, 1.0))
    before = link(A, size=size)
    after = refill(A, before, size=size)
    assert max(map(len, after)) <= size
    assert len(after) <= len(before)
    assert sorted(np.concatenate(after).tolist()) == list(range(count))
    assert similarity_within(A, after)[1] <= similarity_within(A, before)[1] + 1e-9
