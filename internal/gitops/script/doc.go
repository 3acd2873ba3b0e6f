// Package script runs Lua scripts of Argo CD's rules on an object, in a closed
// interpreter.
//
// A script sees the object as obj and parts of Lua's library: no files, no
// processes, no output, no further scripts. It ends after a number of
// instructions, with bounds on its stacks and on its result. The number does not
// depend on the speed of the machine, so that the same script gives the same
// result everywhere. Fields have one order, unlike in Argo CD.
//
// The interpreter does not bound the memory of strings and tables, nor the time
// of one pattern. Scripts that this program was built with run in its own
// process; those of settings run in a render worker, which has limits on both.
//
// See decision 0046 in docs/decisions.
package script
