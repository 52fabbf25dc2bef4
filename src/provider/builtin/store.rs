//! What an env that is compiled in has to say of itself.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::tool::Arguments;
use crate::json::Value;

/// A state and the tools that work on it.
pub(super) trait Store: Default + Send + 'static {
    /// The form in which the state is exported and loaded. What is absent from a text that is loaded is left as it is.
    type State: Serialize + DeserializeOwned + Default + Send;

    /// The name of the env, which is the scheme of its resource too.
    const NAME: &'static str;

    /// What a client is told to read first.
    const INSTRUCTIONS: &'static str;

    /// Whether files can be copied into the env.
    const TAKES_FILES: bool = false;

    /// Returns the declarations of the tools.
    fn tools() -> Vec<Value>;

    /// Calls a tool with arguments that fit its schema, and returns an object. A call that fails changes nothing.
    fn call(&mut self, tool: &str, arguments: &Arguments) -> Result<Value, String>;

    /// Returns the time, which goes on by a minute after each call that may change something.
    fn now(&mut self) -> &mut String;

    /// Returns the state.
    fn state(&self) -> &Self::State;

    /// Adds a state that is to be loaded to another one.
    fn join(state: &mut Self::State, more: Self::State);

    /// Adds a state to what is there, or says why it is none and changes nothing.
    fn add(&mut self, more: Self::State) -> Result<(), String>;

    /// Adds a file, given by where it goes; asked only of an env that takes files.
    fn put(&mut self, to: &str, _bytes: &[u8]) -> Result<(), String> {
        Err(format!("there is no place for `{to}`"))
    }
}
