//! Child processes: the server, and programs that talk to it.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::{Protocol, Server};

/// A child process with its standard input and output. Ends, at the latest, when this is dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program again with other arguments.
    pub(crate) fn start(args: &[String]) -> Result<Process, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("the child has no output")?);
        Ok(Process {
            child,
            input,
            output,
        })
    }

    /// Returns the process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads one line of output.
    pub(crate) fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("the child process ended: {}", self.child.wait()?).into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Sends an empty line and reads the answer.
    fn ask(&mut self) -> Result<String, Box<dyn Error>> {
        let input = self.input.as_mut().ok_or("the child has no input")?;
        input.write_all(b"\n")?;
        self.line()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A child that has ended already is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running server.
pub(crate) struct Served {
    process: Process,
    /// Where it listens.
    pub(crate) address: String,
}

impl Served {
    /// Starts a server.
    pub(crate) fn start(
        server: Server,
        protocol: Protocol,
        threads: usize,
    ) -> Result<Served, Box<dyn Error>> {
        let args = [
            "serve",
            server.name(),
            protocol.name(),
            "--threads",
            &threads.to_string(),
        ];
        let mut process = Process::start(&args.map(str::to_owned))?;
        let address = process.line()?;
        Ok(Served { process, address })
    }

    /// Returns the CPU time that the server has used, in nanoseconds.
    pub(crate) fn cpu_time_ns(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(self.process.ask()?.parse()?)
    }

    /// Returns the process number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}
