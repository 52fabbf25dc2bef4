#!/usr/bin/env python3
"""Calls the tools of an MCP server from the command line.

The address of the server is in the variable MCP_URL, or in a file .env beside this program or one folder up. The
variable AGENTENV_ROLE says in which role to call. Made by aebuild; it needs nothing but Python 3.9.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

COMMAND = @COMMAND@
TOOLS = [
@TOOLS@]
PROTOCOL = "2025-06-18"
TIMEOUT = 600


class Failure(Exception):
    """Why a tool could not be called."""


def address():
    if os.environ.get("MCP_URL"):
        return os.environ["MCP_URL"]
    folder = os.path.dirname(os.path.realpath(__file__))
    for path in (os.path.join(folder, ".env"), os.path.join(os.path.dirname(folder), ".env")):
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.strip().partition("=")
            if key.strip() in ("MCP_URL", "export MCP_URL") and value.strip():
                return value.strip().strip("'\"")
    raise Failure("set MCP_URL to the address of the MCP server, or write MCP_URL=.. into a file .env")


class Session:
    """A session with the server."""

    def __init__(self, url):
        self.url = url
        self.last = 0
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "AgentEnv-Role": os.environ.get("AGENTENV_ROLE") or "default",
        }
        client = {"name": COMMAND, "version": "1"}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        result = self.request("initialize", params)
        self.headers["MCP-Protocol-Version"] = result.get("protocolVersion", PROTOCOL)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, None)

    def request(self, method, params):
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        answer = self.post(message, self.last)
        if "error" in answer:
            error = answer["error"]
            raise Failure("%s: %s (%s)" % (method, error.get("message"), error.get("code")))
        return answer.get("result") or {}

    def post(self, message, wanted):
        body = json.dumps(message).encode()
        request = urllib.request.Request(self.url, body, self.headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                session = response.headers.get("Mcp-Session-Id")
                if session:
                    self.headers["Mcp-Session-Id"] = session
                if wanted is None:
                    return {}
                if response.headers.get_content_type() == "text/event-stream":
                    messages = events(response)
                else:
                    messages = [json.loads(response.read())]
                for answer in messages:
                    if isinstance(answer, dict) and answer.get("id") == wanted and "method" not in answer:
                        return answer
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")[:2000]
            raise Failure("%s answered with status %d: %s" % (self.url, error.code, text))
        except (OSError, ValueError) as error:
            raise Failure("%s cannot be reached: %s" % (self.url, error))
        raise Failure("%s gave no answer" % self.url)

    def close(self):
        if "Mcp-Session-Id" not in self.headers:
            return
        request = urllib.request.Request(self.url, headers=self.headers, method="DELETE")
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except OSError:
            pass


def events(response):
    data = []
    for line in response:
        line = line.decode("utf-8").rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line[5:].lstrip(" "))
        elif not line and data:
            text, data = "\n".join(data), []
            if text.strip():
                yield json.loads(text)
    if data:
        yield json.loads("\n".join(data))


def truth(text):
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError("write true or false")
    return words[text.lower()]


def as_json(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("write JSON (%s)" % error)


def as_any(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


SCALARS = {"string": str, "integer": int, "number": float, "boolean": truth}


def kinds_of(schema):
    """Returns the names of the types that a schema allows, null aside."""
    if not isinstance(schema, dict):
        return []
    options = [schema] + [one for key in ("anyOf", "oneOf") for one in schema.get(key) or []]
    kinds = []
    for option in options:
        kind = option.get("type") if isinstance(option, dict) else None
        for one in kind if isinstance(kind, list) else [kind]:
            if one and one != "null" and one not in kinds:
                kinds.append(one)
    return kinds


def add_option(parser, taken, name, schema, is_required):
    options = []
    for option in ("--" + name.replace("_", "-"), "--" + name):
        if option not in taken:
            taken.add(option)
            options.append(option)
    if not options:
        options = ["--arg-" + name]
    kinds = kinds_of(schema)
    schema = schema if isinstance(schema, dict) else {}
    settings = {"dest": "arg:" + name, "default": argparse.SUPPRESS}
    if len(kinds) == 1 and kinds[0] in SCALARS:
        settings["type"] = SCALARS[kinds[0]]
        settings["metavar"] = kinds[0].upper()
        if kinds[0] == "boolean":
            settings.update(nargs="?", const=True)
    elif kinds == ["array"] and kinds_of(schema.get("items"))[:1] in ([kind] for kind in SCALARS):
        settings["type"] = SCALARS[kinds_of(schema["items"])[0]]
        settings.update(nargs="*", metavar=kinds_of(schema["items"])[0].upper())
    elif kinds and set(kinds) <= {"array", "object"}:
        settings.update(type=as_json, metavar="JSON")
    else:
        settings.update(type=as_any, metavar="VALUE")
    text = str(schema.get("description") or "")
    if isinstance(schema.get("enum"), list):
        text += " One of: " + ", ".join(map(str, schema["enum"])) + "."
    if is_required:
        text += " Required."
    settings["help"] = text.strip().replace("%", "%%")
    parser.add_argument(*options, **settings)


def parser_of(tools):
    parser = argparse.ArgumentParser(prog=COMMAND, description="Calls a tool of an MCP server.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="tool", metavar="TOOL", required=True)
    for tool in tools:
        text = tool.get("description") or ""
        command = commands.add_parser(
            tool["name"],
            help=text.split("\n")[0].replace("%", "%%"),
            description=text.replace("%(prog)", "% (prog)"),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        taken = {"--help", "--json"}
        command.add_argument("--json", type=as_json, default={}, metavar="JSON", help="All arguments as one JSON object.")
        schema = tool.get("inputSchema") or {}
        required = schema.get("required") or []
        for name, property in (schema.get("properties") or {}).items():
            add_option(command, taken, name, property, name in required)
    return parser


def main():
    parser = parser_of(TOOLS)
    given = vars(parser.parse_args())
    arguments = given["json"]
    if not isinstance(arguments, dict):
        parser.error("--json is no JSON object")
    for key, value in given.items():
        if key.startswith("arg:"):
            arguments[key[4:]] = value
    tool = next(tool for tool in TOOLS if tool["name"] == given["tool"])
    missing = [name for name in (tool.get("inputSchema") or {}).get("required") or [] if name not in arguments]
    if missing:
        parser.error("%s needs %s" % (given["tool"], ", ".join("--" + name.replace("_", "-") for name in missing)))
    try:
        session = Session(address())
        try:
            result = session.request("tools/call", {"name": given["tool"], "arguments": arguments})
        finally:
            session.close()
    except Failure as failure:
        print("%s: %s" % (COMMAND, failure), file=sys.stderr)
        return 1
    out = sys.stderr if result.get("isError") else sys.stdout
    if result.get("structuredContent") is not None:
        print(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False), file=out)
    else:
        for item in result.get("content") or []:
            print(item["text"] if item.get("type") == "text" else json.dumps(item), file=out)
    return 1 if result.get("isError") else 0


if __name__ == "__main__":
    sys.exit(main())
