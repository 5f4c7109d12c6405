"""Helpers to learn and read the posterior of `Optimist`, and a reference implementation with a full matrix."""

import math

import numpy as np
from scipy.optimize import brentq

from glbandits.common.arrays import Floats
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.philox import generator
from glbandits.policies.algorithms.optimist import Optimist
from glbandits.policies.contract import unpacker
from glbandits.policies.shared.posterior_state import INTERCEPT, INTERCEPT_PRECISION, blocks_at, coupling_of, mean_of
from glbandits.policies.shared.prior_replacement import EVIDENCE_FROM, SCALES
from glbandits.policies.shared.self_scaling_posterior import (
    FIRST_SCALE,
    LARGEST_SHARE,
    assumed_noise,
    intercept_variance,
)
from tests.maths.posteriors.block_parts import assembled


def functions(link: Link) -> LinkFunctions:
    return LinkFunctions(link.mean, link.slope, link.antiderivative)


def learned(link: str, X: Floats, y: Floats, *, half_life: float | None = None) -> Floats:
    """Return the state of an Optimist that has learned these rewards, without compiled code."""
    policy, dim = Optimist(link=link, half_life=half_life), X.shape[1]
    kind = policy.implementation(dim)
    learn, settings = kind.learn, unpacker(kind)(policy.packed_settings(dim))
    state, known, rng = policy.init(dim), functions(find_link(link)), generator(1)
    for x, reward in zip(X, y, strict=True):
        state = learn(state, settings, x, float(reward), rng, known)
    return state


def precision_of(state: Floats, dim: int) -> Floats:
    """The precision matrix [[D, c], [c', e]] of theta and the intercept."""
    D = np.linalg.inv(assembled(state, dim, blocks_at(dim)))
    g = coupling_of(state, dim)
    c = D @ g
    H: Floats = np.block([[D, c[:, np.newaxis]], [c[np.newaxis], np.array([[state[INTERCEPT_PRECISION] + c @ g]])]])
    return H


def covariance_of(state: Floats, dim: int) -> Floats:
    """The covariance matrix of theta and the intercept."""
    P: Floats = np.asarray(np.linalg.inv(precision_of(state, dim)))
    return P


def means_of(state: Floats, dim: int) -> Floats:
    """The means of theta and the intercept."""
    return np.append(mean_of(state, dim), state[INTERCEPT])


def with_ones(X: Floats) -> Floats:
    return np.hstack([X, np.ones((len(X), 1))])


class WholePosterior:
    """The posterior with one precision matrix of all features and the intercept, without a half-life."""

    def __init__(self, link: str, dim: int) -> None:
        self.link, self.dim = find_link(link), dim
        self.intercept_precision = 1.0 / intercept_variance(self.link)
        self.scale, self.next, self.last = FIRST_SCALE, 1, 0
        self.prior = np.ones(dim)
        self.H = np.diag(np.append(self.prior, self.intercept_precision))
        self.P = np.linalg.inv(self.H)
        self.mean = np.zeros(dim + 1)
        self.X = np.empty((0, dim))
        self.observed, self.expected = 0.0, 0.0

    def learn(self, x: Floats, reward: float) -> None:
        """Learn one reward."""
        new = (x != 0.0) & (self.X == 0.0).all(axis=0)
        self.X = np.vstack([self.X, x])
        present = (self.X != 0.0).sum() / len(self.X)
        self.prior[new] = x[new] ** 2 * self.scale * max(present, 1.0 / LARGEST_SHARE)
        at = np.flatnonzero(new)
        self.H[at, at], self.P[at, at] = self.prior[new], 1.0 / self.prior[new]
        if len(self.X) == self.next:
            self.replace_prior()
        v = np.append(x, 1.0)
        direction = np.einsum("ij,j->i", self.P, v)  # BLAS would start threads
        score, variance = float(v @ self.mean), float(v @ direction)

        def excess(z: float) -> float:
            return float(z - score + variance * (self.link.mean(z) - reward))

        width = 1.0 + variance * abs(self.link.mean(score) - reward)
        z = brentq(excess, score - width, score + width, xtol=1e-14, rtol=1e-14)
        slope = self.link.slope(z)
        self.mean += (z - score) / variance * direction
        self.H += slope * np.outer(v, v)
        leverage = 1.0 + slope * variance
        self.P -= slope / leverage * np.outer(direction, direction)
        self.observed += ((z - score) / variance * leverage) ** 2
        self.expected += slope * leverage

    def replace_prior(self) -> None:
        """Replace the prior by one in the units of the features, with the scale of the largest evidence."""
        count, noise = len(self.X), assumed_noise(self.link)
        observed, expected = self.observed + noise, self.expected + noise
        size = observed / expected if observed > 0.0 and expected > 0.0 else 1.0
        self.observed *= (self.last / count) ** 2
        self.expected *= (self.last / count) ** 2
        self.last, self.next = count, 2 * count
        right_side = self.H @ self.mean
        curvature = self.H - np.diag(np.append(self.prior, self.intercept_precision))
        unit = unit_prior(self.X)
        if count >= EVIDENCE_FROM:
            self.scale = max(SCALES, key=lambda scale: self.evidence(curvature, right_side, scale * unit, size))
        self.prior = self.scale * unit
        self.H = curvature + np.diag(np.append(self.prior, self.intercept_precision))
        self.P = np.linalg.inv(self.H)
        self.mean = self.P @ right_side

    def evidence(self, curvature: Floats, right_side: Floats, prior: Floats, size: float) -> float:
        """Laplace's approximation of the log evidence, up to a constant."""
        H = curvature + np.diag(np.append(prior, self.intercept_precision))
        fitted = right_side @ np.linalg.solve(H, right_side)
        return float(0.5 * np.log(prior).sum() - 0.5 * np.linalg.slogdet(H)[1] + 0.5 * fitted / size)


def unit_prior(X: Floats) -> Floats:
    """The prior precisions of scale 1 in the units of these features."""
    frequency = (X != 0.0).mean(axis=0)
    seen = frequency > 0.0
    size = (X[:, seen] ** 2).mean(axis=0) / frequency[seen]
    typical = math.exp(np.log(size).mean())
    share = np.clip(size / typical, 1 / LARGEST_SHARE, LARGEST_SHARE)
    prior = np.full(X.shape[1], typical)
    prior[seen] = size / share
    return prior * max(float(frequency[seen] @ share), 1 / LARGEST_SHARE)


def is_valid(state: Floats, dim: int) -> bool:
    return Optimist().is_valid_state(state, dim)


def linear_problem(rounds: int, dim: int, seed: int, deviation: float = 0.5) -> tuple[Floats, Floats, Floats]:
    """Features, theta, and rewards with normal noise."""
    rng = np.random.default_rng(seed)
    X, theta = rng.uniform(-1, 1, (rounds, dim)), rng.uniform(-1, 1, dim)
    return X, theta, X @ theta + deviation * rng.normal(size=rounds)
