package h1

import (
	"bytes"

	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
)

// field is one header line: its place in the bytes of the head.
type field struct {
	start, colon uint32 // the name
	value, stop  uint32 // the value, without white space around it
	end          uint32 // after the line's CRLF
	id           normalize.Field
	plain        bool // the line is exactly "name: value", so it can be copied
}

// span is a part of the bytes of a head. Offsets stay true when the bytes move
// to a larger buffer in the middle of a parse.
type span struct{ start, stop uint32 }

func (s span) of(buf []byte) []byte { return buf[s.start:s.stop:s.stop] }

// Fields are the header lines of a head or the trailers of a body, in the order in
// which they came. Its methods return parts of the bytes that were parsed, which are
// valid as long as those are.
type Fields struct {
	buf  []byte
	list []field
}

// Len is the number of header lines.
func (f *Fields) Len() int { return len(f.list) }

// Name is the name of line i as it was spelled.
func (f *Fields) Name(i int) []byte { return f.buf[f.list[i].start:f.list[i].colon] }

// Value is the value of line i, without white space around it.
func (f *Fields) Value(i int) []byte { return f.buf[f.list[i].value:f.list[i].stop] }

// ID is the field that the name of line i stands for.
func (f *Fields) ID(i int) normalize.Field { return f.list[i].id }

// Get returns the value of the first line of a field, and whether there is one.
func (f *Fields) Get(id normalize.Field) ([]byte, bool) {
	for i := range f.list {
		if f.list[i].id == id {
			return f.Value(i), true
		}
	}
	return nil, false
}

// Find returns the value of the first line with a name, in any case, and
// whether there is one.
func (f *Fields) Find(name string) ([]byte, bool) {
	for i := range f.list {
		if line := &f.list[i]; int(line.colon-line.start) == len(name) && bytes.EqualFold(f.Name(i), normalize.Bytes(name)) {
			return f.Value(i), true
		}
	}
	return nil, false
}

// usualFields is how many lines most heads have room for without growing.
const usualFields = 24

// Headers gives access to Fields by name and number, for the conditions of rules.
// The strings share bytes with the head: compare them, do not keep them.
type Headers struct{ *Fields }

// Value is the value of line number i, from 0, among those with a name.
func (h Headers) Value(name string, i int) (value string, ok bool) {
	for k := range h.list {
		if line := &h.list[k]; int(line.colon-line.start) != len(name) || !bytes.EqualFold(h.Name(k), normalize.Bytes(name)) {
			continue
		}
		if i == 0 {
			return normalize.View(h.Fields.Value(k)), true
		}
		i--
	}
	return "", false
}

func (f *Fields) reset() {
	f.buf, f.list = nil, f.list[:0]
}

// add parses the line buf[start:end], which has lost its CRLF, and appends it
// unless there are most lines already.
func (f *Fields) add(buf []byte, start, end, most int, underscores bool) error {
	line := buf[start:end]
	colon, id := bytes.IndexByte(line, ':'), normalize.FieldOther
	if colon > 0 {
		id = normalize.KnownField(line[:colon])
	}
	if id == normalize.FieldOther {
		var err error
		if colon, id, err = scanName(line, underscores); err != nil {
			return err
		}
	}
	rest := line[colon+1:]
	if !cleanValue(rest) {
		return controlError(rest)
	}
	if len(f.list) >= most {
		return ErrTooManyFields
	}
	entry := field{start: uint32(start), colon: uint32(start + colon), end: uint32(end + 2), id: id}
	n := len(rest)
	if n >= 2 && rest[0] == ' ' && !blank(rest[1]) && !blank(rest[n-1]) {
		entry.plain = true
		entry.value, entry.stop = uint32(end-n+1), uint32(end)
	} else {
		for n > 0 && blank(rest[0]) {
			rest, n = rest[1:], n-1
		}
		entry.value = uint32(end - n)
		for n > 0 && blank(rest[n-1]) {
			n--
		}
		entry.stop = entry.value + uint32(n)
	}
	if f.list == nil {
		f.list = make([]field, 0, usualFields)
	}
	f.list = append(f.list, entry)
	return nil
}

// scanName validates the name of a line, byte by byte, and returns where it ends and
// what it stands for.
func scanName(line []byte, underscores bool) (colon int, id normalize.Field, err error) {
	colon, odd := -1, uint8(0)
	for i, c := range line {
		class := nameClass[c]
		if class >= nameRefuse {
			colon = i
			break
		}
		odd |= class
	}
	if colon <= 0 || line[colon] != ':' {
		return 0, 0, nameError(line, colon)
	}
	if odd&nameUnder != 0 && !underscores {
		return 0, 0, ErrUnderscore
	}
	if odd == 0 {
		return colon, normalize.PlainField(line[:colon]), nil
	}
	return colon, normalize.FieldOf(line[:colon]), nil
}

// nameError returns why a line has no valid name; stop is where the name ended.
func nameError(line []byte, stop int) *httperr.Error {
	if len(line) > 0 && blank(line[0]) {
		return ErrFold
	}
	if stop >= 0 && !blank(line[stop]) && (line[stop] < 0x20 || line[stop] == 0x7f) {
		return controlError(line[stop:])
	}
	return ErrFieldName
}

// appendLine appends line i, in its plain spelling.
func (f *Fields) appendLine(dst []byte, i int) []byte {
	line := &f.list[i]
	if line.plain {
		return append(dst, f.buf[line.start:line.end]...)
	}
	return appendField(dst, normalize.View(f.Name(i)), normalize.View(f.Value(i)))
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// lines is the state of a parse that goes line by line and can continue when more
// bytes have come.
type lines struct {
	next int // where the next line starts
	seen int // up to here there is no LF that was not read
}

// cut finds the next line in buf. It returns where the line ends, without its
// CRLF, or -1 when the line is not complete.
func (l *lines) cut(buf []byte) (end int, err error) {
	i := bytes.IndexByte(buf[l.seen:], '\n')
	if i < 0 {
		l.seen = len(buf)
		return -1, nil
	}
	end = l.seen + i - 1
	l.seen = end + 2
	if end < l.next || buf[end] != '\r' {
		return 0, ErrBareLF
	}
	return end, nil
}
