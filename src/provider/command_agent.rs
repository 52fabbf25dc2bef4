//! An agent that is a program: it is started for each prompt, in the sandbox of the agent, and what it prints is its reply.
//!
//! It finds its envs in the variable `MCP_URL`, the first of them, and in the file that `MCP_CONFIG` names, all of them; and
//! the whole prompt in the file that `PROMPT_FILE` names.

use std::path::PathBuf;

use crate::digest::{Digest, Digester};
use crate::json::{Map, Value, json};
use crate::step::ContentFile;
use crate::step::agent::{Agent, AgentError, Prompt, Reply};
use crate::step::sandbox::{BoxFuture, Captured, Exec, How, Put, Sandbox, SandboxError};
use crate::task::deploy::{ProcessRun, PromptBy};

/// The longest reply, in bytes.
const MAX_REPLY: usize = 8 << 20;

/// How many of its last lines are shown of a program that failed.
const LAST_LINES: usize = 40;

/// An agent that is a program.
#[derive(Clone, Debug)]
pub struct CommandAgent {
    /// The `agent_name`.
    pub name: String,
    /// The program.
    pub run: ProcessRun,
    /// How it is given the prompt.
    pub prompt: PromptBy,
    /// The file that is its reply; what it prints where there is none.
    pub reply_file: Option<String>,
    /// The files of its folder.
    pub files: Vec<ContentFile>,
    /// Variables besides those that it says itself.
    pub variables: Vec<(String, String)>,
    /// Variables that its deploy step gives it, which count most.
    pub given: Vec<(String, String)>,
    /// The interpreter that has its packages.
    pub python: Option<PathBuf>,
}

impl Agent for CommandAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Reply, AgentError>> {
        Box::pin(self.answer(prompt))
    }
}

impl CommandAgent {
    fn failed(&self, message: impl ToString, trajectory: Vec<Value>) -> AgentError {
        AgentError::Failed {
            agent: self.name.clone(),
            message: message.to_string(),
            trajectory,
        }
    }

    fn unreachable(&self, message: impl ToString, trajectory: Vec<Value>) -> AgentError {
        AgentError::Unreachable {
            agent: self.name.clone(),
            message: message.to_string(),
            trajectory,
        }
    }

    async fn answer(&self, prompt: Prompt) -> Result<Reply, AgentError> {
        let text = prompt.text();
        let mut trajectory = vec![json!({"role": "user", "content": text})];
        let Some(sandbox) = prompt.sandbox.clone() else {
            return Err(self.unreachable("it has no sandbox to run in", trajectory));
        };
        let exec = self.command(&prompt, &*sandbox).await?;
        if let Some(file) = &self.reply_file {
            // What an earlier prompt left there is no reply to this one.
            let emptied = sandbox.write(file, b"", 0o644);
            emptied.map_err(|error| self.unreachable(error, trajectory.clone()))?;
        }
        let exited = sandbox.exec(exec).await;
        let exited = exited.map_err(|error| self.unreachable(error, trajectory.clone()))?;
        let (stdout, stderr) = (exited.stdout.text(), exited.stderr.text());
        if !stderr.is_empty() {
            trajectory.push(json!({"type": "log", "text": stderr}));
        }
        if exited.how != How::Code(0) && !stdout.is_empty() {
            // It is no reply, but may say what went wrong.
            trajectory.push(json!({"type": "log", "text": stdout}));
        }
        let how = match exited.how {
            How::Code(0) => {
                let reply = self.reply(&*sandbox, &exited.stdout);
                let reply = reply.map_err(|why| self.failed(why, trajectory.clone()))?;
                trajectory.push(json!({"role": "assistant", "content": reply}));
                return Ok(Reply {
                    text: reply,
                    trajectory,
                    ..Reply::default()
                });
            }
            How::TimedOut => {
                return Err(AgentError::TimedOut {
                    agent: self.name.clone(),
                    limit: prompt.timeout,
                    trajectory,
                });
            }
            how => super::served::words(how),
        };
        let why = match (last_lines(&stderr), last_lines(&stdout)) {
            (None, None) => how,
            (Some(lines), None) | (None, Some(lines)) => {
                format!("{how}; its last lines:\n{lines}")
            }
            (Some(stderr), Some(stdout)) => format!(
                "{how}; its last lines:\n{stderr}\nand those of its standard output:\n{stdout}"
            ),
        };
        Err(self.failed(why, trajectory))
    }

    /// Puts what the program needs into its sandbox, and returns the command that runs it.
    async fn command(&self, prompt: &Prompt, sandbox: &dyn Sandbox) -> Result<Exec, AgentError> {
        let failed = |error: &dyn ToString| self.unreachable(error.to_string(), Vec::new());
        let temp = sandbox.temp_dir().trim_end_matches('/');
        let folder = format!("{temp}/agent");
        let puts: Vec<Put> = self
            .files
            .iter()
            .map(|file| Put {
                from: file.source.clone(),
                to: format!("{folder}/{}", file.path),
                mode: if file.executable { 0o755 } else { 0o644 },
            })
            .collect();
        sandbox.put(&puts).map_err(|error| failed(&error))?;
        for (file, put) in self.files.iter().zip(&puts) {
            let copy = sandbox.read(&put.to, file.size);
            let is_same = match copy {
                Ok(copy) => copy.is_some_and(|bytes| Digest::of_bytes(&bytes) == file.digest),
                Err(SandboxError::TooLarge { .. }) => false,
                Err(error) => return Err(failed(&error)),
            };
            if !is_same {
                // The plan is of the file as it was: a reply must not be taken for one of that.
                return Err(AgentError::Unreachable {
                    agent: self.name.clone(),
                    message: format!(
                        "`{}` of it changed since the run was planned; run it again",
                        file.path
                    ),
                    trajectory: Vec::new(),
                });
            }
        }
        let (mut servers, mut first) = (Map::new(), None);
        for env in &prompt.envs {
            let url = format!("{}/mcp", env.url().await?);
            let server = json!({"type": "http", "url": url});
            servers.insert(env.env_id().to_owned(), server);
            first.get_or_insert(url);
        }
        let own = self.own_name(prompt);
        let (config, whole) = (
            format!("{temp}/agent-mcp-{own}.json"),
            format!("{temp}/agent-prompt-{own}.json"),
        );
        let text = json!({"mcpServers": servers}).to_string();
        let written = sandbox.write(&config, text.as_bytes(), 0o644);
        written.map_err(|error| failed(&error))?;
        let settings = &prompt.settings;
        let value = json!({
            "parts": prompt.parts,
            "context_id": prompt.context_id,
            "turn": prompt.turn,
            "system_prompt": settings.system_prompt,
            "model": settings.model,
            "model_params": settings.model_params,
            "effort": settings.effort,
            "max_turns": settings.max_turns,
            "max_thinking_tokens": settings.max_thinking_tokens,
            "output_format": settings.output_schema,
            "skills": settings.skills.iter().map(|skill| json!({
                "name": skill.name, "description": skill.description, "body": skill.body,
            })).collect::<Vec<_>>(),
        });
        let written = sandbox.write(&whole, value.to_string().as_bytes(), 0o644);
        written.map_err(|error| failed(&error))?;
        let python = self.python.as_ref();
        let python = python.map_or("python3".into(), |path| path.to_string_lossy());
        let argv = self.run.command.iter().map(|word| {
            word.replace("{python}", &python)
                .replace("{folder}", &folder)
        });
        let mut argv: Vec<String> = argv.collect();
        if self.prompt == PromptBy::Argument {
            argv.push(prompt.text());
        }
        let mut exec = Exec::argv(argv).timeout(prompt.timeout).keep(MAX_REPLY);
        if self.prompt == PromptBy::Stdin {
            exec = exec.stdin(prompt.text());
        }
        let own = [
            ("AGENT_NAME", self.name.as_str()),
            ("MCP_CONFIG", &config),
            ("PROMPT_FILE", &whole),
            ("CONTEXT_ID", &prompt.context_id),
        ];
        for (name, value) in own {
            exec = exec.env(name, value);
        }
        exec = exec.env("TURN", prompt.turn.to_string());
        if !self.files.is_empty() {
            exec = exec.env("AGENT_FOLDER", folder);
        }
        if let Some(url) = first {
            exec = exec.env("MCP_URL", url);
        }
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let given = self.given.iter().map(|(name, value)| (name, value));
        for (name, value) in variables.chain(&self.run.variables).chain(given) {
            exec = exec.env(name, value);
        }
        Ok(exec)
    }

    /// Returns what the files of a prompt are called by, which is the same in every run.
    fn own_name(&self, prompt: &Prompt) -> String {
        let mut digester = Digester::new("a prompt of a program");
        digester.text(&self.name).text(&prompt.context_id);
        digester.number(prompt.turn);
        digester.finish().to_string()[..16].to_owned()
    }

    fn reply(&self, sandbox: &dyn Sandbox, stdout: &Captured) -> Result<String, String> {
        let Some(file) = &self.reply_file else {
            if stdout.dropped > 0 {
                return Err(format!("its reply is longer than {} MiB", MAX_REPLY >> 20));
            }
            return Ok(stdout.text().trim_end().to_owned());
        };
        match sandbox.read(file, MAX_REPLY as u64) {
            Ok(Some(bytes)) if !bytes.is_empty() => {
                Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
            }
            Ok(_) => Err(format!("it left no reply in `{file}`")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the last lines of what a program wrote; `None` where it wrote nothing.
fn last_lines(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    (!last.is_empty()).then_some(last)
}
