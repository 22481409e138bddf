//! How packets enter and leave: one folder per driver.
