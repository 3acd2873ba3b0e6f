package project

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/gitops/glob"
)

// normalize spells the address of a repository as Argo CD does when it compares:
// in lower case, without .git at the end, and user@host:path as ssh without the
// scheme. It is for patterns too, so it does not ask for more than text.
func normalize(address string) string {
	address = strings.ToLower(strings.TrimSpace(address))
	rest, schemed := strings.CutPrefix(address, "ssh://")
	if host, path, short := cutShort(rest); short && (!schemed || !startsWithPort(path)) {
		rest = host + "/" + strings.TrimPrefix(path, "/")
	}
	return strings.TrimSuffix(rest, ".git")
}

// cutShort splits an address of the form user@host:path, which ssh has.
func cutShort(address string) (host, path string, ok bool) {
	user, rest, found := strings.Cut(address, "@")
	if !found || strings.ContainsAny(user, "/:") || strings.Contains(rest, "@") {
		return "", "", false
	}
	host, path, ok = strings.Cut(rest, ":")
	return user + "@" + host, path, ok && !strings.Contains(host, "/")
}

// startsWithPort distinguishes ssh://user@host:22/path from ssh://user@host:path.
func startsWithPort(path string) bool {
	port, _, _ := strings.Cut(path, "/")
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

// checkAddress refuses addresses that lead elsewhere than their text suggests.
func checkAddress(address string) error {
	trimmed := strings.TrimSpace(address)
	if trimmed == "" {
		return errors.New("it is empty: give the address of the repository")
	}
	decoded, err := url.PathUnescape(trimmed)
	if err != nil {
		return errors.New("it has a % that is not part of an encoded character")
	}
	for _, char := range decoded {
		if char < ' ' || char == 0x7f || char == '\\' {
			return errors.New("it has a character that no address has")
		}
	}
	for part := range strings.FieldsFuncSeq(decoded, func(char rune) bool { return strings.ContainsRune("/:?#", char) }) {
		if part == "." || part == ".." {
			return errors.New("it has " + part + " in its path: write where the repository is")
		}
	}
	return nil
}

// sources are the repositories that may be used.
type sources []rule

func sourceRule(text string) (rule, error) {
	rest, deny := strings.CutPrefix(strings.TrimSpace(text), "!")
	if deny {
		return parseRule("!"+normalize(rest), glob.CompileAddress)
	}
	return parseRule(normalize(rest), glob.CompileAddress)
}

// allow reports whether a repository may be used, and otherwise why not.
func (s sources) allow(address string) (bool, string) {
	if err := checkAddress(address); err != nil {
		return false, err.Error()
	}
	normalized := normalize(address)
	allowed := false
	for _, rule := range s {
		switch {
		case !rule.Match(normalized):
		case rule.deny:
			return false, "spec.sourceRepos forbids it"
		default:
			allowed = true
		}
	}
	if !allowed {
		return false, "spec.sourceRepos does not have it: add it there"
	}
	return true, ""
}
