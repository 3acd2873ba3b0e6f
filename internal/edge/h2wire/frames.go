package h2wire

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

const (
	// FrameHeaderSize is the size of the header of each frame.
	FrameHeaderSize = 9
	// MaxFrame is the largest frame that is written. It is the smallest limit that
	// RFC 9113 allows, so that every peer supports it.
	MaxFrame = 16 << 10
	// DataSize is the most data of a frame: it fits a TLS record with its header.
	DataSize = MaxFrame - FrameHeaderSize
)

const (
	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

// The methods below add frames. They are called with the connection's lock held.

// Preface adds what the client of a connection sends before its first frame.
func (w *Writer) Preface() {
	w.reserve(len(http2.ClientPreface))
	w.out = append(w.out, http2.ClientPreface...)
}

// Settings adds SETTINGS.
func (w *Writer) Settings(settings ...http2.Setting) {
	w.begin(http2.FrameSettings, 0, 0, 6*len(settings))
	for _, s := range settings {
		w.out = binary.BigEndian.AppendUint16(w.out, uint16(s.ID))
		w.out = binary.BigEndian.AppendUint32(w.out, s.Val)
	}
}

// SettingsAck adds the acknowledgement of SETTINGS.
func (w *Writer) SettingsAck() { w.begin(http2.FrameSettings, flagAck, 0, 0) }

// Ping adds a PING.
func (w *Writer) Ping(data [8]byte) { w.ping(0, data) }

// PingAck adds the acknowledgement of a PING.
func (w *Writer) PingAck(data [8]byte) { w.ping(flagAck, data) }

func (w *Writer) ping(flags uint8, data [8]byte) {
	w.begin(http2.FramePing, flags, 0, len(data))
	w.out = append(w.out, data[:]...)
}

// GoAway adds GOAWAY, with the last stream that is served.
func (w *Writer) GoAway(last uint32, code http2.ErrCode) {
	w.begin(http2.FrameGoAway, 0, 0, 8)
	w.out = binary.BigEndian.AppendUint32(w.out, last)
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(code))
}

// WindowUpdate adds WINDOW_UPDATE; stream 0 is the connection.
func (w *Writer) WindowUpdate(stream uint32, increment int) {
	w.begin(http2.FrameWindowUpdate, 0, stream, 4)
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(increment))
}

// Reset adds RST_STREAM.
func (w *Writer) Reset(stream uint32, code http2.ErrCode) {
	w.begin(http2.FrameRSTStream, 0, stream, 4)
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(code))
}

// Data adds DATA, of no more than a frame takes.
func (w *Writer) Data(stream uint32, data []byte, end bool) {
	flags := uint8(0)
	if end {
		flags = flagEndStream
	}
	w.begin(http2.FrameData, flags, stream, len(data))
	w.out = append(w.out, data...)
}

// Headers adds a block of encoded headers: HEADERS and as many CONTINUATION frames
// as it needs.
func (w *Writer) Headers(stream uint32, block []byte, end bool) {
	w.reserve(len(block) + FrameHeaderSize*(1+len(block)/MaxFrame))
	kind, flags := http2.FrameHeaders, uint8(0)
	if end {
		flags = flagEndStream
	}
	for {
		part := block[:min(len(block), MaxFrame)]
		block = block[len(part):]
		if len(block) == 0 {
			flags |= flagEndHeaders
		}
		w.begin(kind, flags, stream, len(part))
		w.out = append(w.out, part...)
		if len(block) == 0 {
			return
		}
		kind, flags = http2.FrameContinuation, 0
	}
}

// begin adds the header of a frame, and makes room for its payload.
func (w *Writer) begin(kind http2.FrameType, flags uint8, stream uint32, length int) {
	w.reserve(FrameHeaderSize + length)
	w.out = append(w.out, byte(length>>16), byte(length>>8), byte(length), byte(kind), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// reserve makes room. The buffer grows by what the pool has.
func (w *Writer) reserve(size int) {
	need := len(w.out) + size
	if need <= cap(w.out) {
		return
	}
	grown := w.pool.Get(max(need, 2*cap(w.out)))[:len(w.out)]
	copy(grown, w.out)
	w.pool.Put(w.out)
	w.out = grown
}
