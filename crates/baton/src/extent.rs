//! `--svg-until`: how much of a run `--svg` draws.

use baton_trace::diagram::Extent;

#[derive(clap::Args)]
pub struct ExtentArgs {
    /// Draw the run until this time, or `all` of it [default: a small run or a counterexample as a whole, another run until 30 T,
    /// not counting the times that the diagram cuts out]
    #[arg(long, value_name = "TIME", requires = "svg")]
    svg_until: Option<Extent>,
}

impl ExtentArgs {
    pub fn extent(&self) -> Extent {
        self.svg_until.unwrap_or_default()
    }
}
