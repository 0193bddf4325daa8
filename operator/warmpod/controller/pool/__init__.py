"""The pool: which engine pods of a WarmModel serve, and what becomes of the others."""

from warmpod.controller.pool.decision import PoolPlan, RoleChange, Situation, decide

__all__ = ["PoolPlan", "RoleChange", "Situation", "decide"]
