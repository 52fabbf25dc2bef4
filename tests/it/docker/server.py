"""An env that keeps notes: MCP over streamable HTTP at /mcp, the AgentEnv card, and its data plane at /agentenv."""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

notes = []

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "add_note", "inputSchema": TEXT},
    {"name": "read_file", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    {"name": "quit", "inputSchema": {"type": "object"}},
]


def call(name, arguments):
    if name == "quit":
        print("asked to quit", flush=True)
        os._exit(7)
    if name == "read_file":
        with open(arguments["text"]) as file:
            return {"text": file.read()}
    notes.append(arguments["text"])
    return {"n": len(notes), "greeting": os.environ.get("GREETING", "")}


def mcp(method, params):
    if method == "initialize":
        server = {"name": "notes", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        answer = call(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}
    return {}


def data_plane(method, params):
    if method == "data/reset":
        notes.clear()
    if method == "data/add":
        for part in params["parts"]:
            notes.extend(part["data"]["notes"])
    if method == "data/get":
        return {"parts": [{"kind": "data", "data": {"notes": notes}}]}
    return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        card = {"name": "notes", "protocolVersion": "1.0", "url": "/agentenv"}
        paths = {"/ready": {}, "/.well-known/agent-env.json": card}
        self.answer(200 if self.path in paths else 405, paths.get(self.path))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in request:
            return self.answer(202)
        does = mcp if self.path == "/mcp" else data_plane
        result = does(request["method"], request.get("params") or {})
        self.answer(200, {"jsonrpc": "2.0", "id": request["id"], "result": result})

    def log_message(self, *arguments):
        pass


if os.environ.get("FAIL"):
    for n in range(50):
        print("line", n)
    sys.exit(3)
if os.environ.get("HANG"):
    time.sleep(600)
ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()
