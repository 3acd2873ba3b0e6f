// Package exit has the exit codes of the program and the errors that choose them.
//
// A command returns UsageError for input that the user has to correct, Status for
// a result that is told by the exit code, and any other error for a failure. The
// root command prints the error and ends the process with the code.
package exit

import (
	"fmt"
	"io"
)

// Different is the exit code of a diff that found something, as diff has it.
const Different = 1

// Exit codes.
const (
	OK        = 0
	Failure   = 1
	Usage     = 2
	Interrupt = 130 // 128 + SIGINT, as shells count
)

// UsageError is a mistake in the command line or the configuration.
type UsageError struct{ Err error }

// Error returns the message of the cause.
func (u UsageError) Error() string { return u.Err.Error() }

// Unwrap returns the cause.
func (u UsageError) Unwrap() error { return u.Err }

// Status is the exit code of a command that says something by it, such as a
// diff. Without an error there is nothing to print.
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

// Print shows an error; one that joins several is shown as a list.
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

// problemsOf takes joined errors apart.
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
