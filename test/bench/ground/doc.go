// Package ground is what benchmarks of the whole program stand on: a private
// network, an API server in it, processes that end with the benchmark, and what
// the kernel says about their memory and processor time.
//
// It promises that nothing outlives the program that uses it, that no packet
// leaves the private network, and that nothing of the environment of the person
// at the keyboard changes what is measured.
package ground

// failure is the exit code of a program that could not do its work.
const failure = 1
