"""An MCP server over standard input and output, without any package: a list of notes."""

import json
import sys

NOTES = []

TOOLS = [
    {
        "name": "add_note",
        "description": "Adds a note.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The note."}},
            "required": ["text"],
        },
    },
    {
        "name": "list_notes",
        "description": "Lists all notes.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True},
    },
]


def call(name, arguments):
    if name == "add_note":
        NOTES.append(arguments["text"])
        return {"count": len(NOTES)}
    if name == "list_notes":
        return {"notes": NOTES}
    raise ValueError(f"there is no tool {name}")


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        result = call(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}
    if method == "ping":
        return {}
    raise ValueError(f"there is no method {method}")


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message["method"], message.get("params") or {})
    except Exception as error:
        reply["error"] = {"code": -32603, "message": str(error)}
    print(json.dumps(reply), flush=True)
