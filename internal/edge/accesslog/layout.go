package accesslog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/proxy"
)

// layout is the compiled format of a line.
type layout struct {
	format Format
	// keep has one entry for each field of fieldTable.
	keep    [len(fieldTable)]bool
	headers headerModes
}

// newLayout compiles the options. Unknown names are errors, because a field that was
// to be dropped would be kept.
func newLayout(options Options) (layout, error) {
	l := layout{format: options.Format}
	switch l.format {
	case "":
		l.format = FormatCommon
	case FormatCommon, FormatGeneric, FormatJSON:
	default:
		return l, fmt.Errorf("the access log format %q is unknown: choose common, genericCLF or json", options.Format)
	}
	usual, err := fieldMode(options.FieldMode, "the default")
	if err != nil {
		return l, err
	}
	for i := range l.keep {
		l.keep[i] = usual
	}
	for _, name := range sortedKeys(options.Fields) {
		at := slices.IndexFunc(fieldTable[:], func(f field) bool { return strings.EqualFold(f.name, name) })
		if at < 0 {
			return l, fmt.Errorf("the access log has no field %q: choose from %s", name, strings.Join(FieldNames(), ", "))
		}
		if l.keep[at], err = fieldMode(options.Fields[name], name); err != nil {
			return l, err
		}
	}
	l.headers, err = newHeaderModes(options)
	return l, err
}

// fieldMode parses the mode of a field.
func fieldMode(mode Mode, name string) (keep bool, err error) {
	switch mode {
	case "", Keep:
		return true, nil
	case Drop:
		return false, nil
	}
	return false, fmt.Errorf("the access log mode of %s is %q: choose keep or drop", name, mode)
}

// appendLine appends the line of a record, with its end.
func (l *layout) appendLine(dst []byte, r *proxy.Record, number uint64) []byte {
	if l.format == FormatJSON {
		return l.appendObjectLine(dst, r, number)
	}
	return l.appendCommonLine(dst, r, number)
}

// appendObjectLine appends one JSON object. Keys are in the order of fieldTable,
// headers come last.
func (l *layout) appendObjectLine(dst []byte, r *proxy.Record, number uint64) []byte {
	dst = append(dst, '{')
	for i := range fieldTable {
		if !l.keep[i] {
			continue
		}
		before := len(dst)
		dst = appendKey(dst, "", fieldTable[i].name)
		name := len(dst)
		if dst = fieldTable[i].value(dst, r, number); len(dst) == name {
			dst = dst[:before] // the record has no such value
		}
	}
	if l.headers.any {
		if r.Head != nil {
			dst = l.headers.appendAll(dst, "request_", &r.Head.Fields)
		}
		if r.Response != nil {
			dst = l.headers.appendAll(dst, "origin_", &r.Response.Fields)
		}
	}
	return append(dst, "}\n"...)
}

// appendKey appends the key of a value, after a comma if there is a value before
// it.
func appendKey(dst []byte, prefix, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, prefix...)
	dst = append(dst, name...)
	return append(dst, `":`...)
}

// appendCommonLine appends a line in the common log format. A dropped field is a
// dash, because values are identified by their position.
func (l *layout) appendCommonLine(dst []byte, r *proxy.Record, number uint64) []byte {
	if l.kept(clientHost) && r.Client.IsValid() {
		dst = r.Client.Unmap().AppendTo(dst)
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, " - "...)
	dst = appendBare(dst, l.pick(clientUsername, r.User))
	dst = append(dst, " ["...)
	if l.kept(startUTC) {
		dst = r.Began.UTC().AppendFormat(dst, "02/Jan/2006:15:04:05 -0700")
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, `] "`...)
	dst = l.appendRequest(dst, r)
	dst = append(dst, `" `...)
	dst = l.appendNumber(dst, downstreamStatus, int64(r.Status))
	dst = append(dst, ' ')
	dst = l.appendNumber(dst, downstreamContentSize, r.Sent)
	dst = append(dst, ' ')
	dst = appendQuoted(dst, l.headers.pick(r.Head, "referer", normalize.FieldReferer))
	dst = append(dst, ' ')
	dst = appendQuoted(dst, l.headers.pick(r.Head, "user-agent", normalize.FieldUserAgent))
	if l.format == FormatCommon {
		dst = l.appendMore(dst, r, number)
	}
	return append(dst, '\n')
}

// appendRequest appends the request line. Its target is the normalised one, which
// is the one that was matched and forwarded.
func (l *layout) appendRequest(dst []byte, r *proxy.Record) []byte {
	dst = appendBare(dst, l.pick(requestMethod, r.Method))
	dst = append(dst, ' ')
	dst = appendBare(dst, l.pick(requestPath, r.Path))
	if query := l.pick(requestQuery, queryOf(r)); query != "" {
		dst = appendBare(append(dst, '?'), query)
	}
	dst = append(dst, ' ')
	return appendBare(dst, l.pick(requestProtocol, r.Protocol))
}

// appendMore appends the fields of FormatCommon that follow the combined format.
func (l *layout) appendMore(dst []byte, r *proxy.Record, number uint64) []byte {
	dst = append(dst, ' ')
	dst = l.appendNumber(dst, requestCount, int64(number))
	dst = append(dst, ` "`...)
	before := len(dst)
	if l.kept(routerName) {
		dst = appendRouter(dst, r, func(dst []byte, part string) []byte { return appendCLF(dst, part, ' ') })
	}
	if len(dst) == before {
		dst = append(dst, '-')
	}
	dst = append(dst, `" `...)
	dst = appendQuoted(dst, l.pick(serviceAddr, r.Endpoint))
	dst = append(dst, ' ')
	dst = l.appendNumber(dst, duration, int64(r.Duration/time.Millisecond))
	return append(dst, "ms"...)
}

// appendNumber appends a number, or a dash where its field is dropped.
func (l *layout) appendNumber(dst []byte, name string, n int64) []byte {
	if !l.kept(name) {
		return append(dst, '-')
	}
	return strconv.AppendInt(dst, n, 10)
}

// pick returns a value, or nothing when its field is dropped.
func (l *layout) pick(name, value string) string {
	if !l.kept(name) {
		return ""
	}
	return value
}

// kept reports whether a field is written.
func (l *layout) kept(name string) bool {
	for i := range fieldTable {
		if fieldTable[i].name == name {
			return l.keep[i]
		}
	}
	return false
}

// headerModes are the compiled modes of headers.
type headerModes struct {
	any   bool // some may be written
	usual Mode
	modes map[string]Mode // by name in lower case, with dashes
}

// redacted is written in place of the value of a credential.
const redacted = "REDACTED"

// credentials are the headers that are never written as they are. A spelling
// with underscores is the same header to many backends.
var credentials = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true, "x-api-key": true,
	"x-auth-token": true, "x-csrf-token": true, "x-amz-security-token": true,
}

// newHeaderModes compiles the modes. Keep on a credential becomes redact.
func newHeaderModes(options Options) (headerModes, error) {
	h := headerModes{usual: options.HeaderMode, modes: map[string]Mode{}}
	h.usual = cmp.Or(h.usual, Drop)
	if err := headerMode(h.usual, "the default for headers"); err != nil {
		return h, err
	}
	h.any = h.usual != Drop
	for _, name := range sortedKeys(options.Headers) {
		mode := options.Headers[name]
		if err := headerMode(mode, "the header "+name); err != nil {
			return h, err
		}
		h.modes[strings.ReplaceAll(strings.ToLower(name), "_", "-")] = mode
		h.any = h.any || mode != Drop
	}
	return h, nil
}

// headerMode validates the mode of a header.
func headerMode(mode Mode, name string) error {
	switch mode {
	case Keep, Drop, Redact:
		return nil
	}
	return fmt.Errorf("the access log mode of %s is %q: choose keep, drop or redact", name, mode)
}

// maxHeaderName bounds the names that are looked up; longer ones are dropped.
// It also bounds the buffer on the stack.
const maxHeaderName = 128

// of returns the mode of a header, and its name in lower case, in buf.
func (h *headerModes) of(name []byte, buf *[maxHeaderName]byte) (lower []byte, mode Mode) {
	if len(name) > len(buf) {
		return nil, Drop
	}
	for i, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c == '_':
			c = '-'
		}
		buf[i] = c
	}
	lower = buf[:len(name)]
	mode, named := h.modes[string(lower)]
	if !named {
		mode = h.usual
	}
	if mode == Keep && credentials[string(lower)] {
		mode = Redact
	}
	return lower, mode
}

// appendAll appends the headers that are not dropped. Lines with the same name are
// joined to one value, because a JSON object must not repeat a key.
// Names are looked up in a buffer on the stack, without an allocation.
func (h *headerModes) appendAll(dst []byte, prefix string, fields *h1.Fields) []byte {
	var buf [maxHeaderName]byte
	for i := range fields.Len() {
		name := fields.Name(i)
		lower, mode := h.of(name, &buf)
		if mode == Drop || earlier(fields, i) {
			continue
		}
		canonical(lower)
		dst = appendKey(dst, prefix, normalize.View(lower))
		dst = append(dst, '"')
		if mode == Redact {
			dst = append(append(dst, redacted...), '"')
			continue
		}
		for j, first := i, true; j < fields.Len(); j++ {
			if !normalize.SameField(fields.Name(j), name) {
				continue
			}
			if !first {
				dst = append(dst, ", "...)
			}
			first = false
			value, wasCut := cut(normalize.View(fields.Value(j)))
			dst = appendJSONText(dst, value)
			if wasCut {
				dst = append(dst, cutMark...)
			}
		}
		dst = append(dst, '"')
	}
	return dst
}

// earlier reports whether a line before this one has the same name.
func earlier(fields *h1.Fields, at int) bool {
	for i := range at {
		if normalize.SameField(fields.Name(i), fields.Name(at)) {
			return true
		}
	}
	return false
}

// canonical writes user-agent as User-Agent, and unusual characters as dashes: the
// name is a key in the line.
func canonical(name []byte) {
	start := true
	for i, c := range name {
		if c >= 'a' && c <= 'z' && start {
			name[i] = c - ('a' - 'A')
		}
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			name[i] = '-'
		}
		start = name[i] == '-'
	}
}

// pick returns the value of one header of a request, by its mode.
func (h *headerModes) pick(head *h1.Head, name string, id normalize.Field) string {
	if head == nil || !h.any {
		return ""
	}
	value, found := head.Get(id)
	if !found {
		return ""
	}
	mode, named := h.modes[name]
	if !named {
		mode = h.usual
	}
	switch mode {
	case Keep:
		return normalize.View(value)
	case Redact:
		return redacted
	}
	return ""
}
