//! A calendar: one user's events, with attendees and their answers.
//!
//! It is for tasks in which an agent makes, moves and finds appointments. Nobody is told of an event and nobody answers by
//! themselves; `respond` writes down what an attendee said.
//!
//! # Its state
//!
//! ```json
//! {
//!   "now": "2026-03-02T08:00:00Z",
//!   "next_id": 1,
//!   "events": [
//!     {
//!       "event_id": "standup", "title": "Stand-up",
//!       "start": "2026-03-02T09:00:00Z", "end": "2026-03-02T09:15:00Z",
//!       "attendees": [{"email": "dana@example.com", "answer": "accepted"}],
//!       "location": "Room 2", "notes": ""
//!     }
//!   ]
//! }
//! ```
//!
//! Every key but `start` may be left out; another key is refused. `now` is `2026-01-01T09:00:00Z` then, an event gets the
//! id `event-1` and so on, and its `end` is its `start`. `answer` is one of `none`, `accepted`, `declined` and `tentative`.
//! Loading adds events to those that are there; an id that is there already is refused.
//!
//! Times are written as in RFC 3339. One without an offset is in UTC, as is a date alone. Each call that may change
//! something moves `now` on by a minute. An event that ends before it starts is refused.
//!
//! # Example
//!
//! `find_free_time` from `2026-03-02T09:00:00Z` to `2026-03-02T10:00:00Z` with `minutes` 30 gives
//! `{"slots": [{"start": "2026-03-02T09:15:00Z", "end": "2026-03-02T10:00:00Z"}]}`: every event of the calendar counts as
//! busy time.

use std::collections::HashMap;

use super::clock;
use super::format::{Answer, Attendee, Event, Events, to_value};
use super::store::Store;
use super::tool::{Arguments, Effect, count, one_of, text, texts, tool};
use crate::json::{Value, json};

/// A calendar: its events, and where each is by its id.
pub(super) struct Calendar {
    state: Events,
    index: HashMap<String, usize>,
}

impl Default for Calendar {
    fn default() -> Self {
        Calendar {
            state: Events {
                now: clock::START.to_owned(),
                next_id: 1,
                events: Vec::new(),
            },
            index: HashMap::new(),
        }
    }
}

impl Store for Calendar {
    type State = Events;

    const NAME: &'static str = "calendar";
    const INSTRUCTIONS: &'static str = "The calendar of one user. Events are named by `event_id`; times are as in RFC \
                                        3339; `calendar://state` is all of it.";

    fn tools() -> Vec<Value> {
        let event_id = || ("event_id", text("The id of the event."));
        let from = |what: &str| ("start", text(what));
        let to = |what: &str| ("end", text(what));
        let details = || {
            [
                (
                    "attendees",
                    texts("The addresses of those who are invited."),
                ),
                ("location", text("Where it is.")),
                ("notes", text("What else is to be known.")),
            ]
        };
        let [attendees, location, notes] = details();
        vec![
            tool(
                "list_events",
                "List the events that are at least partly in a range of time, earliest first.",
                Effect::Reads,
                &[],
                &[
                    from("Start of the range; the beginning of time by default."),
                    to("End of the range; the end of time by default."),
                ],
            ),
            tool(
                "get_event",
                "Read one event.",
                Effect::Reads,
                &[event_id()],
                &[],
            ),
            tool(
                "find_free_time",
                "Find the stretches of a range of time in which no event is.",
                Effect::Reads,
                &[
                    from("Start of the range."),
                    to("End of the range."),
                    ("minutes", count("The shortest stretch that is of use.", 1)),
                ],
                &[],
            ),
            tool(
                "create_event",
                "Make an event.",
                Effect::Adds,
                &[
                    ("title", text("What it is called.")),
                    from("When it starts."),
                    to("When it ends."),
                ],
                &[attendees.clone(), location.clone(), notes.clone()],
            ),
            tool(
                "update_event",
                "Change an event; what is not given stays as it is. Attendees who stay keep their answers.",
                Effect::Sets,
                &[event_id()],
                &[
                    ("title", text("What it is called.")),
                    from("When it starts."),
                    to("When it ends."),
                    attendees,
                    location,
                    notes,
                ],
            ),
            tool(
                "respond",
                "Write down what an attendee answered.",
                Effect::Sets,
                &[
                    event_id(),
                    ("attendee", text("The address of the attendee.")),
                    (
                        "answer",
                        one_of("The answer.", &["accepted", "declined", "tentative"]),
                    ),
                ],
                &[],
            ),
            tool(
                "delete_event",
                "Delete an event.",
                Effect::Destroys,
                &[event_id()],
                &[],
            ),
        ]
    }

    fn call(&mut self, tool: &str, arguments: &Arguments) -> Result<Value, String> {
        match tool {
            "list_events" => {
                let bound = |name: &str, open: i64| match arguments.find_text(name) {
                    Some(text) => {
                        clock::seconds(text).map_err(|why| format!("argument `{name}`: {why}"))
                    }
                    None => Ok(open),
                };
                let (start, end) = (bound("start", i64::MIN)?, bound("end", i64::MAX)?);
                let events: Vec<Value> = self
                    .within(start, end)
                    .into_iter()
                    .map(|(_, _, event)| to_value(event))
                    .collect();
                Ok(json!({"events": events}))
            }
            "get_event" => Ok(to_value(&self.state.events[self.find(arguments)?])),
            "find_free_time" => self.free_time(arguments),
            "create_event" => {
                let mut event = Event::default();
                change(&mut event, arguments)?;
                event.event_id = self.next_id();
                self.index
                    .insert(event.event_id.clone(), self.state.events.len());
                let answer = to_value(&event);
                self.state.events.push(event);
                Ok(answer)
            }
            "update_event" => {
                let ix = self.find(arguments)?;
                let mut event = self.state.events[ix].clone();
                change(&mut event, arguments)?;
                let answer = to_value(&event);
                self.state.events[ix] = event;
                Ok(answer)
            }
            "respond" => {
                let ix = self.find(arguments)?;
                let event = &mut self.state.events[ix];
                let email = arguments.text("attendee");
                let mut attendees = event.attendees.iter_mut();
                let attendee =
                    attendees.find(|attendee| attendee.email.eq_ignore_ascii_case(email));
                let attendee =
                    attendee.ok_or_else(|| format!("`{email}` is not invited to this event"))?;
                attendee.answer = match arguments.text("answer") {
                    "accepted" => Answer::Accepted,
                    "declined" => Answer::Declined,
                    _ => Answer::Tentative,
                };
                Ok(to_value(event))
            }
            "delete_event" => {
                let ix = self.find(arguments)?;
                let gone = self.state.events.remove(ix);
                self.index.remove(&gone.event_id);
                for at in self.index.values_mut() {
                    *at -= usize::from(*at > ix);
                }
                Ok(json!({"event_id": gone.event_id}))
            }
            _ => Err(format!("there is no tool `{tool}`")),
        }
    }

    fn now(&mut self) -> &mut String {
        &mut self.state.now
    }

    fn state(&self) -> &Events {
        &self.state
    }

    fn join(state: &mut Events, more: Events) {
        if !more.now.is_empty() {
            state.now = more.now;
        }
        if more.next_id != 0 {
            state.next_id = more.next_id;
        }
        state.events.extend(more.events);
    }

    fn add(&mut self, mut more: Events) -> Result<(), String> {
        if !more.now.is_empty() {
            more.now = clock::in_utc(&more.now).map_err(|fault| format!("`now`: {fault}"))?;
        }
        let mut index = HashMap::with_capacity(more.events.len());
        for (ix, event) in more.events.iter_mut().enumerate() {
            let id = &event.event_id;
            if event.end.is_empty() {
                event.end.clone_from(&event.start);
            }
            fit(event).map_err(|why| format!("event `{id}`: {why}"))?;
            let is_taken = self.index.contains_key(id);
            let at = self.state.events.len() + ix;
            if !id.is_empty() && (index.insert(id.clone(), at).is_some() || is_taken) {
                return Err(format!("there are two events with `event_id` `{id}`"));
            }
        }
        self.index.extend(index);
        let first = self.state.events.len();
        Self::join(&mut self.state, more);
        for ix in first..self.state.events.len() {
            if self.state.events[ix].event_id.is_empty() {
                let id = self.next_id();
                self.index.insert(id.clone(), ix);
                self.state.events[ix].event_id = id;
            }
        }
        Ok(())
    }
}

impl Calendar {
    /// Returns an id that no event has.
    fn next_id(&mut self) -> String {
        loop {
            let id = format!("event-{}", self.state.next_id);
            self.state.next_id = self.state.next_id.wrapping_add(1).max(1);
            if !self.index.contains_key(&id) {
                return id;
            }
        }
    }

    fn find(&self, arguments: &Arguments) -> Result<usize, String> {
        let id = arguments.text("event_id");
        let found = self.index.get(id).copied();
        found.ok_or_else(|| format!("there is no event `{id}`"))
    }

    /// Returns the events that are at least partly in a range, with their times, in order of start, end and place.
    fn within(&self, start: i64, end: i64) -> Vec<(i64, i64, &Event)> {
        let timed = self.state.events.iter().map(|event| {
            let time = |text: &str| clock::seconds(text).unwrap_or(i64::MIN);
            (time(&event.start), time(&event.end), event)
        });
        let mut found: Vec<_> = timed
            .filter(|(from, to, _)| *from < end && (*to > start || (from == to && *from >= start)))
            .collect();
        found.sort_by_key(|(from, to, _)| (*from, *to));
        found
    }

    fn free_time(&self, arguments: &Arguments) -> Result<Value, String> {
        let time = |name: &str| {
            clock::seconds(arguments.text(name)).map_err(|why| format!("argument `{name}`: {why}"))
        };
        let (start, end) = (time("start")?, time("end")?);
        if end < start {
            return Err("argument `end` is before `start`".to_owned());
        }
        let shortest = arguments.number("minutes").unwrap_or(i64::MAX);
        let shortest = shortest.saturating_mul(60);
        let mut slots = Vec::new();
        let mut free_from = start;
        let all = self.within(start, end);
        let busy = all.iter().map(|(from, to, _)| (*from, *to));
        for (from, to) in busy.chain([(end, end)]) {
            if from - free_from >= shortest {
                slots.push(json!({"start": clock::shown(free_from), "end": clock::shown(from)}));
            }
            free_from = free_from.max(to);
        }
        Ok(json!({"slots": slots}))
    }
}

/// Changes an event as a call says.
fn change(event: &mut Event, arguments: &Arguments) -> Result<(), String> {
    for (name, field) in [
        ("title", &mut event.title),
        ("start", &mut event.start),
        ("end", &mut event.end),
        ("location", &mut event.location),
        ("notes", &mut event.notes),
    ] {
        if let Some(text) = arguments.find_text(name) {
            text.clone_into(field);
        }
    }
    if let Some(emails) = arguments.find_texts("attendees") {
        let old = std::mem::take(&mut event.attendees);
        let attendee = |email: String| {
            let known = old
                .iter()
                .find(|one| one.email.eq_ignore_ascii_case(&email));
            let answer = known.map(|one| one.answer).unwrap_or_default();
            Attendee { email, answer }
        };
        event.attendees = emails.into_iter().map(attendee).collect();
    }
    fit(event)
}

fn fit(event: &Event) -> Result<(), String> {
    let start = clock::seconds(&event.start).map_err(|why| format!("`start`: {why}"))?;
    let end = clock::seconds(&event.end).map_err(|why| format!("`end`: {why}"))?;
    if end < start {
        return Err(format!(
            "its end `{}` is before its start `{}`",
            event.end, event.start
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::Live;
    use super::*;

    fn calendar() -> Live {
        Live::of(
            "calendar",
            json!({"events": [
                {"event_id": "late", "title": "Review", "start": "2026-03-02T15:00:00Z", "end": "2026-03-02T16:00:00Z"},
                {"event_id": "early", "title": "Stand-up", "start": "2026-03-02T10:00:00+01:00", "end": "2026-03-02T09:15:00Z",
                 "attendees": [{"email": "dana@x.org", "answer": "accepted"}, {"email": "lee@x.org"}]},
                {"title": "Whole day", "start": "2026-03-04", "end": "2026-03-05"},
            ]}),
        )
    }

    fn ids(found: &Value) -> Vec<&str> {
        let events = found["events"].as_array().unwrap().iter();
        events
            .map(|event| event["event_id"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn events_are_listed_by_time_and_where_they_touch_the_range() {
        let live = calendar();
        for (range, found) in [
            (json!({}), vec!["early", "late", "event-1"]),
            (
                json!({"start": "2026-03-02T09:10:00Z", "end": "2026-03-02T15:00:00Z"}),
                vec!["early"],
            ),
            (json!({"start": "2026-03-02T16:00:00Z"}), vec!["event-1"]),
        ] {
            assert_eq!(
                ids(&live.ok("list_events", range.clone())),
                found,
                "{range}"
            );
        }
        let said = live.fails("list_events", json!({"start": "noon"}));
        assert_eq!(
            said,
            "argument `start`: `noon` is no time like `2026-01-01T09:00:00Z`"
        );
    }

    #[test]
    fn free_time_is_what_no_event_takes() {
        let live = calendar();
        let free = |minutes: i64| {
            let range = json!({"start": "2026-03-02T08:30:00Z", "end": "2026-03-02T17:00:00Z", "minutes": minutes});
            let slots = live.ok("find_free_time", range)["slots"].clone();
            let slots = slots.as_array().unwrap().clone();
            slots
                .iter()
                .map(|slot| slot["start"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            free(30),
            [
                "2026-03-02T08:30:00Z",
                "2026-03-02T09:15:00Z",
                "2026-03-02T16:00:00Z"
            ]
        );
        assert_eq!(free(61), ["2026-03-02T09:15:00Z"]);
    }

    #[test]
    fn an_event_does_not_end_before_it_starts() {
        let live = calendar();
        let before = live.export();
        let event =
            json!({"title": "x", "start": "2026-03-02T10:00:00Z", "end": "2026-03-02T09:00:00Z"});
        let why = "its end `2026-03-02T09:00:00Z` is before its start `2026-03-02T10:00:00Z`";
        assert_eq!(live.fails("create_event", event), why);
        live.fails(
            "update_event",
            json!({"event_id": "late", "end": "2026-03-01"}),
        );
        live.add(json!({"events": [{"start": "2026-03-02", "end": "2026-03-01"}]}))
            .unwrap_err();
        live.add(json!({"events": [{"event_id": "late", "start": "2026-03-02"}]}))
            .unwrap_err();
        assert_eq!(live.export(), before);
    }

    #[test]
    fn attendees_who_stay_keep_their_answers() {
        let live = calendar();
        live.ok(
            "respond",
            json!({"event_id": "early", "attendee": "LEE@x.org", "answer": "declined"}),
        );
        let who = json!({"event_id": "early", "attendees": ["lee@x.org", "kim@x.org"]});
        let event = live.ok("update_event", who);
        assert_eq!(
            event["attendees"],
            json!([{"email": "lee@x.org", "answer": "declined"}, {"email": "kim@x.org", "answer": "none"}])
        );
        assert_eq!(event["title"], "Stand-up");
        assert_eq!(
            live.fails(
                "respond",
                json!({"event_id": "early", "attendee": "dana@x.org", "answer": "accepted"})
            ),
            "`dana@x.org` is not invited to this event"
        );
    }

    #[test]
    fn a_deleted_event_is_gone_and_its_id_is_not_given_again() {
        let live = calendar();
        live.ok("delete_event", json!({"event_id": "early"}));
        live.ok("delete_event", json!({"event_id": "event-1"}));
        live.fails("get_event", json!({"event_id": "event-1"}));
        assert_eq!(
            live.ok("get_event", json!({"event_id": "late"}))["title"],
            "Review"
        );
        let event = json!({"title": "x", "start": "2026-03-02", "end": "2026-03-02"});
        assert_eq!(live.ok("create_event", event)["event_id"], "event-2");
    }
}
