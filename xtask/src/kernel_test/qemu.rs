//! The boot: the guest runs under software emulation in virtual time.
//!
//! Time in the guest is the number of instructions executed, so what the host does meanwhile does
//! not change what the guest measures; it only takes longer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::failure::Failure;

/// For how long the guest may run. A boot with all programs takes well under a minute on a machine
/// of its own.
const PATIENCE: Duration = Duration::from_secs(600);

/// Virtual CPUs of the guest.
pub(crate) const CPUS: usize = 2;

/// Boots `kernel` with `initramfs` and returns what the guest wrote on its serial line; also writes
/// it to `log` as it comes.
///
/// # Errors
///
/// The emulator does not start, fails, or does not end within [`PATIENCE`].
pub(crate) fn boot(kernel: &Path, initramfs: &Path, log: &Path) -> Result<Vec<u8>, Failure> {
    let file = File::create(log).map_err(|e| Failure::io("write", log, &e))?;
    let mut child = command(kernel, initramfs)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Failure::CannotRun(format!("the emulator does not start: {e}")))?;
    let output = read_serial(&mut child, file);
    if output.is_err() {
        // It may have ended by itself; then there is nothing to kill.
        let _ = child.kill();
    }
    let ended = child
        .wait_with_output()
        .map_err(|e| Failure::Failed(format!("the emulator was lost: {e}")))?;
    let output = output?;
    if ended.status.success() {
        return Ok(output);
    }
    Err(Failure::Failed(format!(
        "the emulator ended with {}: {}",
        ended.status,
        String::from_utf8_lossy(&ended.stderr).trim_end()
    )))
}

fn command(kernel: &Path, initramfs: &Path) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    // One thread emulates all CPUs, one instruction takes 2 ns, and an idle guest's clock jumps.
    command.args(["-accel", "tcg,thread=single"]);
    command.args(["-icount", "shift=1,sleep=off", "-rtc", "clock=vm"]);
    command.args(["-smp", &CPUS.to_string(), "-m", "512"]);
    command.args([
        "-nographic",
        "-nodefaults",
        "-serial",
        "stdio",
        "-no-reboot",
    ]);
    command.arg("-kernel").arg(kernel);
    command.arg("-initrd").arg(initramfs);
    command.args(["-append", "console=ttyS0 panic=-1 quiet"]);
    command
}

/// Reads the child's output to its end, on a thread of its own so that this one can lose patience.
fn read_serial(child: &mut Child, mut log: File) -> Result<Vec<u8>, Failure> {
    let mut output = child.stdout.take().expect("the output is a pipe");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            let piece = match output.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => buffer[..length].to_vec(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if sender.send(piece).is_err() {
                return;
            }
        }
    });
    collect(&receiver, &mut log, Instant::now() + PATIENCE)
}

fn collect(
    pieces: &Receiver<Vec<u8>>,
    log: &mut impl Write,
    deadline: Instant,
) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match pieces.recv_timeout(left) {
            Ok(piece) => {
                log.write_all(&piece)
                    .map_err(|e| Failure::Failed(format!("cannot write the log: {e}")))?;
                all.extend_from_slice(&piece);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(all),
            Err(RecvTimeoutError::Timeout) => {
                let limit = PATIENCE.as_secs();
                let why = format!("the guest was still running after {limit} s");
                return Err(Failure::Failed(why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_and_logged() {
        let (sender, receiver) = channel();
        sender.send(b"one ".to_vec()).unwrap();
        sender.send(b"two".to_vec()).unwrap();
        drop(sender);
        let mut log = Vec::new();
        let all = collect(&receiver, &mut log, Instant::now() + PATIENCE).unwrap();
        assert_eq!(all, b"one two");
        assert_eq!(log, all);
    }

    #[test]
    fn patience_ends() {
        let (_sender, receiver) = channel::<Vec<u8>>();
        let failure = collect(&receiver, &mut Vec::new(), Instant::now());
        assert!(failure.unwrap_err().to_string().contains("still running"));
    }
}
