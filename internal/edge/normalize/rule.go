package normalize

import "strings"

// RulePath returns the spelling that a path written in a rule has in requests,
// so that both sides of a match are spelled alike. Characters that a client has to
// escape may be unescaped in a rule: spaces and letters outside ASCII.
func RulePath(path string) (string, Hazard, error) {
	if strings.ContainsAny(path, "?#") {
		return "", 0, ErrTargetForm
	}
	raw := make([]byte, 0, len(path)+8)
	for i := range len(path) {
		if c := path[i]; c == ' ' || c >= 0x80 {
			raw = appendEscape(raw, c)
		} else {
			raw = append(raw, c)
		}
	}
	canonical, hazards, err := Path(nil, raw)
	return string(canonical), hazards, err
}
