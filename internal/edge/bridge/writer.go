package bridge

import (
	"net/http"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// writer is the Output of a server that has an http.ResponseWriter.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// expects reports that the client waits for 100, which the library leaves to
	// the handler.
	expects bool
	// endsItself reports that the library adds no length to the response when it
	// sends its headers together with its end.
	endsItself bool
	head       bool // the method was HEAD
	begun      bool // the final head was written
	ended      bool // all of the response was
	flushed    bool // everything written so far was flushed
}

// begin resets the writer for a response.
func (o *writer) begin(w http.ResponseWriter, r *http.Request, control *http.ResponseController) {
	*o = writer{w: w, control: control, head: r.Method == http.MethodHead}
	for _, value := range r.Header["Expect"] {
		o.expects = o.expects || strings.EqualFold(value, "100-continue")
	}
}

// Interim implements [Output]. 100 is sent once, if the client expects it.
func (o *writer) Interim(head *h1.ResponseHead) error {
	if head.Status == http.StatusContinue {
		if o.expects {
			o.expects = false
			o.w.WriteHeader(http.StatusContinue)
		}
		return nil
	}
	header := o.w.Header()
	addFields(header, head)
	o.w.WriteHeader(head.Status)
	clear(header)
	return nil
}

// Head implements [Output].
func (o *writer) Head(head *h1.ResponseHead, end bool) error {
	header := o.w.Header()
	addFields(header, head)
	if SendsLength(head) {
		header["Content-Length"] = []string{strconv.FormatInt(head.Length, 10)}
	}
	// The libraries would add these.
	for _, name := range [...]string{"Content-Type", "Date"} {
		if _, present := header[name]; !present {
			header[name] = nil
		}
	}
	o.w.WriteHeader(head.Status)
	o.begun, o.ended = true, end
	o.endsItself = head.Framing == h1.Fixed || head.Framing == h1.NoBody && o.head && head.Length >= 0
	return nil
}

// Data implements [Output].
func (o *writer) Data(piece []byte, end bool) error {
	o.ended = end
	if len(piece) == 0 {
		return nil
	}
	o.flushed = false
	_, err := o.w.Write(piece)
	return err
}

// Trailers implements [Output]. Headers have to be flushed before trailers can be
// set: the libraries keep both in one map.
func (o *writer) Trailers(trailers *h1.Fields) error {
	o.ended = true
	header := o.w.Header()
	if err := o.control.Flush(); err != nil {
		return err
	}
	o.flushed = true
	clear(header)
	for i := range trailers.Len() {
		name := http.TrailerPrefix + http.CanonicalHeaderKey(string(trailers.Name(i)))
		header[name] = append(header[name], string(trailers.Value(i)))
	}
	return nil
}

// Flush implements [Output]. A complete response needs none: its end follows at once
// and flushes the rest.
func (o *writer) Flush() error {
	if !o.begun || o.flushed || o.ended && o.endsItself {
		return nil
	}
	if err := o.control.Flush(); err != nil {
		return err
	}
	o.flushed = true
	return nil
}

// SendsLength reports whether the length of a response is sent to the client. Clients
// of HTTP/2 and HTTP/3 take the length of a 304 for that of a body which has to
// follow; Go's do. A 204 has none (RFC 9110 section 8.6).
func SendsLength(head *h1.ResponseHead) bool {
	return head.Length >= 0 && head.Status != http.StatusNotModified && head.Status != http.StatusNoContent
}

// Passes reports whether a field of a response is forwarded to the client: those
// about a connection, and the framing of HTTP/1.1, are not.
func Passes(id normalize.Field) bool {
	return !id.ConnectionOnly() && id != normalize.FieldTransferEncoding && id != normalize.FieldContentLength
}

// addFields copies the fields of the head.
func addFields(header http.Header, head *h1.ResponseHead) {
	for i := range head.Len() {
		id := head.ID(i)
		if !Passes(id) || id == normalize.FieldTrailer && named(head, head.Value(i)) {
			continue
		}
		name := http.CanonicalHeaderKey(string(head.Name(i)))
		header[name] = append(header[name], string(head.Value(i)))
	}
}

// named reports whether a list of trailers has the name of a header. The libraries
// would then send that header as a trailer.
func named(head *h1.ResponseHead, list []byte) bool {
	for name := range strings.SplitSeq(string(list), ",") {
		if _, present := head.Find(strings.TrimSpace(name)); present {
			return true
		}
	}
	return false
}
