package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
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
	frameHeaderSize = 9
	// maxFrame is the largest frame that is read or written. It is the smallest
	// limit that RFC 9113 allows, so that every client supports it.
	maxFrame = 16 << 10
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

// appendFrame appends the header of a frame.
func appendFrame(dst []byte, kind, flags uint8, stream uint32, length int) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// appendUint32 appends a frame whose payload is one number, as that of
// RST_STREAM and WINDOW_UPDATE.
func appendUint32(dst []byte, kind uint8, stream, value uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(dst, kind, 0, stream, 4), value)
}

func appendGoAway(dst []byte, last uint32, code http2.ErrCode) []byte {
	dst = appendFrame(dst, frameGoAway, 0, 0, 8)
	dst = binary.BigEndian.AppendUint32(dst, last)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

func appendPing(dst []byte, flags uint8, data [8]byte) []byte {
	return append(appendFrame(dst, framePing, flags, 0, len(data)), data[:]...)
}

// appendSettings appends a SETTINGS frame.
func appendSettings(dst []byte, settings ...http2.Setting) []byte {
	dst = appendFrame(dst, frameSettings, 0, 0, 6*len(settings))
	for _, s := range settings {
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.ID))
		dst = binary.BigEndian.AppendUint32(dst, s.Val)
	}
	return dst
}

// appendHeaders appends a block of headers: HEADERS and as many CONTINUATION
// frames as it needs.
func appendHeaders(dst []byte, stream uint32, block []byte, end bool) []byte {
	kind, flags := frameHeaders, uint8(0)
	if end {
		flags = flagEndStream
	}
	for {
		part := block[:min(len(block), maxFrame)]
		block = block[len(part):]
		if len(block) == 0 {
			flags |= flagEndHeaders
		}
		dst = append(appendFrame(dst, kind, flags, stream, len(part)), part...)
		if len(block) == 0 {
			return dst
		}
		kind, flags = frameContinuation, 0
	}
}
