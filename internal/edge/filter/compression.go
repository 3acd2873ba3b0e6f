package filter

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// minCompressed is the smallest response that is compressed where the policy has no
// minimum: below it, the headers weigh more than what is saved.
const minCompressed = 1024

// usualEncodings are offered where the policy lists none. Browsers accept all three
// with the same weight; the first is the quickest to make.
var usualEncodings = [...]route.Encoding{route.EncodingZstd, route.EncodingBrotli, route.EncodingGzip}

// shrinking are the types that are compressed where the policy lists none. Images,
// sound, archives and fonts are compressed already.
var shrinking = [...]string{
	"text/*", "application/json", "application/javascript", "application/x-javascript", "application/ecmascript",
	"application/xml", "application/xhtml+xml", "application/rss+xml", "application/atom+xml", "application/ld+json",
	"application/manifest+json", "application/problem+json", "application/graphql-response+json", "application/vnd.api+json",
	"application/geo+json", "application/wasm", "application/yaml", "application/x-ndjson", "application/x-www-form-urlencoded",
	"application/pdf", "application/vnd.ms-fontobject", "font/ttf", "font/otf", "image/svg+xml", "image/bmp", "image/x-icon",
}

// Compression compresses the responses of backends for clients that accept it. A
// response is left as it is when it is encoded already, has no body or only a part
// of one, forbids it with no-transform, carries a digest of its bytes, or is small
// or of a type that does not shrink. One that could be compressed gets Vary:
// Accept-Encoding, whether it was compressed or not, so that caches keep both
// forms apart.
type Compression struct {
	encoders *Encoders
	order    []route.Encoding
	min      int64
	types    mediaTypes
	not      mediaTypes

	vary, noRanges, weak h1.Edit
	codings              [len(encodingNames)]h1.Edit
}

func newCompression(a *route.Compression, c *compiler) (*Compression, error) {
	if c.deps.Encoders == nil {
		return nil, fmt.Errorf("the edge was built without encoders")
	}
	f := &Compression{encoders: c.deps.Encoders, order: a.Encodings, min: cmp.Or(a.MinBytes, minCompressed)}
	if len(f.order) == 0 {
		f.order = usualEncodings[:]
	}
	list := a.ContentTypes
	if len(list) == 0 {
		list = shrinking[:]
	}
	var err error
	if f.types, err = newMediaTypes("contentTypes", list); err != nil {
		return nil, err
	}
	if f.not, err = newMediaTypes("excludeContentTypes", a.ExcludeContentTypes); err != nil {
		return nil, err
	}
	if f.vary, err = h1.AddField("Vary", "Accept-Encoding"); err != nil {
		return nil, err
	}
	if f.noRanges, err = h1.RemoveField("Accept-Ranges"); err != nil {
		return nil, err
	}
	if f.weak, err = h1.SetField("ETag", ""); err != nil {
		return nil, err
	}
	for i, name := range encodingNames {
		if f.codings[i], err = h1.SetField("Content-Encoding", string(name)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Request implements [Filter].
func (f *Compression) Request(x *Exchange) *LocalResponse {
	x.Compression = f
	return nil
}

// Encoder returns the encoder for a response, nil when it is sent as it is. It
// appends the headers to ResponseEdits. The caller releases the encoder.
func (f *Compression) Encoder(x *Exchange, response *h1.ResponseHead) *Encoder {
	if !f.eligible(response) {
		return nil
	}
	if !listed(&response.Fields, normalize.FieldVary, "accept-encoding") && !listed(&response.Fields, normalize.FieldVary, "*") {
		x.ResponseEdits = append(x.ResponseEdits, f.vary)
	}
	if x.Head.MethodID == h1.MethodHead || response.Framing == h1.NoBody {
		return nil
	}
	encoding, ok := f.choose(x.Head)
	if !ok {
		return nil
	}
	encoder := f.encoders.take(encoding)
	if encoder == nil {
		return nil
	}
	x.ResponseEdits = append(x.ResponseEdits, f.codings[encoding], f.noRanges)
	if tag, ok := response.Get(normalize.FieldETag); ok && !bytes.HasPrefix(tag, []byte("W/")) {
		// A strong ETag would promise the same bytes (RFC 9110, 8.8.1).
		x.memory.work = append(append(x.memory.work[:0], "W/"...), tag...)
		if edit, err := f.weak.With(x.keep(x.memory.work)); err == nil {
			x.ResponseEdits = append(x.ResponseEdits, edit)
		}
	}
	return encoder
}

// eligible reports whether a response could be compressed, for some client.
func (f *Compression) eligible(response *h1.ResponseHead) bool {
	switch status := response.Status; {
	case status < 200, status == 204, status == 206, status == 304:
		return false
	case response.Length >= 0 && response.Length < f.min:
		return false
	}
	contentType, typed := response.Get(normalize.FieldContentType)
	if !typed || !f.types.contain(contentType) || f.not.contain(contentType) || isGRPC(contentType) {
		return false
	}
	if coding, coded := response.Get(normalize.FieldContentEncoding); coded && !bytes.EqualFold(coding, []byte("identity")) {
		return false
	}
	if _, part := response.Get(normalize.FieldContentRange); part || listed(&response.Fields, normalize.FieldCacheControl, "no-transform") {
		return false
	}
	for _, digest := range [...]string{"Content-Digest", "Digest", "Content-MD5"} {
		if _, has := response.Find(digest); has {
			return false
		}
	}
	return true
}

// isGRPC reports whether a body is made of messages that are encoded one by one
// already, if at all.
func isGRPC(contentType []byte) bool {
	const grpc = "application/grpc"
	return len(contentType) >= len(grpc) && bytes.EqualFold(contentType[:len(grpc)], []byte(grpc))
}

// listed reports whether a word is an element of a list in the lines of a field.
func listed(fields *h1.Fields, id normalize.Field, word string) bool {
	for i := range fields.Len() {
		if fields.ID(i) != id {
			continue
		}
		for element := range bytes.SplitSeq(fields.Value(i), []byte(",")) {
			if bytes.EqualFold(bytes.TrimSpace(element), normalize.Bytes(word)) {
				return true
			}
		}
	}
	return false
}

// choose returns the encoding that the client prefers, of those that are offered;
// of equal ones the first. Without Accept-Encoding there is none: the client may
// be a program that cannot decode. An encoding with a lower weight than identity
// is not used either.
func (f *Compression) choose(head *h1.Head) (best coding, ok bool) {
	accepted := acceptEncoding(head)
	top := 0
	for _, name := range f.order {
		at := coding(slices.Index(encodingNames[:], name))
		if weight := accepted.weights[at]; weight > top {
			best, top = at, weight
		}
	}
	return best, top > 0 && top >= accepted.identity
}

// acceptance holds the weights of an Accept-Encoding, in thousandths. identity is
// that of a response as it is, 0 when there is none.
type acceptance struct {
	weights  [len(encodingNames)]int
	identity int
}

// acceptEncoding reads Accept-Encoding, all of its lines.
func acceptEncoding(head *h1.Head) (a acceptance) {
	var named [len(encodingNames)]bool
	rest := 0
	for line := range head.Len() {
		if head.ID(line) != normalize.FieldAcceptEncoding {
			continue
		}
		for element := range bytes.SplitSeq(head.Value(line), []byte(",")) {
			name, weight := weighted(element)
			switch {
			case bytes.Equal(name, []byte("*")):
				rest = weight
			case bytes.EqualFold(name, []byte("identity")):
				a.identity = weight
			default:
				for i := range encodingNames {
					if bytes.EqualFold(name, normalize.Bytes(string(encodingNames[i]))) ||
						encodingNames[i] == route.EncodingGzip && bytes.EqualFold(name, []byte("x-gzip")) {
						a.weights[i], named[i] = weight, true
					}
				}
			}
		}
	}
	for i := range named {
		if !named[i] {
			a.weights[i] = rest
		}
	}
	return a
}

// weighted reads one element of a list with weights, such as br;q=0.5. A weight
// that cannot be read is none.
func weighted(element []byte) (name []byte, weight int) {
	name, parameters, _ := bytes.Cut(element, []byte(";"))
	name, weight = bytes.TrimSpace(name), 1000
	for parameter := range bytes.SplitSeq(parameters, []byte(";")) {
		key, value, ok := bytes.Cut(bytes.TrimSpace(parameter), []byte("="))
		if !ok || !bytes.EqualFold(bytes.TrimSpace(key), []byte("q")) {
			continue
		}
		q, err := strconv.ParseFloat(normalize.View(bytes.TrimSpace(value)), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return name, 0
		}
		weight = int(q*1000 + 0.5)
	}
	return name, weight
}

// mediaTypes is a list of media types, and of ranges such as text/*.
type mediaTypes struct {
	exact  map[string]bool
	ranges []string // text/, or empty for all
}

// newMediaTypes splits a list into exact types, for a map, and ranges.
func newMediaTypes(field string, list []string) (m mediaTypes, err error) {
	m.exact = make(map[string]bool, len(list))
	for i, text := range list {
		text, _, _ := strings.Cut(strings.ToLower(text), ";")
		text = strings.TrimSpace(text)
		switch main, sub, ok := strings.Cut(text, "/"); {
		case text == "*", text == "*/*":
			m.ranges = append(m.ranges, "")
		case !ok || main == "" || sub == "" || main == "*":
			return m, invalid(fmt.Sprintf("%s[%d]", field, i), "%q is not a media type; write one such as text/html or text/*", text)
		case sub == "*":
			m.ranges = append(m.ranges, main+"/")
		default:
			m.exact[text] = true
		}
	}
	return m, nil
}

// longestType bounds the media types that are looked up.
const longestType = 128

// contain reports whether the list has the type of a Content-Type.
func (m *mediaTypes) contain(contentType []byte) bool {
	contentType, _, _ = bytes.Cut(contentType, []byte(";"))
	contentType = bytes.TrimSpace(contentType)
	if len(contentType) > longestType {
		return false
	}
	var space [longestType]byte
	lower := space[:copy(space[:], contentType)]
	for i, c := range lower {
		if c-'A' < 26 {
			lower[i] = c | 0x20
		}
	}
	if m.exact[string(lower)] {
		return true
	}
	return slices.ContainsFunc(m.ranges, func(prefix string) bool { return bytes.HasPrefix(lower, normalize.Bytes(prefix)) })
}
