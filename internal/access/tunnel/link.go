package tunnel

import (
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"slipway.dev/slipway/internal/wire/link"
)

// closeTimeout is how long the platform may read what is left of an answer.
const closeTimeout = 5 * time.Minute

// stream is one stream of the session, which tells when it is closed.
type stream struct {
	link.Stream
	once   sync.Once
	closed func()
}

func newStream(of *yamux.Stream, closed func()) *stream {
	return &stream{Stream: link.Stream{Stream: of}, closed: closed}
}

// Close ends the stream.
func (s *stream) Close() error {
	s.once.Do(s.closed)
	return s.Stream.Close()
}
