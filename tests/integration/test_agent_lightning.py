"""Lightning for real: DDP over the processes of two agents, by the shape that the job gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.agent_world import ROOT, World, small_job, world
from tests.integration.framework_venvs import framework_python
from yarnam.core.model.job_spec import EnvironmentSpec
from yarnam.wire.pb import yarnam_pb2 as pb

ASKS = ("a1.worker.0", "a1.worker.1")
RUN_S = 400

TRAIN = """\
import sys
import torch
from pytorch_lightning import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset
from yarnam import train

class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)

torch.manual_seed(0)
x = torch.rand(256, 1)
data = DataLoader(TensorDataset(x, 3 * x + 1), batch_size=8)
options = train.lightning_options()
if sys.argv[1:]:
    options["devices"], options["num_nodes"] = 1, 4
trainer = Trainer(
    accelerator="cpu", strategy="ddp", max_epochs=12, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, **options,
)
model = Line()
trainer.fit(model, data)
print(
    f"rank {trainer.global_rank} of {trainer.world_size}, node {trainer.node_rank}, local"
    f" {trainer.local_rank}, {len(trainer.train_dataloader)} batches, weight"
    f" {model.layer.weight.item():.4f}", flush=True,
)
"""

pytestmark = [
    pytest.mark.grpc,
    pytest.mark.asyncio,
    pytest.mark.frameworks,
    pytest.mark.timeout(2500),
]


async def run(here: World, program: Path, *arguments: str) -> list[str]:
    """How each process of two tasks with two has ended."""
    job = small_job(
        ["python3", str(program), *arguments],
        tasks=2,
        processes=2,
        framework="pytorch",
        environment=EnvironmentSpec(str(framework_python("torch"))),
        role_env=(("PYTHONPATH", str(ROOT)),),  # for the SDK
    )
    for ask in ASKS:
        here.container(job, ask=ask).start()
    for ask in ASKS:
        await here.am.until(ask, pb.READY, limit_s=120)
    await here.am.launch(job, ASKS)
    kinds = []
    for ask in ASKS:
        report = await here.am.until(ask, pb.EXITED, limit_s=RUN_S)
        kinds += [process.kind for process in report.processes]
    return kinds


def log(here: World, rank: int) -> str:
    return here.containers[rank // 2].log(rank % 2, index=rank // 2).decode()


async def test_ddp_has_a_rank_in_each_process(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    async with world(tmp_path) as here:
        kinds = await run(here, program)
        logs = [log(here, rank) for rank in range(4)]
    assert kinds == ["ok"] * 4, "\n".join(logs)
    lines = [text.strip().splitlines()[-1].partition(", weight ") for text in logs]
    shapes = [f"rank {r} of 4, node {r // 2}, local {r % 2}, 8 batches" for r in range(4)]
    assert [shape for shape, _, _ in lines] == shapes
    # Each has seen a quarter of the data, and all have the same, learnt weight.
    assert {weight for _, _, weight in lines} == {lines[0][2]}
    assert float(lines[0][2]) == pytest.approx(3, abs=0.3)


async def test_a_trainer_of_another_shape_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    async with world(tmp_path) as here:
        kinds = await run(here, program, "wrong")
        logs = [log(here, rank) for rank in range(4)]
    assert "ok" not in kinds
    # The others of its task are stopped, maybe before they have said so too.
    assert any("devices=1 and num_nodes=4, the gang has 2 tasks with 2" in text for text in logs)
