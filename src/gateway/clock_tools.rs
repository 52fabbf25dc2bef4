//! The tools that an env has while its virtual clock is set: `get_time` and `wait_until`.

use super::Caller;
use super::gate::Gate;
use super::record::Made;
use crate::json::{Map, Value, json};
use crate::step::env::{EnvError, tool_error, tool_result};
use crate::task::moment::{Moment, Zone, parse_length};

const GET_TIME: &str = "get_time";
const WAIT_UNTIL: &str = "wait_until";

/// Returns the tools, as `tools/list` declares them.
fn declared() -> [Value; 2] {
    let text = |description: &str| json!({"type": "string", "description": description});
    let tool = |name: &str, description: &str, properties: Value, only_reads: bool| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
            "annotations": {"readOnlyHint": only_reads, "openWorldHint": false},
        })
    };
    [
        tool(
            GET_TIME,
            "Tell what time it is.",
            json!({"time_zone": text("The zone in which the time is told too, such as `Europe/Berlin`.")}),
            true,
        ),
        tool(
            WAIT_UNTIL,
            "Wait until a time, or for a while, and tell what time it is then. Much may happen meanwhile.",
            json!({
                "time": text("The time, with a date and an offset, such as `2026-03-04T09:00:00Z`."),
                "duration": text("How long to wait, such as `PT2H` or `P1D`."),
            }),
            false,
        ),
    ]
}

impl Gate {
    /// Returns the tools of the clock, where it is set; the env's own tool of a name goes before one of these.
    pub(super) fn clock_tools(&self, own: &[Value]) -> Vec<Value> {
        if self.course.now().is_none() {
            return Vec::new();
        }
        let is_free = |tool: &Value| !own.iter().any(|other| other["name"] == tool["name"]);
        declared().into_iter().filter(is_free).collect()
    }

    /// Answers a call of a tool of the clock; `None` where the tool is none.
    pub(super) async fn ask_clock(
        &self,
        caller: &Caller,
        own: &[Value],
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Option<Result<Value, EnvError>> {
        if tool != GET_TIME && tool != WAIT_UNTIL {
            return None;
        }
        let declared = self.clock_tools(own);
        let declared = declared.iter().find(|other| other["name"] == tool)?;
        if !self.access().allows(&caller.role, declared) {
            return Some(Err(self.forbidden(caller, tool)));
        }
        let started_us = self.recorder.now_us();
        let told = match tool {
            GET_TIME => self.time(arguments),
            _ => self.waited(caller, arguments).await,
        };
        let answer = match told {
            Ok(told) => tool_result(&told),
            Err(why) => tool_error(&why),
        };
        let made = Made {
            kind: "clock",
            name: tool,
            arguments: &Value::Object(arguments.clone()),
            answer: Ok(&answer),
            mutates: tool == WAIT_UNTIL,
            started_us,
        };
        Some(self.record(caller, &made).map(|()| answer))
    }

    fn time(&self, arguments: &Map<String, Value>) -> Result<Value, String> {
        let now = self.course.now().ok_or("the env has no virtual clock")?;
        self.told(now, text(arguments, "time_zone")?)
    }

    /// Returns what is told of a time, in whole seconds.
    fn told(&self, now: Moment, zone: Option<&str>) -> Result<Value, String> {
        let now = now.whole_seconds();
        let mut told = json!({"current_time": now.to_string()});
        if let Some(name) = zone {
            let zone = Zone::of_name(name).or_else(|| Zone::of_offset(name));
            let zone = zone.ok_or_else(|| format!("there is no time zone `{name}`"))?;
            told["time_zone"] = json!(name);
            told["local_time"] = json!(now.in_zone(&zone));
        }
        Ok(told)
    }

    async fn waited(
        &self,
        caller: &Caller,
        arguments: &Map<String, Value>,
    ) -> Result<Value, String> {
        let now = self.course.now().ok_or("the env has no virtual clock")?;
        let to = match (text(arguments, "time")?, text(arguments, "duration")?) {
            (Some(time), None) => Moment::parse(time)?,
            (None, Some(length)) => now.after(parse_length(length)?),
            _ => return Err("give either `time` or `duration`".to_owned()),
        };
        if self.course.leaps() && self.course.inner().engine.is_executor(&caller.role) {
            return Err("time stands still while you follow an instruction".to_owned());
        }
        let now = self.wait_until(caller, to).await?;
        self.told(now, None)
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match arguments.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("argument `{key}` is no text")),
    }
}
