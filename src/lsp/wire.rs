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
                    // Without a length nobody knows where the next message starts.
                    Ok(None) | Err(_) => return,
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

/// Reads a message; what is none comes back as the text that says why. `None` at the end.
fn read(input: &mut impl BufRead) -> io::Result<Option<Result<Message, String>>> {
    let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.by_ref().take(1 << 16).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("not a header"))?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        }
    }
    let length: usize = length.ok_or_else(|| bad("no length"))?;
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
        ]
        .concat();
        let mut input = input.as_bytes();
        let first = read(&mut input).expect("bytes").expect("a message");
        assert!(first.is_err_and(|text| text.starts_with("the message cannot be read: ")));
        let second = read(&mut input).expect("bytes").expect("a message");
        assert!(matches!(second, Ok(Message::Notification(one)) if one.method == "exit"));
        assert!(read(&mut input).is_err());
        assert!(matches!(read(&mut &b""[..]), Ok(None)));
        assert!(read(&mut &b"Content-Length: 9\r\n\r\n{}"[..]).is_err());
    }
}
