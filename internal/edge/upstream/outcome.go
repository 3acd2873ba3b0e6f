package upstream

// Outcome is how a request ended, for the health of its endpoint.
type Outcome uint8

// The outcomes of a request.
const (
	// OK: there was a response below 500.
	OK Outcome = iota
	// ConnectFailed: there was no connection, in time or at all.
	ConnectFailed
	// Reset: the connection ended before the head of a response. A reused
	// connection that was closed before the first byte does not count, as long
	// as the request is retried on a fresh one.
	Reset
	// TimedOut: the head of a response did not come in time.
	TimedOut
	// ServerError: the status was 500 or more.
	ServerError
	// Cancelled: the client disconnected, so the outcome is unknown.
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
