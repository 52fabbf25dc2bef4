//! Envs that are processes of this machine, containers of its engine, and envs that run already.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::docker::{Container, Docker, Network, NotServing, Role, Serve};
use super::http::{HttpSide, direct_client};
use super::local::LocalSandbox;
use super::mcp::{McpClient, NotConnected};
use super::process::Serving;
use crate::json::Value;
use crate::step::ContentFile;
use crate::step::env::{EnvError, EnvServer, ExtensionCall};
use crate::step::sandbox::{BoxFuture, Exec, How, Put, Sandbox};
use crate::system::locked;
use crate::task::deploy::{EnvSpec, ProcessRun, Transport};

/// How often a server that is not ready yet is asked again.
const POLL: Duration = Duration::from_millis(20);

/// An answer that takes longer is said to be waited for.
const SLOW: Duration = Duration::from_millis(200);

/// An env that is a process or a container, or a server that runs already.
pub struct ServedEnv {
    env: String,
    mcp: McpClient,
    http: Option<HttpSide>,
    behind: Behind,
    exports: bool,
    gone: Mutex<Option<EnvError>>,
}

/// What runs an env.
enum Behind {
    /// A process in a sandbox.
    Process(Serving, Arc<LocalSandbox>),
    /// A container.
    Container(Container),
    /// Not aebuild.
    Others,
}

/// What a process env is started with.
pub struct Start<'a> {
    /// What it is.
    pub spec: &'a EnvSpec,
    /// How it is run.
    pub run: &'a ProcessRun,
    /// Its sandbox, in which its files are.
    pub sandbox: Arc<LocalSandbox>,
    /// The interpreter that has its packages.
    pub python: Option<&'a Path>,
}

/// What a container env is started with.
pub struct Contained<'a> {
    /// What it is.
    pub spec: &'a EnvSpec,
    /// Its image; `None` where one is built from its files.
    pub image: Option<&'a str>,
    /// The files of its folder.
    pub files: &'a [ContentFile],
    /// The port on which it serves.
    pub port: u16,
    /// The path of its MCP endpoint.
    pub path: &'a str,
    /// The variables that it is given besides those that it always gets.
    pub variables: &'a BTreeMap<String, String>,
}

impl ServedEnv {
    /// Starts a process and waits until it is ready.
    pub async fn start(start: Start<'_>) -> Result<Self, EnvError> {
        let Start {
            spec,
            run,
            sandbox,
            python,
        } = start;
        let env = spec.env_id.as_str();
        let not_started = |why: String, tail: String| EnvError::NotStarted {
            env: env.to_owned(),
            why,
            tail,
        };
        let port = match run.transport {
            Transport::Stdio => None,
            Transport::Http => {
                let free = free_port().await;
                Some(free.map_err(|error| not_started(error.to_string(), String::new()))?)
            }
        };
        let python = python.map_or("python3".into(), |path| path.to_string_lossy());
        let argv = run.command.iter().map(|word| {
            let word = word.replace("{python}", &python);
            match port {
                Some(port) => word.replace("{port}", &port.to_string()),
                None => word,
            }
        });
        let mut exec = Exec::argv(argv);
        let mut own = own_variables(spec, port.map(|port| ("127.0.0.1", port)));
        if let Some(port) = port {
            own.push((run.port_variable.clone(), port.to_string()));
        }
        for (name, value) in own {
            exec = exec.env(name, value);
        }
        for (name, value) in &run.variables {
            exec = exec.env(name, value);
        }
        let serving = sandbox.serve(exec).await;
        let mut serving = serving.map_err(|error| not_started(error.to_string(), String::new()))?;
        let limit = Duration::from_secs(spec.ready_timeout_seconds);
        let ended = serving.ended.clone();
        let said = serving.said.clone();
        let lines = said.clone();
        let tail = move || locked(&lines).text();
        let waits = Mutex::new("it does not answer `initialize`".to_owned());
        let connecting = async {
            match port {
                None => {
                    let (read, write) = serving.pipes();
                    let connected =
                        McpClient::over_pipes(env, read, write, max_answer(spec), said).await;
                    connected.map(|mcp| (mcp, None))
                }
                Some(port) => {
                    serving.drain();
                    let base = format!("http://127.0.0.1:{port}");
                    connect(spec, &base, &run.path, &waits).await
                }
            }
        };
        let mut end = ended.clone();
        let connected = tokio::select! {
            biased;
            connected = tokio::time::timeout(limit, connecting) => connected,
            _ = end.wait_for(Option::is_some) => Ok(Err(NotConnected::Lost("it ended".to_owned()))),
        };
        let error = match connected {
            Ok(Ok((mcp, http))) => {
                return Ok(ServedEnv {
                    env: env.to_owned(),
                    exports: http.as_ref().is_some_and(HttpSide::can_export),
                    mcp,
                    http,
                    behind: Behind::Process(serving, sandbox),
                    gone: Mutex::default(),
                });
            }
            Ok(Err(NotConnected::Refused(why))) => {
                let why = format!("it does not speak MCP at `{}`: {why}", run.path);
                not_started(why, tail())
            }
            Ok(Err(NotConnected::Lost(why))) => {
                // The process ends a moment after its pipes.
                let wait = end.wait_for(Option::is_some);
                let _ = tokio::time::timeout(Duration::from_secs(2), wait).await;
                let how = ended.borrow().map_or(why, words);
                not_started(how, tail())
            }
            Err(_) => EnvError::NotReady {
                env: env.to_owned(),
                limit,
                why: locked(&waits).clone(),
                tail: tail(),
            },
        };
        serving.stop().await;
        Err(error)
    }

    /// Starts a container and waits until it is ready. Without an image the files are those that one is built from.
    pub async fn contain(docker: &Docker, contained: Contained<'_>) -> Result<Self, EnvError> {
        let spec = contained.spec;
        let env = spec.env_id.as_str();
        let variables = |host: &str, port: u16| {
            let mut all = own_variables(spec, Some((host, port)));
            let given = contained.variables.iter();
            all.extend(given.map(|(name, value)| (name.clone(), value.clone())));
            all
        };
        let limit = Duration::from_secs(spec.ready_timeout_seconds);
        let serve = Serve {
            role: Role::Env(env),
            image: contained.image,
            files: contained.files,
            network: Network::Own(contained.port),
            variables: &variables,
            limit,
        };
        let waits = &Mutex::default();
        let path = contained.path;
        let connecting = |base: String| async move {
            loop {
                match connect(spec, &base, path, waits).await {
                    Ok(connected) => return Ok(connected),
                    // The engine takes connections before the server does, and drops them.
                    Err(NotConnected::Lost(_)) => tokio::time::sleep(POLL).await,
                    Err(NotConnected::Refused(why)) => {
                        return Err(format!("it does not speak MCP at `{path}`: {why}"));
                    }
                }
            }
        };
        match docker.serve(serve, connecting).await {
            Ok((container, (mcp, http))) => Ok(ServedEnv {
                env: env.to_owned(),
                exports: http.as_ref().is_some_and(HttpSide::can_export),
                mcp,
                http,
                behind: Behind::Container(container),
                gone: Mutex::default(),
            }),
            Err(NotServing::NotStarted { why, tail }) => Err(EnvError::NotStarted {
                env: env.to_owned(),
                why,
                tail,
            }),
            Err(NotServing::NotReady { tail }) => Err(EnvError::NotReady {
                env: env.to_owned(),
                limit,
                why: locked(waits).clone(),
                tail,
            }),
        }
    }

    /// Connects to a server that runs already.
    pub async fn connect(spec: &EnvSpec, url: &str) -> Result<Self, EnvError> {
        let env = spec.env_id.as_str();
        let limit = Duration::from_secs(spec.ready_timeout_seconds);
        let (base, path) = match url.rsplit_once('/') {
            Some((base, path)) if base.contains("://") => (base, format!("/{path}")),
            _ => (url, String::new()),
        };
        let waits = Mutex::default();
        let connected = tokio::time::timeout(limit, connect(spec, base, &path, &waits)).await;
        let why = match connected {
            Ok(Ok((mcp, http))) => {
                return Ok(ServedEnv {
                    env: env.to_owned(),
                    exports: http.as_ref().is_some_and(HttpSide::can_export),
                    mcp,
                    http,
                    behind: Behind::Others,
                    gone: Mutex::default(),
                });
            }
            Ok(Err(NotConnected::Refused(why))) => {
                format!("what answers at {url} does not speak MCP: {why}")
            }
            Ok(Err(NotConnected::Lost(why))) => format!("{url} cannot be reached: {why}"),
            Err(_) => {
                return Err(EnvError::NotReady {
                    env: env.to_owned(),
                    limit,
                    why: locked(&waits).clone(),
                    tail: String::new(),
                });
            }
        };
        Err(EnvError::NotStarted {
            env: env.to_owned(),
            why,
            tail: String::new(),
        })
    }

    /// Returns whether the server offers the whole data plane.
    pub fn can_export(&self) -> bool {
        self.exports
    }

    /// Returns an error with what is known of the process's end.
    async fn explained(&self, error: EnvError) -> EnvError {
        let EnvError::Gone { why, .. } = &error else {
            return error;
        };
        let mut found = self.ended();
        if found.is_none() {
            // It ends a moment after its connections.
            let moment = Duration::from_millis(500);
            match &self.behind {
                Behind::Process(serving, _) => {
                    let mut ended = serving.ended.clone();
                    let wait = ended.wait_for(Option::is_some);
                    let _ = tokio::time::timeout(moment, wait).await;
                }
                Behind::Container(container) => {
                    let mut ended = container.ended.clone();
                    let wait = ended.wait_for(Option::is_some);
                    if tokio::time::timeout(moment, wait).await.is_err() {
                        container.look().await;
                    }
                }
                Behind::Others => {}
            }
            found = self.ended();
        }
        let error = found.unwrap_or_else(|| EnvError::Gone {
            env: self.env.clone(),
            why: why.clone(),
            tail: self.tail(),
        });
        locked(&self.gone).get_or_insert_with(|| error.clone());
        error
    }

    fn tail(&self) -> String {
        match &self.behind {
            Behind::Process(serving, _) => locked(&serving.said).text(),
            Behind::Container(container) => container.tail(),
            Behind::Others => String::new(),
        }
    }

    fn ended(&self) -> Option<EnvError> {
        let why = match &self.behind {
            Behind::Process(serving, _) => words((*serving.ended.borrow())?),
            Behind::Container(container) => container.ended.borrow().clone()?,
            Behind::Others => return None,
        };
        Some(EnvError::Gone {
            env: self.env.clone(),
            why,
            tail: self.tail(),
        })
    }

    fn no_plane(&self, what: &str) -> EnvError {
        EnvError::NotSupported {
            env: self.env.clone(),
            what: format!("be asked for {what}: it speaks MCP over pipes and nothing else"),
        }
    }
}

/// Returns a port of 127.0.0.1 that nobody listens on.
pub(super) async fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    Ok(listener.local_addr()?.port())
}

fn max_answer(spec: &EnvSpec) -> u64 {
    spec.max_answer_mb * 1_000_000
}

/// Returns the variables that tell an env what it is and, where it serves over HTTP, on which address and port.
fn own_variables(spec: &EnvSpec, serves: Option<(&str, u16)>) -> Vec<(String, String)> {
    let mut variables = vec![
        ("SERVICE_NAME".to_owned(), spec.env_id.clone()),
        ("ENVIRONMENT_NAME".to_owned(), spec.env_id.clone()),
        ("PYTHONUNBUFFERED".to_owned(), "1".to_owned()),
    ];
    if let Some((host, port)) = serves {
        for name in ["HOST", "MCP_HOST"] {
            variables.push((name.to_owned(), host.to_owned()));
        }
        for name in ["PORT", "MCP_PORT"] {
            variables.push((name.to_owned(), port.to_string()));
        }
    }
    variables
}

/// Connects to a server below an address, as soon as it answers; `waits` says what is waited for.
async fn connect(
    spec: &EnvSpec,
    base: &str,
    path: &str,
    waits: &Mutex<String>,
) -> Result<(McpClient, Option<HttpSide>), NotConnected> {
    let env = spec.env_id.as_str();
    let client = direct_client().map_err(NotConnected::Refused)?;
    // A server that takes connections may still be on its way: `/ready` says so where it has one.
    let wait_for = |what: String| *locked(waits) = what;
    let ready = format!("{base}/ready");
    loop {
        let mut asked = pin!(client.get(&ready).send());
        let answer = match tokio::time::timeout(SLOW, &mut asked).await {
            Ok(answer) => answer,
            Err(_) => {
                wait_for(format!("{ready} does not answer"));
                asked.await
            }
        };
        match answer {
            Ok(response) if response.status().is_server_error() => {
                let status = response.status().as_u16();
                wait_for(format!("{ready} answers with status {status}"));
            }
            Ok(_) => break,
            Err(error) if error.is_connect() => {
                wait_for(format!("nothing listens at {base}"));
            }
            Err(_) => break,
        }
        tokio::time::sleep(POLL).await;
    }
    let limit = max_answer(spec);
    let url = format!("{base}{path}");
    wait_for(format!("{url} does not answer `initialize`"));
    let mcp = McpClient::over_http(env, &url, client.clone(), limit).await?;
    wait_for(format!("{base} does not answer a request for its card"));
    let http = HttpSide::at(env, base, client, limit).await;
    let http = http.map_err(|error| NotConnected::Lost(error.to_string()))?;
    Ok((mcp, Some(http)))
}

pub(super) fn words(how: How) -> String {
    match how {
        How::Code(code) => format!("it ended with exit code {code}"),
        How::Signal(signal) => format!("it was ended by signal {signal}"),
        How::TimedOut | How::Cancelled => "it was stopped".to_owned(),
    }
}

impl EnvServer for ServedEnv {
    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(async move {
            match self.mcp.request(method, params).await {
                Ok(answer) => Ok(answer),
                Err(error) => Err(self.explained(error).await),
            }
        })
    }

    fn info(&self) -> Value {
        self.mcp.info()
    }

    fn card(&self) -> Option<Value> {
        self.http.as_ref().and_then(HttpSide::card)
    }

    fn data_plane<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(async move {
            let http = self.http.as_ref().ok_or_else(|| self.no_plane(method))?;
            match http.data_plane(method, params).await {
                Ok(answer) => Ok(answer),
                Err(error) => Err(self.explained(error).await),
            }
        })
    }

    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        Box::pin(async move {
            let http = self
                .http
                .as_ref()
                .ok_or_else(|| self.no_plane("data/get"))?;
            match http.export().await {
                Ok(parts) => Ok(parts),
                Err(error) => Err(self.explained(error).await),
            }
        })
    }

    fn import<'a>(&'a self, parts: &'a [u8]) -> BoxFuture<'a, Result<(), EnvError>> {
        Box::pin(async move {
            let http = self
                .http
                .as_ref()
                .ok_or_else(|| self.no_plane("data/add"))?;
            match http.import(parts).await {
                Ok(()) => Ok(()),
                Err(error) => Err(self.explained(error).await),
            }
        })
    }

    fn extension(&self, call: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>> {
        Box::pin(async move {
            let http = self.http.as_ref().ok_or_else(|| self.no_plane(&call.uri))?;
            match http.extension(call).await {
                Ok(answer) => Ok(answer),
                Err(error) => Err(self.explained(error).await),
            }
        })
    }

    fn fetch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>> {
        Box::pin(async move {
            match &self.http {
                Some(http) => http.get(path, &format!("a request for `{path}`")).await,
                None => Ok(None),
            }
        })
    }

    fn put(&self, files: &[Put]) -> Result<(), EnvError> {
        let put = match &self.behind {
            Behind::Process(_, sandbox) => sandbox.put(files).map_err(|error| error.to_string()),
            Behind::Container(container) => tokio::task::block_in_place(|| {
                // Who waits here for the engine leaves the other steps to other threads.
                Handle::current().block_on(container.put(files))
            }),
            Behind::Others => {
                return Err(EnvError::NotSupported {
                    env: self.env.clone(),
                    what: "take files: it does not run in a sandbox of aebuild".to_owned(),
                });
            }
        };
        put.map_err(|why| EnvError::BadAnswer {
            env: self.env.clone(),
            what: "a copy of files".to_owned(),
            why,
        })
    }

    fn gone(&self) -> Option<EnvError> {
        let known = locked(&self.gone).clone();
        known.or_else(|| self.ended()).or_else(|| {
            self.mcp.is_closed().then(|| EnvError::Gone {
                env: self.env.clone(),
                why: "its MCP connection ended".to_owned(),
                tail: self.tail(),
            })
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match &self.behind {
                Behind::Process(serving, sandbox) => {
                    serving.stop().await;
                    // Its folder goes with the run's own at the latest.
                    let _ = sandbox.destroy().await;
                }
                Behind::Container(container) => container.stop().await,
                Behind::Others => {}
            }
        })
    }
}
