package h2

import "encoding/binary"

// The frames that the guard tells apart (RFC 9113 section 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
	framePriority9218 = 0x10 // PRIORITY_UPDATE of RFC 9218
)

// The flags that the guard looks at.
const (
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
)

const (
	frameHeaderSize = 9
	leadSize        = 4
	// prefaceSize is what comes before the first frame of a client.
	prefaceSize = 24
)

// frame is the header of a frame, and as much of its content as the guard
// needs.
type frame struct {
	length uint32
	kind   uint8
	flags  uint8
	stream uint32
	// lead is the start of the content: all four bytes of RST_STREAM, one of
	// DATA that is padded, none of others.
	lead [leadSize]byte
}

func (f *frame) has(flag uint8) bool { return f.flags&flag != 0 }

// data is how many bytes a DATA frame carries. Padding that is longer than the
// frame is for the library to refuse.
func (f *frame) data() int {
	if !f.has(flagPadded) || f.length == 0 {
		return int(f.length)
	}
	return max(int(f.length)-1-int(f.lead[0]), 0)
}

// code is the error of RST_STREAM.
func (f *frame) code() uint32 { return binary.BigEndian.Uint32(f.lead[:]) }

// lookedAt is how much of a frame's content goes to its lead.
func (f *frame) lookedAt() int {
	switch {
	case f.kind == frameReset:
		return min(leadSize, int(f.length))
	case f.kind == frameData && f.has(flagPadded):
		return min(1, int(f.length))
	}
	return 0
}

// scanner finds the frames in bytes that come in any pieces. It holds a frame
// header and no content. The zero value is at the start of a frame.
type scanner struct {
	skip  int // bytes of content that come first
	have  int // bytes of the next header and lead that are in space
	space [frameHeaderSize + leadSize]byte
}

// atBoundary reports whether the bytes so far end with a frame.
func (s *scanner) atBoundary() bool { return s.skip == 0 && s.have == 0 }

// next reads on in p, which is not empty. It returns how many bytes it used,
// and whether f is a frame now; its content may be still to come.
func (s *scanner) next(p []byte, f *frame) (used int, found bool) {
	if s.skip > 0 {
		used = min(s.skip, len(p))
		s.skip -= used
		return used, false
	}
	if s.have < frameHeaderSize {
		used = copy(s.space[s.have:frameHeaderSize], p)
		if s.have += used; s.have < frameHeaderSize {
			return used, false
		}
	}
	head := s.space[:]
	*f = frame{
		length: uint32(head[0])<<16 | uint32(head[1])<<8 | uint32(head[2]),
		kind:   head[3],
		flags:  head[4],
		stream: binary.BigEndian.Uint32(head[5:9]) & (1<<31 - 1),
	}
	want := f.lookedAt()
	n := copy(s.space[s.have:frameHeaderSize+want], p[used:])
	used += n
	if s.have += n; s.have < frameHeaderSize+want {
		return used, false
	}
	copy(f.lead[:want], s.space[frameHeaderSize:])
	s.have, s.skip = 0, int(f.length)-want
	return used, true
}

// goAway is a GOAWAY frame.
func goAway(last, code uint32) []byte {
	b := []byte{0, 0, 8, frameGoAway, 0, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, last)
	return binary.BigEndian.AppendUint32(b, code)
}
