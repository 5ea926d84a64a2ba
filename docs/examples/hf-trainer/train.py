"""Handwritten digits by Hugging Face's Trainer; it saves when it is asked to stop, and resumes.

At SIGTERM, which a preemption sends, the Trainer ends its step and saves a checkpoint.
`am.failure_grace` and `stop_grace` give it the time. The next attempt goes on from there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, pictures: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.layers(pictures)
        return {"loss": nn.functional.cross_entropy(found, labels), "logits": found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", default="checkpoints", help="where all nodes can read it")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    digits = load_digits()
    samples: list[dict[str, Any]] = [
        {"pictures": picture, "labels": label}
        for picture, label in zip(
            torch.tensor(digits.data / 16, dtype=torch.float32), digits.target, strict=True
        )
    ]
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0)).tolist()
    cuda = torch.cuda.is_available()
    trainer = Trainer(
        model=Digits(),
        args=TrainingArguments(
            output_dir=options.checkpoints,
            num_train_epochs=options.epochs,
            per_device_train_batch_size=16,
            learning_rate=3e-3,
            use_cpu=not cuda,
            ddp_backend="nccl" if cuda else "gloo",
            enable_jit_checkpoint=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=[samples[one] for one in order[360:]],
        eval_dataset=[samples[one] for one in order[:360]],
    )
    saved = get_last_checkpoint(options.checkpoints) if Path(options.checkpoints).is_dir() else None
    if saved:
        print(f"going on from {saved}", flush=True)
    trainer.train(resume_from_checkpoint=saved)
    if trainer.state.global_step < trainer.state.max_steps:
        # It was asked to stop, and saves: the next attempt goes on. Who leaves first ends the rest.
        trainer.accelerator.wait_for_everyone()
        return
    print(f"rank {trainer.args.process_index} of {trainer.args.world_size}", flush=True)
    found = trainer.predict(trainer.eval_dataset)
    if trainer.is_world_process_zero():
        right = found.predictions.argmax(1) == found.label_ids
        print(f"test accuracy {right.mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
