//! The terminal that a person types at: key by key, and back to line by line in the end.

use std::io;
use std::sync::Mutex;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use rustix::termios::{isatty, tcgetattr, tcgetwinsize, tcsetattr};

use super::locked;

/// How the terminal was before [`Keys`] changed it.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal gives keys as they are pressed, without showing them, until this is dropped. Ctrl-C and Ctrl-Z still are
/// signals.
#[derive(Debug)]
pub struct Keys(());

impl Keys {
    /// Sets the terminal of standard input so; `None` where that is no terminal.
    pub fn listen() -> io::Result<Option<Self>> {
        if !isatty(rustix::stdio::stdin()) {
            return Ok(None);
        }
        let before = tcgetattr(rustix::stdio::stdin())?;
        *locked(&BEFORE) = Some(before);
        let keys = Keys(());
        keys.again()?;
        Ok(Some(keys))
    }

    /// Sets the terminal so again, after a shell had it.
    pub fn again(&self) -> io::Result<()> {
        let Some(mut modes) = locked(&BEFORE).clone() else {
            return Ok(());
        };
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &modes)?;
        Ok(())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore();
    }
}

/// Sets the terminal as it was before [`Keys`]; for who ends the process without unwinding.
pub fn restore() {
    if let Some(before) = locked(&BEFORE).take() {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &before);
    }
}

/// Waits for a key; `None` where there will be none any more.
pub fn key() -> Option<u8> {
    let mut byte = [0];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(1) => return Some(byte[0]),
            Err(rustix::io::Errno::INTR) => {}
            _ => return None,
        }
    }
}

/// Returns how many lines the terminal of standard error has.
pub fn lines() -> Option<u16> {
    let size = tcgetwinsize(rustix::stdio::stderr()).ok()?;
    (size.ws_row > 0).then_some(size.ws_row)
}

/// Returns how many columns the terminal of standard error has.
pub fn columns() -> Option<u16> {
    let size = tcgetwinsize(rustix::stdio::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}
