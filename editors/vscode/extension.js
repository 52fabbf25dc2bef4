// Starts `aebuild lsp` and leaves everything else to it.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

// TOML has no language of its own in a plain VS Code, so files are told by their names.
const documents = [
  { scheme: "file", language: "json" },
  { scheme: "file", language: "jsonc" },
  { scheme: "file", pattern: "**/{aebuild,aliases,artifact,env,agent}.toml" },
  { scheme: "file", pattern: "**/evals/*.toml" },
];

let client;

async function start() {
  const command = vscode.workspace.getConfiguration("aebuild").get("path") || "aebuild";
  client = new LanguageClient("aebuild", "aebuild", { command, args: ["lsp"] }, { documentSelector: documents });
  try {
    await client.start();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    vscode.window.showErrorMessage(`\`${command} lsp\` did not start: ${text}. Set "aebuild.path" to the program.`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  try {
    await running?.stop();
  } catch {
    // One that never started cannot be stopped.
  }
}

async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(
    vscode.commands.registerCommand("aebuild.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("aebuild.path")) {
        return restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
