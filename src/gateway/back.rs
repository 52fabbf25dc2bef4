//! How the state of an env is taken and brought back: by an exported state, or by making recorded calls again.

use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::access::Access;
use super::gate::Gate;
use super::line::short;
use super::recipe::{self, Recipe, Recorded};
use super::{Caller, TRIGGER_ROLE};
use crate::json::{Value, json};
use crate::step::env::{EnvError, ExtensionCall};
use crate::step::sandbox::Put;
use crate::system::{disk, locked};

impl Gate {
    /// Returns the bytes by which the state can be brought back, the same for the same state: the rules and settings on
    /// the first line, then the exported state.
    pub async fn snapshot(&self) -> Result<Vec<u8>, EnvError> {
        let exported = self.server.export_after(self.first_line());
        self.ask("`data/get`", exported).await
    }

    /// Returns how the env was brought to where it is, as far as it is on record.
    pub fn recipe(&self) -> Result<Recipe, EnvError> {
        let mut recipe = Recipe::of_record(&self.lines()?, self.volatile());
        recipe.course = self.course.to_value();
        Ok(recipe)
    }

    /// Returns the first line of a snapshot: what no export holds.
    fn first_line(&self) -> Vec<u8> {
        let mut head = json!({
            "version": 1,
            "access": locked(&self.access).to_value(),
            "settings": *locked(&self.configured),
        });
        let course = self.course.to_value();
        if !course.is_null() {
            head["course"] = course;
        }
        format!("{head}\n").into_bytes()
    }

    /// Brings a state back, and compares what the env holds then; the error says why it does not hold it.
    pub async fn restore(&self, snapshot: &[u8]) -> Result<(), String> {
        let line = snapshot.iter().position(|byte| *byte == b'\n');
        let head = line.and_then(|at| crate::json::from_slice::<Value>(&snapshot[..at]).ok());
        let head = head.filter(|head| head["version"] == 1);
        let (Some(at), Some(head)) = (line, head) else {
            return Err("its snapshot is of another version".to_owned());
        };
        let (first_line, parts) = snapshot.split_at(at + 1);
        self.is_restored.store(true, Ordering::Relaxed);
        let loaded = self.ask("`data/add`", self.server.import(parts)).await;
        loaded.map_err(|error| format!("its snapshot does not load: {error}"))?;
        let access = Access::from_value(&head["access"]).unwrap_or_default();
        *locked(&self.access) = access;
        let course = self.course.bring_back(&head["course"]);
        course.ok_or("its snapshot holds triggers or a clock that are none")?;
        locked(&self.configured).clear();
        for shown in head["settings"].as_array().into_iter().flatten() {
            let damaged = "its snapshot holds a setting that is none";
            if let Some(files) = shown.get("put") {
                let put = self.put_back(files).ok_or(damaged)?;
                put.map_err(|error| format!("a file cannot be copied again: {error}"))?;
                locked(&self.configured).push(shown.clone());
                continue;
            }
            let call = extension_of(shown).ok_or(damaged)?;
            let set = self
                .ask(&call.uri.clone(), self.server.extension(call))
                .await;
            set.map_err(|error| format!("a setting cannot be made again: {error}"))?;
            locked(&self.configured).push(shown.clone());
        }
        let holds = self.ask("`data/get`", self.server.holds(parts)).await;
        let holds = holds.map_err(|error| error.to_string())?;
        if !holds || self.first_line() != first_line {
            return Err("it holds another state than the snapshot that it loaded".to_owned());
        }
        Ok(())
    }

    /// Makes recorded calls again and compares each answer; the error says which call answered otherwise.
    pub async fn replay(&self, recipe: &Recipe) -> Result<(), String> {
        let n = recipe.calls.len();
        for (at, call) in recipe.calls.iter().enumerate() {
            self.course.set_back(call.time.as_deref());
            let answered = self.again(call).await;
            if let Err(error) = &answered
                && error.is_fatal()
            {
                return Err(error.to_string());
            }
            let answered = answered.map_err(|error| error.to_string());
            let now = recipe::answer(&answered, &self.settings.volatile);
            if now != call.answer {
                return Err(format!(
                    "call {} of {n}, `{}`, answered otherwise than when it was recorded: {} and not {}; a place that \
                     differs each time can be named in `volatile`",
                    at + 1,
                    call.name,
                    short(&now),
                    short(&call.answer),
                ));
            }
        }
        let course = self.course.bring_back(&recipe.course);
        course.ok_or("its recording holds triggers or a clock that are none")?;
        Ok(())
    }

    async fn again(&self, call: &Recorded) -> Result<Value, EnvError> {
        let caller = Caller::new("replay", &call.role);
        // What a trigger did by the env's own hand no rule allowed.
        let caller = match call.role == TRIGGER_ROLE {
            true => caller.caused("replay", 0, None),
            false => caller,
        };
        let unreadable = || EnvError::BadAnswer {
            env: self.settings.env_id.clone(),
            what: format!("a replay of `{}`", call.name),
            why: "the recording is damaged".to_owned(),
        };
        match call.kind.as_str() {
            "tool" => {
                let arguments = call.arguments.as_object().cloned();
                self.call(&caller, &call.name, arguments.ok_or_else(unreadable)?)
                    .await
            }
            "data" => {
                self.data_plane(&caller, &call.name, call.arguments.clone())
                    .await
            }
            "load" => {
                let parts = call.arguments.as_str().ok_or_else(unreadable)?;
                let loaded = self.load(&caller, parts.as_bytes().to_vec()).await;
                loaded.map(|()| Value::Null)
            }
            "extension" => {
                let call = extension_of(&call.arguments).ok_or_else(unreadable)?;
                self.extension(&caller, call).await
            }
            "access" => {
                let enabled = call.arguments.get("enabled").and_then(Value::as_bool);
                let tools = call.arguments.get("tools").and_then(Value::as_array);
                let tools: Vec<String> = tools
                    .into_iter()
                    .flatten()
                    .filter_map(|tool| tool.as_str().map(str::to_owned))
                    .collect();
                let enabled = enabled.ok_or_else(unreadable)?;
                self.set_access(&caller, &call.name, &tools, enabled)
            }
            "put" => {
                self.put_again(&caller, &call.arguments)
                    .ok_or_else(unreadable)??;
                Ok(Value::Null)
            }
            _ => Err(unreadable()),
        }
    }

    fn put_again(&self, caller: &Caller, files: &Value) -> Option<Result<(), EnvError>> {
        self.with_files(files, |puts| self.put(caller, puts))
    }

    /// Copies files of a snapshot to the server, on no record: they are part of the state that comes back.
    fn put_back(&self, files: &Value) -> Option<Result<(), EnvError>> {
        self.with_files(files, |puts| self.server.put(puts))
    }

    /// Writes recorded files out for somebody to copy; `None` where the recording is damaged.
    fn with_files<T>(&self, files: &Value, copy: impl FnOnce(&[Put]) -> T) -> Option<T> {
        let folder = self.recorder.folder().join("put");
        let mut puts = Vec::new();
        for (at, file) in files.as_array()?.iter().enumerate() {
            let bytes = BASE64.decode(file.get("bytes")?.as_str()?).ok()?;
            let from = folder.join(at.to_string());
            disk::create_dir_all(&folder).ok()?;
            disk::write(&from, &bytes).ok()?;
            puts.push(Put {
                from,
                to: file.get("to")?.as_str()?.to_owned(),
                mode: u32::try_from(file.get("mode")?.as_u64()?).ok()?,
            });
        }
        let copied = copy(&puts);
        // What is left goes with the run's own folder.
        let _ = disk::remove_dir_all(&folder);
        Some(copied)
    }
}

fn extension_of(value: &Value) -> Option<ExtensionCall> {
    let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
    Some(ExtensionCall {
        uri: text("uri")?,
        endpoint: text("endpoint")?,
        verb: text("verb")?,
        arguments: value.get("arguments")?.as_object()?.clone(),
    })
}
