package h2

import (
	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h2wire"
)

// The types of frames that the frame accounting distinguishes (RFC 9113 section
// 6).
const (
	frameData         = uint8(http2.FrameData)
	frameHeaders      = uint8(http2.FrameHeaders)
	framePriority     = uint8(http2.FramePriority)
	frameReset        = uint8(http2.FrameRSTStream)
	frameSettings     = uint8(http2.FrameSettings)
	framePing         = uint8(http2.FramePing)
	frameGoAway       = uint8(http2.FrameGoAway)
	frameWindowUpdate = uint8(http2.FrameWindowUpdate)
	frameContinuation = uint8(http2.FrameContinuation)
	framePriority9218 = 0x10 // PRIORITY_UPDATE of RFC 9218
)

// The flags that the server reads or writes.
const (
	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

const (
	frameHeaderSize = h2wire.FrameHeaderSize
	// maxFrame is the largest frame that is read or written.
	maxFrame = h2wire.MaxFrame
	// allStreams is the last stream of a GOAWAY that refuses none.
	allStreams = 1<<31 - 1
)

// frame is what the frame accounting needs of a frame.
type frame struct {
	length uint32
	kind   uint8
	flags  uint8
	stream uint32
	data   int           // bytes of DATA, without padding
	code   http2.ErrCode // of RST_STREAM
}

func (f *frame) has(flag uint8) bool { return f.flags&flag != 0 }
