package upstream

// Outcome is how a request ended, as the endpoint's health is concerned.
type Outcome uint8

// The outcomes of a request.
const (
	// OK: there was an answer below 500.
	OK Outcome = iota
	// ConnectFailed: there was no connection, in time or at all.
	ConnectFailed
	// Reset: the connection ended before the head of an answer. One that was
	// reused and died before the first byte of the answer does not count, as
	// long as the request is sent again on a fresh one.
	Reset
	// TimedOut: the head of an answer did not come in time.
	TimedOut
	// ServerError: the answer was 500 or more.
	ServerError
	// Cancelled: the client went away, so nothing is known.
	Cancelled

	outcomes = int(Cancelled) + 1
)

// String is the outcome as one word, for logs and metrics.
func (o Outcome) String() string {
	switch o {
	case OK:
		return "ok"
	case ConnectFailed:
		return "connectFailed"
	case Reset:
		return "reset"
	case TimedOut:
		return "timedOut"
	case ServerError:
		return "serverError"
	case Cancelled:
		return "cancelled"
	}
	return "unknown"
}
