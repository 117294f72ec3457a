"""Which stations learn together: bounded groups, what is lost, and the coarse order of a country."""

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, NotFoundError
from kinband.similarity import TaskMatrix
from kinband.similarity.shards import DescriptorSimilarity, Shards, coarse_blocks, shard_blocks, shard_stations

RNG = np.random.default_rng(20)


def names(count: int) -> list[str]:
    return [f"st{m:03d}" for m in range(count)]


def clustered(sizes: list[int], *, inside: float, between: float) -> FloatArray:
    """Clusters of stations, their members shuffled by nothing: cluster after cluster."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    K_Z = np.where(np.equal.outer(cluster, cluster), inside, between)
    np.fill_diagonal(K_Z, 1.0)
    return K_Z


def naive_loss(K_Z: FloatArray, stations: list[str], shards: Shards) -> float:
    """The share of Σ|ρ| between shards, pair by pair."""
    home = {name: number for number, part in enumerate(shards.parts) for name in part.stations}
    kept = cut = 0.0
    for i, first in enumerate(stations):
        for j, second in enumerate(stations[:i]):
            rho = abs(K_Z[i, j]) / (K_Z[i, i] * K_Z[j, j]) ** 0.5
            kept, cut = (kept + rho, cut) if home[first] == home[second] else (kept, cut + rho)
    return cut / (kept + cut)


def random_matrix(count: int) -> FloatArray:
    B = RNG.normal(size=(count, 3)) * RNG.uniform(0.5, 2.0, size=(count, 1))
    return np.asarray(B @ B.T + 0.3 * np.eye(count))


@pytest.mark.parametrize("sizes", [[9, 8, 7], [6, 6, 6]])  # of six, one would fit into the room that two leave
def test_clusters_that_fit_stay_whole(sizes: list[int]) -> None:
    order = RNG.permutation(sum(sizes))
    K_Z = clustered(sizes, inside=0.62, between=0.07)[np.ix_(order, order)]
    shards = shard_stations(K_Z, stations=names(len(order)), size=10)
    cluster = np.repeat([0, 1, 2], sizes)[order]
    found = {frozenset(part.stations) for part in shards.parts}
    assert found == {frozenset(names(len(order))[m] for m in np.flatnonzero(cluster == c)) for c in range(3)}


def test_a_giant_cluster_is_split_and_its_loss_reported() -> None:
    shards = shard_stations(clustered([30], inside=0.8, between=0.0), stations=names(30), size=10)
    assert [len(part) for part in shards.parts] == [10, 10, 10]
    # Of 30·29/2 equal pairs, 3·(10·9/2) stay.
    assert shards.lost == pytest.approx(1 - 135 / 435)
    assert str(shards) == "30 stations in 3 shards of 10; 69 % of their similarity lies between shards"


def test_the_loss_is_the_share_of_correlation_between_shards() -> None:
    K_Z = random_matrix(23)
    shards = shard_stations(K_Z, stations=names(23), size=6)
    assert 0 < shards.lost < 1
    assert shards.lost == pytest.approx(naive_loss(K_Z, names(23), shards))


def test_every_shard_has_its_part_of_the_matrix() -> None:
    alike = TaskMatrix(tuple(names(11)), random_matrix(11), "embedding")
    for part in shard_stations(alike, size=4).parts:
        assert part.method == "embedding"
        for first in part.stations:
            for second in part.stations:
                assert part.between(first, second) == alike.between(first, second)


def test_like_stations_are_kept_together_better_than_by_chance() -> None:
    places = RNG.random((200, 2))
    alike = DescriptorSimilarity(names(200), places, scale=0.3)(tuple(names(200)))
    shards = shard_stations(alike, stations=names(200), size=20)
    home = {name: number for number, part in enumerate(shards.parts) for name in part.stations}
    chance = []
    for _ in range(20):
        mixed = RNG.permutation([home[name] for name in names(200)])
        apart = np.not_equal.outer(mixed, mixed)
        chance.append(alike[apart].sum() / (alike.sum() - 200))
    assert shards.lost < min(chance) / 1.5


def test_the_scale_of_a_station_does_not_matter() -> None:
    K_Z, scale = random_matrix(17), RNG.uniform(0.1, 9.0, size=17)
    plain = shard_stations(K_Z, stations=names(17), size=5)
    scaled = shard_stations(K_Z * np.outer(scale, scale), stations=names(17), size=5)
    assert [part.stations for part in plain.parts] == [part.stations for part in scaled.parts]
    assert plain.lost == pytest.approx(scaled.lost)


def test_opposite_stations_belong_together_too() -> None:
    K_Z = np.array([[1.0, 0.1, -0.9], [0.1, 1.0, 0.0], [-0.9, 0.0, 1.0]])
    assert [part.stations for part in shard_stations(K_Z, stations=["a", "b", "c"], size=2).parts] == [
        ("a", "c"),
        ("b",),
    ]


def test_strangers_fill_shards_and_lose_nothing() -> None:
    shards = shard_stations(np.eye(25), stations=names(25), size=10)
    assert [len(part) for part in shards.parts] == [10, 10, 5]
    assert shards.lost == 0.0


def test_no_shard_reaches_over_the_border_of_a_block() -> None:
    K_Z = random_matrix(30)
    index = {name: m for m, name in enumerate(names(30))}

    def similarity(stations: tuple[str, ...]) -> FloatArray:
        rows = [index[name] for name in stations]
        return K_Z[np.ix_(rows, rows)]

    blocks = [names(30)[:13], names(30)[13:]]
    shards = shard_blocks(blocks, similarity, rng=np.random.default_rng(1), size=5)
    for part in shards.parts:
        assert len({name in blocks[0] for name in part.stations}) == 1
    # With fewer stations than the sample the estimate is exact.
    assert shards.sampled
    assert shards.lost == pytest.approx(naive_loss(K_Z, names(30), shards))


def test_the_loss_between_blocks_is_estimated_from_a_sample() -> None:
    count, width = 1500, 500

    def similarity(stations: tuple[str, ...]) -> FloatArray:
        K_Z = np.full((len(stations), len(stations)), 0.4)
        np.fill_diagonal(K_Z, 1.0)
        return K_Z

    blocks = [names(count)[start : start + width] for start in range(0, count, width)]
    shards = shard_blocks(blocks, similarity, rng=np.random.default_rng(2), size=width)
    pairs, inside = count * (count - 1) / 2, 3 * width * (width - 1) / 2
    assert shards.lost == pytest.approx(1 - inside / pairs)


def test_a_similarity_may_answer_with_names_in_another_order() -> None:
    alike = TaskMatrix(("b", "a", "c"), np.array([[1.0, 0.2, 0.9], [0.2, 1.0, 0.1], [0.9, 0.1, 1.0]]), "given")
    shards = shard_blocks([["a", "b", "c"]], lambda _: alike, rng=np.random.default_rng(0), size=2)
    assert {part.stations for part in shards.parts} == {("a",), ("b", "c")}


def test_blocks_are_bounded_and_never_cross_a_region() -> None:
    stations, places = names(100), RNG.normal(size=(100, 2)) * [3.0, 0.2]
    regions = {name: "north" if m % 3 else "south" for m, name in enumerate(stations)}
    blocks = coarse_blocks(stations, places, regions=regions, size=16)
    assert sorted(name for block in blocks for name in block) == stations
    for block in blocks:
        assert 8 <= len(block) <= 16
        assert len({regions[name] for name in block}) == 1


def test_a_block_is_halved_where_it_is_widest() -> None:
    places = [[0.0, 0.0], [0.1, 5.0], [0.2, 0.1], [0.3, 5.1]]
    stretched = [[x, 1000.0 * y] for x, y in places]  # the unit of a descriptor does not matter
    for given in (places, stretched):
        assert coarse_blocks(["a", "b", "c", "d"], given, size=2) in (
            [("a", "c"), ("b", "d")],
            [("a", "b"), ("c", "d")],
        )
    assert coarse_blocks(["a", "b"], None, size=5) == [("a", "b")]


def test_similarity_by_descriptors_is_a_gaussian_of_their_distance() -> None:
    alike = DescriptorSimilarity(["a", "b", "c"], [[2.0, 7.0], [4.0, 7.0], [6.0, 7.0]], scale=0.7)
    spread = np.std([2.0, 4.0, 6.0])
    expected = np.exp(-0.5 * (2.0 / spread / 0.7) ** 2)
    assert alike(("c", "b"))[0, 1] == pytest.approx(expected)
    with pytest.raises(NotFoundError, match="no descriptors are known of station 'z'"):
        alike(("a", "z"))


def test_what_cannot_be_sharded_is_refused() -> None:
    with pytest.raises(BadInputError, match="a whole number of stations from 1 on"):
        shard_stations(np.eye(2), stations=["a", "b"], size=0)
    with pytest.raises(BadInputError, match="does not name its stations"):
        shard_stations(np.eye(2))
    with pytest.raises(BadInputError, match=r"shape \(3, 3\), there are 2 stations"):
        shard_stations(np.eye(3), stations=["a", "b"])
    with pytest.raises(BadInputError, match="named twice"):
        shard_stations(np.eye(2), stations=["a", "a"])
    with pytest.raises(BadInputError, match="diagonal above zero"):
        shard_stations(np.zeros((2, 2)), stations=["a", "b"])
    with pytest.raises(BadInputError, match="no empty ones"):
        shard_blocks([["a"], []], lambda n: np.eye(len(n)), rng=np.random.default_rng(0))
    with pytest.raises(BadInputError, match="named twice"):
        shard_blocks([["a"], ["a"]], lambda n: np.eye(len(n)), rng=np.random.default_rng(0))
    with pytest.raises(BadInputError, match="give descriptors"):
        coarse_blocks(names(9), size=4)
    with pytest.raises(NotFoundError, match="does not say where station 'st001' lies"):
        coarse_blocks(names(2), regions={"st000": "north"})
    with pytest.raises(BadInputError, match="3 rows, there are 2 stations"):
        coarse_blocks(names(2), [[0.0], [1.0], [2.0]])
