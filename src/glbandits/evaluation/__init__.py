"""What another policy would have earned, from the log of one that decided."""

from glbandits.evaluation.arm_features import ArmFeatures, CrossedArms, FixedArms, RowArms
from glbandits.evaluation.logged_data import Log, LoggedData

__all__ = ["ArmFeatures", "CrossedArms", "FixedArms", "Log", "LoggedData", "RowArms"]
