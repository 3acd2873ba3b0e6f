package remote

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// Want is the request of a fetch.
type Want struct {
	IDs []ID
	// Depth is how many commits of the history come with each; 0 is all.
	Depth int
	// Haves is commits that are there without their history, so that only what
	// they do not have is sent.
	Haves []ID
}

// request encodes the want and have lines of a fetch.
func (w Want) request(a *Advertisement) ([]byte, error) {
	depth := w.Depth
	if !a.Can("shallow") {
		depth = 0
	}
	var out bytes.Buffer
	lines := pktline.NewEncoder(&out)
	var err error
	line := func(parts ...string) { err = errors.Join(err, lines.EncodeString(strings.Join(parts, " ")+"\n")) }
	for i, id := range w.IDs {
		if i == 0 {
			line(append([]string{"want", id.String()}, w.capabilities(a)...)...)
			continue
		}
		line("want", id.String())
	}
	// Commits on the disk have no parents there; the server has to know, or it
	// leaves out objects that only their parents have.
	if depth > 0 {
		for _, id := range w.Haves {
			line("shallow", id.String())
		}
		line("deepen", strconv.Itoa(depth))
	}
	err = errors.Join(err, lines.Flush())
	for _, id := range w.Haves {
		line("have", id.String())
	}
	// Without "done" the server would negotiate over several round trips.
	line("done")
	return out.Bytes(), err
}

// capabilities is what this side uses of what the server has. Some servers
// insist on multi_ack. thin-pack is requested only with haves, whose objects
// can be the bases.
func (w Want) capabilities(a *Advertisement) []string {
	wanted := []string{"multi_ack_detailed", "side-band-64k", "ofs-delta", "no-progress"}
	if len(w.Haves) > 0 {
		wanted = append(wanted, "thin-pack")
	}
	var used []string
	for _, capability := range wanted {
		if a.Can(capability) {
			used = append(used, capability)
		}
	}
	return used
}

// readPack reads the response up to the pack, and returns a reader of the pack.
// An ACK with a status is an intermediate one of multi_ack_detailed; NAK or a
// plain ACK is the last line before the pack.
func (w Want) readPack(r io.Reader, a *Advertisement) (io.Reader, error) {
	lines := pktline.NewScanner(r)
	if w.Depth > 0 && a.Can("shallow") {
		// The shallow boundary is skipped: it follows from the depth.
		for more := true; more; more = len(lines.Bytes()) > 0 {
			if !lines.Scan() {
				return nil, lineError(lines.Err())
			}
		}
	}
	for {
		if !lines.Scan() {
			return nil, lineError(lines.Err())
		}
		words := strings.Fields(string(lines.Bytes()))
		switch {
		case len(words) == 1 && words[0] == "NAK", len(words) == 2 && words[0] == "ACK":
			if a.Can("side-band-64k") {
				return &bandReader{lines: lines}, nil
			}
			return r, nil
		case len(words) == 3 && words[0] == "ACK":
		default:
			return nil, failf(Unreachable, "its response is not that of a Git server")
		}
	}
}

// bandReader reads the pack from a side-band response, which mixes it with
// progress and error messages.
type bandReader struct {
	lines *pktline.Scanner
	rest  []byte
}

// Read gives the next part of the pack.
func (b *bandReader) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if !b.lines.Scan() {
			return 0, lineError(b.lines.Err())
		}
		line := b.lines.Bytes()
		if len(line) == 0 {
			return 0, io.EOF
		}
		switch line[0] {
		case 1:
			b.rest = line[1:]
		case 2: // progress
		// Band 3 is a fatal error of the server.
		case 3:
			return 0, serverError(string(line[1:]))
		default:
			return 0, failf(Unreachable, "its response is not that of a Git server")
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// ParseID reads a full id.
func ParseID(text string) (ID, bool) {
	if len(text) != 2*len(ID{}) || strings.Trim(text, "0123456789abcdef") != "" {
		return ID{}, false
	}
	return plumbing.NewHash(text), true
}
