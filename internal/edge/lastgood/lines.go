package lastgood

import "io"

// elementLines writes JSON with each element of the table's lists on a line of
// its own, so that the file can be read and compared. Its input is valid JSON,
// so it only tracks strings and depth.
type elementLines struct {
	w        io.Writer
	depth    int
	inString bool
	escaped  bool
}

// listDepth is the depth of the table's lists: in the table, in the list.
const listDepth = 2

// Write adds line breaks, only between tokens.
func (l *elementLines) Write(text []byte) (int, error) {
	from := 0
	for i, c := range text {
		if !l.breaksAfter(c) {
			continue
		}
		if _, err := l.w.Write(text[from : i+1]); err != nil {
			return from, err
		}
		if _, err := io.WriteString(l.w, "\n "); err != nil {
			return from, err
		}
		from = i + 1
	}
	if _, err := l.w.Write(text[from:]); err != nil {
		return from, err
	}
	return len(text), nil
}

// breaksAfter reports whether a line ends after a byte, and tracks strings and
// depth.
func (l *elementLines) breaksAfter(c byte) bool {
	if l.inString {
		switch {
		case l.escaped:
			l.escaped = false
		case c == '\\':
			l.escaped = true
		case c == '"':
			l.inString = false
		}
		return false
	}
	switch c {
	case '"':
		l.inString = true
	case '{', '[':
		l.depth++
		return c == '[' && l.depth == listDepth
	case '}', ']':
		l.depth--
	case ',':
		return l.depth <= listDepth
	}
	return false
}
