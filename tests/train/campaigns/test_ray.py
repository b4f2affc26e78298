"""Campaigns on real Ray clusters; of one with two nodes, one is killed: every record is there, written once."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from esan.train.campaigns.campaign import TrainGroup, run_campaign
from esan.train.campaigns.executors import TaskResult
from esan.train.campaigns.ray_cluster import RayCluster
from esan.train.runs.job import Job, protocol
from small_campaign import fingerprints, recipe, write_set

pytest.importorskip("ray", reason="needs the extra cluster: pip install 'esan[cluster]'")


class Stuck:
    """The work of a campaign; on one node it ends its first job, and then does nothing until that node is killed."""

    def __init__(self, work: TrainGroup, victim: str, marks: str) -> None:
        self.work, self.victim, self.marks = work, victim, Path(marks)

    def __call__(self, jobs: Sequence[Job]) -> None:
        import ray

        here = ray.get_runtime_context().get_node_id()
        (self.marks / f"{here}-{jobs[0].recipe.name.replace('/', '-')}").touch()
        if here == self.victim:
            self.work(jobs[:1])
            (self.marks / "stuck").touch()
            time.sleep(300)
        # The other node waits until the victim has something to lose.
        while not (self.marks / "stuck").exists():
            time.sleep(0.1)
        self.work(jobs)


class Killing(RayCluster):
    """The executor under test, with a node that is killed as soon as it is stuck."""

    def __init__(self, cluster: Any, victim: Any, marks: Path) -> None:
        super().__init__(address=cluster.address)
        self.cluster, self.victim, self.marks = cluster, victim, marks
        self.before: dict[str, int] = {}

    def map(self, work: Callable[[Any], object], items: Sequence[Any]) -> Iterator[TaskResult]:
        assert isinstance(work, TrainGroup)
        for done in super().map(Stuck(work, self.victim.node_id, str(self.marks)), items):
            if not self.before:
                self.before = fingerprints(Path(work.runs))
                self.cluster.remove_node(self.victim, allow_graceful=False)
            yield done


@pytest.mark.exhaustive
def test_a_campaign_survives_the_death_of_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2] / "helpers")])
    )
    place, marks, runs = write_set(tmp_path / "data"), tmp_path / "marks", tmp_path / "runs"
    marks.mkdir()
    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    recipes = [recipe(place, name=f"small/{name}") for name in "abc"]
    jobs = [job for one in recipes for job in protocol(one, seeds=1)]
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    try:
        victim = cluster.add_node(**small)
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        executor = Killing(cluster, victim, marks)
        outcome = run_campaign(jobs, runs, executor, together=2)
    finally:
        ray.shutdown()
        cluster.shutdown()
    lost = [path.name for path in marks.glob(f"{victim.node_id}-*")]
    assert len(lost) == 1, "the node that was killed had work"
    assert len(list(marks.glob(f"*-{lost[0].split('-', 1)[1]}"))) == 2, "and another node did it again"
    assert not outcome.failures
    assert [(r.recipe.name, r.fold) for r in outcome.records] == [(j.recipe.name, j.fold) for j in jobs]
    after = fingerprints(runs)
    assert len(after) == len(jobs) == 6
    assert executor.before.items() <= after.items(), "what the dead node had written was not written again"
    assert any(name.startswith(lost[0].split("-", 1)[1].replace("-", "/")) for name in executor.before)


def test_a_campaign_on_a_cluster_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    one = recipe(write_set(tmp_path / "data"), epochs=1)
    jobs = protocol(one, seeds=1)
    options = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False, "log_to_driver": False}
    outcome = run_campaign(jobs, tmp_path / "runs", RayCluster(options=options), together=2)
    assert not outcome.failures
    assert [(record.recipe, record.fold) for record in outcome.records] == [(one, job.fold) for job in jobs]
    assert not ray.is_initialized(), "the cluster that was started here has ended"
