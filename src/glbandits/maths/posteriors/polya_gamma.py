"""Draws from the Polya-Gamma distribution (Polson, Scott and Windle, 2013).

PG(n, c) is the distribution of (1 / 2 pi^2) sum_k g_k / ((k - 1/2)^2 + c^2 / 4 pi^2) with independent
g_k ~ Gamma(n, 1). Given such a number for each observation, a logistic likelihood is a normal likelihood with these
numbers as weights. This allows Gibbs sampling from a logistic posterior.
"""

import math

from glbandits.common.arrays import Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.normal import normal_cdf
from glbandits.maths.philox import normal, uniform

CUT = 0.64
"""The point at which the series of the density changes, from the paper."""
MANY = 170
"""From this n on, PG(n, c) is approximated by a normal distribution, as in the package of the authors."""
FAR = 1e4
"""Above this c, PG(1, c) is replaced by its mean. Its standard deviation is at most 1.4 % of the mean there."""


@jittable
def polya_gamma(n: int, c: float, rng: Generator) -> float:
    """Draw from PG(n, c), n >= 1: the sum of n draws from PG(1, c), or its normal limit.

    Always positive.
    """
    c = abs(c)
    mean = n * polya_gamma_mean(c)
    if c > FAR:
        return mean
    if n >= MANY:
        drawn = mean + math.sqrt(n * polya_gamma_variance(c)) * normal(rng)
        return drawn if drawn > 0.0 else mean
    total = 0.0
    for _ in range(n):
        total += 0.25 * tilted_jacobi(0.5 * c, rng)
    return total


@jittable
def polya_gamma_mean(c: float) -> float:
    """The mean of PG(1, c): tanh(c/2) / 2c."""
    return 0.25 - c * c / 48.0 if abs(c) < 1e-3 else math.tanh(0.5 * c) / (2.0 * c)


@jittable
def polya_gamma_variance(c: float) -> float:
    """The variance of PG(1, c): (tanh(c/2)/(c/2) - sech^2(c/2)) / 4c^2."""
    c = abs(c)
    if c < 0.05:
        return 1.0 / 24.0 - c * c / 120.0
    half = math.tanh(0.5 * c)
    return (half / (0.5 * c) - (1.0 - half * half)) / (4.0 * c * c)


@jittable
def tilted_jacobi(z: float, rng: Generator) -> float:
    """Draw from the Jacobi distribution J*(1), tilted by exp(-z^2 x / 2).

    Devroye's method: draw from an envelope, an inverse Gaussian below CUT and an exponential above. Then accept or
    reject by a series whose partial sums are alternately upper and lower bounds.
    """
    rate = math.pi * math.pi / 8.0 + 0.5 * z * z
    # The masses of the two parts of the envelope, both times exp(z), so that neither underflows if z is large.
    above = math.pi / (2.0 * rate) * math.exp(z - rate * CUT)
    below = normal_cdf((CUT * z - 1.0) / math.sqrt(CUT))
    if z < 40.0:  # above, this term is negligible
        below += math.exp(2.0 * z) * normal_cdf(-(CUT * z + 1.0) / math.sqrt(CUT))
    below *= 2.0
    while True:
        long = uniform(rng) * (above + below) < above
        x = CUT + exponential(rng) / rate if long else short_inverse_gaussian(z, rng)
        bound, k = series_term(0, x), 0
        level = uniform(rng) * bound
        while True:
            k += 1
            if k % 2 == 1:
                bound -= series_term(k, x)
                if level <= bound:
                    return x
            else:
                bound += series_term(k, x)
                if level > bound:
                    break


@jittable
def series_term(k: int, x: float) -> float:
    """The k-th term of the density of J*(1) at x."""
    middle = k + 0.5
    if x > CUT:
        return math.pi * middle * math.exp(-0.5 * middle * middle * (math.pi * math.pi) * x)
    return float(math.pi * middle * (2.0 / (math.pi * x)) ** 1.5 * math.exp(-2.0 * middle * middle / x))


@jittable
def short_inverse_gaussian(z: float, rng: Generator) -> float:
    """Draw from the inverse Gaussian with mean 1/z and shape 1, given a value below CUT."""
    if z * CUT < 1.0:  # the mean is above CUT: draw with z = 0 below CUT, and reject
        while True:
            first, second = exponential(rng), exponential(rng)
            if first * first <= 2.0 * second / CUT:
                root = 1.0 + CUT * first
                x = CUT / (root * root)
                if uniform(rng) <= math.exp(-0.5 * z * z * x):
                    return x
    mean = 1.0 / z
    while True:
        root = normal(rng)
        y = mean * (root * root)
        x = mean + 0.5 * mean * (y - math.sqrt(4.0 * y + y * y))
        if x <= 0.0 or uniform(rng) > mean / (mean + x):
            x = mean * mean / x if x > 0.0 else math.inf
        if x < CUT:
            return x


@jittable
def exponential(rng: Generator) -> float:
    """Draw a standard exponential number."""
    return -math.log(1.0 - uniform(rng))
