package bridge

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// What is wrong with a response, beside the faults of h1.
var (
	errNoLength = errors.New("the response has neither a length nor chunks, so its end could not be told from a break")
	errSurplus  = errors.New("bytes were written after the end of the response")
)

// The states of a reply.
const (
	replyHead  = iota // the final head has not come, or not all of it
	replyBody         // the body comes
	replyEnded        // the response is complete
)

// reply translates a response of HTTP/1.1, in whatever pieces it is written,
// to calls of an http.ResponseWriter.
type reply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limits  h1.Limits
	asked   h1.Asked
	// major is the client's HTTP version.
	major int
	// expects says that the client waits for 100, and that the library leaves
	// saying so to us.
	expects bool

	state   uint8
	flushed bool // headers, and all that was written since, are on their way
	err     error
	head    h1.ResponseHead
	body    h1.Body
	held    []byte // the start of a head, or of a line between chunks
}

func (a *reply) begin(h *Handler, w http.ResponseWriter, r *http.Request, control *http.ResponseController) {
	*a = reply{
		w: w, control: control, limits: h.replyLimits(), major: r.ProtoMajor,
		asked: h1.Asked{Head: r.Method == http.MethodHead},
		head:  a.head, body: a.body, held: a.held[:0],
	}
	for _, value := range r.Header["Expect"] {
		a.expects = a.expects || strings.EqualFold(value, "100-continue")
	}
	a.head.Reset(a.asked)
}

// maxHeld bounds the memory that is kept from one reply to the next.
const maxHeld = 16 << 10

// release forgets the stream, and reports whether its response was complete.
func (a *reply) release() (complete bool) {
	complete = a.state == replyEnded && a.err == nil
	if cap(a.held) > maxHeld {
		a.held = nil
	}
	a.w, a.control = nil, nil
	a.head.Reset(h1.Asked{}) // it refers to bytes of others
	return complete
}

// write translates what comes next. After an error nothing more is taken.
func (a *reply) write(p []byte) error {
	if a.err == nil {
		a.err = a.translate(p)
	}
	return a.err
}

func (a *reply) translate(p []byte) error {
	buf := p
	if len(a.held) > 0 {
		a.held = append(a.held, p...)
		buf = a.held
	}
	used := 0
	for used < len(buf) {
		n, err := a.next(buf[used:])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		used += n
	}
	a.held = append(a.held[:0], buf[used:]...)
	return a.flush()
}

// next translates one piece from the start of buf, and says how long it is: 0
// when it is not complete.
func (a *reply) next(buf []byte) (int, error) {
	switch a.state {
	case replyHead:
		n, err := a.head.Parse(buf, &a.limits)
		if n == 0 || err != nil {
			return 0, err
		}
		if a.head.Interim() {
			a.interim()
			a.head.Reset(a.asked)
			return n, nil
		}
		return n, a.final()
	case replyBody:
		pass, n, err := a.body.Next(buf)
		if err != nil {
			return 0, err
		}
		if len(pass) > 0 {
			a.flushed = false
			if _, err := a.w.Write(pass); err != nil {
				return 0, err
			}
		}
		if a.body.Done() {
			return n, a.finish()
		}
		return n, nil
	}
	return 0, errSurplus
}

// interim sends a response that another one follows. 100 is for the library of
// HTTP/2 to say; that of HTTP/3 leaves it to us, and it is said once.
func (a *reply) interim() {
	if a.head.Status == http.StatusContinue {
		if a.expects {
			a.expects = false
			a.w.WriteHeader(http.StatusContinue)
		}
		return
	}
	header := a.w.Header()
	a.addFields(header)
	a.w.WriteHeader(a.head.Status)
	clear(header)
}

// final sends the head of the response.
func (a *reply) final() error {
	if a.head.Framing == h1.UntilClose {
		return errNoLength
	}
	header := a.w.Header()
	a.addFields(header)
	if a.head.Length >= 0 && a.head.Status != http.StatusNotModified {
		// Clients of these protocols take the length of 304 for that of a body
		// which has to follow; Go's do.
		header["Content-Length"] = []string{strconv.FormatInt(a.head.Length, 10)}
	}
	// The libraries would make these up.
	for _, name := range [...]string{"Content-Type", "Date"} {
		if _, said := header[name]; !said {
			header[name] = nil
		}
	}
	a.w.WriteHeader(a.head.Status)
	a.body.Reset(a.head.Framing, a.head.Length, true, &a.limits)
	a.state = replyBody
	if a.body.Done() {
		return a.finish()
	}
	return nil
}

// addFields copies the fields of the head, as far as they are not about a
// connection or the framing of HTTP/1.1.
func (a *reply) addFields(header http.Header) {
	for i := range a.head.Len() {
		id := a.head.ID(i)
		if id.ConnectionOnly() || id == normalize.FieldTransferEncoding || id == normalize.FieldContentLength ||
			id == normalize.FieldTrailer && a.named(a.head.Value(i)) {
			continue
		}
		name := http.CanonicalHeaderKey(string(a.head.Name(i)))
		header[name] = append(header[name], string(a.head.Value(i)))
	}
}

// named reports whether a list of trailers has the name of a header. The
// libraries take such a header for a trailer then.
func (a *reply) named(list []byte) bool {
	for name := range strings.SplitSeq(string(list), ",") {
		if _, said := a.head.Find(strings.TrimSpace(name)); said {
			return true
		}
	}
	return false
}

// finish notes that the response is complete, and adds its trailers.
func (a *reply) finish() error {
	a.state = replyEnded
	trailers := &a.body.Trailers
	if trailers.Len() == 0 {
		return nil
	}
	// Headers have to be gone before trailers can be said: the libraries keep
	// both in one map.
	header := a.w.Header()
	if err := a.control.Flush(); err != nil {
		return err
	}
	a.flushed = true
	clear(header)
	for i := range trailers.Len() {
		name := http.TrailerPrefix + http.CanonicalHeaderKey(string(trailers.Name(i)))
		header[name] = append(header[name], string(trailers.Value(i)))
	}
	return nil
}

// flush sends what the libraries hold back. A response that is complete needs
// none: its end follows at once, and takes the rest along.
func (a *reply) flush() error {
	switch {
	case a.state == replyHead || a.flushed:
		return nil
	case a.state == replyEnded && a.endsItself():
		return nil
	}
	if err := a.control.Flush(); err != nil {
		return err
	}
	a.flushed = true
	return nil
}

// endsItself reports whether the library makes no length up for a response
// whose headers it sends together with its end.
func (a *reply) endsItself() bool {
	switch a.head.Framing {
	case h1.Fixed:
		return true
	case h1.NoBody:
		return a.major == 2 || a.asked.Head && a.head.Length >= 0
	}
	return false
}
