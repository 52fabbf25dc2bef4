//! What can be wrong with the script of an agent.

use expect_test::expect;

use super::*;

#[test]
fn a_script_is_checked_by_its_keys_and_then_by_what_it_says() {
    check(
        &[
            ("tasks/t.json", "[]"),
            (
                "agents/good/agent.toml",
                "type = \"scripted\"\n[[rules]]\nreply = \"{{prompt}}\"",
            ),
            (
                "agents/keys/agent.toml",
                "type = \"scripted\"\nimage = \"x\"\n[[rules]]\nreply = 1\n[[rules.calls]]\ntool = \"x\"\non_eror = \"go-on\"",
            ),
            (
                "agents/says/agent.toml",
                "type = \"scripted\"\n[[rules]]\nprompt = \"(\"\n[[rules]]\nreply = \"{{prmpt}}\"",
            ),
            ("agents/other/agent.toml", "type = \"scripted\""),
        ],
        expect![[r#"
            task t at f/tasks/t.json
            scripted good = @local/f/good
            scripted keys = @local/f/keys
            scripted other = @local/f/other
            scripted says = @local/f/says
            f/agents/keys/agent.toml:2:1: error[unknown-field]: `image` is a key of type `a2a`, and agent `keys` is of type `scripted`
                delete `image`, or write another `type`
            f/agents/keys/agent.toml:4:9: error[wrong-type]: `rules[0].reply` of agent `keys` is a number, not a string
                write it in double quotes
            f/agents/keys/agent.toml:7:1: error[unknown-field]: `rules[0].calls[0]` of agent `keys` has no key `on_eror`
                did you mean `on_error`?
            f/agents/says/agent.toml:3:10: error[bad-script]: the script of agent `says`: rule 1: `(` is no regular expression: Parsing error at position 1: Opening parenthesis without closing parenthesis
                see the page about scripted agents in the book
            f/agents/says/agent.toml:5:9: error[bad-script]: the script of agent `says`: rule 2: template `{{prmpt}}` uses `prmpt`, which nothing before it saves; did you mean `prompt`?
                see the page about scripted agents in the book
        "#]],
    );
}
