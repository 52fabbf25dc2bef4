//! A store of JSON values by key.
//!
//! It is for tasks in which an agent keeps settings, counters or lists, and for tests of agents: it is the smallest env
//! there is.
//!
//! # Its state
//!
//! ```json
//! {
//!   "now": "2026-03-02T08:00:00Z",
//!   "values": {"visits": 3, "user/dana": {"role": "admin"}, "log": ["started"]}
//! }
//! ```
//!
//! Both keys may be left out; another one is refused. `now` is `2026-01-01T09:00:00Z` then, and each call that may change
//! something moves it on by a minute. Loading adds values to those that are there, and a key that is there already gets
//! the new value. Keys are sorted wherever they are listed.
//!
//! # Example
//!
//! `increment` with `{"key": "visits"}` gives `{"key": "visits", "value": 4}`; a key that is not there counts as 0.
//! `list` with `{"prefix": "user/"}` gives `{"keys": ["user/dana"]}`. `get` of a key that is not there gives
//! `{"key": .., "value": null, "found": false}`, which is no error.

use super::clock;
use super::format::Values;
use super::store::Store;
use super::tool::{Arguments, Effect, any, text, tool};
use crate::json::{Map, Value, json};

/// A store of values.
pub(super) struct Kv {
    state: Values,
}

impl Default for Kv {
    fn default() -> Self {
        Kv {
            state: Values {
                now: clock::START.to_owned(),
                values: Map::new(),
            },
        }
    }
}

impl Store for Kv {
    type State = Values;

    const NAME: &'static str = "kv";
    const INSTRUCTIONS: &'static str = "A store of JSON values by key; `kv://state` is all of it.";

    fn tools() -> Vec<Value> {
        let key = || ("key", text("The key."));
        let by = json!({"type": "integer", "description": "What is added; 1 by default."});
        vec![
            tool(
                "get",
                "Read the value of a key.",
                Effect::Reads,
                &[key()],
                &[],
            ),
            tool(
                "list",
                "List the keys, sorted.",
                Effect::Reads,
                &[],
                &[("prefix", text("What the keys start with; all by default."))],
            ),
            tool(
                "set",
                "Set the value of a key.",
                Effect::Sets,
                &[key(), ("value", any("Any JSON value."))],
                &[],
            ),
            tool(
                "increment",
                "Add to a whole number.",
                Effect::Adds,
                &[key()],
                &[("by", by)],
            ),
            tool(
                "append",
                "Add a value to the end of a list.",
                Effect::Adds,
                &[key(), ("value", any("Any JSON value."))],
                &[],
            ),
            tool("delete", "Delete a key.", Effect::Destroys, &[key()], &[]),
        ]
    }

    fn call(&mut self, tool: &str, arguments: &Arguments) -> Result<Value, String> {
        let values = &mut self.state.values;
        let key = arguments.text("key");
        let given = || arguments.value("value").cloned().unwrap_or_default();
        match tool {
            "get" => {
                let found = values.get(key);
                Ok(json!({"key": key, "value": found, "found": found.is_some()}))
            }
            "list" => {
                let prefix = arguments.text("prefix");
                let keys = values.keys().filter(|key| key.starts_with(prefix));
                Ok(json!({"keys": keys.collect::<Vec<_>>()}))
            }
            "set" => {
                values.insert(key.to_owned(), given());
                Ok(json!({"key": key, "value": values[key]}))
            }
            "increment" => {
                let by = arguments.number("by");
                let by = by.or(arguments.value("by").is_none().then_some(1));
                let old = match values.get(key) {
                    None => Some(0),
                    Some(value) => value.as_i64(),
                };
                let old = old.ok_or_else(|| format!("the value of `{key}` is no whole number"))?;
                let new = by.and_then(|by| old.checked_add(by));
                let new = new.ok_or_else(|| format!("the value of `{key}` gets too large"))?;
                values.insert(key.to_owned(), json!(new));
                Ok(json!({"key": key, "value": new}))
            }
            "append" => {
                let list = values.entry(key).or_insert_with(|| json!([]));
                let list = list
                    .as_array_mut()
                    .ok_or_else(|| format!("the value of `{key}` is no list"))?;
                list.push(given());
                Ok(json!({"key": key, "length": list.len()}))
            }
            "delete" => {
                let gone = values.remove(key);
                gone.ok_or_else(|| format!("there is no key `{key}`"))?;
                Ok(json!({"key": key}))
            }
            _ => Err(format!("there is no tool `{tool}`")),
        }
    }

    fn now(&mut self) -> &mut String {
        &mut self.state.now
    }

    fn state(&self) -> &Values {
        &self.state
    }

    fn join(state: &mut Values, more: Values) {
        if !more.now.is_empty() {
            state.now = more.now;
        }
        state.values.extend(more.values);
    }

    fn add(&mut self, mut more: Values) -> Result<(), String> {
        if !more.now.is_empty() {
            more.now = clock::in_utc(&more.now).map_err(|fault| format!("`now`: {fault}"))?;
        }
        Self::join(&mut self.state, more);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Live;
    use super::*;

    fn store() -> Live {
        let values = json!({"visits": 3, "user/dana": {"role": "admin"}, "log": ["started"]});
        Live::of("kv", json!({"values": values}))
    }

    #[test]
    fn values_are_set_read_and_deleted() {
        let live = store();
        live.ok("set", json!({"key": "user/lee", "value": null}));
        assert_eq!(
            live.ok("list", json!({"prefix": "user/"})),
            json!({"keys": ["user/dana", "user/lee"]})
        );
        let got = live.ok("get", json!({"key": "user/lee"}));
        assert_eq!(
            got,
            json!({"key": "user/lee", "value": null, "found": true})
        );
        live.ok("delete", json!({"key": "user/lee"}));
        assert_eq!(live.ok("get", json!({"key": "user/lee"}))["found"], false);
        assert_eq!(
            live.fails("delete", json!({"key": "x"})),
            "there is no key `x`"
        );
        assert_eq!(live.state()["now"], "2026-01-01T09:02:00Z");
    }

    #[test]
    fn numbers_are_added_to_and_lists_grow() {
        let live = store();
        assert_eq!(live.ok("increment", json!({"key": "visits"}))["value"], 4);
        assert_eq!(
            live.ok("increment", json!({"key": "new", "by": -2}))["value"],
            -2
        );
        assert_eq!(
            live.ok("append", json!({"key": "log", "value": [1]}))["length"],
            2
        );
        assert_eq!(
            live.ok("append", json!({"key": "fresh", "value": 1}))["length"],
            1
        );
        let before = live.export();
        assert_eq!(
            live.fails("increment", json!({"key": "log"})),
            "the value of `log` is no whole number"
        );
        assert_eq!(
            live.fails("increment", json!({"key": "visits", "by": i64::MAX})),
            "the value of `visits` gets too large"
        );
        assert_eq!(
            live.fails("append", json!({"key": "visits", "value": 1})),
            "the value of `visits` is no list"
        );
        assert_eq!(live.export(), before);
    }
}
