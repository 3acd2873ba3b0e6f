package render

import (
	"fmt"

	"slipway.dev/slipway/internal/gitops/render/job"
)

// ErrorKind classifies an error by what the next attempt can be expected to do.
type ErrorKind string

// The kinds. Refused and Failed stay until the repository or the Application
// changes; so do, most likely, TooSlow, TooLarge and OutOfMemory. WorkerDied and
// Unavailable may be gone the next time.
const (
	Refused     ErrorKind = "Refused"     // something that is never done
	Failed      ErrorKind = "Failed"      // the templates or files are wrong
	TooSlow     ErrorKind = "TooSlow"     // longer than the timeout
	TooLarge    ErrorKind = "TooLarge"    // more output than allowed
	OutOfMemory ErrorKind = "OutOfMemory" // more memory than allowed
	WorkerDied  ErrorKind = "WorkerDied"  // the worker ended, or could not start
	Unavailable ErrorKind = "Unavailable" // the files could not be read
)

// Error is a render that failed, with the way out in its message.
type Error struct {
	Kind ErrorKind
	// Source is the number of the input, from 0; -1 if it is none of them.
	Source  int
	Message string
	Err     error

	basis basis
	// missing are dependencies that the request does not have.
	missing []job.MissingDependency
}

// Error is the message, with the number of the source if there are several.
func (e *Error) Error() string {
	if e.Source > 0 {
		return fmt.Sprintf("source %d: %s", e.Source+1, e.Message)
	}
	return e.Message
}

// Unwrap is the cause, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// Holds reports whether a request, on these or other revisions, fails in the
// same way because everything that was read is the same.
func (e *Error) Holds(request Request) bool {
	switch e.Kind {
	case Refused, Failed, TooLarge:
		return e.basis.holds(&request)
	}
	return false
}
