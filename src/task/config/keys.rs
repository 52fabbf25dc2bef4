//! Every key of `aebuild.toml`.

use std::sync::LazyLock;

use crate::json::{Map, Value, json};
use crate::task::deploy::AGENT_KINDS;
use crate::task::model::APIS;

/// A key, as the book describes it and as its value is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyDoc {
    /// The path of the key; `*` stands for any name.
    pub path: &'static str,
    /// What its value may be.
    pub kind: KeyKind,
    /// The default in TOML; empty where there is none.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// What the value of a key may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyKind {
    /// A text that is not empty.
    Text,
    /// An address.
    Url,
    /// The name of an environment variable.
    Variable,
    /// A list of names of environment variables.
    Variables,
    /// A list of texts that are not empty.
    Texts,
    /// A whole number in this range.
    Whole(u64, u64),
    /// A number in this range.
    Number(f64, f64),
    /// Any value.
    Any,
    /// One of these texts.
    OneOf(&'static [&'static str]),
}

/// The form of the name of an environment variable.
const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// The form of an address.
pub(crate) const URL: &str =
    r"^https?://([^\s/?#@]*@)?(\[[0-9a-fA-F:.]+\]|[^\s/?#@:\[\]]+)(:[0-9]{1,5})?([/?#]\S*)?$";

const DETERMINISM: KeyKind = KeyKind::OneOf(&["pure", "sampled", "volatile"]);

/// Every key, in the order of the book.
pub const KEYS: &[KeyDoc] = &[
    KeyDoc {
        path: "cache.dir",
        kind: KeyKind::Text,
        default: "",
        doc: "The folder in which results are kept, relative to this file. `--cache-dir` and the variable \
              `AEBUILD_CACHE_DIR` count more. Where nothing is set it is the cache folder of the user, which all work \
              trees share.",
    },
    KeyDoc {
        path: "cache.size_limit_gb",
        kind: KeyKind::Number(0.001, 1e6),
        default: "20.0",
        doc: "The size in GB beyond which `aebuild cache gc` removes the results that were used longest ago.",
    },
    KeyDoc {
        path: "cache.max_age_days",
        kind: KeyKind::Whole(1, 36_500),
        default: "30",
        doc: "The days after which `aebuild cache gc` removes a result that nobody used.",
    },
    KeyDoc {
        path: "cache.durability",
        kind: KeyKind::OneOf(&["durable", "fast"]),
        default: "\"durable\"",
        doc: "`durable`: a result counts as stored once the disk has it. `fast`: the system writes when it likes, and a \
              result that a power cut takes is made again.",
    },
    KeyDoc {
        path: "run.jobs",
        kind: KeyKind::Whole(1, 1024),
        default: "",
        doc: "How many steps run at once, over all tasks. Where it is not set: two more than there are processors.",
    },
    KeyDoc {
        path: "run.prompt_jobs",
        kind: KeyKind::Whole(1, 4096),
        default: "",
        doc: "How many steps that wait for somebody else run at once, over all tasks: prompts, judges and reviews. They take none of `run.jobs`. Where it is not set: as many as `-j` or `run.jobs` says, else 64.",
    },
    KeyDoc {
        path: "run.task_jobs",
        kind: KeyKind::Whole(1, 1024),
        default: "4",
        doc: "How many tasks run at once.",
    },
    KeyDoc {
        path: "run.step_timeout_seconds",
        kind: KeyKind::Whole(1, 604_800),
        default: "",
        doc: "The time after which a step is stopped and has failed. Where it is not set, only the step's own limit counts.",
    },
    KeyDoc {
        path: "run.keep_runs",
        kind: KeyKind::Whole(1, 100_000),
        default: "50",
        doc: "How many run records are kept below `.aebuild/`; the oldest are removed first.",
    },
    KeyDoc {
        path: "sandbox.isolation",
        kind: KeyKind::OneOf(&["auto", "bubblewrap", "none"]),
        default: "\"auto\"",
        doc: "How commands are kept apart from the machine. `bubblewrap`: with bubblewrap, and nothing runs where that does \
              not work. `none`: not. `auto`: with bubblewrap where it works.",
    },
    KeyDoc {
        path: "sandbox.pass_variables",
        kind: KeyKind::Variables,
        default: "[]",
        doc: "The environment variables of this machine that commands see. Their values become part of the key of each \
              step that runs a command.",
    },
    KeyDoc {
        path: "retry.backoff_seconds",
        kind: KeyKind::Number(0.0, 3600.0),
        default: "0.0",
        doc: "The wait before the first retry of a span.",
    },
    KeyDoc {
        path: "retry.backoff_factor",
        kind: KeyKind::Number(1.0, 100.0),
        default: "2.0",
        doc: "By how much each further wait is longer than the one before.",
    },
    KeyDoc {
        path: "retry.max_backoff_seconds",
        kind: KeyKind::Number(0.0, 86_400.0),
        default: "60.0",
        doc: "The longest wait before a retry.",
    },
    KeyDoc {
        path: "score.min",
        kind: KeyKind::Number(0.0, 1.0),
        default: "",
        doc: "The least score with which a run passes. Where it is not set, a low score is shown and the run passes.",
    },
    KeyDoc {
        path: "determinism.types.*",
        kind: DETERMINISM,
        default: "",
        doc: "What is taken of all steps of a type: `pure` (the same inputs give the same result), `sampled` (each run is a \
              sample, and sample n is kept as that) or `volatile` (never kept).",
    },
    KeyDoc {
        path: "determinism.steps.*",
        kind: DETERMINISM,
        default: "",
        doc: "The same for one step, named `<task>/<step>`, or `<step>` for steps of that id in any task.",
    },
    KeyDoc {
        path: "lint.*",
        kind: KeyKind::OneOf(&["off", "hint", "warning", "error"]),
        default: "",
        doc: "How much the warnings and hints of a code count, such as `unneeded-edge = \"off\"`. What is an error with `error` \
              keeps a task from running; `off` says nothing of it. A code whose faults keep a task from running in any case \
              stays an error.",
    },
    KeyDoc {
        path: "python.packages",
        kind: KeyKind::Texts,
        default: "[]",
        doc: "Packages that verifiers in Python find, written as `pip` requirements, besides those that their own files \
              name; one that is named here counts more than the same package there. They are part of the key of each step \
              that runs Python.",
    },
    KeyDoc {
        path: "envs.*.builtin",
        kind: KeyKind::OneOf(&["mail", "calendar", "files", "kv"]),
        default: "",
        doc: "The env that is compiled in. One of `builtin`, `command`, `url` and `image` says how an env is run; it counts more than what the folder `envs/<name>/` says.",
    },
    KeyDoc {
        path: "envs.*.command",
        kind: KeyKind::Texts,
        default: "",
        doc: "The program that serves MCP, and its arguments. It runs in a sandbox of its own, in `/app`, where the files of `envs/<name>/` are. `{port}` stands for the port that it is to serve on, `{python}` for the interpreter that has the packages of `requirements`.",
    },
    KeyDoc {
        path: "envs.*.transport",
        kind: KeyKind::OneOf(&["stdio", "http"]),
        default: "",
        doc: "How the program is talked to. Where it is not set: `http` if `path`, `port_variable` or `{port}` is there or the folder has a Dockerfile, else `stdio`.",
    },
    KeyDoc {
        path: "envs.*.port_variable",
        kind: KeyKind::Text,
        default: "\"PORT\"",
        doc: "The environment variable that tells the program its port, with `http`.",
    },
    KeyDoc {
        path: "envs.*.path",
        kind: KeyKind::Text,
        default: "\"/mcp\"",
        doc: "The path of the MCP endpoint, with `http` and `image`.",
    },
    KeyDoc {
        path: "envs.*.requirements",
        kind: KeyKind::Text,
        default: "",
        doc: "The file of `envs/<name>/` that names the Python packages of the program, such as `requirements.txt`. They are installed once into a virtual environment in the cache folder.",
    },
    KeyDoc {
        path: "envs.*.mount",
        kind: KeyKind::Texts,
        default: "[]",
        doc: "Folders of this machine that the program sees, read-only, such as one with installed packages; relative to this file.",
    },
    KeyDoc {
        path: "envs.*.variables.*",
        kind: KeyKind::Text,
        default: "",
        doc: "Environment variables of the program or container.",
    },
    KeyDoc {
        path: "envs.*.pass_variables",
        kind: KeyKind::Variables,
        default: "[]",
        doc: "Environment variables of this machine that the program sees. Their values become part of the keys of the steps that use the env.",
    },
    KeyDoc {
        path: "envs.*.url",
        kind: KeyKind::Url,
        default: "",
        doc: "The address of the MCP endpoint of a server that runs already. It is emptied by `data/reset` when a task deploys it, if it has the data plane.",
    },
    KeyDoc {
        path: "envs.*.image",
        kind: KeyKind::Text,
        default: "",
        doc: "The image of a container, run by the Docker engine of this machine: the one at the Unix socket that `DOCKER_HOST` names, else `/var/run/docker.sock`. It is pulled where it is not there. A folder `envs/<name>/` with a Dockerfile needs none: its image is built.",
    },
    KeyDoc {
        path: "envs.*.port",
        kind: KeyKind::Whole(1, 65535),
        default: "18765",
        doc: "The port on which the container serves. It is told it in `PORT` and `MCP_PORT`, and is reached on a port of `127.0.0.1`.",
    },
    KeyDoc {
        path: "envs.*.state",
        kind: KeyKind::OneOf(&["export", "replay", "none"]),
        default: "",
        doc: "How the state of the env is brought back. `export`: it is exported and loaded through the data plane. `replay`: the env is started anew, and the recorded loads and calls are made again, each answer compared. `none`: only by running the steps again. Where it is not set: `export` if the server offers the whole data plane, else `replay`.",
    },
    KeyDoc {
        path: "envs.*.read_only_tools",
        kind: KeyKind::Texts,
        default: "[]",
        doc: "Tools that change nothing, besides those that the server marks with `readOnlyHint`; `*` at the end stands for any ending.",
    },
    KeyDoc {
        path: "envs.*.volatile",
        kind: KeyKind::Texts,
        default: "[]",
        doc: "Places of answers that differ each time, such as `$.created_at` or `$..id`, as JSON paths into what a tool answers. They are left out when a replayed answer is compared.",
    },
    KeyDoc {
        path: "envs.*.ready_timeout_seconds",
        kind: KeyKind::Whole(1, 3600),
        default: "60",
        doc: "How long the env may take to get ready.",
    },
    KeyDoc {
        path: "envs.*.call_timeout_seconds",
        kind: KeyKind::Whole(1, 86_400),
        default: "600",
        doc: "How long the env may take to answer a call. After that it is taken to hang, and the step has failed.",
    },
    KeyDoc {
        path: "envs.*.max_answer_mb",
        kind: KeyKind::Whole(1, 4096),
        default: "256",
        doc: "The largest answer that is taken from the env, in MB.",
    },
    KeyDoc {
        path: "envs.*.determinism",
        kind: DETERMINISM,
        default: "",
        doc: "What is taken of all steps that use the env, where it is more than their own: `sampled` or `volatile`, such as for \
              an env that shows the live web. With `url` it is `volatile` where it is not set, since nobody here knows whether \
              the same server runs there as yesterday; `pure` says that it does.",
    },
    KeyDoc {
        path: "envs.*.clock",
        kind: KeyKind::OneOf(&["real", "event"]),
        default: "\"real\"",
        doc: "How the virtual clock of the env goes on, once `sync_env_clock` has set it. `real`: at its rate, while a step \
              works on the env, such as a prompt; such steps are then `sampled`. `event`: it stands still while anybody works, and \
              leaps to what is due next when all wait, with `wait_until` or at the end; the same steps then give the same results.",
    },
    KeyDoc {
        path: "agents.*.type",
        kind: KeyKind::OneOf(AGENT_KINDS),
        default: "",
        doc: "What the agent is: `scripted` does what the rules of its folder say, `model` asks a model, `command` is a program, `a2a` is an agent that is reached over A2A. What a table says counts more than what the folder `agents/<name>/` says; it needs no folder.",
    },
    KeyDoc {
        path: "agents.*.url",
        kind: KeyKind::Url,
        default: "",
        doc: "The address of an agent that runs already and serves A2A, 0.3 or 1.0: its card is at `/.well-known/agent-card.json` or `/.well-known/agent.json` below it. For `type = \"a2a\"`.",
    },
    KeyDoc {
        path: "agents.*.command",
        kind: KeyKind::Texts,
        default: "",
        doc: "A program and its arguments. With `type = \"a2a\"` it serves A2A over HTTP, on the port that `{port}` stands for, and is started once a task. With `type = \"command\"` it is started for each prompt, answers it and ends; `{folder}` stands for the folder in which the agent's files are. `{python}` stands for the interpreter that has its `requirements`.",
    },
    KeyDoc {
        path: "agents.*.image",
        kind: KeyKind::Text,
        default: "",
        doc: "The image of a container that serves A2A, run by the Docker engine of this machine, as that of an env is. It is started once a task, in the network of this machine. A folder `agents/<name>/` with a Dockerfile needs none: its image is built. For `type = \"a2a\"`.",
    },
    KeyDoc {
        path: "agents.*.port",
        kind: KeyKind::Whole(1, 65535),
        default: "",
        doc: "The port of this machine on which the container serves whatever it is told; who else needs it waits for it. Where it is not set: one that is free, which the container is told in `PORT` and `A2A_PORT`.",
    },
    KeyDoc {
        path: "agents.*.port_variable",
        kind: KeyKind::Text,
        default: "\"PORT\"",
        doc: "The variable that tells a program or container that serves A2A its port; `A2A_PORT` tells it as well.",
    },
    KeyDoc {
        path: "agents.*.path",
        kind: KeyKind::Text,
        default: "\"/\"",
        doc: "The path below which a program or container that serves A2A has its card.",
    },
    KeyDoc {
        path: "agents.*.ready_timeout_seconds",
        kind: KeyKind::Whole(1, 3600),
        default: "60",
        doc: "How long a program or container that serves A2A may take to get ready, which it is once it gives its card.",
    },
    KeyDoc {
        path: "agents.*.state",
        kind: KeyKind::OneOf(&["process", "none"]),
        default: "\"process\"",
        doc: "What an agent that serves A2A keeps from one prompt to the next. `process`: what it was told may decide what it answers, and is nowhere but in its process, so it is told all of it again for a prompt that must run; of an agent at a `url` only what was said in conversations with a `context_id`. `none`: nothing but within one step or conversation, so a prompt runs without those before it.",
    },
    KeyDoc {
        path: "agents.*.prompt",
        kind: KeyKind::OneOf(&["argument", "stdin"]),
        default: "\"argument\"",
        doc: "How a program that is started for each prompt is given it: as its last argument, or on its standard input.",
    },
    KeyDoc {
        path: "agents.*.reply_file",
        kind: KeyKind::Text,
        default: "",
        doc: "The file of its sandbox that is the reply of a program that is started for each prompt. Where it is not set, the reply is what the program prints.",
    },
    KeyDoc {
        path: "agents.*.requirements",
        kind: KeyKind::Text,
        default: "",
        doc: "The file of the agent's folder that names its Python packages, as `pip` reads it. They are installed once, in an environment that `{python}` is the interpreter of.",
    },
    KeyDoc {
        path: "agents.*.mount",
        kind: KeyKind::Texts,
        default: "[]",
        doc: "Folders of this machine that the program sees, read-only, relative to this file. Programs in them are found. What is in them is part of no key.",
    },
    KeyDoc {
        path: "agents.*.variables.*",
        kind: KeyKind::Text,
        default: "",
        doc: "Environment variables of the program or container.",
    },
    KeyDoc {
        path: "agents.*.determinism",
        kind: DETERMINISM,
        default: "",
        doc: "What is taken of all prompts to the agent. Where it is not set: `pure` for a scripted agent, else `sampled`.",
    },
    KeyDoc {
        path: "agents.*.pass_variables",
        kind: KeyKind::Variables,
        default: "[]",
        doc: "Environment variables of this machine that the agent's program or container sees. Their values become part of the keys of the steps that prompt it.",
    },
    KeyDoc {
        path: "agents.*.model",
        kind: KeyKind::Text,
        default: "",
        doc: "The model of an agent of the type `model`: the name of a table `[models.<name>]`, else the id of a model. What a step or the command line says counts more.",
    },
    KeyDoc {
        path: "agents.*.system_prompt",
        kind: KeyKind::Text,
        default: "",
        doc: "What the agent is told before everything else, where neither a step nor its `deploy_agent` says it.",
    },
    KeyDoc {
        path: "agents.*.max_turns",
        kind: KeyKind::Whole(1, 10_000),
        default: "50",
        doc: "How often an agent of the type `model` may ask its model for one reply. An agent that needs more has failed.",
    },
    KeyDoc {
        path: "agents.*.params.*",
        kind: KeyKind::Any,
        default: "",
        doc: "Parameters of the model, such as `temperature`, sent as they are.",
    },
    KeyDoc {
        path: "models.*.api",
        kind: KeyKind::OneOf(APIS),
        default: "",
        doc: "How the endpoint is spoken to. `openai`: chat completions, as many servers have them. `anthropic`: messages. Where it is not set: `anthropic` for a model whose id begins with `claude-`, else `openai`.",
    },
    KeyDoc {
        path: "models.*.base_url",
        kind: KeyKind::Url,
        default: "",
        doc: "The address of the endpoint, below which `/chat/completions` or `/v1/messages` is; without a password. Where it is not set: that of who made the API. A model that has no table is asked at the address that `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` or `LITELLM_BASE_URL` names.",
    },
    KeyDoc {
        path: "models.*.model",
        kind: KeyKind::Text,
        default: "",
        doc: "The id that is sent. Where it is not set: the name of the table.",
    },
    KeyDoc {
        path: "models.*.key_variable",
        kind: KeyKind::Variable,
        default: "",
        doc: "The environment variable that holds the key; it is sent in the header of each request, and shown and kept nowhere. Where it is not set: none with `base_url`, else `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`.",
    },
    KeyDoc {
        path: "models.*.max_concurrent",
        kind: KeyKind::Whole(1, 65_536),
        default: "8",
        doc: "How many requests to the endpoint are under way at once. Of several tables with the same `base_url` the smallest number counts.",
    },
    KeyDoc {
        path: "models.*.timeout_seconds",
        kind: KeyKind::Whole(1, 86_400),
        default: "600",
        doc: "How long a request may take until its answer is there. After that it is sent again.",
    },
    KeyDoc {
        path: "models.*.max_retries",
        kind: KeyKind::Whole(0, 100),
        default: "5",
        doc: "How often a request is sent again after no answer, status 408, 409, 425, 429 or one from 500 on. The wait is what the endpoint asks for, up to 10 minutes, else it grows from half a second to a minute.",
    },
    KeyDoc {
        path: "models.*.max_output_tokens",
        kind: KeyKind::Whole(1, 10_000_000),
        default: "",
        doc: "The longest answer, in tokens.",
    },
    KeyDoc {
        path: "models.*.input_price_per_mtok",
        kind: KeyKind::Number(0.0, 1e6),
        default: "",
        doc: "The price in US dollars of a million tokens that are read. For well-known models it need not be set.",
    },
    KeyDoc {
        path: "models.*.output_price_per_mtok",
        kind: KeyKind::Number(0.0, 1e6),
        default: "",
        doc: "The price in US dollars of a million tokens that are written.",
    },
];

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut root = Map::new();
    for key in KEYS {
        place(
            &mut root,
            &key.path.split('.').collect::<Vec<_>>(),
            key.kind.schema(),
        );
    }
    table(root)
});

/// Returns the JSON Schema of the file, made of [`KEYS`].
pub fn schema() -> &'static Value {
    &SCHEMA
}

fn table(properties: Map<String, Value>) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Puts the schema of a key where its path leads.
fn place(properties: &mut Map<String, Value>, path: &[&str], schema: Value) {
    match path {
        [] => {}
        [name] => {
            properties.insert((*name).to_owned(), schema);
        }
        [name, "*"] => {
            let any = json!({"type": "object", "additionalProperties": schema});
            properties.insert((*name).to_owned(), any);
        }
        [name, "*", rest @ ..] => {
            let any = properties.entry((*name).to_owned()).or_insert_with(
                || json!({"type": "object", "additionalProperties": table(Map::new())}),
            );
            if let Some(Value::Object(inner)) = any.pointer_mut("/additionalProperties/properties")
            {
                place(inner, rest, schema);
            }
        }
        [name, rest @ ..] => {
            let inner = properties
                .entry((*name).to_owned())
                .or_insert_with(|| table(Map::new()));
            if let Some(Value::Object(inner)) = inner.get_mut("properties") {
                place(inner, rest, schema);
            }
        }
    }
}

impl KeyKind {
    /// Returns the JSON Schema of the values.
    fn schema(self) -> Value {
        match self {
            KeyKind::Text => json!({"type": "string", "minLength": 1}),
            KeyKind::Url => json!({"type": "string", "pattern": URL}),
            KeyKind::Variable => json!({"type": "string", "pattern": VARIABLE}),
            KeyKind::Variables => json!({
                "type": "array",
                "items": {"type": "string", "pattern": VARIABLE},
            }),
            KeyKind::Texts => json!({
                "type": "array",
                "items": {"type": "string", "minLength": 1},
            }),
            KeyKind::Whole(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
            KeyKind::Number(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
            KeyKind::Any => json!({}),
            KeyKind::OneOf(values) => json!({"type": "string", "enum": values}),
        }
    }

    /// Says in words what the values are.
    pub fn words(self) -> String {
        match self {
            KeyKind::Text => "text".to_owned(),
            KeyKind::Url => "address".to_owned(),
            KeyKind::Variable => "variable name".to_owned(),
            KeyKind::Variables => "list of variable names".to_owned(),
            KeyKind::Texts => "list of texts".to_owned(),
            KeyKind::Whole(min, max) => format!("whole number from {min} to {max}"),
            KeyKind::Number(min, max) => format!("number from {min} to {max}"),
            KeyKind::Any => "any value".to_owned(),
            KeyKind::OneOf(values) => values
                .iter()
                .map(|value| format!("`\"{value}\"`"))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}
