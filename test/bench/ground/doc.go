// Package ground has what the benchmarks share: the program from its flags to
// its exit code, the tables and goals of its report, a private network
// namespace, and an API server in it.
//
// Nothing outlives the program that uses the package, no packet leaves the
// private network, and no variable of the caller's environment other than PATH
// reaches a measured process.
package ground
