"""Says how many prices there are, and their mean."""

from table import column


def run(given):
    numbers = [float(text) for text in column("prices.csv", given["args"]["column"])]
    return {"count": len(numbers), "mean": sum(numbers) / len(numbers)}
