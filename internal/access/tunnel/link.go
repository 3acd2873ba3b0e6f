package tunnel

import (
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"slipway.dev/slipway/internal/wire/link"
)

// closeTimeout bounds how long the platform may read the rest of a response after the
// agent closed the stream. Yamux resets the stream after it.
const closeTimeout = 5 * time.Minute

// stream is one stream of the session that calls closed once, when it is closed. The
// metric of open streams depends on it: the HTTP server may call Close more than
// once.
type stream struct {
	link.Stream
	once   sync.Once
	closed func()
}

func newStream(of *yamux.Stream, closed func()) *stream {
	return &stream{Stream: link.Stream{Stream: of}, closed: closed}
}

// Close closes the stream and runs the callback of the first call.
func (s *stream) Close() error {
	s.once.Do(s.closed)
	return s.Stream.Close()
}
