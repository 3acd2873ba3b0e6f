// Package ground provides the environment of end-to-end benchmarks: a private
// network namespace, an API server in it, child processes that end with the
// benchmark, and the kernel's accounts of their memory and CPU time.
//
// Nothing outlives the program that uses the package, no packet leaves the
// private network, and no variable of the caller's environment other than PATH
// reaches a measured process.
package ground

// failure is the exit code of a program that could not complete its run.
const failure = 1
