"""LeRobot data sets of versions 2.0, 2.1 and 3.0: rows of tables and the frames that belong to them."""

from __future__ import annotations

from framefeed.lerobot._data import LeRobotData, RowReader
from framefeed.lerobot._data import open_data as open
from framefeed.lerobot._meta import EpisodeTable, LeRobotDatasetMetadata, Metadata, Task, TaskTable

__all__ = [
    "EpisodeTable",
    "LeRobotData",
    "LeRobotDatasetMetadata",
    "Metadata",
    "RowReader",
    "Task",
    "TaskTable",
    "open",
]
