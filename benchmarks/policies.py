"""Every policy on the paper's simulation: seconds a run, the ratio to SGD-TS beside the paper's, growth in T and d."""

from glbandits.experiments.paper import runtime


def report() -> None:
    """Print a row for each policy."""
    print("A run of T=1000, K=100, d=6, logistic (least CPU seconds of 10 runs)")
    print(f"  {'policy':18s} {'seconds':>9s} {'/ sgd-ts':>9s} {'paper':>7s} {'T^':>6s} {'d^':>6s}")
    table = runtime.measure()
    for row in table.rows:
        paper = table.paper_ratio(row)
        shown = "-" if paper is None else f"{paper:.1f}"
        cells = f"{row.seconds:9.5f} {table.ratio(row):9.1f} {shown:>7s} {row.growth_T:6.2f} {row.growth_d:6.2f}"
        print(f"  {row.label:18s} {cells}")
    print(f"  (T^ and d^: fitted exponents over T = {table.horizons} and d = {table.dimensions})")
