//! The lab in a real browser, headless Chromium. Each test has a browser and a lab of its own. After each test the console
//! of the browser must be empty, and every request must have gone to the lab.

mod driver;
mod run;
