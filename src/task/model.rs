//! How a model is reached: what `[models.<name>]` of `aebuild.toml` says, and what holds where it says nothing.
//!
//! Plain data. Nobody here sends anything, and no key is ever in it: only the name of the variable that holds one.

use std::collections::BTreeMap;

use crate::json::{Map, Value, json};

/// The dialect that an endpoint speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Api {
    /// Chat completions, as OpenAI and many servers have them.
    OpenAi,
    /// Messages, as Anthropic has them.
    Anthropic,
}

/// The APIs by their names in `aebuild.toml`.
pub const APIS: &[&str] = &["openai", "anthropic"];

/// The limits that hold where a table says nothing.
const MAX_CONCURRENT: u64 = 8;
const TIMEOUT_SECONDS: u64 = 600;
const MAX_RETRIES: u64 = 5;

impl Api {
    /// Returns the name in `aebuild.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Api::OpenAi => "openai",
            Api::Anthropic => "anthropic",
        }
    }

    /// Returns the address of its own endpoint.
    fn home(self) -> &'static str {
        match self {
            Api::OpenAi => "https://api.openai.com/v1",
            Api::Anthropic => "https://api.anthropic.com",
        }
    }

    /// Returns the variable in which its users keep their key.
    fn key_variable(self) -> &'static str {
        match self {
            Api::OpenAi => "OPENAI_API_KEY",
            Api::Anthropic => "ANTHROPIC_API_KEY",
        }
    }
}

/// A model and how it is reached.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelSpec {
    /// The name by which it was asked for.
    pub name: String,
    /// The dialect of its endpoint.
    pub api: Api,
    /// The address that paths are below, without a slash at its end.
    pub base_url: String,
    /// The id that is sent.
    pub model: String,
    /// The environment variable that holds the key; `None` where none is sent.
    pub key_variable: Option<String>,
    /// How many requests are under way at once.
    pub max_concurrent: u64,
    /// How long one request may take, in seconds.
    pub timeout_seconds: u64,
    /// How often a request is sent again.
    pub max_retries: u64,
    /// The price of a million tokens that are read, in US dollars.
    pub input_price_per_mtok: Option<f64>,
    /// The price of a million tokens that are written, in US dollars.
    pub output_price_per_mtok: Option<f64>,
    /// The longest answer, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether a table says so, and not only the environment.
    pub has_table: bool,
}

impl ModelSpec {
    /// Returns the model of a name: the one of `[models.<name>]`, else the model of that id at the endpoint that the
    /// environment names.
    pub fn of(
        name: &str,
        tables: &BTreeMap<String, Value>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> ModelSpec {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        match tables.get(name) {
            Some(table) => Self::of_table(name, table),
            None => Self::of_environment(name, &set),
        }
    }

    fn of_table(name: &str, table: &Value) -> ModelSpec {
        let text = |key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
        let whole = |key: &str| table.get(key).and_then(Value::as_u64);
        let number = |key: &str| table.get(key).and_then(Value::as_f64);
        let model = text("model").unwrap_or_else(|| name.to_owned());
        let api = match text("api").as_deref() {
            Some("anthropic") => Api::Anthropic,
            Some(_) => Api::OpenAi,
            None => api_of(&model),
        };
        let base_url = text("base_url");
        let key_variable = text("key_variable").or_else(|| {
            // The endpoint of who made the API takes nobody without a key.
            base_url.is_none().then(|| api.key_variable().to_owned())
        });
        ModelSpec {
            name: name.to_owned(),
            api,
            base_url: trimmed(&base_url.unwrap_or_else(|| api.home().to_owned())),
            model,
            key_variable,
            max_concurrent: whole("max_concurrent").unwrap_or(MAX_CONCURRENT),
            timeout_seconds: whole("timeout_seconds").unwrap_or(TIMEOUT_SECONDS),
            max_retries: whole("max_retries").unwrap_or(MAX_RETRIES),
            input_price_per_mtok: number("input_price_per_mtok"),
            output_price_per_mtok: number("output_price_per_mtok"),
            max_output_tokens: whole("max_output_tokens"),
            has_table: true,
        }
    }

    fn of_environment(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> ModelSpec {
        let at = |api: Api, base_url: Option<String>, key: &str, needs_key: bool| ModelSpec {
            name: name.to_owned(),
            api,
            base_url: trimmed(&base_url.unwrap_or_else(|| api.home().to_owned())),
            model: name.to_owned(),
            key_variable: (needs_key || variable(key).is_some()).then(|| key.to_owned()),
            max_concurrent: MAX_CONCURRENT,
            timeout_seconds: TIMEOUT_SECONDS,
            max_retries: MAX_RETRIES,
            input_price_per_mtok: None,
            output_price_per_mtok: None,
            max_output_tokens: None,
            has_table: false,
        };
        let anthropic = || {
            let base_url = variable("ANTHROPIC_BASE_URL");
            let needs_key = base_url.is_none();
            at(Api::Anthropic, base_url, "ANTHROPIC_API_KEY", needs_key)
        };
        let has = |name: &str| variable(name).is_some();
        let is_claude = api_of(name) == Api::Anthropic;
        if is_claude && has("ANTHROPIC_API_KEY") {
            return anthropic();
        }
        if has("OPENAI_BASE_URL") || has("OPENAI_API_KEY") {
            let base_url = variable("OPENAI_BASE_URL");
            let needs_key = base_url.is_none();
            return at(Api::OpenAi, base_url, "OPENAI_API_KEY", needs_key);
        }
        if let Some(base_url) = variable("LITELLM_BASE_URL") {
            return at(Api::OpenAi, Some(base_url), "LITELLM_API_KEY", false);
        }
        match is_claude {
            true => anthropic(),
            false => at(Api::OpenAi, None, "OPENAI_API_KEY", true),
        }
    }

    /// Returns what decides how the model answers, for the keys of the steps that ask it.
    pub fn decides(&self) -> Value {
        json!({
            "api": self.api.as_str(),
            "base_url": without_user(&self.base_url),
            "model": self.model,
            "max_output_tokens": self.max_output_tokens,
        })
    }
}

/// The variables that say how models without a table are reached.
pub const VARIABLES: [&str; 6] = [
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "LITELLM_API_KEY",
    "LITELLM_BASE_URL",
];

/// Returns the variables that may hold a key.
pub fn key_variables(tables: &BTreeMap<String, Value>) -> Vec<String> {
    let named = tables
        .values()
        .filter_map(|table| table.get("key_variable")?.as_str());
    let common = VARIABLES.into_iter().filter(|name| name.ends_with("_KEY"));
    let mut names: Vec<String> = named.chain(common).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns what decides how the model of a name answers: what its table says, else what the variables say.
pub fn decides(
    name: &str,
    tables: &BTreeMap<String, Value>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Value {
    ModelSpec::of(name, tables, variable).decides()
}

/// Returns what an address says of its user, such as a name and a password: what stands between `://` and `@`.
pub fn user_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace();
    let authority = rest.find(ends).map_or(rest, |end| &rest[..end]);
    authority.rfind('@').map(|at| &authority[..at])
}

/// Returns an address without its user and password, which are kept nowhere.
pub fn without_user(url: &str) -> String {
    match user_of(url) {
        Some(user) => url.replacen(&format!("{user}@"), "", 1),
        None => url.to_owned(),
    }
}

/// Returns what must not be written of an address: the password, else all that stands before the `@`.
pub fn password_of(url: &str) -> Option<&str> {
    let user = user_of(url)?;
    Some(user.split_once(':').map_or(user, |(_, password)| password))
}

/// Parameters that are said elsewhere, and may not be among those that are sent as they are.
pub const RESERVED_PARAMS: [&str; 9] = [
    "model",
    "messages",
    "api_key",
    "api_base",
    "user",
    "metadata",
    "timeout",
    "response_format",
    "stream",
];

/// Returns the first of these parameters that is said elsewhere.
pub fn reserved(params: &Map<String, Value>) -> Option<&str> {
    let is_reserved = |name: &&String| RESERVED_PARAMS.contains(&name.as_str());
    params.keys().find(is_reserved).map(String::as_str)
}

fn api_of(model: &str) -> Api {
    match model.starts_with("claude-") {
        true => Api::Anthropic,
        false => Api::OpenAi,
    }
}

fn trimmed(url: &str) -> String {
    url.trim().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(value: Value) -> BTreeMap<String, Value> {
        value
            .as_object()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .collect()
    }

    fn place(name: &str, table: Value, variables: &[(&str, &str)]) -> String {
        let set = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let spec = ModelSpec::of(name, &tables(table), &set);
        let (api, url, model) = (spec.api.as_str(), &spec.base_url, &spec.model);
        format!("{api} {url} {model} {:?}", spec.key_variable)
    }

    #[test]
    fn a_table_says_how_its_model_is_reached() {
        let one = |table: Value| place("m", json!({"m": table}), &[("OPENAI_API_KEY", "x")]);
        assert_eq!(
            one(json!({"base_url": "http://127.0.0.1:1/v1/"})),
            "openai http://127.0.0.1:1/v1 m None"
        );
        assert_eq!(
            one(json!({"model": "claude-x"})),
            "anthropic https://api.anthropic.com claude-x Some(\"ANTHROPIC_API_KEY\")"
        );
        assert_eq!(
            one(json!({"api": "openai", "key_variable": "MINE"})),
            "openai https://api.openai.com/v1 m Some(\"MINE\")"
        );
    }

    #[test]
    fn without_a_table_the_environment_says_it() {
        let at = |name: &str, variables: &[(&str, &str)]| place(name, json!({}), variables);
        let claude = "anthropic https://api.anthropic.com claude-x Some(\"ANTHROPIC_API_KEY\")";
        assert_eq!(at("claude-x", &[("ANTHROPIC_API_KEY", "k")]), claude);
        assert_eq!(at("claude-x", &[]), claude);
        assert_eq!(
            at("claude-x", &[("OPENAI_BASE_URL", "http://h/v1")]),
            "openai http://h/v1 claude-x None"
        );
        assert_eq!(
            at(
                "m",
                &[("LITELLM_BASE_URL", "http://l"), ("LITELLM_API_KEY", "k")]
            ),
            "openai http://l m Some(\"LITELLM_API_KEY\")"
        );
        let home = "openai https://api.openai.com/v1 m Some(\"OPENAI_API_KEY\")";
        assert_eq!(at("m", &[("OPENAI_API_KEY", "k")]), home);
        assert_eq!(at("m", &[("OPENAI_API_KEY", "  ")]), home);
    }

    #[test]
    fn the_password_of_an_address_decides_nothing() {
        assert_eq!(password_of("http://me:p@ss@h:1/v1"), Some("p@ss"));
        assert_eq!(without_user("http://me:p@ss@h:1/v1"), "http://h:1/v1");
        assert_eq!(password_of("http://token@h"), Some("token"));
        assert_eq!(password_of("http://h/a@b"), None);
        assert_eq!(without_user("http://h/a@b"), "http://h/a@b");
        let spec = |url: &str| {
            let url = url.to_owned();
            let set = move |name: &str| (name == "OPENAI_BASE_URL").then(|| url.clone());
            ModelSpec::of("m", &BTreeMap::new(), &set).decides()
        };
        assert_eq!(spec("http://me:one@h/v1"), spec("http://h/v1"));
    }

    #[test]
    fn what_decides_is_the_model_and_where_it_is_asked() {
        let tables = tables(json!({"m": {"base_url": "http://h", "max_retries": 1}}));
        let set = |name: &str| (name == "OPENAI_BASE_URL").then(|| "http://o/v1".to_owned());
        assert_eq!(
            decides("m", &tables, &set),
            json!({"api": "openai", "base_url": "http://h", "model": "m", "max_output_tokens": null})
        );
        assert_eq!(
            decides("other", &tables, &set),
            json!({"api": "openai", "base_url": "http://o/v1", "model": "other", "max_output_tokens": null})
        );
        let keyed = |key: &str| {
            let key = key.to_owned();
            decides("other", &tables, &move |name| {
                (name == "OPENAI_API_KEY").then(|| key.clone())
            })
        };
        assert_eq!(keyed("one"), keyed("two"));
        assert!(key_variables(&tables).contains(&"ANTHROPIC_API_KEY".to_owned()));
    }
}
