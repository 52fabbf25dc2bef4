use super::*;
use crate::step::env::{tool_error, tool_result};
use crate::steps::testing::{FakeEnv, block_on};
use expect_test::{Expect, expect};

fn mail() -> FakeEnv {
    let emails = json!([
        {"id": 1, "folder": "inbox", "from": "dana", "subject": "Lunch?", "size": 2},
        {"id": 2, "folder": "sent", "to": ["dana", "sam"], "subject": "Re: Lunch?", "body": "Yes,\non Monday", "size": 3.0},
        {"id": 3, "folder": "sent", "to": ["sam"], "subject": "Notes", "size": 10},
    ]);
    let found = emails.clone();
    FakeEnv::new("email")
        .state(json!([{"kind": "data", "data": {"emails": emails}}, {"kind": "text", "text": "x"}]))
        .tool(
            json!({"name": "search"}),
            move |arguments| match arguments.get("query") {
                Some(_) => tool_result(&json!({"emails": found})),
                None => tool_error("`query` is missing"),
            },
        )
}

fn rows_of(env: &FakeEnv, text: impl AsRef<[u8]>, reply: Option<&str>) -> String {
    let (source, faults) = Source::from_bytes("verify.toml", text.as_ref());
    let declared = match read(&source, faults, reply.is_some()) {
        Ok(declared) => declared,
        Err(why) => return why,
    };
    match block_on(declared.rows(env, reply)) {
        Ok(rows) => rows.iter().map(|row| format!("{row}\n")).collect(),
        Err(error) => error.to_string(),
    }
}

/// Looks at the mail with each of these expectations, a line each, and shows whether it holds and why.
fn check(expectations: &str, expected: Expect) {
    let lines = expectations
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let shown: String = lines
        .map(|line| {
            let keys = line.replace("; ", "\n");
            let source = Source::new("verify.toml", format!("[[expect]]\n{keys}\n"));
            let declared = read(&source, Vec::new(), true).unwrap();
            let rows = block_on(declared.rows(&mail(), Some("Dear Dana,\nsee you."))).unwrap();
            let mark = if rows[0]["result"] == true { "+" } else { "-" };
            format!(
                "{mark} {line}\n    {}\n",
                rows[0]["justification"].as_str().unwrap()
            )
        })
        .collect();
    expected.assert_eq(&shown);
}

#[test]
fn rows_say_what_was_expected_and_what_was_found() {
    let env = mail();
    let text = r#"
        [[expect]]
        id = "sent-to-dana"
        description = "an answer went to Dana"
        weight = 2
        state = "$.emails[?@.folder == 'sent'].to"
        contains = "dana"

        [[expect]]
        call = { tool = "search", arguments = { query = "to:dana" } }
        path = "$.emails[*].subject"
        count = 1

        [[expect]]
        call = { tool = "search", arguments = { query = "to:dana" } }
        exists = true
    "#;
    expect![[r#"
        {"description":"an answer went to Dana","id":"sent-to-dana","justification":"found 2 values: [\"dana\",\"sam\"], [\"sam\"]","result":true,"score":1.0,"weight":2}
        {"id":"expect-2","justification":"found 3, and wanted 1: \"Lunch?\", \"Re: Lunch?\", \"Notes\"","result":false,"score":0.0,"weight":1}
        {"id":"expect-3","justification":"found {\"emails\":[{\"folder\":\"inbox\",\"from\":\"dana\",\"id\":1,\"size\":2,\"subject\":\"Lunch?\"},{\"body\":\"Yes,\\non Monday\",\"folder\":\"sent\",\"id\":2,\"size\":3.0,\"subject\":\"Re: Lunch?\",\"to\":[\"dana\",\"sam\"]},{\"folder\":\"…","result":true,"score":1.0,"weight":1}
    "#]].assert_eq(&rows_of(&env, text, None));
    expect![[r#"default calls search {"query":"to:dana"}"#]].assert_eq(&env.said());
}

#[test]
fn the_number_of_values_is_tested() {
    check(
        "state = '$.emails[*].id'; count = 3
         state = '$.emails[*].id'; count = 2
         state = '$.none'; count = 0
         state = '$.none'; count = 1
         state = '$.emails[*].id'; count = { min = 1, max = 2 }
         state = '$.emails[*].id'; count = { min = 4 }
         state = '$.emails[*].id'; count = { max = 2 }
         state = '$.emails[*].id'; count = { }
         state = '$.emails'; exists = true
         state = '$.none'; exists = true
         state = '$.none'; exists = false
         state = '$.emails[0].from'; exists = false",
        expect![[r#"
            + state = '$.emails[*].id'; count = 3
                found 3 values: 1, 2, 3
            - state = '$.emails[*].id'; count = 2
                found 3, and wanted 2: 1, 2, 3
            + state = '$.none'; count = 0
                found nothing
            - state = '$.none'; count = 1
                found nothing, and wanted 1
            - state = '$.emails[*].id'; count = { min = 1, max = 2 }
                found 3, and wanted 1 to 2: 1, 2, 3
            - state = '$.emails[*].id'; count = { min = 4 }
                found 3, and wanted at least 4: 1, 2, 3
            - state = '$.emails[*].id'; count = { max = 2 }
                found 3, and wanted at most 2: 1, 2, 3
            + state = '$.emails[*].id'; count = { }
                found 3 values: 1, 2, 3
            + state = '$.emails'; exists = true
                found [{"folder":"inbox","from":"dana","id":1,"size":2,"subject":"Lunch?"},{"body":"Yes,\non Monday","folder":"sent","id":2,"size":3.0,"subject":"Re: Lunch?","to":["dana","sam"]},{"folder":"sent","id"…
            - state = '$.none'; exists = true
                found nothing
            + state = '$.none'; exists = false
                found nothing
            - state = '$.emails[0].from'; exists = false
                found "dana", and wanted nothing
        "#]],
    );
}

#[test]
fn some_value_or_every_value_must_be_as_wanted() {
    check(
        "state = '$.emails[*].folder'; equals = 'sent'
         state = '$.emails[*].folder'; equals = 'draft'
         state = '$.emails[*].folder'; every = true; equals = 'sent'
         state = '$.emails[*].id'; every = true; at_least = 1; at_most = 3
         state = '$.none'; every = true; equals = 1
         state = '$.none'; equals = 1
         state = '$.emails[1].size'; equals = 3
         state = '$.emails[1].to'; equals = ['dana', 'sam']
         state = '$.emails[0].size'; at_least = 2.5
         state = '$.emails[2].size'; at_most = 9
         state = '$.emails[0].from'; at_least = 1
         state = '$.emails[*].size'; at_least = 3; at_most = 9",
        expect![[r#"
            + state = '$.emails[*].folder'; equals = 'sent'
                found 3 values: "inbox", "sent", "sent"
            - state = '$.emails[*].folder'; equals = 'draft'
                none of 3 values: "inbox" is not "draft"
            - state = '$.emails[*].folder'; every = true; equals = 'sent'
                "inbox" is not "sent"
            + state = '$.emails[*].id'; every = true; at_least = 1; at_most = 3
                found 3 values: 1, 2, 3
            - state = '$.none'; every = true; equals = 1
                found nothing
            - state = '$.none'; equals = 1
                found nothing
            + state = '$.emails[1].size'; equals = 3
                found 3.0
            + state = '$.emails[1].to'; equals = ['dana', 'sam']
                found ["dana","sam"]
            - state = '$.emails[0].size'; at_least = 2.5
                2 is less than 2.5
            - state = '$.emails[2].size'; at_most = 9
                10 is more than 9
            - state = '$.emails[0].from'; at_least = 1
                "dana" is no number
            + state = '$.emails[*].size'; at_least = 3; at_most = 9
                found 3 values: 2, 3.0, 10
        "#]],
    );
}

#[test]
fn texts_lists_and_objects_are_searched() {
    check(
        "state = '$.emails[0].subject'; contains = 'Lunch'
         state = '$.emails[0].subject'; contains = ['Lunch', 'Dinner']
         state = '$.emails[1].to'; contains = ['sam', 'dana']
         state = '$.emails[1].to'; contains = 'da'
         state = '$.emails[1]'; contains = 'body'
         state = '$.emails[1].size'; contains = 3
         state = '$.emails[1].body'; matches = '^Yes.*Monday$'
         state = '$.emails[1].body'; matches = '(?i)yes$'
         state = '$.emails[2].size'; matches = '^1\\d$'
         reply = true; contains = ['Dana', 'see you']
         reply = true; matches = 'Sam'
         state = '$'; contains = 'mails'",
        expect![[r#"
            + state = '$.emails[0].subject'; contains = 'Lunch'
                found "Lunch?"
            - state = '$.emails[0].subject'; contains = ['Lunch', 'Dinner']
                "Lunch?" does not contain "Dinner"
            + state = '$.emails[1].to'; contains = ['sam', 'dana']
                found ["dana","sam"]
            - state = '$.emails[1].to'; contains = 'da'
                ["dana","sam"] does not contain "da"
            + state = '$.emails[1]'; contains = 'body'
                found {"body":"Yes,\non Monday","folder":"sent","id":2,"size":3.0,"subject":"Re: Lunch?","to":["dana","sam"]}
            - state = '$.emails[1].size'; contains = 3
                3.0 does not contain 3
            + state = '$.emails[1].body'; matches = '^Yes.*Monday$'
                found "Yes,\non Monday"
            - state = '$.emails[1].body'; matches = '(?i)yes$'
                "Yes,\non Monday" does not match `(?i)yes$`
            + state = '$.emails[2].size'; matches = '^1\d$'
                found 10
            + reply = true; contains = ['Dana', 'see you']
                found "Dear Dana,\nsee you."
            - reply = true; matches = 'Sam'
                "Dear Dana,\nsee you." does not match `Sam`
            - state = '$'; contains = 'mails'
                {"emails":[{"folder":"inbox","from":"dana","id":1,"size":2,"subject":"Lunch?"},{"body":"Yes,\non Monday","folder":"sent","id":2,"size":3.0,"subject":"Re: Lunch?","to":["dana","sam"]},{"folder":"sent",…
        "#]],
    );
}

#[test]
fn a_tool_that_fails_fails_its_row() {
    check(
        "call = { tool = 'search' }; exists = false",
        expect![[r#"
            - call = { tool = 'search' }; exists = false
                tool `search` failed: `query` is missing
        "#]],
    );
}

#[test]
fn a_call_that_no_tool_takes_is_a_fault_of_the_verifier() {
    let needs = json!({"name": "get", "inputSchema": {"required": ["id"]}});
    let env = mail().tool(needs, |_| tool_result(&json!({})));
    let said = |call: &str| rows_of(&env, format!("[[expect]]\n{call}\nexists = true\n"), None);
    expect!["ValueError: verifier `verify.toml` calls tool `serch`, which the env does not have; did you mean `search`?"]
        .assert_eq(&said("call = { tool = 'serch' }"));
    expect!["ValueError: verifier `verify.toml` calls tool `get` without `id`, which it requires"]
        .assert_eq(&said("call = { tool = 'get', arguments = { ID = 1 } }"));
}

#[test]
fn a_state_of_several_parts_is_the_list_of_them() {
    let text = "[[expect]]\nstate = '$[*].data.n'\nequals = 2\n";
    let parts = json!([{"kind": "data", "data": {"n": 1}}, {"kind": "data", "data": {"n": 2}}]);
    expect![[r#"
        {"id":"expect-1","justification":"found 2 values: 1, 2","result":true,"score":1.0,"weight":1}
    "#]].assert_eq(&rows_of(&FakeEnv::new("e").state(parts), text, None));
}

#[test]
fn every_fault_of_a_file_is_told_with_its_line() {
    let text = r#"
[[expect]]
id = "a"
state = "$.emails[?"
matches = "[a"

[[expect]]
id = "a"
reply = true
call = { tol = "search" }
count = { min = 3, max = 1 }

[[expect]]
path = "$.x"
exists = false
equals = 1

[[expect]]
reply = true
every = true

[[expect]]
state = "$"

[[expect]]
reply = false
count = -1
contain = "x"
weight = "heavy"
"#;
    expect![[r#"
        `verify.toml` cannot be read:
        verify.toml:4:9: error[bad-json-path]: `$.emails[?` is no JSONPath: in long-hand segment, parser error at character 10
        verify.toml:5:11: error[bad-pattern]: `[a` is no regular expression: a `[` is not closed
        verify.toml:8:6: error[duplicate-id]: two expectations have the id `a`
        verify.toml:9:9: error[conflicting-fields]: an expectation is about one thing, not `call` and `reply`
        verify.toml:10:10: error[unknown-field]: `expect[1].call` of `verify.toml` has no key `tol`
        verify.toml:11:9: error[out-of-range]: `count` is at least 3 and at most 1, which no number is
        verify.toml:13:1: error[missing-field]: an expectation says not what it is about: write one of `state`, `call` and `reply`
        verify.toml:14:8: error[conflicting-fields]: `path` goes into the answer of a `call`, and there is none
        verify.toml:15:10: error[conflicting-fields]: `equals` tests a value, and `exists = false` wants none
        verify.toml:19:9: error[missing-field]: `reply` needs the `prompt_id` of a reply, and the step has none
        verify.toml:20:9: error[conflicting-fields]: `every` is about tests of values, and there are none
        verify.toml:22:1: error[missing-field]: an expectation tests nothing: write one of `exists`, `count`, `equals`, `contains`, `matches`, `at_least` and `at_most`
        verify.toml:26:9: error[missing-field]: `reply` needs the `prompt_id` of a reply, and the step has none
        verify.toml:26:9: error[unknown-value]: `expect[5].reply` of `verify.toml` is `false`, not `true`
        verify.toml:27:9: error[out-of-range]: `expect[5].count` of `verify.toml` is -1, but must be at least 0
        verify.toml:28:1: error[unknown-field]: `expect[5]` of `verify.toml` has no key `contain`
        verify.toml:29:10: error[wrong-type]: `expect[5].weight` of `verify.toml` is a string, not a number"#]].assert_eq(&rows_of(&mail(), text, None));
    for empty in ["", "expect = []", "expect = 1", "[[expect]]\nstate = \n"] {
        let why = rows_of(&mail(), empty, None);
        assert!(
            why.starts_with("`verify.toml` cannot be read:\nverify.toml:"),
            "{why}"
        );
    }
    expect![[r#"
        `verify.toml` cannot be read:
        verify.toml:3:14: error[not-utf-8]: byte FC at offset 36 is not UTF-8"#]]
    .assert_eq(&rows_of(
        &mail(),
        b"[[expect]]\nstate = '$'\ncontains = 'J\xfcrgen'\n",
        None,
    ));
}
