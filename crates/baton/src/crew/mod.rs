//! Processes on this machine, for trying things out: a table shows how they are, and the user kills, stops, cuts off and
//! brings back one of them. `baton group up` and `baton cluster local` are two such crews.

mod orders;
mod process;
mod screen;

use std::io;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use baton_proxy::Mesh;
use nix::sys::signal::Signal;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::output::{Failure, Outcome, folded_to, warn};
use crate::peer::Signals;
use orders::{Deed, Order};
pub use process::State;
use process::{Line, Process};
use screen::{Sane, Screen, Typed, listen};

/// How often the table is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// How long the processes have to end by themselves.
const END_WITHIN: Duration = Duration::from_secs(4);

/// What differs between crews. Processes are counted from 0 on.
pub trait Crew {
    /// What is shown of one process.
    type Row: Clone + PartialEq + Serialize;
    /// The answer of a process to this program.
    type Seen: Send + 'static;
    /// The word for a process.
    const ONE: &'static str;

    /// The command that starts a process, for the first time or again.
    fn command(&self, process: usize, again: bool) -> io::Result<Command>;
    /// The process was started again: forget what was known of it.
    fn restarted(&mut self, process: usize);
    /// Reads a line of the standard output of a process. Returns whether the process is ready by now.
    fn reads(&mut self, process: usize, line: &str) -> bool;
    /// Asks a process how it is; none if it cannot be asked yet.
    fn ask(&self, process: usize) -> Option<impl Future<Output = Option<Self::Seen>> + Send + 'static>;
    fn seen(&mut self, process: usize, seen: Self::Seen);
    /// The row of a process that is in this state, and its last message to the operator.
    fn row(&mut self, process: usize, state: State, says: Option<String>) -> Self::Row;
    /// Adds to the rows what takes all of them to know.
    fn complete(&self, rows: Vec<Self::Row>) -> Vec<Self::Row> {
        rows
    }
    /// The table, and sentences of at most so many columns. `chosen` is marked.
    fn to_text(&self, rows: &[Self::Row], chosen: Option<usize>, columns: usize) -> String;
}

enum Event<Seen> {
    Typed(Typed),
    Wrote(usize, Line),
    /// A process was asked how it is.
    Seen(usize, Option<Seen>),
}

/// Starts the processes, shows them and obeys the user, until the user or a signal ends it. `mesh` has the links between
/// them.
pub async fn run<C: Crew>(crew: C, names: Vec<String>, mesh: Mesh, json: bool) -> Outcome {
    let mut signals = Signals::new(false)?;
    let (events, mut happened) = mpsc::unbounded_channel();
    let mut up = Up { crew, names, mesh, processes: Vec::new(), chosen: 0, events };
    up.start().map_err(|error| Failure::bad_input(format!("cannot start a {}: {error}", C::ONE)))?;
    let _sane = Sane::new();
    let mut screen = Screen::new(json);
    let events = up.events.clone();
    listen(screen.interactive, move |typed| events.send(Event::Typed(typed)).is_ok());
    let mut ticks = interval(DRAW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = loop {
        tokio::select! {
            _ = ticks.tick() => {
                up.look();
                if let Err(failure) = up.draw(&mut screen) {
                    break Err(failure);
                }
            }
            () = signals.stop() => break Ok(ExitCode::SUCCESS),
            Some(event) = happened.recv() => if !up.on(event) { break Ok(ExitCode::SUCCESS) },
        }
    };
    up.end().await;
    outcome
}

/// The running crew.
struct Up<C: Crew> {
    crew: C,
    names: Vec<String>,
    mesh: Mesh,
    processes: Vec<Process>,
    chosen: usize,
    events: mpsc::UnboundedSender<Event<C::Seen>>,
}

impl<C: Crew> Up<C> {
    fn start(&mut self) -> io::Result<()> {
        for process in 0..self.names.len() {
            let started = self.spawn(process, false)?;
            self.processes.push(started);
        }
        Ok(())
    }

    fn spawn(&self, process: usize, again: bool) -> io::Result<Process> {
        let events = self.events.clone();
        Process::start(self.crew.command(process, again)?, move |line| events.send(Event::Wrote(process, line)).is_ok())
    }

    /// Handles an event. Returns false if the user wants to end.
    fn on(&mut self, event: Event<C::Seen>) -> bool {
        match event {
            Event::Typed(Typed::Key(key)) => {
                let order = orders::pressed(&key, &mut self.chosen, &self.names);
                return order.is_none_or(|order| self.obey(order));
            }
            Event::Typed(Typed::Line(line)) => match orders::parse(&line, C::ONE, &self.names) {
                Ok(order) => return order.is_none_or(|order| self.obey(order)),
                Err(sentence) => warn(sentence),
            },
            Event::Wrote(process, Line::Output(line)) => {
                self.processes[process].ready |= self.crew.reads(process, &line);
            }
            Event::Wrote(process, Line::Complaint(line)) => {
                let says = line.strip_prefix("baton: ").unwrap_or(&line).to_owned();
                self.processes[process].says = Some(says);
            }
            Event::Seen(process, seen) => {
                self.processes[process].asked = false;
                if let Some(seen) = seen {
                    self.crew.seen(process, seen);
                }
            }
        }
        true
    }

    /// Returns false if the user wants to end.
    fn obey(&mut self, order: Order) -> bool {
        let Order::Do(deed, number) = order else { return false };
        let process = &mut self.processes[number];
        match deed {
            Deed::Kill => process.signal(Signal::SIGKILL),
            Deed::Stop => {
                process.signal(Signal::SIGSTOP);
                process.stopped = true;
            }
            Deed::CutOff => {
                self.mesh.cut_off(number);
                process.cut_off = true;
            }
            Deed::BringBack => {
                self.mesh.bring_back(number);
                let is_gone = process.is_gone();
                (process.stopped, process.cut_off) = (false, false);
                if is_gone {
                    self.restart(number);
                } else {
                    self.processes[number].signal(Signal::SIGCONT);
                }
            }
        }
        true
    }

    /// A process may refuse to start again. Then it says why, and ends.
    fn restart(&mut self, number: usize) {
        match self.spawn(number, true) {
            Ok(process) => {
                self.processes[number] = process;
                self.crew.restarted(number);
            }
            Err(error) => self.processes[number].says = Some(format!("cannot be started: {error}")),
        }
    }

    /// Asks the processes that run how they are.
    fn look(&mut self) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            if process.asked || process.stopped || process.is_gone() {
                continue;
            }
            let Some(asked) = self.crew.ask(number) else { continue };
            process.asked = true;
            let events = self.events.clone();
            tokio::spawn(async move {
                let seen = asked.await;
                // The receiver is gone only if the program ends.
                let _ = events.send(Event::Seen(number, seen));
            });
        }
    }

    fn draw(&mut self, screen: &mut Screen<C::Row>) -> Result<(), Failure> {
        let row = |(number, process): (usize, &mut Process)| {
            let state = process.state();
            self.crew.row(number, state, process.says.clone())
        };
        let rows = self.processes.iter_mut().enumerate().map(row).collect();
        let (crew, chosen) = (&self.crew, self.chosen);
        let rows = crew.complete(rows);
        let interactive = screen.interactive;
        screen.draw(rows, |rows, columns| match interactive {
            true => {
                let help = folded_to(&orders::help(C::ONE), columns);
                format!("{help}\n{}", crew.to_text(rows, Some(chosen), columns))
            }
            false => crew.to_text(rows, None, columns),
        })
    }

    /// Ends all processes together.
    async fn end(mut self) {
        for process in &mut self.processes {
            process.signal(Signal::SIGCONT);
            process.signal(Signal::SIGTERM);
        }
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline && self.processes.iter_mut().any(|process| !process.is_gone()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.processes.iter_mut().for_each(Process::end);
    }
}
