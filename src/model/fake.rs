//! An endpoint for tests: it answers from a list, counts its connections and keeps what it was asked.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// What the endpoint answers to one request.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Whether nothing is ever said.
    pub hangs: bool,
}

impl Answer {
    /// No answer at all, on a connection that stays.
    pub fn nothing() -> Self {
        Answer {
            hangs: true,
            ..Self::status(200, "")
        }
    }

    pub fn json(body: impl ToString) -> Self {
        Answer {
            status: 200,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string(),
            hangs: false,
        }
    }

    pub fn status(status: u16, body: &str) -> Self {
        Answer {
            status,
            headers: Vec::new(),
            body: body.to_owned(),
            hangs: false,
        }
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// A chat completion of a text.
    pub fn text(text: &str) -> Self {
        let text = text
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        Self::completion(
            &format!(r#"{{"role":"assistant","content":"{text}"}}"#),
            "stop",
        )
    }

    /// A chat completion that calls one tool with arguments in JSON.
    pub fn call(tool: &str, arguments: &str) -> Self {
        let arguments = arguments.replace('\\', "\\\\").replace('"', "\\\"");
        let message = format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{tool}","type":"function","function":{{"name":"{tool}","arguments":"{arguments}"}}}}]}}"#
        );
        Self::completion(&message, "tool_calls")
    }

    fn completion(message: &str, reason: &str) -> Self {
        Self::json(format!(
            r#"{{"model":"fake-1","choices":[{{"message":{message},"finish_reason":"{reason}"}}],"usage":{{"prompt_tokens":100,"completion_tokens":20}}}}"#
        ))
    }
}

/// A request as it came in.
#[derive(Clone)]
pub struct Asked {
    pub path: String,
    pub head: String,
    pub body: String,
}

#[derive(Default)]
struct Inner {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Asked>>,
    came: Condvar,
    connections: Mutex<u64>,
}

/// A running endpoint; it ends with the process.
#[derive(Clone)]
pub struct FakeEndpoint {
    inner: Arc<Inner>,
    pub url: String,
}

impl FakeEndpoint {
    /// Starts an endpoint that gives these answers in order, and status 418 after them.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let inner = Arc::new(Inner::default());
        inner.answers.lock().expect("a lock").extend(answers);
        let served = inner.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *served.connections.lock().expect("a lock") += 1;
                let served = served.clone();
                std::thread::spawn(move || serve(&served, stream));
            }
        });
        FakeEndpoint {
            inner,
            url: format!("http://{address}/v1"),
        }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.inner.asked.lock().expect("a lock").clone()
    }

    pub fn n_asked(&self) -> usize {
        self.inner.asked.lock().expect("a lock").len()
    }

    /// Waits until it was asked so often.
    pub fn wait_for(&self, n: usize) {
        let asked = self.inner.asked.lock().expect("a lock");
        let too_few = |asked: &mut Vec<Asked>| asked.len() < n;
        drop(self.inner.came.wait_while(asked, too_few).expect("a lock"));
    }

    pub fn connections(&self) -> u64 {
        *self.inner.connections.lock().expect("a lock")
    }
}

fn serve(inner: &Inner, mut stream: TcpStream) {
    let Ok(read) = stream.try_clone() else { return };
    let mut read = BufReader::new(read);
    while let Some(asked) = request(&mut read) {
        inner.asked.lock().expect("a lock").push(asked);
        inner.came.notify_all();
        let next = inner.answers.lock().expect("a lock").pop_front();
        let answer = next.unwrap_or_else(|| Answer::status(418, "no answer is left"));
        if answer.hangs {
            // Until the other side is tired of it.
            let _ = read.read_to_end(&mut Vec::new());
            return;
        }
        let mut head = format!(
            "HTTP/1.1 {} X\r\ncontent-length: {}\r\n",
            answer.status,
            answer.body.len()
        );
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let whole = format!("{head}\r\n{}", answer.body);
        if stream.write_all(whole.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(read: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if read.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, n)| n.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    read.read_exact(&mut body).ok()?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    Some(Asked {
        path,
        head,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
