// Package exit has the exit codes of the program and the errors that choose
// them.
//
// A command returns UsageError for input that the user has to correct, Status
// for a result that the exit code carries, and any other error for a failure.
// The root command prints the error and ends the process with the code.
package exit

import (
	"fmt"
	"io"
)

// Different is the exit code of a diff that found differences, as diff(1) has
// it. It equals Failure, so a command that uses it returns its own errors with
// Usage, as diff(1) does with 2.
const Different = 1

// Exit codes.
const (
	OK        = 0
	Failure   = 1
	Usage     = 2
	Interrupt = 130 // 128 + SIGINT, as shells count
)

// UsageError marks an error that the user corrects in the command line or the
// configuration. The process exits with Usage.
type UsageError struct{ Err error }

// Error returns the message of the cause.
func (u UsageError) Error() string { return u.Err.Error() }

// Unwrap returns the cause.
func (u UsageError) Unwrap() error { return u.Err }

// Status is an error that carries its own exit code, for a command whose code
// is its result, such as a diff. With a nil Err nothing is printed.
type Status struct {
	Code int
	Err  error
}

// Error returns the message of the cause, empty without one.
func (v Status) Error() string {
	if v.Err == nil {
		return ""
	}
	return v.Err.Error()
}

// Unwrap returns the cause.
func (v Status) Unwrap() error { return v.Err }

// Print writes an error to w as one line, or as a list if it joins several.
// Write errors are dropped: there is no other place to report them.
func Print(w io.Writer, err error) {
	problems := problemsOf(err)
	if len(problems) == 1 {
		_, _ = fmt.Fprintf(w, "slipway: %v\n", problems[0])
		return
	}
	_, _ = fmt.Fprintf(w, "slipway: %d problems:\n", len(problems))
	for _, problem := range problems {
		_, _ = fmt.Fprintf(w, "  - %v\n", problem)
	}
}

// problemsOf flattens joined errors, at any depth, into a list. It unwraps only
// UsageError and Status; an error that adds context around a join stays one
// problem, because its text belongs to the whole.
func problemsOf(err error) []error {
	switch wrapped := err.(type) {
	case UsageError:
		err = wrapped.Err
	case Status:
		err = wrapped.Err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var problems []error
	for _, e := range joined.Unwrap() {
		problems = append(problems, problemsOf(e)...)
	}
	return problems
}
