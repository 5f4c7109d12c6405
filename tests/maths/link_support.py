"""Links for tests."""

import math

from glbandits.maths.links import Link, LinkFunctions


def cauchit_link(**changes: object) -> Link:
    """A link that is not built in, with some arguments changed."""
    arguments: dict[str, object] = {
        "name": "cauchit",
        "mean": lambda z: 0.5 + math.atan(z) / math.pi,
        "slope": lambda z: 1 / (math.pi * (1 + z * z)),
        "antiderivative": lambda z: z / 2 + (z * math.atan(z) - math.log(1 + z * z) / 2) / math.pi,
        "inverse": lambda p: math.tan(math.pi * (p - 0.5)),
        "lowest_reward": 0.0,
        "highest_reward": 1.0,
        "lipschitz": 1 / math.pi,
    }
    return Link(**(arguments | changes))  # type: ignore[arg-type]


def link_functions(link: Link) -> LinkFunctions:
    """The functions of a link, as compiled code receives them."""
    return LinkFunctions(link.mean, link.slope, link.antiderivative)
