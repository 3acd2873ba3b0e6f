package spelling

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/route"
)

// readings are what careless programs make of a path. One is left out: a
// program that decodes a path and parses it again as a URL cuts it at %3F as it
// does at %23. The edge refuses %23 and lets %3F pass; TestQuestionMark knows.
func readings(path string) []string {
	decoded := decode(path)
	all := []string{path, decoded, strings.ReplaceAll(decoded, `\`, "/"), withoutParameters(decoded), withoutParameters(path)}
	for _, cut := range []string{"\x00", "#"} {
		before, _, _ := strings.Cut(decoded, cut)
		all = append(all, before)
	}
	for _, reading := range all {
		all = append(all, resolve(reading), resolve(withoutParameters(strings.ReplaceAll(reading, `\`, "/"))))
	}
	return all
}

// decode undoes escapes, once. What is no escape stands for itself.
func decode(path string) string {
	var text strings.Builder
	for i := 0; i < len(path); i++ {
		var c byte
		if path[i] == '%' && i+2 < len(path) {
			if _, err := fmt.Sscanf(path[i+1:i+3], "%02x", &c); err == nil {
				text.WriteByte(c)
				i += 2
				continue
			}
		}
		text.WriteByte(path[i])
	}
	return text.String()
}

// withoutParameters drops what follows a semicolon in each segment, as servers
// for Java do.
func withoutParameters(path string) string {
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

// resolve removes empty segments and dots, as file systems do.
func resolve(path string) string {
	var kept []string
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, segment)
		}
	}
	resolved := "/" + strings.Join(kept, "/")
	if strings.HasSuffix(path, "/") && resolved != "/" {
		resolved += "/"
	}
	return resolved
}

// fits compares a path as documented for each type of match.
func fits(match route.PathMatch, path string) bool {
	switch match.Type {
	case route.PathExact:
		return path == match.Value
	case route.PathPrefix:
		prefix := strings.TrimSuffix(match.Value, "/")
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	case route.PathCharacterPrefix:
		return strings.HasPrefix(path, match.Value)
	case route.PathRegexp:
		return regexp.MustCompile(match.Value).MatchString(path)
	}
	return true
}

// fooled is the reading in which a path leads to what a match protects, if
// there is one.
func fooled(match route.PathMatch, path string) (string, bool) {
	for _, reading := range readings(path) {
		if fits(match, reading) {
			return reading, true
		}
	}
	return "", false
}

var (
	escapePattern    = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	canonicalPattern = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,=:@/-]|%[0-9A-F]{2})*$`)
)

// uncanonical returns what is wrong with a path that was forwarded.
func uncanonical(path string) error {
	if !canonicalPattern.MatchString(path) {
		return fmt.Errorf("%q has characters that no canonical path has", path)
	}
	if path != resolve(path) {
		return fmt.Errorf("%q has empty segments or dots", path)
	}
	for _, escape := range escapePattern.FindAllString(path, -1) {
		c := decode(escape)
		if strings.Contains("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", c) {
			return fmt.Errorf("%q escapes what needs no escape", path)
		}
		if strings.Contains("/\\\x00#;", c) {
			return fmt.Errorf("%q has an escape that nobody allowed", path)
		}
	}
	return nil
}

// TestCareless: the careless reader is fooled by what it should be fooled by.
func TestCareless(t *testing.T) {
	admin := route.PathMatch{Type: route.PathPrefix, Value: "/admin"}
	for _, path := range []string{
		"/admin", "/admin/", "//admin", "/./admin", "/x/../admin", "/%61dmin", "/x/%2e%2e/admin", "/x%2f..%2fadmin", "/x%5c..%5cadmin", `/x\..\admin`, "/admin;x", "/admin%3bx/y", "/x/..;/admin", "/admin%00x", "/admin%23x",
		`\admin`, "/x/.%2e/admin/y",
	} {
		if _, ok := fooled(admin, path); !ok {
			t.Errorf("%q is not read as /admin by anybody", path)
		}
	}
	for _, path := range []string{"/", "/adminx", "/x/admin", "/ADMIN", "/%2561dmin", "/admin%252f", "/.admin"} {
		if reading, ok := fooled(admin, path); ok {
			t.Errorf("%q is read as %q", path, reading)
		}
	}
	for _, path := range []string{"//", "/./a", "/a/..", "/%61", "/%2f", "/a;b", `/a\b`, "/%c3", "/a b", "/\u00e9", "a", "/%", "/%00"} {
		if uncanonical(path) == nil {
			t.Errorf("%q is canonical", path)
		}
	}
	for _, path := range []string{"/", "/a", "/a/", "/%C3%A9", "/a%20b", "/a:b@c", "/%252e"} {
		if err := uncanonical(path); err != nil {
			t.Error(err)
		}
	}
}
