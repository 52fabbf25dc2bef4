//! Messages over standard input and output.

use std::io::{self, BufRead, Read, Write};
use std::thread::JoinHandle;

use lsp_server::{Connection, Message};

use crate::json;

/// The longest message that is read, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Connects to standard input and output. The thread ends once all that was sent is written.
pub(super) fn stdio() -> io::Result<(Connection, JoinHandle<()>)> {
    let (ours, theirs) = Connection::memory();
    let Connection { sender, receiver } = theirs;
    std::thread::Builder::new()
        .name("lsp-reader".to_owned())
        .spawn(move || {
            let mut input = io::stdin().lock();
            loop {
                match read(&mut input) {
                    Ok(Some(Ok(message))) => {
                        let is_exit =
                            matches!(&message, Message::Notification(one) if one.method == "exit");
                        if sender.send(message).is_err() || is_exit {
                            return;
                        }
                    }
                    Ok(Some(Err(text))) => refuse(&text),
                    Ok(None) => return,
                    Err(error) => {
                        let _ = writeln!(io::stderr(), "aebuild lsp: {error}");
                        return;
                    }
                }
            }
        })?;
    let writer = std::thread::Builder::new()
        .name("lsp-writer".to_owned())
        .spawn(move || {
            for message in receiver {
                if message.write(&mut io::stdout().lock()).is_err() {
                    return;
                }
            }
        })?;
    Ok((ours, writer))
}

/// The longest line of a header, in bytes.
const MAX_LINE: u64 = 1 << 16;

/// Reads a message; what is none comes back as the text that says why. `None` at the end.
///
/// Without a length nobody knows where a message ends, so what follows is read as headers until one has a length: one
/// message is lost, and with it at most the next one.
fn read(input: &mut impl BufRead) -> io::Result<Option<Result<Message, String>>> {
    let mut length: Option<usize> = None;
    let mut has_header = false;
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return match has_header {
                true => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                false => Ok(None),
            };
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        has_header = true;
        length = length_in(line).or(length);
    }
    let Some(length) = length else {
        let text = "a message has no header `Content-Length` with a number";
        return Ok(Some(Err(text.to_owned())));
    };
    if length > MAX_BYTES {
        let mut rest = input.take(length as u64);
        io::copy(&mut rest, &mut io::sink())?;
        let text = format!("the message has {length} bytes, of at most {MAX_BYTES}");
        return Ok(Some(Err(text)));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    Ok(Some(json::from_slice(&bytes).map_err(|error| {
        format!("the message cannot be read: {error}")
    })))
}

/// Returns the length that a line of a header tells, also where the rest of a lost message stands before it.
fn length_in(line: &str) -> Option<usize> {
    const NAME: &str = "content-length:";
    let line = line.to_ascii_lowercase();
    let at = line.rfind(NAME)?;
    line[at + NAME.len()..].trim().parse().ok()
}

/// Says that a message could not be read; which one it was nobody knows.
fn refuse(text: &str) {
    let answer = json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32700, "message": text},
    });
    let answer = answer.to_string();
    let mut output = io::stdout().lock();
    // Who does not read will not be told.
    let _ = write!(output, "Content-Length: {}\r\n\r\n{answer}", answer.len());
    let _ = output.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_told_and_the_next_one_is_read() {
        let text = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let input = [
            text("{"),
            text(r#"{"jsonrpc": "2.0", "method": "exit"}"#),
            "nonsense\r\n\r\n".to_owned(),
            text(r#"{"jsonrpc": "2.0", "method": "one"}"#),
            // The length is missing, so the text is taken for a header.
            "Content-Length: x\r\n\r\n{\"jsonrpc\": \"2.0\"}".to_owned(),
            text(r#"{"jsonrpc": "2.0", "method": "two"}"#),
            "\u{e9}\u{0}: \r\n".to_owned(),
            text(r#"{"jsonrpc": "2.0", "method": "three"}"#),
        ]
        .concat();
        let mut input = input.as_bytes();
        let first = read(&mut input).expect("bytes").expect("a message");
        assert!(first.is_err_and(|text| text.starts_with("the message cannot be read: ")));
        let second = read(&mut input).expect("bytes").expect("a message");
        assert!(matches!(second, Ok(Message::Notification(one)) if one.method == "exit"));
        let mut next = || read(&mut input).expect("bytes").expect("a message");
        let is_lost = |found: Result<Message, String>| {
            found.is_err_and(|text| text.contains("`Content-Length`"))
        };
        let is = |found: Result<Message, String>, method: &str| matches!(found, Ok(Message::Notification(one)) if one.method == method);
        assert!(is_lost(next()));
        assert!(is(next(), "one"));
        assert!(is_lost(next()));
        assert!(is(next(), "two"));
        assert!(is(next(), "three"));
        assert!(matches!(read(&mut input), Ok(None)));
        assert!(matches!(read(&mut &b""[..]), Ok(None)));
        for cut in ["Content-Length: 9\r\n\r\n{}", "Content-Length: 9\r\n"] {
            assert!(read(&mut cut.as_bytes()).is_err(), "{cut}");
        }
    }
}
