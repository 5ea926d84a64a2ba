"""What Airflow 2 and Airflow 3 keep in different places."""

from __future__ import annotations

try:
    from airflow.sdk import BaseHook, BaseOperator
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
    )
except ImportError:  # Airflow 2
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
    )
    from airflow.hooks.base import BaseHook
    from airflow.models import BaseOperator

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "BaseHook",
    "BaseOperator",
]
