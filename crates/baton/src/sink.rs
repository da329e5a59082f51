//! Receives the trace of a run for `--trace` and `--svg`: in a file, in memory for the diagram, in both, or not at all.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use baton_trace::diagram::{self, Extent};

use crate::output::{Failure, Target, unwritable};

pub struct Sink<'a> {
    svg: Option<&'a Path>,
    extent: Extent,
    targets: Vec<Target<'a>>,
    memory: Rc<RefCell<Vec<u8>>>,
}

impl<'a> Sink<'a> {
    /// Returns an error for a file that cannot be written, before the run starts. The second result receives the trace.
    pub fn open(
        trace: Option<&'a PathBuf>,
        svg: Option<&'a PathBuf>,
        extent: Extent,
    ) -> Result<(Self, Option<Box<dyn Write>>), Failure> {
        let targets = [trace, svg].into_iter().flatten().map(|path| Target::open(path)).collect::<Result<_, _>>()?;
        let file = trace.cloned().map(Late::new);
        let memory = Rc::default();
        let writer: Option<Box<dyn Write>> = match (file, svg) {
            (None, None) => None,
            (Some(file), None) => Some(Box::new(file)),
            (file, Some(_)) => Some(Box::new(Tee { file, memory: Rc::clone(&memory) })),
        };
        Ok((Sink { svg: svg.map(PathBuf::as_path), extent, targets, memory }, writer))
    }

    /// Call this if the run was refused: removes the files that `open` created.
    pub fn leave_all_as_it_was(self) {
        self.targets.into_iter().for_each(Target::leave_as_it_was);
    }

    /// After the run: draws the diagram for `--svg`.
    pub fn draw(&self) -> Result<(), Failure> {
        let Some(path) = self.svg else { return Ok(()) };
        let (header, records) = baton_trace::read(self.memory.borrow().as_slice()).map_err(Failure::bad_input)?;
        fs::write(path, diagram::draw(&header, &records, self.extent)).map_err(|error| unwritable(path, &error))
    }
}

/// A file that is emptied at the first write. So a refused run does not change it.
pub struct Late {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Late {
    pub fn new(path: PathBuf) -> Self {
        Late { path, file: None }
    }
}

impl Write for Late {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::new(File::create(&self.path)?)),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

struct Tee {
    file: Option<Late>,
    memory: Rc<RefCell<Vec<u8>>>,
}

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
        }
        self.memory.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Late::flush)
    }
}
