package h2

import (
	"slices"

	"golang.org/x/net/http2"
)

// recentResets is how many streams are remembered that the server reset. Frames
// to them that the client sent before it received the reset are ignored.
const recentResets = 32

// streamTable has the streams of a connection by their identifiers. The
// session's mu guards it.
type streamTable struct {
	open    map[uint32]*stream
	last    uint32               // the highest stream that the client opened
	allowed uint32               // the highest that is served; allStreams before GOAWAY
	recent  [recentResets]uint32 // the streams that were reset last, as a ring
	resets  int                  // how many there were, which gives the place in recent
}

func newStreamTable() streamTable {
	return streamTable{open: make(map[uint32]*stream), allowed: allStreams}
}

// accepting reports whether new streams are served, which ends with GOAWAY.
func (t *streamTable) accepting() bool { return t.allowed == allStreams }

// find returns the stream with an identifier: nil for one that has ended, an
// error for one that the client never opened.
func (t *streamTable) find(id uint32) (*stream, error) {
	if id%2 == 0 || id > t.last {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return t.open[id], nil
}

// noteReset remembers a stream that the server resets.
func (t *streamTable) noteReset(id uint32) {
	t.recent[t.resets%len(t.recent)] = id
	t.resets++
}

// wasReset reports whether the server reset the stream of late.
func (t *streamTable) wasReset(id uint32) bool { return slices.Contains(t.recent[:], id) }
