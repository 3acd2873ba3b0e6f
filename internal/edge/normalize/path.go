package normalize

// The classes of bytes in a path.
const (
	pathPlain   = iota // stands for itself
	pathSlash          // ends a segment
	pathPercent        // starts an escape
	pathEscape         // has to be escaped, without further meaning
	pathSemi           // a hazard
	pathBack           // a hazard, and has to be escaped
	pathHash           // a fragment
	pathBad            // refused
)

const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	upperHex   = "0123456789ABCDEF"
)

// pathClass is the class of a byte in a path. Browsers send some characters
// raw that RFC 3986 does not allow; escaping them gives each one spelling.
var pathClass = func() (t [256]uint8) {
	for i := range t {
		t[i] = pathBad
	}
	for _, c := range unreserved + "!$&'()*+,=:@" {
		t[c] = pathPlain
	}
	for _, c := range "\"<>[]^`{|}" {
		t[c] = pathEscape
	}
	t['/'], t['%'], t[';'], t['\\'], t['#'] = pathSlash, pathPercent, pathSemi, pathBack, pathHash
	return t
}()

// escapeClass is the meaning of the escape of a byte.
type escapeClass struct {
	decode bool   // the byte is unreserved: the escape is undone
	hazard Hazard // the escape is a hazard
}

var escapes = func() (t [256]escapeClass) {
	for _, c := range unreserved {
		t[c].decode = true
	}
	t['/'].hazard = EncodedSlash
	t['\\'].hazard = Backslash
	t[0].hazard = EncodedNull
	t['#'].hazard = EncodedHash
	t[';'].hazard = Semicolon
	return t
}()

// Path returns the canonical spelling of an absolute path without query, and
// the hazards in it. The result is raw itself when that is canonical already,
// else it is appended to dst, whose own bytes are kept but not returned.
// Filters that rewrite a path pass their result through here again.
func Path(dst, raw []byte) (path []byte, hazards Hazard, err error) {
	if len(raw) == 0 || raw[0] != '/' {
		return nil, 0, ErrTargetForm
	}
	if canonicalPath(raw) {
		return raw, 0, nil
	}
	return rewritePath(dst, raw)
}

// canonicalPath is the fast path: it reports whether rewritePath would return
// exactly raw, without hazards. It may return false for a canonical path, which is
// then rewritten to itself.
func canonicalPath(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		switch pathClass[raw[i]] {
		case pathPlain:
		case pathSlash:
			if rest := raw[i+1:]; len(rest) > 0 && (rest[0] == '/' || rest[0] == '.' && dotSegment(rest)) {
				return false
			}
		case pathPercent:
			if i+2 >= len(raw) || !upperDigit(raw[i+1]) || !upperDigit(raw[i+2]) {
				return false
			}
			if escapes[unhex(raw[i+1])<<4|unhex(raw[i+2])] != (escapeClass{}) {
				return false
			}
			i += 2
		default:
			return false
		}
	}
	return true
}

// dotSegment reports whether p starts with the segment "." or "..".
func dotSegment(p []byte) bool {
	n := 1
	if len(p) > 1 && p[1] == '.' {
		n = 2
	}
	return len(p) == n || p[n] == '/'
}

// rewritePath writes the canonical path: escapes first, then segments, because an
// escaped dot is a dot.
func rewritePath(dst, raw []byte) ([]byte, Hazard, error) {
	var hazards Hazard
	start := len(dst)
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch pathClass[c] {
		case pathPlain, pathSlash:
			dst = append(dst, c)
		case pathPercent:
			if i+2 >= len(raw) || !hexDigit(raw[i+1]) || !hexDigit(raw[i+2]) {
				hazards |= BadEscape
				dst = append(dst, "%25"...)
				continue
			}
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
			hazards |= escapes[c].hazard
			if escapes[c].decode {
				dst = append(dst, c)
			} else {
				dst = appendEscape(dst, c)
			}
		case pathEscape:
			dst = appendEscape(dst, c)
		case pathSemi:
			hazards |= Semicolon
			dst = append(dst, c)
		case pathBack:
			hazards |= Backslash
			dst = appendEscape(dst, c)
		case pathHash:
			return nil, 0, ErrFragment
		default:
			return nil, 0, ErrTargetByte
		}
	}
	path := resolveSegments(dst[start:])
	if hazards != 0 && hiddenDots(path) {
		return nil, 0, ErrHiddenDots
	}
	return path, hazards, nil
}

// resolveSegments removes dot segments and empty segments in place. Leaving
// the root upwards stays at the root, as RFC 3986 has it. Empty segments go
// first, so /a//../b is /b, as in a file system.
func resolveSegments(p []byte) []byte {
	w, open := 0, false // p[:w] is done; open: the result ends in a slash
	for r := 0; r < len(p); {
		end := r + 1
		for end < len(p) && p[end] != '/' {
			end++
		}
		open = false
		switch segment := p[r+1 : end]; {
		case len(segment) == 0, string(segment) == ".":
			open = true
		case string(segment) == "..":
			open = true
			for w > 0 {
				w--
				if p[w] == '/' {
					break
				}
			}
		default:
			w += copy(p[w:], p[r:end])
		}
		r = end
	}
	if open {
		p[w] = '/'
		w++
	}
	return p[:w]
}

// hiddenDots reports whether a backend that takes %2F or %5C for a separator,
// or that drops what follows a semicolon, an encoded null or an encoded hash,
// would find a dot segment in a path that has none left. No legitimate client needs
// that, so no route can allow it.
func hiddenDots(p []byte) bool {
	begin, cut := 0, -1
	check := func(end int) bool {
		if cut >= 0 {
			end = cut
		}
		segment := string(p[begin:end])
		return segment == "." || segment == ".."
	}
	for i := 0; i < len(p); {
		size, separator, stop := 1, p[i] == '/', p[i] == ';'
		if p[i] == '%' {
			size = 3
			switch string(p[i+1 : i+3]) {
			case "2F", "5C":
				separator = true
			case "3B", "00", "23":
				stop = true
			}
		}
		if separator {
			if check(i) {
				return true
			}
			begin, cut = i+size, -1
		}
		if stop && cut < 0 {
			cut = i
		}
		i += size
	}
	return check(len(p))
}

func appendEscape(dst []byte, c byte) []byte {
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

func upperDigit(c byte) bool { return c-'0' < 10 || c-'A' < 6 }

func hexDigit(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 6 }

// unhex is the value of a hex digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
