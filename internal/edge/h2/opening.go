package h2

import (
	"encoding/binary"
	"io"

	"golang.org/x/net/http2"
)

// isPreface reports whether p fits the preface where left bytes of it are to
// come yet.
func isPreface(p []byte, left int) bool {
	at := len(http2.ClientPreface) - left
	return string(p) == http2.ClientPreface[at:at+len(p)]
}

const (
	settingSize = 6
	// maxSettings is how many settings of one frame the library takes.
	maxSettings = 100
	// someSetting is a setting that means nothing to anybody.
	someSetting = 0xf0f0
)

// readSettings reads the content of a SETTINGS frame in one go when it is what
// comes next, and reports whether it did.
func (g *guard) readSettings(p []byte) (n int, done bool, err error) {
	size := g.in.skip
	if g.waiting || g.found.kind != frameSettings || size == 0 || size != int(g.found.length) ||
		size > maxSettings*settingSize || size > len(p) {
		return 0, false, nil
	}
	n, err = io.ReadFull(g.Conn, p[:size])
	if err == nil {
		keepLast(p[:size])
	}
	return n, true, err
}

// keepLast renames settings that the same frame has again further on. The last
// one counts (RFC 9113 section 6.5.3), but the library hangs up on two.
func keepLast(content []byte) {
	free := uint16(someSetting)
	for at := 0; at+settingSize <= len(content); at += settingSize {
		if !hasSetting(content[at+settingSize:], binary.BigEndian.Uint16(content[at:])) {
			continue
		}
		for hasSetting(content, free) {
			free++
		}
		binary.BigEndian.PutUint16(content[at:], free)
	}
}

func hasSetting(content []byte, id uint16) bool {
	for ; len(content) >= settingSize; content = content[settingSize:] {
		if binary.BigEndian.Uint16(content) == id {
			return true
		}
	}
	return false
}
