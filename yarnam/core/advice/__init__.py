"""Advice on a gang's size: how many GPUs, on how many nodes, from what has been measured."""

from yarnam.core.advice.size_plans import Advice, Aim, Option, Plan, advise

__all__ = ["Advice", "Aim", "Option", "Plan", "advise"]
