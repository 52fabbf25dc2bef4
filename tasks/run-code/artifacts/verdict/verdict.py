"""Writes what the prices come to."""


def run(given):
    stats = given["results"]["stats"]
    verdict = "cheap" if stats["mean"] < given["args"]["limit"] else "dear"
    with open("verdict.txt", "w", encoding="utf-8") as file:
        file.write(f"{stats['count']} things, {verdict}\n")
    return verdict
