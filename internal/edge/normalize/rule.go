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

// RuleHost returns the spelling that a host written in a rule has in requests.
// A wildcard keeps its leading "*.". A port is refused: rules match hosts.
func RuleHost(host string) (string, error) {
	name, wildcard := strings.CutPrefix(host, "*.")
	canonical, port, err := Host(nil, Bytes(name))
	if err != nil {
		return "", err
	}
	if port != 0 {
		return "", ErrHostPort
	}
	if wildcard {
		return "*." + string(canonical), nil
	}
	return string(canonical), nil
}
