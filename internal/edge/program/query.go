package program

import "strings"

// queryFits reports whether a parameter of a raw query matches a condition.
// Pairs are split at &, and name from value at the first =. In both, + is a
// space and %XX is a byte; an invalid escape stands for itself, so that no
// parameter is hidden from a condition because another parser would drop it.
func queryFits(c *condition, query string) bool {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if !equalUnescaped(name, c.name) {
			continue
		}
		if c.expression == nil {
			if c.present || equalUnescaped(value, c.value) {
				return true
			}
			continue
		}
		if c.expression.MatchString(unescape(value)) {
			return true
		}
	}
	return false
}

// equalUnescaped compares without allocating the unescaped text.
func equalUnescaped(raw, want string) bool {
	at := 0
	for i := 0; i < len(raw); at++ {
		c, size := unescapeByte(raw[i:])
		if at >= len(want) || want[at] != c {
			return false
		}
		i += size
	}
	return at == len(want)
}

// unescape allocates only for a text with escapes.
func unescape(raw string) string {
	if !strings.ContainsAny(raw, "%+") {
		return raw
	}
	var text strings.Builder
	text.Grow(len(raw))
	for i := 0; i < len(raw); {
		c, size := unescapeByte(raw[i:])
		text.WriteByte(c)
		i += size
	}
	return text.String()
}

// unescapeByte decodes one byte of a text that is not empty, and returns the
// length of its encoding.
func unescapeByte(raw string) (byte, int) {
	switch {
	case raw[0] == '+':
		return ' ', 1
	case raw[0] == '%' && len(raw) >= 3:
		high, okHigh := hexDigit(raw[1])
		low, okLow := hexDigit(raw[2])
		if okHigh && okLow {
			return high<<4 | low, 3
		}
	}
	return raw[0], 1
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	default:
		return 0, false
	}
}
