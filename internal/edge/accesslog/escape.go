package accesslog

import "unicode/utf8"

// maxValue bounds one value. Clients choose most of them, and an escaped byte takes
// up to six.
const maxValue = 4096

// cutMark follows a value that was truncated.
const cutMark = "..."

const hexDigits = "0123456789abcdef"

// cut truncates a value to maxValue.
func cut(value string) (kept string, wasCut bool) {
	if len(value) <= maxValue {
		return value, false
	}
	return value[:maxValue], true
}

// appendJSON appends a value as a JSON string. Control characters are escaped, those
// above ASCII too, because terminals interpret them; bytes that are not UTF-8 become
// the replacement character.
func appendJSON(dst []byte, value string) []byte {
	value, wasCut := cut(value)
	dst = append(dst, '"')
	dst = appendJSONText(dst, value)
	if wasCut {
		dst = append(dst, cutMark...)
	}
	return append(dst, '"')
}

// appendJSONText appends the contents of a JSON string. ASCII runs are copied in one
// piece.
func appendJSONText(dst []byte, value string) []byte {
	start := 0
	for i := 0; i < len(value); {
		c := value[i]
		if c >= 0x20 && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		r := rune(c)
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(value[i:])
			if r != utf8.RuneError && !unsafeRune(r) {
				i += size
				continue
			}
		}
		dst = append(dst, value[start:i]...)
		dst = appendEscape(dst, r)
		i += size
		start = i
	}
	return append(dst, value[start:]...)
}

// unsafeRune reports whether a character above ASCII changes how others are
// shown: control characters, line separators, marks of direction.
// Marks of direction could make a line show other text than it has (CVE-2021-42574).
func unsafeRune(r rune) bool {
	return r <= 0x9f || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff
}

// appendEscape appends \uXXXX, as a surrogate pair above the basic plane.
func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendQuoted appends a value in quotes, for the common log format. All but
// printable ASCII becomes \xHH, and so do quotes and backslashes.
func appendQuoted(dst []byte, value string) []byte {
	if value == "" {
		return append(dst, `"-"`...)
	}
	dst = append(dst, '"')
	dst = appendCLF(dst, value, ' ')
	return append(dst, '"')
}

// appendBare appends a value without quotes; blanks are escaped.
func appendBare(dst []byte, value string) []byte {
	if value == "" {
		return append(dst, '-')
	}
	return appendCLF(dst, value, '!')
}

// appendCLF appends the characters from least on as they are.
func appendCLF(dst []byte, value string, least byte) []byte {
	value, wasCut := cut(value)
	for i := range len(value) {
		c := value[i]
		if c >= least && c < 0x7f && c != '"' && c != '\\' {
			dst = append(dst, c)
			continue
		}
		dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
	}
	if wasCut {
		dst = append(dst, cutMark...)
	}
	return dst
}
