"""Calls the `verify` of a Python file, and leaves its rows in `rows.json` or what is wrong in `fault.txt`."""

import asyncio
import importlib.util
import inspect
import json
import linecache
import os
import sys
import traceback

import aebuild

folder, file = sys.argv[1:3]
code = os.path.join(folder, "code")
facts = json.load(sys.stdin)
for name in ("rows.json", "fault.txt"):
    if os.path.exists(os.path.join(folder, name)):
        os.remove(os.path.join(folder, name))


def leave(name, text):
    path = os.path.join(folder, name)
    # A verifier may leave a lone surrogate in a text, which is no UTF-8.
    with open(path + ".part", "w", encoding="utf-8", errors="replace") as out:
        out.write(text)
    os.replace(path + ".part", path)


def refuse(message):
    leave("fault.txt", message)
    sys.stdout.flush()
    sys.exit(0)


def place_of(error):
    """Where in the author's own files an error comes from."""
    if isinstance(error, SyntaxError) and error.filename:
        frames = [(error.filename, error.lineno, (error.text or "").strip())]
    else:
        frames = [
            (frame.filename, frame.lineno, linecache.getline(frame.filename, frame.lineno).strip())
            for frame in traceback.extract_tb(error.__traceback__)
        ]
    for path, line, text in reversed(frames):
        if path.startswith(code + os.sep):
            return f" ({os.path.relpath(path, code)}, line {line}: {text})"
    return ""


def refuse_error(error):
    traceback.print_exception(type(error), error, error.__traceback__)
    place = place_of(error)
    # Clients of MCP wrap what happens inside them in groups of one.
    while len(getattr(error, "exceptions", ())) == 1:
        error = error.exceptions[0]
        place = place_of(error) or place
    if isinstance(error, SystemExit):
        refuse(f"ended the program with sys.exit({error.code!r}){place}")
    help = ""
    if isinstance(error, ModuleNotFoundError):
        help = "; name the package that brings it in the file's `# /// script` block or in `requirements.txt`"
    refuse(f"raised {type(error).__name__}: {error}{place}{help}")


async def wait(result):
    return await result


def call():
    path = os.path.join(code, file)
    sys.path[:0] = dict.fromkeys([os.path.dirname(path), code])
    name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    verify = getattr(module, "verify", None)
    if not callable(verify):
        refuse("has no function `verify`; write `def verify(mcp_url): ..`")
    more = {}
    if "run" in inspect.signature(verify).parameters:
        more["run"] = aebuild.Run(facts["run"])
    rows = verify(facts["env"]["mcp_url"], **more)
    return asyncio.run(wait(rows)) if inspect.isawaitable(rows) else rows


def text_of(rows):
    if not isinstance(rows, (list, tuple)):
        refuse(f"gave {type(rows).__name__}, not a list of rows")
    texts = []
    for at, row in enumerate(rows):
        if not isinstance(row, dict):
            refuse(f"gave as row {at} {type(row).__name__}, not a dict such as {{'id': 'sent', 'result': True}}")
        try:
            texts.append(json.dumps(row, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            refuse(f"gave as row {at} what is no JSON: {error}")
    return f"[{', '.join(texts)}]"


try:
    rows = call()
except SystemExit as error:
    if os.path.exists(os.path.join(folder, "fault.txt")):
        raise
    refuse_error(error)
except BaseException as error:
    refuse_error(error)
leave("rows.json", text_of(rows))
